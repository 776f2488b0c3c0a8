select run, frame, duration_ns from spans where duration_ns is not null order by duration_ns desc, run, frame limit 5
