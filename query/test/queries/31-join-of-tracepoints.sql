select a.run, count(*) as pairs from tp1 a join tp2 b on a.run = b.run and b.frame > a.frame and b.frame - a.frame <= 3 group by a.run order by a.run
