select run, frame, function from hits order by time_ns desc, run, frame desc limit 7 offset 3
