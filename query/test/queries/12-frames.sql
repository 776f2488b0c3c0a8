select run, frame from hits where frame between 7 and 11 or frame = 20 order by run, frame
