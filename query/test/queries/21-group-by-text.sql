select customer, count(*) as sales, sum("*item".price) as total from tp1 group by customer order by customer nulls last
