-- The calls that took longest, of functions that `span` and `return` trace
-- limit (number, 20): how many
select run, frame, function, duration_ns, ended, thread, start_ns
from spans
where duration_ns is not null
order by duration_ns desc, run, frame
limit $limit
