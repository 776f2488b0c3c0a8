select run, frame, rate, ratio, "*item".price as price, isnan(ratio) as is_none from tp1 order by run, frame
