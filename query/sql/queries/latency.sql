-- How long calls take, in nanoseconds, by the value of an argument
-- expression (text): the argument, as it was collected
-- limit (number, 20): how many values
select v.text as value, count(*) as calls,
       cast(round(median(s.duration_ns)) as bigint) as median,
       cast(round(percentile_cont(0.9) within group (order by s.duration_ns)) as bigint) as p90,
       cast(round(percentile_cont(0.99) within group (order by s.duration_ns)) as bigint) as p99,
       max(s.duration_ns) as longest
from spans s join "values" v on v.run = s.run and v.frame = s.frame
where v.expression = $expression and s.duration_ns is not null
group by v.text
order by median desc, value
limit $limit
