select run, count(*) as hits from hits where thread = (select max(thread) from hits) group by run order by run
