//! Datasets: DuckDB reads them, and damaged or foreign files are reported.

#[path = "../../test/duckdb.rs"]
mod duckdb;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use tempfile::TempDir;
use tracewire_dataset::{
    AddOptions, Added, COMPACT_TO, Compacted, DatasetError, Finding, PruneOptions, Pruned, Run,
    Severity, add, check, compact, list, prune,
};
use tracewire_recorder::Recorder;
use tracewire_test_support::Cc;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, Viewer};

const SHOP: &str = r#"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
enum state { OPEN, PAID = 3 };
struct item { int id; char name[8]; double price; unsigned flags : 3; int below : 4; };
__attribute__((noinline)) int sell(struct item *item, const char *customer, enum state state, uint64_t key, __int128 wide,
                                   float rate, double ratio, _Bool gift, int ID, int id) {
    return item->id + state + (int)key + (int)wide + (customer != 0) + (rate > 0) + (ratio > 0) + gift + ID + id;
}
int main(int argc, char **argv) {
    const char *customers[] = {"ada", "gr\303\274n", "bad \377 byte", 0};
    int sum = 0;
    for (int i = 0; i < 40; i++) {
        struct item item = {i, "item", i * 0.5, i % 8, i % 8 - 4};
        item.name[4] = 'a' + i % 26;
        sum += sell(&item, customers[i % 4], i % 2 ? PAID : OPEN, UINT64_MAX - i, -((__int128)1 << 100) - i, 0.1f * i,
                    i % 5 ? i / 3.0 : NAN, i % 3 == 0, i, -i);
    }
    return sum == 42;
}
"#;

const COLLECTED: &str = "sell : *item, item->name, customer, state, key, wide, rate, ratio, gift, ID, id, item, key / 2";

/// A program that was recorded.
struct Recorded {
    directory: TempDir,
    output: PathBuf,
}

fn recorded(source: &str, tracepoint: &str) -> Recorded {
    let directory = TempDir::new().expect("a directory");
    let program = Cc::new()
        .option("-O0")
        .option("-lm")
        .text(source)
        .build(directory.path(), "shop");
    let output = directory.path().join("shop.tf");
    let mut recorder = Recorder::spawn(&program, Vec::<String>::new());
    recorder
        .output(&output)
        .tracepoint(tracepoint)
        .expect("a tracepoint");
    recorder.record(&mut ()).expect("a recording");
    Recorded { directory, output }
}

fn shop() -> Recorded {
    recorded(SHOP, COLLECTED)
}

#[track_caller]
fn add_to(dataset: &Path, output: &Path, options: &AddOptions) -> Added {
    let file = TraceFile::open(output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    add(dataset, &Run::new(&file, &program), options).expect("added")
}

fn named(name: &str) -> AddOptions {
    AddOptions {
        run: Some(name.to_owned()),
        host: Some("web-1".to_owned()),
    }
}

#[track_caller]
fn findings(dataset: &Path) -> Vec<(Severity, String)> {
    let relative = |finding: Finding| {
        let path = finding.path.strip_prefix(dataset).expect("in the dataset");
        (
            finding.severity,
            format!("{}: {}", path.display(), finding.message),
        )
    };
    check(dataset)
        .expect("a dataset")
        .into_iter()
        .map(relative)
        .collect()
}

/// The rows that DuckDB gives, each as JSON.
#[track_caller]
fn rows(directory: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    const SCRIPT: &str = r#"
import sys, json, duckdb, decimal
def plain(v):
    if isinstance(v, decimal.Decimal): return str(v)
    if isinstance(v, bytes): return v.hex()
    if isinstance(v, dict): return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)): return [plain(x) for x in v]
    if isinstance(v, float) and v != v: return "NaN"
    return v
for query in sys.argv[1:]:
    print(json.dumps([plain(row) for row in duckdb.sql(query).fetchall()]))
"#;
    let ran = Command::new(duckdb::python())
        .current_dir(directory)
        .args(["-c", SCRIPT])
        .args(queries)
        .output()
        .expect("python runs");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let lines = String::from_utf8(ran.stdout).expect("text");
    let rows = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(rows).collect()
}

#[test]
fn duckdb_reads_what_show_prints() {
    let run = shop();
    let dataset = run.directory.path().join("traces");
    let added = add_to(&dataset, &run.output, &named("shop"));
    assert_eq!(added.rows["tp1"], 40);
    let table = fs::metadata(added.path.join("table=tp1/part-0.parquet")).expect("a table");
    assert_eq!(table.permissions().mode() & 0o777, 0o600);
    assert_eq!(findings(&dataset), []);

    let file = TraceFile::open(&run.output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let viewer = Viewer::new(&file, &program);
    let mut shown = Vec::new();
    let mut times = Vec::new();
    for frame in file.frames() {
        let view = viewer.view(frame);
        times.push(serde_json::json!([
            view.frame,
            view.time_ns,
            view.thread,
            view.function,
            view.line
        ]));
        for value in view.values {
            let error = value.error.as_ref();
            shown.push(serde_json::json!([
                view.frame,
                value.expression,
                value.type_name,
                value.value,
                error
            ]));
        }
    }
    let rows = rows(
        &dataset,
        &[
            "select frame, time_ns, thread, function, line from 'batch=shop/*/*/table=hits/*.parquet' order by frame",
            "select frame, expression, type, text, case when text like '<error%' then unavailable end from 'batch=shop/*/*/table=values/*.parquet' order by file_row_number",
            r#"select "*item", "item->name", customer, customer_unavailable, customer_bytes, state, key, wide, rate, ratio, gift, "ID", id_2,
                      item, "key / 2" from '*/*/*/table=tp1/*.parquet' order by frame limit 5"#,
            "select count(*), count(customer), count(*) filter (where isnan(ratio)), min(key), max(wide) from '*/*/*/table=tp1/*.parquet'",
            "select distinct run, host, \"table\" from read_parquet('*/*/*/*/*.parquet', union_by_name = true, hive_partitioning = true, filename = true) order by all",
            "select program like '%/shop', frames, ending from '*/*/*/table=runs/*.parquet'",
        ],
    );
    let [hits, values, wide, counts, partitions, runs] = &rows[..] else {
        panic!("{} results", rows.len());
    };
    assert_eq!(*hits, times);
    assert_eq!(*values, shown);
    let addresses: Vec<&Value> = wide.iter().map(|row| &row[13]).collect();
    let rows: Vec<Value> = wide
        .iter()
        .map(|row| {
            let mut row = row.clone();
            row.as_array_mut().expect("a row").remove(13);
            row
        })
        .collect();
    assert!(
        addresses
            .iter()
            .all(|address| address.as_i64().is_some_and(|address| address > 1 << 40))
    );
    let wide = |i: i128| (-(1_i128 << 100) - i).to_string();
    let key = |i: u64| (u64::MAX - i).to_string();
    let half = |i: u64| ((u64::MAX - i) / 2).to_string();
    let item = |i: i32, name: &str| serde_json::json!({"id": i, "name": name, "price": f64::from(i) * 0.5, "flags": i % 8, "below": i % 8 - 4});
    let single = |i: u8| f64::from(0.1_f32 * f32::from(i));
    assert_eq!(
        rows,
        [
            serde_json::json!([
                item(0, "itema"),
                "itema",
                "ada",
                null,
                null,
                "OPEN",
                key(0),
                wide(0),
                single(0),
                "NaN",
                true,
                0,
                0,
                half(0)
            ]),
            serde_json::json!([
                item(1, "itemb"),
                "itemb",
                "grün",
                null,
                null,
                "PAID",
                key(1),
                wide(1),
                single(1),
                1.0 / 3.0,
                false,
                1,
                -1,
                half(1)
            ]),
            serde_json::json!([
                item(2, "itemc"),
                "itemc",
                "bad \u{fffd} byte",
                "not UTF-8",
                "62616420ff2062797465",
                "OPEN",
                key(2),
                wide(2),
                single(2),
                2.0 / 3.0,
                false,
                2,
                -2,
                half(2)
            ]),
            serde_json::json!([
                item(3, "itemd"),
                "itemd",
                null,
                "null pointer",
                null,
                "PAID",
                key(3),
                wide(3),
                single(3),
                1.0,
                true,
                3,
                -3,
                half(3)
            ]),
            serde_json::json!([
                item(4, "iteme"),
                "iteme",
                "ada",
                null,
                null,
                "OPEN",
                key(4),
                wide(4),
                single(4),
                4.0 / 3.0,
                false,
                4,
                -4,
                half(4)
            ]),
        ]
    );
    assert_eq!(*counts, [serde_json::json!([40, 30, 8, key(39), wide(0)])]);
    let partitions: Vec<(&str, &str)> = (partitions.iter())
        .map(|row| (row[0].as_str().unwrap_or(""), row[2].as_str().unwrap_or("")))
        .collect();
    assert_eq!(
        partitions,
        ["hits", "modules", "probes", "runs", "tp1", "values"].map(|table| ("shop", table))
    );
    assert_eq!(*runs, [serde_json::json!([true, 40, "marker"])]);
}

/// Two builds of one program, in which a column has different types.
#[test]
fn builds_with_other_types_are_named_and_read_together() {
    let source = |kind: &str| {
        format!(
            "__attribute__((noinline)) int f({kind} x) {{ return (int)x; }} int main(void) {{ return f(7) == 8; }}"
        )
    };
    let first = recorded(&source("int"), "f : x");
    let second = recorded(&source("double"), "f : x");
    let dataset = first.directory.path().join("traces");
    add_to(&dataset, &first.output, &named("first"));
    add_to(&dataset, &second.output, &named("second"));
    let found = findings(&dataset);
    let [(Severity::Warning, message)] = &found[..] else {
        panic!("{found:?}");
    };
    assert!(
        message.contains("the column x of tp1 is Float64, and Int64 in batch first"),
        "{message}"
    );
    let query = "select run, x from read_parquet('*/*/*/table=tp1/*.parquet', union_by_name = true) order by run";
    let both = [[
        serde_json::json!(["first", 7.0]),
        serde_json::json!(["second", 7.0]),
    ]];
    assert_eq!(rows(&dataset, &[query]), both);

    // Compacted, each has its type still: no value changes.
    let done = compact(&dataset, COMPACT_TO).expect("compacted");
    assert_eq!((done.batches, done.batches_after), (2, 1));
    assert_eq!((done.files, done.files_after), (12, 7));
    let found = findings(&dataset);
    assert!(
        matches!(&found[..], [(Severity::Warning, message)] if message.contains("part-1.parquet")),
        "{found:?}"
    );
    assert_eq!(rows(&dataset, &[query]), both);
}

#[test]
fn compacted_runs_are_there_once() {
    let run = shop();
    let dataset = run.directory.path().join("traces");
    for name in ["one", "two", "three"] {
        add_to(&dataset, &run.output, &named(name));
    }
    let queries = [
        "select * exclude (batch) from read_parquet('*/*/*/table=values/*.parquet', hive_types_autocast = false) order by all",
        "select * exclude (batch) from read_parquet('*/*/*/table=tp1/*.parquet', hive_types_autocast = false) order by all",
        "select * exclude (batch) from read_parquet('*/*/*/table=runs/*.parquet', hive_types_autocast = false) order by all",
    ];
    let before = rows(&dataset, &queries);
    // Too large together, then not.
    assert_eq!(compact(&dataset, 1).expect("nothing"), Compacted::default());
    let kept = dataset.join("kept");
    fs::rename(dataset.join("batch=one"), &kept).expect("moved");
    let done = compact(&dataset, COMPACT_TO);
    assert!(done.is_ok_and(|done| done.batches == 2));
    fs::rename(&kept, dataset.join("batch=one")).expect("moved");
    let done = compact(&dataset, COMPACT_TO).expect("compacted");
    assert_eq!((done.batches, done.files, done.files_after), (2, 12, 6));
    assert!(done.bytes_after < done.bytes, "{done:?}");
    assert_eq!(findings(&dataset), []);
    assert_eq!(rows(&dataset, &queries), before);

    // Added again, a run is there still, and another one of its name is refused.
    let again = add_to(&dataset, &run.output, &named("two"));
    assert!(again.rows.is_empty() && again.path.is_dir(), "{again:?}");
    let other = recorded("int main(void) { return 0; }", "main : $pc");
    let file = TraceFile::open(&other.output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let refused = add(&dataset, &Run::new(&file, &program), &named("two"));
    assert!(matches!(refused, Err(DatasetError::OtherRun { .. })));
    let refused = add(&dataset, &Run::new(&file, &program), &named("compacted-1"));
    assert!(matches!(refused, Err(DatasetError::Name { .. })));

    // A compaction that ended before it removed what it had replaced.
    add_to(
        &run.directory.path().join("other"),
        &run.output,
        &named("one"),
    );
    let stale = dataset.join("batch=one");
    fs::rename(run.directory.path().join("other/batch=one"), &stale).expect("moved");
    let compacted = fs::read_dir(&dataset).expect("batches").flatten();
    let compacted = compacted.map(|entry| entry.file_name().into_string().expect("a name"));
    assert_eq!(
        compacted.filter(|name| name.contains("compacted-")).count(),
        1
    );
    let found = findings(&dataset);
    assert!(
        matches!(&found[..], [(Severity::Warning, message)] if message.starts_with("batch=one: its runs are in a compacted batch too")),
        "{found:?}"
    );
    let listing = list(&dataset).expect("a dataset");
    assert_eq!((listing.files.len(), listing.runs.len()), (6, 3));
    assert_eq!(
        compact(&dataset, COMPACT_TO).expect("removed"),
        Compacted::default()
    );
    assert!(!stale.exists());
    assert_eq!(rows(&dataset, &queries), before);

    // Two at a time.
    let lock = fs::File::open(dataset.join(".compact.lock")).expect("a lock");
    lock.lock().expect("locked");
    let busy = compact(&dataset, COMPACT_TO);
    assert!(matches!(busy, Err(DatasetError::Busy { .. })), "{busy:?}");
    drop(lock);

    // By days.
    add_to(&dataset, &run.output, &named("four"));
    let days = PruneOptions {
        before: Some("2001-01-01".to_owned()),
        most_bytes: Some(u64::MAX),
        ..PruneOptions::default()
    };
    assert_eq!(prune(&dataset, &days).expect("nothing"), Pruned::default());
    let days = PruneOptions {
        before: Some("2999-01-01".to_owned()),
        ..PruneOptions::default()
    };
    assert_eq!(prune(&dataset, &days).expect("pruned").batches, 2);
    assert_eq!(list(&dataset).expect("a dataset").files, []);
}

#[test]
fn a_run_is_there_once_and_keeps_its_name() {
    let run = shop();
    let dataset = run.directory.path().join("traces");
    let first = add_to(&dataset, &run.output, &AddOptions::default());
    assert!(first.run.starts_with("shop-"), "{}", first.run);
    assert_eq!(add_to(&dataset, &run.output, &AddOptions::default()), first);
    assert_eq!(findings(&dataset), []);

    add_to(&dataset, &run.output, &named("one"));
    let other = recorded("int main(void) { return 0; }", "main : $pc");
    let file = TraceFile::open(&other.output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let other = Run::new(&file, &program);
    let refused = add(&dataset, &other, &named("one"));
    assert!(
        matches!(refused, Err(DatasetError::OtherRun { .. })),
        "{refused:?}"
    );
    for name in ["", "..", "a/b", "a b", "ü"] {
        let refused = add(&dataset, &other, &named(name));
        assert!(
            matches!(refused, Err(DatasetError::Name { .. })),
            "{name:?}: {refused:?}"
        );
    }
}

#[test]
fn damaged_and_foreign_files_are_named() {
    let run = shop();
    let dataset = run.directory.path().join("traces");
    let added = add_to(&dataset, &run.output, &named("shop"));
    let table = |name: &str| added.path.join(format!("table={name}/part-0.parquet"));
    let relative = |path: &Path| {
        path.strip_prefix(&dataset)
            .expect("in the dataset")
            .display()
            .to_string()
    };
    #[track_caller]
    fn one(dataset: &Path, severity: Severity, wanted: &str) {
        let found = findings(dataset);
        let is_there = |(of, text): &(Severity, String)| *of == severity && text.contains(wanted);
        assert!(found.iter().any(is_there), "{wanted}: {found:?}");
    }

    // A writer that ended early.
    let unfinished = dataset.join(".batch=other.1.unfinished/host=a/day=b/table=hits");
    fs::create_dir_all(&unfinished).expect("made");
    fs::write(unfinished.join("part-0.parquet"), "PAR1").expect("written");
    assert_eq!(findings(&dataset).len(), 1);
    one(
        &dataset,
        Severity::Warning,
        ".batch=other.1.unfinished: a batch that is not finished",
    );
    let young = prune(&dataset, &PruneOptions::default()).expect("pruned");
    assert_eq!(young, Pruned::default());
    let now = PruneOptions {
        left_after: Duration::ZERO,
        ..PruneOptions::default()
    };
    assert_eq!(prune(&dataset, &now).expect("pruned").leftovers, 1);

    // Cut, and damaged in the middle: each named, at any length.
    let whole = fs::read(table("hits")).expect("read");
    for length in [0, 3, 4, whole.len() / 2, whole.len() - 1] {
        fs::write(table("hits"), &whole[..length]).expect("written");
        one(
            &dataset,
            Severity::Error,
            &format!("{}: not a whole Parquet file", relative(&table("hits"))),
        );
        one(&dataset, Severity::Error, "the table hits is missing");
    }
    let mut damaged = whole.clone();
    damaged[60..90].fill(0xa5);
    fs::write(table("hits"), damaged).expect("written");
    one(&dataset, Severity::Error, &relative(&table("hits")));
    fs::write(table("hits"), &whole).expect("written");
    assert_eq!(findings(&dataset), []);

    // Of another place, or of no place.
    fs::copy(table("values"), table("hits")).expect("copied");
    one(
        &dataset,
        Severity::Error,
        "the file says tracewire.table \"values\", and its directory \"hits\"",
    );
    fs::write(table("hits"), &whole).expect("written");
    fs::write(dataset.join("notes.txt"), "hello").expect("written");
    one(&dataset, Severity::Error, "notes.txt: a foreign file");
    fs::remove_file(dataset.join("notes.txt")).expect("removed");
    let old = dataset.join("run=old/host=a/day=b/table=hits");
    fs::create_dir_all(&old).expect("made");
    fs::copy(table("hits"), old.join("part-0.parquet")).expect("copied");
    one(&dataset, Severity::Error, "in the layout of version 1");
    fs::remove_dir_all(dataset.join("run=old")).expect("removed");

    // Of a later version: the number in the metadata at the end of the file.
    let mut later = whole.clone();
    let version = b"tracewire.schema\x18\x012";
    let at = later
        .windows(version.len())
        .position(|bytes| bytes == version);
    later[at.expect("a version") + version.len() - 1] = b'9';
    fs::write(table("hits"), later).expect("written");
    one(
        &dataset,
        Severity::Error,
        "tables of version 9; this program knows versions up to 2: use a later one",
    );
    fs::write(table("hits"), &whole).expect("written");

    // Files that someone has removed.
    fs::remove_file(table("runs")).expect("removed");
    one(
        &dataset,
        Severity::Error,
        "batch=shop: the batch is not whole",
    );
}

#[test]
fn a_trace_file_that_was_cut_is_read_as_far_as_it_is_whole() {
    let run = shop();
    let bytes = fs::read(&run.output).expect("read");
    fs::write(&run.output, &bytes[..bytes.len() * 2 / 3]).expect("written");
    let dataset = run.directory.path().join("traces");
    let added = add_to(&dataset, &run.output, &named("cut"));
    assert!((1..40).contains(&added.rows["hits"]), "{added:?}");
    assert_eq!(findings(&dataset), []);
    let rows = rows(
        &dataset,
        &["select ending from '*/*/*/table=runs/*.parquet'"],
    );
    assert_eq!(rows, [[serde_json::json!(["cut"])]]);
}

const STEPS: &str = r#"
__attribute__((noinline)) int step(int i, double half, const char *name) { __asm__ volatile("" : "+r"(i)); return i + (half > 0) + (name != 0); }
__attribute__((noinline)) int rare(int i) { __asm__ volatile("" : "+r"(i)); return i + 1; }
int main(void) {
    const char *names[] = {"lamp", "desk", 0};
    int sum = 0;
    for (int i = 0; i < 90000; i++) {
        sum += step(i, i * 0.5, names[i % 3]);
        if (i % 1000 == 0) sum += rare(i);
    }
    return sum == 42;
}
"#;

/// The rows of a table in its file, without the name of the run, and how many rows each row group has.
fn rows_of_file(table: &str, inner: &Path) -> (RecordBatch, Vec<i64>) {
    let path = inner.join(format!("table={table}")).join("part-0.parquet");
    let file = fs::File::open(&path).expect("the table's file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
    let groups = reader.metadata().row_groups().iter();
    let groups = groups.map(|group| group.num_rows()).collect();
    let schema = reader.schema().clone();
    let batches: Result<Vec<_>, _> = reader.build().expect("a reader").collect();
    let mut rows = concat_batches(&schema, &batches.expect("rows")).expect("one batch");
    rows.remove_column(0);
    (rows, groups)
}

#[test]
fn rows_encoded_by_several_threads_are_those_of_the_run() {
    let directory = TempDir::new().expect("a directory");
    let program = Cc::new().option("-O1").text(STEPS);
    let program = program.build(directory.path(), "steps");
    let output = directory.path().join("steps.tf");
    let mut recorder = Recorder::spawn(&program, Vec::<String>::new());
    recorder.output(&output);
    for tracepoint in ["step : i, half, name", "rare : i"] {
        recorder.tracepoint(tracepoint).expect("a tracepoint");
    }
    recorder.record(&mut ()).expect("a recording");
    let file = TraceFile::open(&output).expect("a trace file");
    let program = Program::of(&file, &[]).expect("the program");
    let run = Run::new(&file, &program);
    let dataset = directory.path().join("traces");
    let added = add(&dataset, &run, &named("steps")).expect("added");
    assert_eq!(findings(&dataset), []);

    let mut batches: BTreeMap<String, Vec<RecordBatch>> = BTreeMap::new();
    let read = run.read(
        |_| true,
        |table, batch| {
            batches.entry(table.name.clone()).or_default().push(batch);
            Ok::<(), DatasetError>(())
        },
    );
    read.expect("rows");
    let mut groups: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (table, batches) in batches {
        let all = concat_batches(&batches[0].schema(), &batches).expect("one batch");
        let (of_file, groups_of_file) = rows_of_file(&table, &added.path);
        assert_eq!(all.columns(), of_file.columns(), "{table}");
        groups.insert(table, groups_of_file);
    }
    assert_eq!(groups["values"].iter().sum::<i64>(), 3 * 90_000 + 90);
    // Rows of one piece that are few come after a whole row group.
    assert!(groups["values"].len() > 2, "{groups:?}");
    // A table with a row now and then has one row group.
    assert_eq!(groups["tp2"], [90]);
    let query = "select run, kind, \"function\", count(*), count(distinct time_ns) > 1 from '*/*/*/table=hits/*.parquet'
        where run = 'steps' and kind = 'hit' group by all order by all";
    let hits = rows(&dataset, &[query]);
    assert_eq!(
        hits,
        [[
            serde_json::json!(["steps", "hit", "rare", 90, true]),
            serde_json::json!(["steps", "hit", "step", 90_000, true]),
        ]]
    );
}
