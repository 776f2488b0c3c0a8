//! `sample` and `first`: the frames are as many as were asked for, of each key, by jumps, by traps and by both, with eight threads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tracewire_test_support::Cc;

use crate::{Requests, THREADS, hits};

/// The rows of a tracepoint that are frames or spans.
fn rows(requests: &Requests, file: &str, number: u64) -> Vec<Value> {
    let option = format!("--tracepoint={number}");
    let mut rows = requests.shown(file, &option);
    rows.retain(|row| row["kind"] != "aggregate");
    rows
}

/// A collected value as text.
fn value(row: &Value, name: &str) -> String {
    let values = row["values"].as_array().expect("values");
    let found = values.iter().find(|value| value["expression"] == name);
    let found = found.unwrap_or_else(|| panic!("{name} of {row}"));
    found["value"].as_str().expect("a text").to_owned()
}

/// How many rows there are of each value.
fn by(rows: &[Value], name: &str) -> BTreeMap<String, u64> {
    rows.iter().fold(BTreeMap::new(), |mut counts, row| {
        *counts.entry(value(row, name)).or_default() += 1;
        counts
    })
}

/// The numbers of an aggregate by its single key.
fn counted(requests: &Requests, file: &str, number: i64, name: &str) -> BTreeMap<String, u64> {
    let rows = &requests.aggregates(file)[&(number, name.to_owned())];
    let number = |row: &Value| row["value"].as_u64().expect("a number");
    let key = |key: &str| key.trim_matches(['[', ']', '"']).to_owned();
    rows.iter()
        .map(|(name, row)| (key(name), number(row)))
        .collect()
}

/// As many as a pick of each key takes, of these hits.
fn picked(hits: &BTreeMap<String, u64>, pick: impl Fn(u64) -> u64) -> BTreeMap<String, u64> {
    let hits = hits.iter();
    hits.map(|(key, hits)| (key.clone(), pick(*hits))).collect()
}

#[test]
fn a_pick_makes_as_many_frames_as_it_says() {
    let requests = Requests::build();
    let all = THREADS * hits();
    for mechanism in ["jump", "trap", "best"] {
        let options = ["--mechanism", mechanism];
        let options = if mechanism == "best" {
            &[][..]
        } else {
            &options
        };
        requests.record(
            options,
            &[
                "serve sample 1/100 : n",
                "serve first 7 by r->route : r->kind, count() by r->route",
                "serve if n > 3 sample 1/9 by r->kind : r->kind, n, count() by r->kind",
                "span serve sample 1/100 : n, $retval",
                "span serve if n > 3 first 5 by r->fd, r->kind : r->fd, n, $retval, $duration",
                "return serve first 5 by r->kind : r->kind, $retval",
                "span serve if $duration >= 0ns sample 1/10 : n",
                "serve first 9 : n",
            ],
            "out.tf",
            hits(),
        );
        let rows = |number| rows(&requests, "out.tf", number);
        let counted = |number, name: &str| counted(&requests, "out.tf", number, name);
        let total = BTreeMap::from([(String::new(), all)]);

        assert_eq!(rows(1).len() as u64, all.div_ceil(100), "{mechanism}");
        assert_eq!(counted(1, "sample 1/100"), total);

        let by_route = counted(2, "count() by r->route");
        assert_eq!(counted(2, "first 7 by r->route"), by_route);
        assert_eq!(by_route.values().sum::<u64>(), all);
        assert_eq!(rows(2).len(), 7 * by_route.len(), "{mechanism}");

        let by_kind = counted(3, "count() by r->kind");
        assert_eq!(counted(3, "sample 1/9 by r->kind"), by_kind);
        let found = rows(3);
        let wanted = picked(&by_kind, |hits| hits.div_ceil(9));
        assert_eq!(by(&found, "r->kind"), wanted, "{mechanism}");
        let number = |row: &Value| value(row, "n").parse::<i64>().expect("a number");
        assert!(found.iter().all(|row| number(row) > 3), "{found:?}");

        let spans = rows(4);
        assert_eq!(spans.len() as u64, all.div_ceil(100), "{mechanism}");
        assert_eq!(counted(4, "sample 1/100"), total);
        for span in &spans {
            assert_eq!(span["kind"], "span", "{span}");
            assert_eq!(span["ended"], "return", "{span}");
            value(span, "$retval");
        }

        let spans = rows(5);
        let pairs = &requests.aggregates("out.tf")[&(5, "first 5 by r->fd, r->kind".to_owned())];
        let hits = |row: &Value| row["value"].as_u64().expect("a number").min(5);
        assert_eq!(
            spans.len() as u64,
            pairs.values().map(hits).sum::<u64>(),
            "{mechanism}"
        );
        assert!(
            spans.iter().all(|span| span["ended"] == "return"),
            "{spans:?}"
        );

        let returns = rows(6);
        let kinds = counted(6, "first 5 by r->kind");
        assert_eq!(
            by(&returns, "r->kind"),
            picked(&kinds, |hits| hits.min(5)),
            "{mechanism}"
        );

        assert_eq!(rows(7).len() as u64, all.div_ceil(10), "{mechanism}");
        assert_eq!(rows(8).len(), 9, "{mechanism}");

        let info: Value =
            serde_json::from_str(&requests.tracewire(&["info", "out.tf", "--json"])).expect("JSON");
        let tracepoints = info["tracepoints"].as_array().expect("a list");
        let first = tracepoints
            .iter()
            .find(|one| one["number"] == 1)
            .expect("number 1");
        assert_eq!(first["hits"], all, "a hit that is skipped is a hit");
        assert_eq!(first["skipped"], all - all.div_ceil(100));
        assert_eq!(first["source"]["pick"], "sample 1/100");
    }
}

/// Pads and stops count in the same table.
#[test]
fn a_pick_is_one_for_jumps_and_traps() {
    let requests = Requests::build();
    let picks = ["first 100", "sample 1/50"];
    let specifications = picks.map(|pick| format!("/^(serve|tiny)$/ {pick} : $pc"));
    let specifications = specifications.each_ref().map(String::as_str);
    requests.record(&[], &specifications, "out.tf", hits());
    let info: Value =
        serde_json::from_str(&requests.tracewire(&["info", "out.tf", "--json"])).expect("JSON");
    let tracepoints = info["tracepoints"].as_array().expect("a list");
    let mechanism = |one: &Value| one["mechanism"].as_str().expect("a mechanism").to_owned();
    let mechanisms: Vec<String> = tracepoints.iter().map(mechanism).collect();
    assert!(mechanisms.contains(&"trap".to_owned()), "{mechanisms:?}");
    assert!(mechanisms.iter().any(|one| one != "trap"), "{mechanisms:?}");
    let all = 2 * THREADS * hits();
    assert_eq!(rows(&requests, "out.tf", 1).len(), 100);
    assert_eq!(rows(&requests, "out.tf", 2).len() as u64, all.div_ceil(50));
    for (number, pick) in (1..).zip(picks) {
        let total = BTreeMap::from([(String::new(), all)]);
        assert_eq!(counted(&requests, "out.tf", number, pick), total);
    }
}

/// Of the hits of two files, both picks' frames are there, and the numbers of all hits are added.
#[test]
fn picks_of_merged_files_add_up() {
    let requests = Requests::build();
    for file in ["a.tf", "b.tf"] {
        requests.record(&[], &["serve first 3 by r->kind : r->kind"], file, 40);
    }
    requests.tracewire(&["convert", "a.tf", "b.tf", "both.tf"]);
    let name = "first 3 by r->kind";
    let one = counted(&requests, "a.tf", 1, name);
    let both = &requests.shown("both.tf", "--aggregates");
    let sum: u64 = both
        .iter()
        .map(|row| row["value"].as_u64().expect("a number"))
        .sum();
    assert_eq!(sum, 2 * one.values().sum::<u64>());
    let frames = requests.shown("both.tf", "--tracepoint=1");
    assert_eq!(
        frames
            .iter()
            .filter(|row| row["kind"] != "aggregate")
            .count(),
        18
    );
}

/// Pads keep some thousand open calls. A picked call that finds no place has neither of its frames, and is told: by jumps, and where
/// a jump begins calls that a trap ends, and the other way around. A run without pads keeps all.
#[test]
fn picked_calls_that_find_no_place_are_told() {
    let calls = 20_000;
    let functions = ["deep", "tight"];
    for (code, mechanism) in [("-pie", "jump"), ("-no-pie", "best"), ("-pie", "trap")] {
        let directory = tempfile::tempdir().expect("a directory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counts/programs/deep.c");
        let program = Cc::of("gcc")
            .option("-g")
            .option("-O0")
            .option(code)
            .source(source)
            .build(directory.path(), "deep");
        let requests = Requests { directory, program };
        for (pick, picked) in [("sample 1/2", calls / 2), ("first 15000", 15_000)] {
            let spans = functions.iter();
            let spans: Vec<String> = spans
                .map(|function| format!("span {function} {pick} : $rdi"))
                .collect();
            let mut arguments = vec!["record", "-o", "out.tf"];
            if mechanism != "best" {
                arguments.extend(["--mechanism", mechanism]);
            }
            arguments.extend(spans.iter().flat_map(|span| ["-t", span]));
            let program = requests.program.to_str().expect("a name");
            let calls_text = calls.to_string();
            arguments.extend(["--", program, &calls_text]);
            let said = requests.said(&arguments);

            let mut lost = 0;
            for (number, function) in (1..).zip(functions) {
                let case = format!("{function} {mechanism} {pick}");
                let rows = rows(&requests, "out.tf", number);
                let ended = rows.iter().filter(|row| row["ended"] == "return");
                let seen = rows.len() as u64;
                assert_eq!(ended.count() as u64, seen, "{case}: spans without an end");
                if mechanism != "trap" {
                    assert!((2_048..=4_112).contains(&seen), "{case}: {seen} spans");
                }
                lost += picked - seen;
                let total = BTreeMap::from([(String::new(), calls)]);
                let number = i64::try_from(number).expect("a number");
                assert_eq!(counted(&requests, "out.tf", number, pick), total, "{case}");
                let hits = format!("tracepoint {number} {calls}");
                assert!(said.contains(&hits), "{case}: {said}");
            }
            match mechanism {
                "trap" => assert_eq!(lost, 0, "{pick}"),
                _ => {
                    let reported = format!("{lost} spans lost: too many calls were open at once");
                    assert!(
                        said.contains(&reported),
                        "{mechanism} {pick}: {lost}: {said}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_picked_is_said() {
    let requests = Requests::build();
    for (specification, words) in [
        ("serve sample 2/3 : n", "expected sample 1/N"),
        ("serve first 0 : n", "expected first N"),
        (
            "serve first 3 by r->fd if n > 3 : n",
            "PLACE if COND first 3 by r->fd",
        ),
        ("serve first 3 by : n", "a key after `by`"),
        ("serve first 3 : count()", "a list of aggregates makes none"),
        (
            "span serve first 3 by $retval : n",
            "neither $retval nor $duration",
        ),
        (
            "span serve if $duration > 1ms first 3 : n",
            "`first` cannot",
        ),
        (
            "span serve sample 1/3 : n, hist($duration)",
            "set a second tracepoint",
        ),
        ("serve first 3 by nothing : n", "nothing"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(["record", "-o", "out.tf", "-t", specification, "--"])
            .arg(&requests.program)
            .current_dir(requests.directory.path())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{specification}");
        assert!(said.contains(words), "{specification}: {said}");
    }
}
