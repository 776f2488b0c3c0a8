select function, count(*) as calls, round(median(duration_ns), 3) as middle, round(percentile_cont(0.9) within group (order by duration_ns), 3) as most from spans group by function order by function
