//! Queries have the same rows on trace files, on a dataset of them, and in DuckDB and on a Spark cluster on that dataset.

#[path = "../../test/duckdb.rs"]
mod duckdb;
mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use parquet::arrow::ArrowWriter;
use support::{Shop, add_to, options};
use tracewire_sql::{Database, ScalarValue};

/// Answers a query into a Parquet file.
#[track_caller]
fn answer(database: &mut Database, sql: &str, to: &Path) {
    let none: BTreeMap<String, ScalarValue> = BTreeMap::new();
    let name = to
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let answer = database.query(sql, &none);
    let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
    let file = File::create(to).expect("a file");
    let mut writer = ArrowWriter::try_new(file, answer.schema().clone(), None).expect("a writer");
    for batch in answer {
        let batch = batch.unwrap_or_else(|error| panic!("{name}: {error}"));
        writer.write(&batch).expect("written");
    }
    writer.close().expect("closed");
}

/// The queries in `query/test/queries`, and one for all columns of each table. `compare.py` compares the types of those exactly.
fn write_queries(database: &mut Database, to: &Path) -> Vec<PathBuf> {
    fs::create_dir(to).expect("a directory");
    let mut queries = Vec::new();
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/queries");
    for entry in fs::read_dir(known).expect("the queries") {
        let entry = entry.expect("a query");
        let path = to.join(entry.file_name());
        fs::copy(entry.path(), &path).expect("copied");
        queries.push(path);
    }
    for table in database.table_names() {
        let all = format!("select * from \"{table}\"");
        let answer = database.query(&all, &BTreeMap::new()).expect("a table");
        // A trace file does not say which machine it is of.
        let fields = answer
            .schema()
            .fields()
            .iter()
            .filter(|field| field.name() != "host");
        let columns: Vec<String> = fields
            .map(|field| format!("\"{}\"", field.name()))
            .collect();
        let path = to.join(format!("table-{table}.sql"));
        let sql = format!("select {} from \"{table}\"", columns.join(", "));
        fs::write(&path, sql).expect("written");
        queries.push(path);
    }
    queries
}

#[test]
fn queries_have_the_rows_that_duckdb_and_spark_have() {
    let shop = Shop::build();
    let runs = [shop.record("monday", 40), shop.record("tuesday", 25)];
    let dataset = shop.path("traces");
    for run in &runs {
        add_to(&dataset, run);
    }
    let sources: [(&str, Vec<PathBuf>); 3] = [
        ("trace-files", runs.to_vec()),
        ("dataset", vec![dataset.clone()]),
        ("both", vec![runs[0].clone(), shop.path("half")]),
    ];
    add_to(&sources[2].1[1], &runs[1]);
    let directory = shop.path("queries");
    let mut first = Database::open(&runs, options(), |note| panic!("{note}")).expect("opened");
    let queries = write_queries(&mut first, &directory);
    drop(first);
    let mut count = 0;
    for (name, paths) in &sources {
        let mut database =
            Database::open(paths, options(), |note| panic!("{note}")).expect("opened");
        fs::create_dir(shop.path(name)).expect("a directory");
        for query in &queries {
            let sql = fs::read_to_string(query).expect("a query");
            let stem = query
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            answer(
                &mut database,
                &sql,
                &shop.path(name).join(format!("{stem}.parquet")),
            );
            count += 1;
        }
    }
    assert!(count >= 3 * (40 + 8), "{count}");
    let compared = Command::new(duckdb::python_with_spark())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/compare.py"))
        .arg(&directory)
        .arg(&dataset)
        .args(sources.iter().map(|(name, _)| shop.path(name)))
        .output()
        .expect("python runs");
    let said = [compared.stdout, compared.stderr].concat();
    assert!(
        compared.status.success(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}
