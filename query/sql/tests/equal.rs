//! Queries have the same rows on trace files, on a dataset of them, and in DuckDB on that dataset.

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

#[test]
fn queries_have_the_rows_that_duckdb_has() {
    let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/queries");
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
    let mut count = 0;
    for (name, paths) in &sources {
        let mut database =
            Database::open(paths, options(), |note| panic!("{note}")).expect("opened");
        fs::create_dir(shop.path(name)).expect("a directory");
        for entry in fs::read_dir(&queries).expect("the queries") {
            let query = entry.expect("a query").path();
            let sql = fs::read_to_string(&query).expect("a query");
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
    assert!(count >= 3 * 40, "{count}");
    let compared = Command::new(duckdb::python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../test/compare.py"))
        .arg(&queries)
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
