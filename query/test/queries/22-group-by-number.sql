select id_2 % 7 as rest, count(*) as hits, min(frame) as first from tp1 group by id_2 % 7 order by rest
