-- The values that an expression has most often
-- expression (text): as it was collected
-- limit (number, 20): how many
select text as value, count(*) as hits, round(100.0 * count(*) / sum(count(*)) over (), 1) as percent, min(frame) as first_frame
from "values"
where expression = $expression
group by text
order by hits desc, value
limit $limit
