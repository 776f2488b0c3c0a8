select run, frame, tracepoint, expression, type, text, integer, real, string, unavailable from "values" order by run, frame, expression, text, type
