# Prints the call frames of a stop as lines `pc|function|file|line|inlined`.
import os
import gdb


def name_of(frame):
    name = (frame.name() or "").removeprefix("__GI_")
    # GDB 13 leaves the parameters on where the template's arguments have some, too.
    return name.split("<")[0] if name.startswith("std::") else name


def caller(frame, is_partial):
    try:
        older = frame.older()
        if older is not None:
            older.pc()
        return older
    except gdb.error:
        # Of a stack of which a part was collected, GDB shows that far.
        if not is_partial:
            raise
        return None


def stack(with_pc, is_partial=False):
    frame = gdb.newest_frame()
    while frame is not None:
        older = caller(frame, is_partial)
        # What a tail call has left: GDB guesses it from call sites, and nothing of it is on the stack.
        if frame.type() == gdb.TAILCALL_FRAME:
            frame = older
            continue
        if frame.type() == gdb.SIGTRAMP_FRAME:
            words = ["<signal handler called>", "", ""]
        else:
            place = frame.find_sal()
            file = os.path.basename(place.symtab.filename) if place.symtab else ""
            words = [name_of(frame), file, str(place.line) if place.symtab else ""]
        inlined = frame.type() == gdb.INLINE_FRAME
        pc = hex(frame.pc()) if with_pc else ""
        print("|".join([pc] + words + [str(inlined)]))
        frame = older


def frames(count, is_partial=False):
    for number in range(count):
        gdb.execute("tfind %d" % number, to_string=True)
        print("hit %d" % number)
        stack(True, is_partial)


def hits(count):
    for number in range(count):
        gdb.execute("continue" if number else "run", to_string=True)
        print("hit %d" % number)
        stack(False)
