select expression, count(*) as times, count(distinct text) as texts from "values" where expression in ('state', 'gift', 'nothing') group by expression order by expression
