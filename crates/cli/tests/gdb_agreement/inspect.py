# Run by GDB: opens a trace file and tells, as JSON, what GDB sees in it.
# INSPECT_JOB names a JSON file: {"commands": [...], "file": ..., "frames": n, "expressions": {"frame": [...]}, "output": ...}
import json
import os

import gdb


def say(command):
    try:
        return gdb.execute(command, to_string=True)
    except gdb.error as error:
        return "error: %s\n" % error


with open(os.environ["INSPECT_JOB"]) as job_file:
    job = json.load(job_file)
for setting in ["pagination off", "confirm off", "width 0", "style enabled off", "print frame-arguments all"]:
    gdb.execute("set " + setting)
seen = {"opening": [say(command) for command in job["commands"]]}
# The libraries' own printers hide what the language says.
gdb.execute("disable pretty-printer")
seen["opening"].append(say("target tfile " + job["file"]))
seen["status"] = say("tstatus")
seen["tracepoints"] = say("info tracepoints")
seen["variables"] = say("info tvariables")
seen["frames"] = []


def plain(name):
    return (name or "").split("(")[0].split("<")[0]


def select(function):
    """Goes from the innermost inlined copy out to the function that the tracepoint's names are seen from."""
    frame = gdb.selected_frame()
    while frame.type() == gdb.INLINE_FRAME and plain(frame.name()) != plain(function):
        frame = frame.older()
    if frame == gdb.selected_frame() or plain(frame.name()) != plain(function):
        return None
    frame.select()
    return frame.find_sal().line


for number in range(job["frames"]):
    frame = {
        "tfind": say("tfind %d" % number),
        "tdump": say("tdump"),
        "tracepoint": say("output $tracepoint"),
        "line": say("output $trace_line"),
        "function": say("output $trace_func"),
        "pc": say("output/x $pc"),
    }
    line = select(job["functions"].get(str(number)))
    if line is not None:
        frame["line"] = str(line)
    frame["printed"] = {
        expression: say("output " + expression) for expression in job["expressions"].get(str(number), [])
    }
    frame["registers"] = {
        register: say("output/x $" + register) for register in job["registers"]
    }
    seen["frames"].append(frame)
seen["past_the_end"] = say("tfind %d" % job["frames"])
with open(job["output"], "w") as output:
    json.dump(seen, output)
