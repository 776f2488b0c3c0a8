select expression, count(*) as times from "values" group by expression having count(*) > 40 order by expression
