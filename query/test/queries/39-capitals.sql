SELECT Run, COUNT(*) AS hits, MAX("GIFT") AS gift FROM TP1 WHERE "Item->Name" LIKE 'item%' GROUP BY RUN ORDER BY run
