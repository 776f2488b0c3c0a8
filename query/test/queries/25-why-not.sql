select customer_unavailable, count(*) as hits from tp1 group by customer_unavailable order by customer_unavailable nulls first
