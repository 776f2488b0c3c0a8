select run, frame, "*item".id as id, "*item".name as name, "*item".flags as flags, "*item".below as below from tp1 order by run, frame
