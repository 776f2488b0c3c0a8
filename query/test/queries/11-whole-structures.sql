select run, frame, "*item" from tp1 order by run, frame
