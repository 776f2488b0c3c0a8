select 'hit' as what, frame from hits where frame < 4 union all select 'span', frame from spans where frame < 4 order by what, frame
