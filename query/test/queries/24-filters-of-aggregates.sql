select count(*) filter (where gift) as gifts, count(*) filter (where not gift) as others, count(*) filter (where isnan(ratio)) as odd from tp1
