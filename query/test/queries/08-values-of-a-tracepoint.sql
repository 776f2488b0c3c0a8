select run, frame, "item->name", customer, customer_unavailable, customer_bytes, state, "key", wide, gift, "ID", id_2, "key / 2" from tp1 order by run, frame
