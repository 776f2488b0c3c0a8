select h.run, h.frame, h.function, v.text from hits h join "values" v on v.run = h.run and v.frame = h.frame where v.expression = 'item->name' and v.text like '%b%' order by h.run, h.frame
