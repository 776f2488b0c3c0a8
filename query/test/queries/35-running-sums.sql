select run, frame, sum(id_2) over (partition by run order by frame rows between 2 preceding and current row) as last_three from tp1 order by run, frame
