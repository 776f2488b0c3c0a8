select run, frame from hits where pc = (select min(address) from probes where tracepoint = 1) order by run, frame
