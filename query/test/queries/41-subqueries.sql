select run, frame from hits h where exists (select 1 from spans s where s.run = h.run and s.frame = h.frame and s.duration_ns > (select avg(duration_ns) from spans)) order by run, frame
