select run, frame, line from hits where function = 'sell' and kind = 'span' order by run, frame
