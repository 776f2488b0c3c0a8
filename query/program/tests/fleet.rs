//! Many hosts write to one dataset at once, and some of the writers and compactions are killed: what is there is whole.

#[path = "../../test/duckdb.rs"]
mod duckdb;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const QUERY: &str = env!("CARGO_BIN_EXE_tracewire-query");

const HOSTS: usize = 16;
const WRITERS: usize = 8;

/// Each of so many writers is killed.
const KILLED: usize = 5;

/// Of each run, how many files there are: its tables.
const TABLES: usize = 8;

/// How many runs; `cargo xtask torture dataset` has 1,000.
fn runs() -> usize {
    let given = std::env::var("TRACEWIRE_FLEET_RUNS").ok();
    given.map_or(40, |runs| runs.parse().expect("a number of runs"))
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/test-support/samples")
        .join(name)
}

fn dataset(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::new(QUERY);
    command.arg("dataset").args(arguments).arg(directory);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn add(number: usize, directory: &Path) -> Command {
    let (run, host) = (
        format!("run-{number:04}"),
        format!("host-{:02}", number % HOSTS),
    );
    let (program, trace) = (sample("sample"), sample("sample.tf"));
    let [program, trace] = [&program, &trace].map(|path| path.to_str().expect("text"));
    let arguments = [
        "add", "--run", &run, "--host", &host, "--elf", program, trace,
    ];
    dataset(&arguments, directory)
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(all).expect("text")
}

/// The standard output of a command that succeeds.
#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().expect("tracewire-query runs");
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// The hidden directories of a process in a dataset, in which a batch is written or removed.
fn has_hidden(directory: &Path, process: u32) -> bool {
    let own = format!(".{process}.");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| name.starts_with(".batch=") && name.contains(&own))
}

/// Kills a process as soon as it writes a batch, unless it ends before.
fn kill_at_work(mut child: Child, directory: &Path) {
    while !has_hidden(directory, child.id()) && child.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    // It may have ended.
    let _ = child.kill();
    child.wait().expect("a child");
}

/// Writes runs in eight processes at a time; some are killed, and every second one of these is started again.
fn write(numbers: std::ops::Range<usize>, directory: &Path) -> BTreeSet<usize> {
    let next = AtomicUsize::new(numbers.start);
    let finished = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    if number.is_multiple_of(KILLED) {
                        kill_at_work(add(number, directory).spawn().expect("started"), directory);
                        if number.is_multiple_of(2 * KILLED) {
                            continue;
                        }
                    }
                    done(&mut add(number, directory));
                    finished.lock().expect("finished").insert(number);
                }
            });
        }
    });
    finished.into_inner().expect("finished")
}

/// The answers to some queries, by this program and by DuckDB.
fn answers(directory: &Path) -> Vec<String> {
    const QUERIES: [&str; 4] = [
        "select run, frames, ending from runs order by run",
        "select run, host, count(*) as hits, sum(frame) as frames, min(time_ns) as first, max(line) as line from hits group by run, host order by run",
        r#"select run, expression, count(*) as times, count(distinct text) as texts from "values" group by run, expression order by run, expression"#,
        "select run, count(*) as hits, min(time_ns) as first, sum(frame) as frames from tp2 group by run order by run",
    ];
    const SCRIPT: &str = "
import sys, duckdb
for table in 'runs', 'hits', 'values', 'tp2':
    files = f'{sys.argv[1]}/batch=*/*/*/table={table}/*.parquet'
    duckdb.sql(f'create view \"{table}\" as select * from read_parquet(\\'{files}\\', union_by_name = true, hive_partitioning = true)')
for query in sys.argv[2:]:
    found = duckdb.sql(query)
    print(','.join(found.columns))
    for row in found.fetchall(): print(','.join('' if value is None else str(value) for value in row))
";
    let own = QUERIES.map(|query| {
        let mut command = Command::new(QUERY);
        done(
            command
                .args(["query", "--format", "csv"])
                .arg(directory)
                .arg(query),
        )
    });
    let mut python = Command::new(duckdb::python());
    let theirs = done(python.args(["-c", SCRIPT]).arg(directory).args(QUERIES));
    for (own, theirs) in own.concat().lines().zip(theirs.lines()) {
        assert_eq!(own, theirs);
    }
    assert_eq!(own.concat().len(), theirs.len());
    own.into()
}

fn files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let count = visible.map(|entry| match entry.path() {
        path if path.is_dir() => files(&path),
        _ => 1,
    });
    count.sum()
}

#[test]
fn a_fleet_writes_to_one_dataset() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = &temporary.path().join("traces");
    let finished = write(0..runs(), directory);
    // A run whose writer was killed is there whole, or it is not there.
    let found = answers(directory);
    let known: BTreeSet<usize> = (found[0].lines().skip(1))
        .map(|line| line[4..8].parse().expect("a number"))
        .collect();
    assert!(
        finished.is_subset(&known),
        "{:?}",
        finished.difference(&known)
    );
    assert!(
        known.len() >= runs() - runs().div_ceil(2 * KILLED),
        "{}",
        known.len()
    );
    let checked = done(&mut dataset(&["check"], directory));
    assert!(
        checked
            .lines()
            .all(|line| line.starts_with("warning: ") && line.contains("not finished")),
        "{checked}"
    );
    let before = files(directory);
    assert_eq!(before, known.len() * TABLES);

    // Compactions that are killed change no answer of this program; the last one leaves one batch for each host.
    for _ in 0..3 {
        let child = dataset(&["compact"], directory).spawn().expect("started");
        kill_at_work(child, directory);
        let mut command = Command::new(QUERY);
        let sql = "select run, frames, ending from runs order by run";
        let answer = done(
            command
                .args(["query", "--format", "csv"])
                .arg(directory)
                .arg(sql),
        );
        assert_eq!(answer, found[0]);
    }
    done(&mut dataset(&["compact"], directory));
    let after = files(directory);
    assert!(
        2 * after <= before && after <= HOSTS * TABLES,
        "{before} and {after} files"
    );
    assert_eq!(answers(directory), found);

    // Writers go on, and what is left of those that were killed is removed.
    done(&mut add(runs(), directory));
    done(&mut add(*finished.first().expect("a run"), directory));
    done(&mut dataset(&["prune", "--unfinished"], directory));
    assert_eq!(done(&mut dataset(&["check"], directory)), "");
    assert_eq!(files(directory), after + TABLES);
    eprintln!("{} runs: {before} files, {after} compacted", known.len());
}
