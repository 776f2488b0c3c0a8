"""Reads a trace of Perfetto by its published descriptors, as trace_processor does, and compares it with what `show --json` has.

read_perfetto.py TRACE SHOWN: SHOWN has a line of JSON for each hit and span.

Slices, arguments and counters become tables of SQLite. What trace_processor counts as an error of the import is an error here."""

import collections, json, math, sqlite3, sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from agrees import agrees, without_missing

CLEARED, NEEDS = 1, 2
errors = []


def check(condition, *words):
    if not condition:
        errors.append(" ".join(map(str, words)))


def unknown_fields(message):
    from google.protobuf import unknown_fields

    found = len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if field.is_repeated else [value]:
                found += unknown_fields_of(part)
    return found


unknown_fields_of = unknown_fields

trace = protos.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
shown = [json.loads(line) for line in open(sys.argv[2])]
shown = [line for line in shown if line["kind"] != "aggregate"]


class Interned:
    """What a sequence has numbers for."""

    def __init__(self):
        self.kinds = collections.defaultdict(dict)

    def add(self, data):
        for field, entries in data.ListFields():
            for entry in entries:
                check(entry.iid not in self.kinds[field.name], field.name, entry.iid, "is interned twice")
                self.kinds[field.name][entry.iid] = entry

    def get(self, kind, iid):
        check(iid in self.kinds[kind], kind, iid, "is not interned")
        return self.kinds[kind].get(iid)


tracks, sequences, events, clocks = {}, {}, [], []
for place, packet in enumerate(trace.packet):
    check(unknown_fields(packet) == 0, "packet", place, "has fields that the descriptors do not know")
    sequence = packet.trusted_packet_sequence_id
    check(sequence != 0, "packet", place, "is of no sequence")
    if packet.sequence_flags & CLEARED:
        sequences[sequence] = Interned()
    check(sequence in sequences, "packet", place, "comes before the state of its sequence")
    if packet.HasField("interned_data"):
        sequences[sequence].add(packet.interned_data)
    check(packet.timestamp < 1 << 63, "packet", place, "has no time")
    kind = packet.WhichOneof("data")
    if kind == "track_descriptor":
        track = packet.track_descriptor
        check(track.uuid != 0 and track.uuid not in tracks, "track", track.uuid, "is described twice")
        check(not track.parent_uuid or track.parent_uuid in tracks, "track", track.uuid, "has no parent")
        tracks[track.uuid] = track
    elif kind == "clock_snapshot":
        clocks.append(packet.clock_snapshot)
    elif kind == "track_event":
        check(packet.sequence_flags & NEEDS, "event", place, "does not say that it needs names")
        events.append((packet.timestamp, place, packet.track_event, sequences[sequence]))
    else:
        check(False, "packet", place, "is", kind)

threads = [(track.thread.pid, track.thread.tid) for track in tracks.values() if track.HasField("thread")]
check(len(threads) == len(set(threads)), "a thread has two tracks")
processes = [track.process.pid for track in tracks.values() if track.HasField("process")]
check(len(processes) == len(set(processes)), "a process has two tracks")
check(len(clocks) == 1 and {clock.clock_id for clock in clocks[0].clocks} == {1, 6}, "the clocks are not said")


def process_of(track):
    while track in tracks:
        if tracks[track].HasField("process"):
            return tracks[track].process.pid
        track = tracks[track].parent_uuid
    return None


def value(annotation, interned, path, arguments):
    """The typed value of an annotation; its parts that have no parts are arguments by their paths."""
    if annotation.dict_entries:
        return {
            (name := interned.get("debug_annotation_names", part.name_iid).name): value(
                part, interned, f"{path}.{name}", arguments
            )
            for part in annotation.dict_entries
        }
    if annotation.array_values:
        return [
            value(part, interned, f"{path}[{index}]", arguments) for index, part in enumerate(annotation.array_values)
        ]
    kind = annotation.WhichOneof("value")
    check(kind is not None, path, "has no value")
    if kind == "nested_value":
        return {} if annotation.nested_value.nested_type == 1 else []
    found = getattr(annotation, kind)
    arguments.append((path, kind, str(found)))
    return ("address", found) if kind == "pointer_value" else found


def stack(iid, interned):
    names = []
    for frame in interned.get("callstacks", iid).frame_ids:
        frame = interned.get("frames", frame)
        mapping = interned.get("mappings", frame.mapping_id)
        for path in mapping.path_string_ids:
            interned.get("mapping_paths", path)
        if mapping.build_id:
            interned.get("build_ids", mapping.build_id)
        if frame.source_path_iid:
            interned.get("source_paths", frame.source_path_iid)
        names.append(interned.get("function_names", frame.function_name_id).str.decode())
    return names[::-1]


database = sqlite3.connect(":memory:")
database.executescript(
    """create table slice(id integer primary key, track text, name text, category text, ts integer, dur integer, depth integer, parent integer);
    create table args(slice integer, key text, type text, value text);
    create table counter(track text, ts integer, value real);
    create table stack_sample(slice integer, function text, depth integer);"""
)
open_slices, slices, flows = collections.defaultdict(list), {}, collections.defaultdict(list)
Event = protos.TrackEvent
for ts, place, event, interned in sorted(events, key=lambda event: event[:2]):
    check(event.track_uuid in tracks, "event", place, "is on a track that is not described")
    is_counter = tracks[event.track_uuid].HasField("counter")
    check(is_counter == (event.type == Event.TYPE_COUNTER), "event", place, "is on a track of another kind")
    opens = open_slices[event.track_uuid]
    if event.type == Event.TYPE_COUNTER:
        number = event.counter_value if event.HasField("counter_value") else event.double_counter_value
        check(math.isfinite(number), "a counter cannot be drawn")
        database.execute("insert into counter values (?, ?, ?)", (str(event.track_uuid), ts, number))
        continue
    if event.type == Event.TYPE_SLICE_END:
        check(opens, "event", place, "ends no slice")
        if opens:
            begun = opens.pop()
            database.execute("update slice set dur = ? - ts where id = ?", (ts, begun))
        continue
    name = interned.get("event_names", event.name_iid).name
    categories = [interned.get("event_categories", iid).name for iid in event.category_iids]
    arguments, parts = [], {}
    for annotation in event.debug_annotations:
        key = interned.get("debug_annotation_names", annotation.name_iid).name
        check(key not in parts, key, "is there twice")
        parts[key] = value(annotation, interned, f"debug.{key}", arguments)
    if event.callstack_iid:
        parts["stack"] = stack(event.callstack_iid, interned)
    parent = opens[-1] if opens else None
    dur = 0 if event.type == Event.TYPE_INSTANT else -1
    row = (None, str(event.track_uuid), name, ",".join(categories), ts, dur, len(opens), parent)
    number = database.execute("insert into slice values (?, ?, ?, ?, ?, ?, ?, ?)", row).lastrowid
    database.executemany("insert into args values (?, ?, ?, ?)", [(number, *argument) for argument in arguments])
    functions = [(number, function, depth) for depth, function in enumerate(parts.get("stack", []))]
    database.executemany("insert into stack_sample values (?, ?, ?)", functions)
    for flow in event.flow_ids:
        flows[flow].append(number)
    slices[process_of(event.track_uuid), parts["frame"]] = (number, parts)
    if event.type == Event.TYPE_SLICE_BEGIN:
        opens.append(number)


def one(sql, *parameters):
    return database.execute(sql, parameters).fetchone()


# What SQL counts is what the run has.
check(one("select count(*) from slice")[0] == len(shown), one("select count(*) from slice")[0], "slices of", len(shown))
spans = [line for line in shown if "ended" in line]
begun = one("select count(*) from slice where category in ('span', 'return')")[0]
check(begun == len(spans), begun, "slices of", len(spans), "spans")
counters, values_compared = collections.Counter(), 0
numbers = {key: number for key, (number, _) in slices.items()}
alone = 1 if all("process" not in line for line in shown) else None
for line in shown:
    process = line.get("process", alone)
    found = slices.pop((process, line["frame"]), None)
    check(found, "frame", line["frame"], "of process", process, "has no slice")
    if not found:
        continue
    number, parts = found
    name, category, ts, dur, depth, parent, track = one(
        "select name, category, ts, dur, depth, parent, track from slice where id = ?", number
    )
    where = f"frame {line['frame']}:"
    check(category == line["kind"], where, category)
    if line["kind"] != "return" and "time_ns" in line:
        check(ts == line["time_ns"], where, ts, "and not", line["time_ns"])
    if "ended" in line:
        check(name == line.get("function", name), where, name)
        expected = line.get("duration_ns", -1 if line["ended"] in ("open", "process-exit") else 0)
        check(dur == expected, where, "takes", dur, "and not", expected)
        if "parent" in line and parent is not None and "overlapping" not in tracks[int(track)].name:
            around = one("select value from args where slice = ? and key = 'debug.frame'", parent)[0]
            # A destructor that an exception calls comes after the end of the span that the exception has left.
            begun, lasts = one("select ts, dur from slice where id = ?", numbers[process, line["parent"]])
            is_over = lasts >= 0 and begun + lasts <= ts
            check(int(around) == line["parent"] or is_over, where, "is in", around, "and not", line["parent"])
    else:
        check(dur == 0, where, "takes", dur)
    for field in ("tracepoint", "cpu", "function", "file", "line", "ended", "duration_ns", "parent", "marker", "stack_end"):
        check(parts.get(field) == line.get(field), where, field, parts.get(field), "and not", line.get(field))
    check(bool(parts.get("tail_call")) == bool(line.get("tail_call")), where, "tail call")
    check(parts.get("pc", (0, 0))[1] == int(line.get("pc", "0"), 16), where, "pc")
    variables = {name: value for name, value in line.get("variables", {}).items() if not name.startswith("trace_")}
    check(parts.get("variables", {}) == variables, where, parts.get("variables"), variables)
    functions = [entry.get("function", entry["pc"]) for entry in line.get("stack", [])]
    check(parts.get("stack", []) == functions, where, parts.get("stack"), "and not", functions)
    names = collections.Counter()
    values, missing = parts.get("values", {}), parts.get("missing", {})
    check(len(values) == len(line.get("values", [])), where, len(values), "values")
    for item in line.get("values", []):
        names[item["expression"]] += 1
        name = item["expression"] + (f"#{names[item['expression']]}" if names[item["expression"]] > 1 else "")
        check(name in values, where, name, "is not there")
        typed = values.get(name)
        values_compared += 1
        if name in missing:
            check(typed == missing[name], where, name, typed)
            check(agrees(None, item["value"]), where, name, typed, "for", item["value"])
        else:
            check("error" not in item, where, name, "has a value")
            if item["expression"] == "$duration":
                check(typed == line.get("duration_ns"), where, name, typed)
            else:
                told = without_missing(typed, missing, name)
                check(agrees(told, item["value"]), where, name, typed, "for", item["value"])
        if isinstance(typed, (int, float)) and not isinstance(typed, bool) and math.isfinite(typed):
            counters[float(typed)] += 1
        elif isinstance(typed, str) and typed.lstrip("-").isdigit() and abs(int(typed)) >= 1 << 63 and '"' not in item["value"]:
            counters[float(int(typed))] += 1
check(not slices, len(slices), "slices are of no hit")
found = collections.Counter(row[0] for row in database.execute("select value from counter"))
check(found == counters, "counters:", found - counters, "and not", counters - found)
unfinished = one("select count(*) from slice where dur = -1")[0]
check(unfinished == sum(line["ended"] in ("open", "process-exit") and "duration_ns" not in line for line in spans), unfinished)

for error in errors[:20]:
    print(error)
print(
    f"{len(errors)} errors, {len(shown)} slices, {one('select count(*) from args')[0]} args, "
    f"{one('select count(*) from counter')[0]} counters, {values_compared} values, {len(processes)} processes, "
    f"{one('select count(distinct slice) from stack_sample')[0]} stacks, {sum(len(flow) - 1 for flow in flows.values())} flows"
)
sys.exit(bool(errors))
