select run, path, build_id, start, "end", bias from modules order by run, start
