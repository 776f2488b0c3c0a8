-- Expressions that have one value in all hits but few, and the hits that differ
-- exceptions (number, 5): how many hits may differ at most
with counted as (
  select run, tracepoint, expression, text, count(*) as hits, min(frame) as first_frame
  from "values"
  group by run, tracepoint, expression, text
),
ranked as (
  select run, tracepoint, expression, text, hits, first_frame,
         sum(hits) over (partition by run, tracepoint, expression) as whole,
         row_number() over (partition by run, tracepoint, expression order by hits desc, text) as place
  from counted
)
select u.run as run, u.tracepoint as tracepoint, u.expression as expression, u.text as usual, u.hits as usual_hits,
       o.text as other, o.hits as other_hits, o.first_frame as first_frame
from ranked u join ranked o on o.run = u.run and o.tracepoint = u.tracepoint and o.expression = u.expression and o.place > 1
where u.place = 1 and u.whole - u.hits <= $exceptions and u.hits > u.whole - u.hits
order by run, tracepoint, expression, first_frame
