select run, frame, tracepoint, time_ns, thread, cpu, pc, function, file, line, kind, duration_ns, ended, parent from hits order by run, frame
