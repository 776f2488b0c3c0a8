select run, frame, start_ns, end_ns, duration_ns, thread, tracepoint, function, address, ended, tail_call, parent, depth from spans order by run, frame
