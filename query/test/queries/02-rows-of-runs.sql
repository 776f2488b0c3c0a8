select run, program like '%/shop' as is_shop, frames, ending, architecture, stop_reason from runs order by run
