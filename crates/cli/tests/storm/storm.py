# Traces the storm: while it runs, tracepoints are enabled and disabled at random.
import os
import random
import time

import gdb

KIND = os.environ["STORM_KIND"]
SECONDS = float(os.environ["STORM_SECONDS"])
random.seed(int(os.environ["STORM_SEED"]))

for setting in [
    "pagination off",
    # A machine that has much to do answers late.
    "remotetimeout 60",
    "confirm off",
    "breakpoint pending on",
    "non-stop on",
    "circular-trace-buffer on",
    "trace-buffer-size 4000000",
    "sysroot",
    "print thread-events off",
    "print inferior-events off",
]:
    gdb.execute("set " + setting)
gdb.execute("target remote " + os.environ["STORM_SERVER"])
gdb.execute("handle SIGUSR1 SIG34 nostop noprint pass")
gdb.execute("tbreak main")
gdb.execute("continue")
gdb.execute("tvariable $deep = 0")
TRACEPOINTS = [
    ("mix", ["collect value, step"]),
    ("leaf if value % 3 == 0", ["collect $regs"]),
    ("recurse if depth == 4", ["collect value", "teval $deep = $deep + 1", "collect $deep"]),
    ("handled", ["collect number"]),
    ("plugin_step", ["collect value"]),
]
with open("tracepoints.gdb", "w") as script:
    for place, actions in TRACEPOINTS:
        script.write("\n".join(["%s %s" % (KIND, place), "actions", *actions, "end", ""]))
gdb.execute("source tracepoints.gdb")
numbers = range(2, 2 + len(TRACEPOINTS))
enabled = {number: True for number in numbers}
gdb.execute("tstart")
changes = 0
end = time.time() + SECONDS
gdb.execute("continue -a &")


def toggle():
    """Changes one tracepoint and comes back, once GDB has looked after what the program has sent meanwhile."""
    global changes
    if time.time() >= end:
        finish()
        return
    number = random.choice(numbers)
    enabled[number] = not enabled[number]
    try:
        gdb.execute(("enable " if enabled[number] else "disable ") + str(number))
    except gdb.error as error:
        # GDB enables a place in a library that has just come before it defines it, with gdbserver too; and one in a
        # library that has just gone before it hears of that.
        if not any(words in str(error) for words in ("is not at", "no tracepoint can be put at")):
            give_up(error)
            return
        enabled[number] = not enabled[number]
    changes += 1
    gdb.post_event(toggle)


def give_up(error):
    """Says what went wrong, and ends at once: the program would run for ever."""
    print("gave up:", error, flush=True)
    gdb.execute("kill")
    gdb.execute("quit 1")


def finish():
    try:
        stop_and_save()
    except gdb.error as error:
        give_up(error)


def stop_and_save():
    gdb.execute("tstop")
    gdb.execute("tstatus")
    gdb.execute("tsave -r storm.tf")
    print("changes:", changes, flush=True)
    # The program goes on until it is told to stop.
    open("enough", "w").close()


def gone(event):
    print("exit:", getattr(event, "exit_code", None), flush=True)
    gdb.post_event(lambda: gdb.execute("quit"))


gdb.events.exited.connect(gone)
gdb.post_event(toggle)
