"""Compares runs in all formats with what `show --json` has of them.

formats.py READERS RUN...: READERS has the readers of Perfetto, OTLP and Chrome, and `agrees`. Each RUN is a directory with shown.json, out.perfetto-trace,
out.otlp.json, out.chrome.json, out.csv, the dataset `traces`, and `rows` with each table as a query of the trace file gives it."""

import collections, contextlib, csv, decimal, io, json, os, pathlib, runpy, sys

import duckdb

readers = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(readers))
from agrees import agrees

RUNS = sys.argv[2:]
errors, counts = [], collections.Counter()


def check(condition, *words):
    if not condition:
        errors.append(f"{pathlib.Path.cwd().name}: " + " ".join(map(str, words))[:1000])


def read(name, *arguments):
    """A reader of another format, which compares on its own."""
    said, sys.argv = io.StringIO(), [name, *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(str(readers / name), run_name="__main__")
    except SystemExit as end:
        check(not end.code, name, said.getvalue())
    except AssertionError as error:
        check(False, name, repr(error))
    counts[name] += 1


def typed(value):
    if isinstance(value, decimal.Decimal):
        return int(value)
    if isinstance(value, dict):
        return {name: typed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    return value


def with_digits(value, why):
    """The value with the numbers of 39 digits that no column has: the reasons have them, after the path of the part."""
    for reason in why.split("; "):
        place, does_not_fit, digits = reason.rpartition("does not fit: ")
        if not does_not_fit:
            continue
        if not place:
            return int(digits)
        *outer, name = place.removesuffix(": ").split(".")
        part = value
        for step in outer:
            part = part[step]
        check(part[name] is None, place, "has a value, and does not fit")
        part[name] = int(digits)
    return value


def table(name):
    files = f"traces/batch=*/*/*/table={name}/*.parquet"
    return f"(select * exclude (batch, host, day, \"table\") from read_parquet('{files}', hive_types_autocast = false))"


def rows(sql):
    found = duckdb.sql(sql)
    return [dict(zip(found.columns, row)) for row in found.fetchall()]


def address(text):
    number = int(text, 16)
    return number - (1 << 64) if number >> 63 else number


def compare_hits(shown):
    found = {row["frame"]: row for row in rows(f"select * from {table('hits')}")}
    check(found.keys() == {line["frame"] for line in shown}, "the hits are others")
    for line in shown:
        row = found[line["frame"]]
        for field in ("tracepoint", "time_ns", "thread", "cpu", "function", "file", "line", "kind", "duration_ns", "ended", "parent"):
            check(row[field] == line.get(field), "hits", field, row[field], "for", line.get(field))
        check(row["pc"] == address(line["pc"]), "hits: pc", row["pc"], line["pc"])


def compare_values(shown):
    """The narrow table has the same texts."""
    expected = [
        (line["frame"], item["expression"], item.get("type"), item["value"]) for line in shown for item in line.get("values", [])
    ]
    found = [(row["frame"], row["expression"], row["type"], row["text"]) for row in rows(f"select * from {table('values')}")]
    check(sorted(found, key=str) == sorted(expected, key=str), "values:", set(found) ^ set(expected))


def compare_columns(shown):
    """The wide tables have typed values that say the same, and a reason where there is none."""
    wide = {}
    for line in shown:
        number = line["tracepoint"]
        if number not in wide:
            wide[number] = {row["frame"]: row for row in rows(f"select * from {table(f'tp{number}')}")}
        row = wide[number][line["frame"]]
        for item in line.get("values", []):
            name, text = item["expression"], item["value"]
            why = row[f"{name}_unavailable"]
            value = with_digits(typed(row[name]), why or "")
            counts["values"] += 1
            if name == "$duration":
                check(value == line.get("duration_ns"), name, value, "for", line.get("duration_ns"))
            else:
                check(agrees(value, text), name, repr(value), why, "for", text)
            if row[name] is None:
                check(why, name, "is null without a reason, for", text)
            if row.get(f"{name}_bytes") is not None:
                check(agrees(("bytes", row[f"{name}_bytes"]), text), name, row[f"{name}_bytes"], "for", text)
                counts["bytes"] += 1
            counts["missing"] += row[name] is None
            counts["nested"] += isinstance(value, (dict, list))


def compare_csv(shown):
    with open("out.csv", newline="", encoding="utf-8", errors="surrogateescape") as file:
        found = {int(row["frame"]): row for row in csv.DictReader(file)}
    for line in shown:
        for item in line.get("values", []):
            cell = found[line["frame"]].get(item["expression"])
            if cell is not None and "error" not in item and not item["value"].startswith("<"):
                check(cell == item["value"], "csv:", item["expression"], cell, "for", item["value"])
                counts["cells"] += 1


def compare_back():
    """The dataset has the rows that the trace file has, and the same types."""
    for path in sorted(pathlib.Path("rows").iterdir()):
        name = path.stem
        own = f"(select * exclude (host, day) from read_parquet('{path}'))"
        theirs = table(name)
        types = [[(row["column_name"], row["column_type"]) for row in rows(f"describe from {sql}")] for sql in (own, theirs)]
        check(types[0] == types[1], name, "has other columns", *types)
        if types[0] == types[1]:
            different = rows(f"(select 1 as of, * from {own} except all select 1 as of, * from {theirs}) union all (select 2 as of, * from {theirs} except all select 2 as of, * from {own}) limit 2")
            check(not different, name, *different)
            counts["rows"] += rows(f"select count(*) as rows from {own}")[0]["rows"]


for directory in map(pathlib.Path, RUNS):
    os.chdir(directory)
    lines = [json.loads(line) for line in open("shown.json")]
    lines = [line for line in lines if line["kind"] != "aggregate"]
    check(lines, "nothing was recorded")
    read("read_perfetto.py", "out.perfetto-trace", "shown.json")
    read("read_otlp.py", "out.otlp.json", "shown.json")
    read("read_chrome.py", readers / "chrome.schema.json", "out.chrome.json", "shown.json")
    compare_hits(lines)
    compare_values(lines)
    compare_columns(lines)
    compare_csv(lines)
    compare_back()
for error in errors[:40]:
    print(error)
print(len(errors), "errors;", ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
sys.exit(bool(errors))
