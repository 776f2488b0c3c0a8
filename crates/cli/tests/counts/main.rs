//! Aggregates: they equal the results from the frames of the same run, by jumps, by traps and by both, with eight threads.
//!
//! `TRACEWIRE_COUNT_HITS` sets how many requests each thread makes. More than 100,000 are recorded by one mechanism only, into a lean
//! recording: a trace file would fill the disk.

mod picks;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tracewire_test_support::{Cc, Gdb, assert_clean};

const THREADS: u64 = 8;

fn hits() -> u64 {
    let hits = std::env::var("TRACEWIRE_COUNT_HITS").ok();
    hits.and_then(|hits| hits.parse().ok()).unwrap_or(150)
}

struct Requests {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Requests {
    fn build() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counts/programs/requests.c");
        let program = Cc::of("gcc")
            .option("-g")
            .option("-O2")
            .option("-no-pie")
            .option("-pthread")
            .source(source)
            .build(directory.path(), "requests");
        Self { directory, program }
    }

    fn tracewire(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.succeeds(arguments).stdout).expect("text")
    }

    /// What a command says beside its output.
    fn said(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.succeeds(arguments).stderr).expect("text")
    }

    fn succeeds(&self, arguments: &[&str]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        output
    }

    fn record(&self, options: &[&str], specifications: &[&str], output: &str, hits: u64) -> String {
        let mut arguments = vec!["record"];
        arguments.extend(options);
        for specification in specifications {
            arguments.extend(["-t", specification]);
        }
        let program = self.program.to_str().expect("a name");
        let (threads, hits) = (THREADS.to_string(), hits.to_string());
        arguments.extend(["-o", output, "--", program, &threads, &hits]);
        let said = self.tracewire(&arguments);
        assert_clean(&self.directory.path().join(output));
        said
    }

    fn shown(&self, file: &str, option: &str) -> Vec<Value> {
        let shown = self.tracewire(&["show", file, "--json", option]);
        shown
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// The requests of the first tracepoint's spans, each kind with its number. Their rows are read one by one.
    fn requests(&self, file: &str) -> Vec<(Request, u64)> {
        let mut show = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(["show", file, "--json", "--tracepoint=1"])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let mut shown = BufReader::new(show.stdout.take().expect("a pipe"));
        let mut counts: HashMap<String, u64> = HashMap::new();
        let mut row = String::new();
        while shown.read_line(&mut row).expect("text") > 0 {
            if row.contains("\"kind\":\"span\"") {
                let values = row.split_once("\"values\":").expect("values").1;
                let values = values.trim_end().strip_suffix('}').expect("a row");
                match counts.get_mut(values) {
                    Some(count) => *count += 1,
                    None => _ = counts.insert(values.to_owned(), 1),
                }
            }
            row.clear();
        }
        assert!(show.wait().expect("it ends").success());
        let counts = counts.into_iter();
        let request =
            |values: &str| Request::of(&serde_json::from_str::<Value>(values).expect("JSON"));
        counts
            .map(|(values, count)| (request(&values), count))
            .collect()
    }

    /// The rows of each aggregate by their keys.
    fn aggregates(&self, file: &str) -> BTreeMap<(i64, String), BTreeMap<String, Value>> {
        let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for row in self.shown(file, "--aggregates") {
            let name = row["aggregate"].as_str().expect("a name").to_owned();
            let number = row["tracepoint"].as_i64().expect("a number");
            let key = row["key"].to_string();
            let known = all.entry((number, name)).or_default().insert(key, row);
            assert_eq!(known, None, "a key is there twice");
        }
        all
    }
}

/// A request as the values of its frame have it.
#[derive(Clone, Debug)]
struct Request {
    kind: String,
    fd: i64,
    bytes: i64,
    route: String,
    n: i64,
    value: i64,
}

impl Request {
    fn of(values: &Value) -> Self {
        let text = |name: &str| {
            let all = values.as_array().expect("values");
            let value = all.iter().find(|value| value["expression"] == name);
            let value = value.unwrap_or_else(|| panic!("{name} of {values}"));
            value["value"].as_str().expect("a text").to_owned()
        };
        let number = |name: &str| text(name).parse().expect("a number");
        Self {
            kind: text("r->kind"),
            fd: number("r->fd"),
            bytes: number("r->bytes"),
            route: text("r->route")
                .split('"')
                .nth(1)
                .expect("a text")
                .to_owned(),
            n: number("n"),
            value: number("$retval"),
        }
    }
}

/// Values, each with how often it was there.
type Values = [(i64, u64)];

/// The frames' values for an aggregate, for each key.
fn expected(
    requests: &[(Request, u64)],
    keys: impl Fn(&Request) -> Value,
    value: impl Fn(&Request) -> Option<i64>,
) -> BTreeMap<String, Vec<(i64, u64)>> {
    let mut all: BTreeMap<String, Vec<(i64, u64)>> = BTreeMap::new();
    for (request, count) in requests {
        if let Some(value) = value(request) {
            all.entry(keys(request).to_string())
                .or_default()
                .push((value, *count));
        }
    }
    all
}

fn count(values: &Values) -> u64 {
    values.iter().map(|(_, count)| count).sum()
}

fn sum(values: &Values) -> i64 {
    let each = values.iter();
    each.map(|(value, count)| value * count.cast_signed()).sum()
}

fn compare(
    found: &BTreeMap<(i64, String), BTreeMap<String, Value>>,
    number: i64,
    name: &str,
    expected: &BTreeMap<String, Vec<(i64, u64)>>,
    of: impl Fn(&Values) -> Value,
) {
    let empty = BTreeMap::new();
    let rows = found.get(&(number, name.to_owned())).unwrap_or(&empty);
    let field = match name.starts_with("hist") {
        true => "buckets",
        false => "value",
    };
    let rows: BTreeMap<&String, Value> = rows
        .iter()
        .map(|(key, row)| (key, rounded(&row[field])))
        .collect();
    let wanted: BTreeMap<&String, Value> = expected
        .iter()
        .map(|(key, values)| (key, rounded(&of(values))))
        .collect();
    assert_eq!(rows, wanted, "{name} of tracepoint {number}");
}

/// A quotient with as many digits as a reader of JSON need keep.
fn rounded(value: &Value) -> Value {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(quotient) => format!("{quotient:.12e}").into(),
        None => value.clone(),
    }
}

fn powers(values: &Values) -> Value {
    buckets(values, |value| match value {
        ..0 => (Value::Null, 0.into()),
        0 => (0.into(), 1.into()),
        _ => {
            let low = 1_i64 << value.ilog2();
            (low.into(), (low * 2).into())
        }
    })
}

fn linear(values: &Values, low: i64, high: i64, step: i64) -> Value {
    buckets(values, |value| match value {
        _ if value < low => (Value::Null, low.into()),
        _ if value >= high => (high.into(), Value::Null),
        _ => {
            let start = low + (value - low) / step * step;
            (start.into(), (start + step).min(high).into())
        }
    })
}

fn buckets(values: &Values, range: impl Fn(i64) -> (Value, Value)) -> Value {
    let mut counts: BTreeMap<i64, (Value, Value, u64)> = BTreeMap::new();
    for (value, count) in values {
        let (low, high) = range(*value);
        let place = low.as_i64().unwrap_or(i64::MIN);
        counts.entry(place).or_insert((low, high, 0)).2 += count;
    }
    let counts = counts.into_values();
    counts
        .map(|(low, high, count)| serde_json::json!([low, high, count]))
        .collect()
}

const SPECIFICATIONS: [&str; 8] = [
    "span serve : r->kind, r->fd, r->bytes, /s r->route, n, $retval",
    "serve : count() by r->kind",
    "serve : sum(r->bytes), avg(r->bytes), min(r->bytes), max(r->bytes) by r->fd",
    "serve if n > 3 : hist(n), hist(r->bytes, 0, 1000, 100) by r->route",
    "serve : top(2, r->route), count()",
    "span serve : count(), sum(n) by r->route, r->kind",
    "return serve if $retval > 10 && n < 8 : count(), max($retval), hist($retval) by r->fd",
    "span serve if $duration >= 0ns : hist($duration), count() by r->route",
];

fn check(requests: &Requests, mechanism: &str, output: &str) {
    let hits = hits();
    let options = ["--mechanism", mechanism];
    let options = if mechanism == "best" {
        &[][..]
    } else {
        &options
    };
    requests.record(options, &SPECIFICATIONS, output, hits);
    let frames = requests.requests(output);
    let all: u64 = frames.iter().map(|(_, count)| count).sum();
    assert_eq!(all, THREADS * hits, "{mechanism}");
    let found = requests.aggregates(output);
    let compare = |number, name: &str, wanted: &BTreeMap<_, _>, of: &dyn Fn(&Values) -> Value| {
        compare(&found, number, name, wanted, of);
    };
    let counted = |values: &Values| count(values).into();
    let summed = |values: &Values| sum(values).into();
    let least = |values: &Values| values.iter().map(|(value, _)| *value).min().into();
    let most = |values: &Values| values.iter().map(|(value, _)| *value).max().into();
    let none = |_: &Request| serde_json::json!([]);

    let by_kind = expected(&frames, |r| serde_json::json!([r.kind]), |_| Some(1));
    compare(2, "count() by r->kind", &by_kind, &counted);

    let bytes = expected(&frames, |r| serde_json::json!([r.fd]), |r| Some(r.bytes));
    compare(3, "sum(r->bytes) by r->fd", &bytes, &summed);
    compare(3, "min(r->bytes) by r->fd", &bytes, &least);
    compare(3, "max(r->bytes) by r->fd", &bytes, &most);
    compare(3, "avg(r->bytes) by r->fd", &bytes, &|values| {
        (sum(values) as f64 / count(values) as f64).into()
    });

    let route = |r: &Request| serde_json::json!([r.route]);
    let of_n = expected(&frames, route, |r| (r.n > 3).then_some(r.n));
    compare(4, "hist(n) by r->route", &of_n, &powers);
    let of_bytes = expected(&frames, route, |r| (r.n > 3).then_some(r.bytes));
    let hundreds = |values: &Values| linear(values, 0, 1000, 100);
    compare(
        4,
        "hist(r->bytes, 0, 1000, 100) by r->route",
        &of_bytes,
        &hundreds,
    );

    let by_route = expected(&frames, route, |_| Some(1));
    let mut commonest: Vec<u64> = by_route.values().map(|values| count(values)).collect();
    commonest.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    commonest.truncate(2);
    let top = &found[&(5, "top(2, r->route)".to_owned())];
    let mut shown: Vec<u64> = top
        .values()
        .map(|row| row["value"].as_u64().expect("a count"))
        .collect();
    shown.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    assert_eq!(shown, commonest);
    compare(
        5,
        "count()",
        &expected(&frames, none, |_| Some(1)),
        &counted,
    );

    let both = |r: &Request| serde_json::json!([r.route, r.kind]);
    let of_n = expected(&frames, both, |r| Some(r.n));
    compare(6, "count() by r->route, r->kind", &of_n, &counted);
    compare(6, "sum(n) by r->route, r->kind", &of_n, &summed);

    let fd = |r: &Request| serde_json::json!([r.fd]);
    let returned = |r: &Request| (r.value > 10 && r.n < 8).then_some(r.value);
    let values = expected(&frames, fd, returned);
    compare(7, "count() by r->fd", &values, &counted);
    compare(7, "max($retval) by r->fd", &values, &most);
    compare(7, "hist($retval) by r->fd", &values, &powers);

    // The durations are the program's own; all calls are among them.
    compare(8, "count() by r->route", &by_route, &counted);
    for (key, row) in &found[&(8, "hist($duration) by r->route".to_owned())] {
        let buckets = row["buckets"].as_array().expect("buckets").iter();
        let all: u64 = buckets
            .map(|bucket| bucket[2].as_u64().expect("a count"))
            .sum();
        assert_eq!(all, count(&by_route[key]), "{key}");
    }
}

#[test]
fn aggregates_equal_those_of_the_frames() {
    let requests = Requests::build();
    check(&requests, "best", "out.twr");
    if hits() <= 100_000 {
        check(&requests, "jump", "out.tf");
        check(&requests, "trap", "out.tf");
    }
}

#[test]
fn a_run_that_counts_makes_no_frames_and_gdb_opens_its_file() {
    let requests = Requests::build();
    let said = requests.record(
        &["--live", "--json"],
        &[
            "serve : count(), sum(n) by r->kind",
            "span serve : hist($duration)",
        ],
        "out.tf",
        100,
    );
    let live: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(live, requests.shown("out.tf", "--aggregates"));
    assert_eq!(
        live,
        requests
            .shown("out.tf", "--tracepoint=1")
            .into_iter()
            .chain(requests.shown("out.tf", "--tracepoint=2"))
            .collect::<Vec<_>>()
    );
    assert!(
        live.iter().all(|row| row["kind"] == "aggregate"),
        "{live:?}"
    );
    let script = requests.directory.path().join("out.gdb");
    let program = requests.program.display();
    std::fs::write(
        &script,
        format!("file {program}\ntarget tfile out.tf\ninfo tracepoints\ntstatus\n"),
    )
    .expect("a script");
    let said = Gdb::new()
        .directory(requests.directory.path())
        .script(&script)
        .run()
        .all();
    assert!(said.contains("Created tracepoint 2"), "{said}");
    assert!(said.contains("Collected 0 trace frames"), "{said}");
}

#[test]
fn what_is_not_counted_is_said() {
    let requests = Requests::build();
    for mechanism in ["jump", "trap"] {
        requests.record(
            &["--mechanism", mechanism],
            &["serve : count() by r->note", "serve : count() by r->kind"],
            "out.tf",
            50,
        );
        let found = requests.aggregates("out.tf");
        let notes = &found[&(1, "count() by r->note".to_owned())];
        let kinds = &found[&(2, "count() by r->kind".to_owned())];
        let unreadable = &notes["null"]["unreadable"];
        assert_eq!(unreadable, &kinds["[\"GET\"]"]["value"], "{mechanism}");
        let fine = notes["[\"fine\"]"]["value"].as_u64().expect("a count");
        assert_eq!(fine + unreadable.as_u64().expect("a count"), THREADS * 50);
    }
    // More keys than a table has room for.
    let hits = 10_000;
    requests.record(
        &["--mechanism", "jump"],
        &["serve : count() by r->id"],
        "out.tf",
        hits,
    );
    let mut rows = requests.shown("out.tf", "--aggregates");
    let last = rows.pop().expect("a row");
    let without_room = last["without_room"].as_u64().expect("hits without room");
    assert!(without_room > 0);
    assert_eq!(rows.len() as u64 + without_room, THREADS * hits);
    assert!(rows.iter().all(|row| row["value"] == 1));
    assert!(rows.len() > 4000, "{} keys", rows.len());
}

#[test]
fn merged_files_add_up() {
    let requests = Requests::build();
    let specifications = ["serve : count(), avg(n), min(r->bytes), hist(n) by r->route"];
    for file in ["a.tf", "b.tf"] {
        requests.record(&[], &specifications, file, 40);
    }
    requests.tracewire(&["convert", "a.tf", "b.tf", "both.tf"]);
    assert_clean(&requests.directory.path().join("both.tf"));
    let (one, both) = (requests.aggregates("a.tf"), requests.aggregates("both.tf"));
    let number = |row: &Value| row["value"].as_u64().expect("a number");
    for ((tracepoint, name), rows) in &one {
        let merged: &BTreeMap<String, Value> = both
            .iter()
            .find(|((_, other), _)| other == name)
            .map(|(_, rows)| rows)
            .expect("the same aggregate");
        assert_eq!(rows.len(), merged.len(), "{tracepoint} {name}");
        for (key, row) in rows {
            // The program does the same in both runs.
            let merged = &merged[key];
            match name.split('(').next() {
                Some("count") => assert_eq!(2 * number(row), number(merged)),
                Some("hist") => {
                    let count = |row: &Value| -> u64 {
                        let buckets = row["buckets"].as_array().expect("buckets");
                        buckets
                            .iter()
                            .map(|bucket| bucket[2].as_u64().expect("a count"))
                            .sum()
                    };
                    assert_eq!(2 * count(row), count(merged));
                }
                _ => assert_eq!(row["value"], merged["value"]),
            }
        }
    }
}
