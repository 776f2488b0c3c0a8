"""Reads messages of OTLP/JSON by the published descriptors, and compares them with what `show --json` has.

read_otlp.py MESSAGES SHOWN: MESSAGES has a message a line, SHOWN a line for each hit, span and row of an aggregate."""

import base64, collections, json, re, sys

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from agrees import agrees

errors = []


def check(condition, *words):
    if not condition:
        errors.append(" ".join(map(str, words)))


def identifiers(part):
    """OTLP has identifiers in hexadecimal, where protocol buffers have base 64."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("traceId", "spanId", "parentSpanId"):
                check(re.fullmatch("[0-9a-f]{32}" if name == "traceId" else "[0-9a-f]{16}", value), name, value)
                part[name] = base64.b64encode(bytes.fromhex(value)).decode()
            else:
                identifiers(value)
    elif isinstance(part, list):
        for value in part:
            identifiers(value)


def any_value(value):
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [any_value(part) for part in value.array_value.values]
    if kind == "kvlist_value":
        return {part.key: any_value(part.value) for part in value.kvlist_value.values}
    found = getattr(value, kind)
    if kind == "bytes_value":
        return ("bytes", found)
    return found


def attributes(part):
    found = {attribute.key: any_value(attribute.value) for attribute in part.attributes}
    check(len(found) == len(part.attributes), "an attribute is there twice")
    check("" not in found, "an attribute has no name")
    return found


KINDS = {
    "resourceSpans": ExportTraceServiceRequest,
    "resourceLogs": ExportLogsServiceRequest,
    "resourceMetrics": ExportMetricsServiceRequest,
}
spans, logs, metrics, messages, services = [], [], [], 0, set()
for line in open(sys.argv[1]):
    parts = json.loads(line)
    identifiers(parts)
    (kind,) = parts
    # Fields that the descriptors do not have are errors.
    message = json_format.ParseDict(parts, KINDS[kind]())
    messages += 1
    for resource in [*getattr(message, {"resourceSpans": "resource_spans", "resourceLogs": "resource_logs", "resourceMetrics": "resource_metrics"}[kind])]:
        of = attributes(resource.resource)
        services.add((of["service.name"], of.get("process.pid")))
        if kind == "resourceSpans":
            spans += [(of, span) for scope in resource.scope_spans for span in scope.spans]
        elif kind == "resourceLogs":
            logs += [(of, log) for scope in resource.scope_logs for log in scope.log_records]
        else:
            metrics += [(of, metric) for scope in resource.scope_metrics for metric in scope.metrics]

shown = [json.loads(line) for line in open(sys.argv[2])]
rows = [line for line in shown if line["kind"] == "aggregate"]
shown = [line for line in shown if line["kind"] != "aggregate"]
expected = {(line.get("process"), line["frame"]): line for line in shown}
check(len(spans) == sum("ended" in line for line in shown), len(spans), "spans")
check(len(logs) == sum("ended" not in line for line in shown), len(logs), "logs")

by_id = {(of.get("process.pid"), span.span_id): span for of, span in spans}
check(len(by_id) == len(spans), "two spans have one identifier")
compared = 0
for of, part in spans + logs:
    found = attributes(part)
    line = expected.get((of.get("process.pid"), found["tracewire.frame"]))
    check(line, "frame", found["tracewire.frame"], "is of no line")
    if not line:
        continue
    where = f"frame {line['frame']}:"
    for name, key in (
        ("tracewire.tracepoint", "tracepoint"),
        ("tracewire.kind", "kind"),
        ("thread.id", "thread"),
        ("cpu.logical_number", "cpu"),
        ("tracewire.pc", "pc"),
        ("code.function.name", "function"),
        ("code.file.path", "file"),
        ("code.line.number", "line"),
        ("tracewire.ended", "ended"),
        ("tracewire.duration_ns", "duration_ns"),
        ("tracewire.stack_end", "stack_end"),
    ):
        check(found.get(name) == line.get(key), where, name, found.get(name), "and not", line.get(key))
    check(len(found.get("code.stacktrace", "").splitlines()) == len(line.get("stack", [])), where, "stack")
    names = collections.Counter()
    for item in line.get("values", []):
        names[item["expression"]] += 1
        name = item["expression"] + (f"#{names[item['expression']]}" if names[item["expression"]] > 1 else "")
        key = f"tracewire.value.{name}"
        check(key in found, where, key, "is not there")
        typed = found.get(key)
        compared += 1
        if item["expression"] == "$duration":
            check(typed == line.get("duration_ns"), where, name, typed)
        else:
            check(agrees(typed, item["value"]), where, name, typed, "for", item["value"])
        if "error" in item:
            check(typed is None and found.get(f"tracewire.missing.{name}"), where, name, typed)
    check(sum(key.startswith("tracewire.value.") for key in found) == len(line.get("values", [])), where, "values")
    if "ended" not in line:
        check(part.time_unix_nano == line.get("time_ns", part.time_unix_nano), where, "time")
        continue
    lasts = part.end_time_unix_nano - part.start_time_unix_nano
    if "duration_ns" in line:
        check(lasts == line["duration_ns"], where, "takes", lasts)
    check(lasts >= 0, where, "ends before it begins")
    is_error = part.status.code == Status.STATUS_CODE_ERROR
    check(is_error == (line["ended"] == "exception"), where, part.status)
    parent = by_id.get((of.get("process.pid"), part.parent_span_id))
    check((parent is None) == (not part.parent_span_id), where, "is in a span that is not there")
    if parent:
        check(parent.trace_id == part.trace_id, where, "is of another trace than its parent")
    if "parent" in line:
        check(parent and attributes(parent)["tracewire.frame"] == line["parent"], where, "has another parent")

# Aggregates: those of several processes are added by `show`.
sums = collections.Counter()
for of, metric in metrics:
    data = getattr(metric, metric.WhichOneof("data"))
    check(len(data.data_points) > 0, metric.name, "has no points")
    for point in data.data_points:
        found = attributes(point)
        key = (metric.name, metric.description, found.get("tracewire.tracepoint"), str(found.get("tracewire.key.1")))
        check(point.time_unix_nano >= point.start_time_unix_nano > 0, key, "has no time")
        if metric.WhichOneof("data") == "histogram":
            check(len(point.bucket_counts) == len(point.explicit_bounds) + 1, key, "buckets")
            check(sum(point.bucket_counts) == point.count, key, "counts")
            check(list(point.explicit_bounds) == sorted(set(point.explicit_bounds)), key, "bounds")
            bounds = [None, *point.explicit_bounds, None]
            for index, count in enumerate(point.bucket_counts):
                low, high = bounds[index], bounds[index + 1]
                sums[key + (low, high)] += count
        else:
            sums[key] += point.as_int or point.as_double
for row in rows:
    function = re.match(r"\w+", row["aggregate"])[0]
    key = (f"tracewire.{function}", row["aggregate"], row["tracepoint"], str(row["key"][0] if row["key"] else None))
    for low, high, count in row.get("buckets", []):
        bucket = key + (None if low is None else low - 1, None if high is None else high - 1)
        check(sums[bucket] == count, bucket, sums[bucket], "and not", count)
    if "value" in row:
        check(sums[key] == row["value"], key, sums[key], "and not", row["value"])
check(any(metric.name == "tracewire.hits" for _, metric in metrics), "no hits are counted")

for error in errors[:20]:
    print(error)
print(
    f"{len(errors)} errors, {messages} messages, {len(spans)} spans, {len(logs)} logs, {len(metrics)} metrics, "
    f"{compared} values, {len(services)} services"
)
sys.exit(bool(errors))
