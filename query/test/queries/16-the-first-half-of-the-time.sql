select run, frame
from hits, (select min(time_ns) as first_time, max(time_ns) as last_time from hits) of_all
where 2 * (time_ns - first_time) < last_time - first_time
order by run, frame
