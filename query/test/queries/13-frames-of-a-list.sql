select run, frame, function from hits where frame in (1, 3, 5, 1000000) order by run, frame
