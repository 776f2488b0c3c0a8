select run, count(*) as hits, min(frame) as first, max(frame) as last from hits where tracepoint = 2 group by run order by run
