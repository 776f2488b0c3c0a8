select run, frame, frame - lag(frame) over (partition by run order by frame) as step, row_number() over (partition by run order by frame desc) as from_end from hits order by run, frame
