"""Checks a trace in Chrome's format by its schema, and compares its events with what `show --json` has.

read_chrome.py SCHEMA TRACE [SHOWN]"""

import json, sys

import jsonschema

from agrees import agrees

schema, trace = (json.load(open(name)) for name in sys.argv[1:3])
jsonschema.Draft7Validator.check_schema(schema)
jsonschema.Draft7Validator(schema).validate(trace)
if not sys.argv[3:]:
    sys.exit()
shown = [json.loads(line) for line in open(sys.argv[3])]
shown = [line for line in shown if line["kind"] != "aggregate"]
events = {}
for event in trace["traceEvents"]:
    if event["ph"] not in ("M", "e"):
        assert (event["pid"], event["args"]["frame"]) not in events, event
        events[event["pid"], event["args"]["frame"]] = event
assert len(events) == len(shown), (len(events), len(shown))
origin = int(trace["otherData"]["time_origin_ns"])
compared = 0
for line in shown:
    event = events[line.get("process", 1), line["frame"]]
    args = event["args"]
    if line["kind"] != "return":
        assert origin + round(event["ts"] * 1000) == line["time_ns"], (event["ts"], line)
    if event["ph"] == "X":
        assert round(event["dur"] * 1000) == line["duration_ns"], event
    for field in ("tracepoint", "pc", "cpu", "function", "file", "line", "ended", "duration_ns", "parent", "stack_end"):
        assert args.get(field) == line.get(field), (field, args, line)
    names = []
    for item in line.get("values", []):
        names.append(item["expression"])
        count = names.count(item["expression"])
        name = item["expression"] + (f"#{count}" if count > 1 else "")
        typed = args["values"][name]
        compared += 1
        if "error" in item:
            assert typed is None and args["missing"][name], (name, args)
        if item["expression"] != "$duration":
            assert agrees(typed, item["value"]), (name, typed, item)
    assert len(args.get("values", {})) == len(names), (args, names)
print(f"0 errors, {len(events)} events, {compared} values")
