select count(*) as hits, count(time_ns) as times, count(line) as lines from hits
