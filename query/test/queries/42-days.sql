select day <> 'unknown' as is_known, count(*) as runs from runs group by 1
