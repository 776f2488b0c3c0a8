"""Asks DuckDB the queries of a directory over a dataset, and compares its rows with Parquet files that others have answered.

compare.py QUERIES DATASET ANSWERS...: each of ANSWERS is a directory with QUERY.parquet for each QUERY.sql."""

import decimal, pathlib, sys, duckdb

queries, dataset, *answers = map(pathlib.Path, sys.argv[1:])
connection = duckdb.connect()
for table in {path.name.removeprefix("table=") for path in dataset.glob("*/*/*/table=*")}:
    files = f"{dataset}/*/*/*/table={table}/*.parquet"
    connection.sql(
        f"create table \"{table}\" as select * from read_parquet('{files}',"
        " union_by_name = true, hive_partitioning = true, hive_types_autocast = false)"
    )


def plain(value):
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, decimal.Decimal)):
        return str(int(value)) if value == int(value) else str(value.normalize())
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def rows(sql):
    answer = connection.sql(sql)
    names = [column[0].lower() for column in answer.description]
    return names, [plain(row) for row in answer.fetchall()]


different = 0
for query in sorted(queries.glob("*.sql")):
    expected = rows(query.read_text())
    for answer in answers:
        found = rows(f"select * from read_parquet('{answer / query.stem}.parquet')")
        if "order by" not in query.read_text():
            found[1].sort(key=str)
            expected[1].sort(key=str)
        if found == expected:
            continue
        different += 1
        print(f"{answer.name}: {query.name}: {len(found[1])} rows, and DuckDB has {len(expected[1])}")
        if found[0] != expected[0]:
            print(f"  columns {found[0]}, and DuckDB has {expected[0]}")
        for number, (ours, theirs) in enumerate(zip(found[1], expected[1])):
            if ours != theirs:
                print(f"  row {number}: {ours}\n  and DuckDB has {theirs}")
                break
sys.exit(different > 0)
