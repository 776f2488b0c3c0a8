# Opens each trace file of `list`, in one GDB: its last frame must be found, and one behind that must not. The list starts
# with the machine, which is one for all: GDB does not always survive another.
import gdb
import re

for setting in ("confirm off", "pagination off", "width 0"):
    gdb.execute("set " + setting)

with open("list") as file:
    architecture, order, *files = file.read().splitlines()
gdb.execute("set architecture " + architecture)
gdb.execute("set endian " + order)

# GDB keeps the place of the frame it looked at last, and reads there in the next file that it opens. An empty frame is
# harmless.
with open("empty-frame.tf", "wb") as file:
    file.write(b"\x7fTRACE0\nR 4\nstatus 0;tframes:1\ntp T1:1000:E:0:0\n\n")
    file.write((1).to_bytes(2, order) + bytes(8))


def run(command):
    return gdb.execute(command, to_string=True)


def forget():
    try:
        run("target tfile empty-frame.tf")
    except gdb.error:
        pass
    run("tfind 0")
    run("tfind none")
    run("delete")
    run("delete tvariable")


def problem(frames, path):
    run("target tfile " + path)
    if frames > 0:
        said = run("tfind %d" % (frames - 1))
        if not said.startswith("Found trace frame %d," % (frames - 1)):
            return "the last frame: " + said
    said = run("tfind %d" % frames)
    if not said.startswith("No trace frame found"):
        return "one more frame: " + said
    status = run("tstatus")
    if not re.search(r"(Collected|contains) %d trace frame" % frames, status):
        return "%d frames: %s" % (frames, status)
    return None


opened = 0
for line in files:
    frames, path = line.split(" ", 1)
    print(path, flush=True)
    forget()
    try:
        said = problem(int(frames), path)
    except gdb.error as error:
        said = str(error)
    if said is None:
        opened += 1
    else:
        print(said)

print("%d files, %d opened" % (len(files), opened))
