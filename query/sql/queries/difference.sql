-- The first hit at which two runs differ: in its tracepoint, or in its values without pointers
with numbered as (
  select run, frame, tracepoint, function, row_number() over (partition by run order by frame) as number
  from hits
),
collected as (
  select run, frame, string_agg(expression || ' = ' || coalesce(string, text), ', ' order by expression, text) as collected
  from "values"
  where string is not null or text not like '0x%'
  group by run, frame
),
steps as (
  select n.run, n.number, n.frame, n.tracepoint, n.function, c.collected
  from numbered n left join collected c on c.run = n.run and c.frame = n.frame
),
names as (select min(run) as one, max(run) as other from runs)
select coalesce(a.number, b.number) as hit,
       a.run as run, a.frame as frame, a.tracepoint as tracepoint, a.function as function, a.collected as collected,
       b.run as other_run, b.frame as other_frame, b.tracepoint as other_tracepoint, b.function as other_function,
       b.collected as other_collected
from (select s.* from steps s join names on s.run = names.one) a
     full join (select s.* from steps s join names on s.run = names.other and names.one <> names.other) b on a.number = b.number
where (a.tracepoint is distinct from b.tracepoint) or (a.collected is distinct from b.collected)
order by hit
limit 1
