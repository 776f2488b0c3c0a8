with busy as (select thread, count(*) as hits from hits group by thread), most as (select max(hits) as hits from busy) select count(*) as threads from busy join most on busy.hits = most.hits
