select case when state = 'PAID' then 'paid' when state is null then 'unknown' else 'open' end as bill, count(*) as sales from tp1 group by 1 order by 1
