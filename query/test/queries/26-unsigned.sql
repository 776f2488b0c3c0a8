select max("key") as largest, min("key") as least, count(distinct "key") as different from tp1 where "key" > 18446744073709551600
