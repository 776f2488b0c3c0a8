select run, tracepoint, address, kind, enabled, location, "condition", hits from probes order by run, tracepoint, address
