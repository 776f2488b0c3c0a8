select min(wide) as least, max(wide) as largest from tp1
