"""Asks DuckDB and a Spark cluster the queries of a directory over a dataset, and compares their rows with each other and with Parquet
files that others have answered.

compare.py QUERIES DATASET ANSWERS...: each of ANSWERS is a directory with QUERY.parquet for each QUERY.sql. Rows are compared in their order
where the query has `order by`. Types are compared by kind, since a sum has another width in each engine; those of `table-*.sql`, whose columns are
those of a table, are compared exactly."""

import decimal, pathlib, sys, duckdb

import cluster

INTEGERS = {"tinyint", "smallint", "integer", "int", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"}
NAMES = {"varchar": "string", "blob": "binary"}


def duckdb_type(found):
    """A type of DuckDB, by Spark's names."""
    if found.id == "struct":
        return ("struct", [(name, duckdb_type(part)) for name, part in found.children])
    if found.id == "list":
        return ("array", duckdb_type(found.children[0][1]))
    if found.id == "decimal":
        (_, digits), (_, scale) = found.children
        return f"decimal({digits},{scale})"
    return NAMES.get(found.id, found.id)


def spark_type(found):
    if found.typeName() == "struct":
        return ("struct", [(part.name, spark_type(part.dataType)) for part in found.fields])
    if found.typeName() == "array":
        return ("array", spark_type(found.elementType))
    return found.simpleString()


def kind(found):
    """A type without its width."""
    match found:
        case ("struct", parts):
            return ("struct", [(name, kind(part)) for name, part in parts])
        case ("array", element):
            return ("array", kind(element))
        case "float" | "double":
            return "real"
        case _ if found in INTEGERS or found.startswith("decimal(") and found.endswith(",0)"):
            return "integer"
        case _:
            return found


def plain(value):
    """A value as text, where engines have several types for it."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, decimal.Decimal)):
        return str(int(value)) if value == int(value) else str(value.normalize())
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if hasattr(value, "asDict"):
        return {name: plain(part) for name, part in zip(value.__fields__, value)}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


class Answer:
    """The columns, with their types, and the rows of a query."""

    def __init__(self, names, types, rows):
        self.columns = [name.lower() for name in names]
        self.types = types
        self.rows = [[plain(value) for value in row] for row in rows]


class DuckDb:
    name = "DuckDB"

    def __init__(self, dataset, tables):
        self.connection = duckdb.connect()
        for table in tables:
            files = f"{dataset}/*/*/*/table={table}/*.parquet"
            self.connection.sql(
                f"create table \"{table}\" as select * from read_parquet('{files}',"
                " union_by_name = true, hive_partitioning = true, hive_types_autocast = false)"
            )

    def answer(self, sql):
        found = self.connection.sql(sql)
        return Answer(found.columns, [duckdb_type(column) for column in found.types], found.fetchall())


class Spark:
    name = "Spark"

    def __init__(self, session, dataset, tables):
        self.session = session
        for table in tables:
            reader = session.read.option("basePath", str(dataset)).option("mergeSchema", "true")
            reader.parquet(f"{dataset}/*/*/*/table={table}").createOrReplaceTempView(table)
        workers = session.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        if workers != cluster.WORKERS:
            sys.exit(f"{workers} of {cluster.WORKERS} workers take part")

    def answer(self, sql):
        found = self.session.sql(sql)
        return Answer(found.columns, [spark_type(column.dataType) for column in found.schema.fields], found.collect())


def difference(expected, found, is_ordered, is_exact):
    """What differs first; none where nothing does."""
    width = (lambda column: column) if is_exact else kind
    if expected.columns != found.columns:
        return f"columns {found.columns}, expected {expected.columns}"
    for name, ours, theirs in zip(found.columns, found.types, expected.types):
        if width(ours) != width(theirs):
            return f"column {name} is {ours}, expected {theirs}"
    ours, theirs = (answer.rows if is_ordered else sorted(answer.rows, key=str) for answer in (found, expected))
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, expected {len(theirs)}"
    for number, (row, wanted) in enumerate(zip(ours, theirs)):
        if row != wanted:
            return f"row {number}: {row}\n  expected {wanted}"
    return None


def main():
    queries, dataset, *answers = map(pathlib.Path, sys.argv[1:])
    tables = sorted({path.name.removeprefix("table=") for path in dataset.glob("*/*/*/table=*")})
    expects = DuckDb(dataset, tables)
    different = compared = rows = 0
    with cluster.session() as session:
        spark = Spark(session, dataset, tables)
        for query in sorted(queries.glob("*.sql")):
            sql = query.read_text()
            expected = expects.answer(sql)
            rows += len(expected.rows)
            found = {spark.name: spark.answer(sql)}
            for answer in answers:
                found[answer.name] = expects.answer(f"select * from read_parquet('{answer / query.stem}.parquet')")
            for name, answer in found.items():
                compared += 1
                what = difference(expected, answer, "order by" in sql.lower(), query.name.startswith("table-"))
                if what is not None:
                    different += 1
                    print(f"{name}: {query.name}: {what}")
    print(f"{compared} answers with {rows} rows of {expects.name} each time")
    sys.exit(different > 0)


main()
