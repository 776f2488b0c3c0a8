-- The hits at which the value of an expression is another one than at the hit before, and where that was
-- expression (text): as it was collected
-- limit (number, 20): how many
with seen as (
  select run, frame, text, lag(text) over (partition by run order by frame) as before
  from "values"
  where expression = $expression
)
select s.run as run, s.frame as frame, h.time_ns as time_ns, h.thread as thread, h.function as function, h.line as line,
       s.before as before, s.text as after
from seen s join hits h on h.run = s.run and h.frame = s.frame
where s.before is not null and (s.before is distinct from s.text)
order by run, frame
limit $limit
