select run, frame, text, integer from "values" where expression = 'ID' and integer between 5 and 9 order by run, frame
