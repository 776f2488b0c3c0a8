//! Tracepoints that enable and disable others at a hit, beside the program's own log.

use serde_json::Value;
use tracewire_test_support::Gdb;

use crate::support::{Built, Ran, value};

/// Calls `begin`, `end` and `work` in an order that looks random, and prints it. Some calls of `work` call `end`.
const CALLS: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #define PLACE __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" : "+r" (n))
    __attribute__((noinline)) long begin(long n) { PLACE; printf("begin %ld\n", n); return n; }
    __attribute__((noinline)) long end(long n) { PLACE; printf("end %ld\n", n); return n; }
    __attribute__((noinline)) long work(long n)
    {
        PLACE;
        printf("work %ld\n", n);
        return n % 7 == 0 ? end(n) + 1 : n;
    }
    int main(int number, char **words)
    {
        unsigned state = 1;
        for (long n = 1; n <= atol(words[1]); n++) {
            state = state * 1103515245 + 12345;
            switch (state >> 16 & 7) {
            case 0: begin(n); break;
            case 1: end(n); break;
            default: work(n);
            }
        }
        return number - 2;
    }
"#;

const CALLS_MADE: &str = "400";

fn calls() -> Built {
    Built::new(CALLS, &["-O1"])
}

/// The calls in the program's log: the function and its number.
fn log(printed: &str) -> Vec<(&str, u64)> {
    let lines = printed.lines().map(|line| line.split_once(' '));
    let calls = lines.map(|line| line.expect("a name and a number"));
    calls
        .map(|(name, number)| (name, number.parse().expect("a number")))
        .collect()
}

/// The calls of `work` in the log that come after `begin` and before `end`.
fn between(printed: &str, is_enabled: bool) -> Vec<u64> {
    let mut is_enabled = is_enabled;
    let mut found = Vec::new();
    for (name, number) in log(printed) {
        match name {
            "begin" => is_enabled = true,
            "end" => is_enabled = false,
            _ if is_enabled => found.push(number),
            _ => {}
        }
    }
    found
}

/// The values of `n` in the frames of a tracepoint.
fn numbers(frames: &[Value], tracepoint: u64) -> Vec<u64> {
    let own = frames
        .iter()
        .filter(|frame| frame["tracepoint"] == tracepoint && frame["kind"] != "aggregate");
    own.map(|frame| {
        let n = value(frame, "n").expect("collected");
        n.parse().expect("a number")
    })
    .collect()
}

const MECHANISMS: [&str; 2] = ["jump", "trap"];

/// Records the program with these tracepoints into `out.tf`.
fn record(built: &Built, mechanism: &str, tracepoints: &[&str]) -> Ran {
    let mut words = vec!["record", "--mechanism", mechanism, "-o", "out.tf"];
    words.extend(
        tracepoints
            .iter()
            .flat_map(|tracepoint| ["-t", *tracepoint]),
    );
    words.extend(["--", "./program", CALLS_MADE]);
    built.run(&words).code(0)
}

#[test]
fn a_hit_enables_and_disables_another_tracepoint() {
    let built = calls();
    for mechanism in MECHANISMS {
        for place in ["work", "disabled work"] {
            let specification = format!("{place} if n > 20 : n");
            let ran = record(
                &built,
                mechanism,
                &[
                    "begin : n, enable(3)",
                    "end : n, disable(3)",
                    &specification,
                ],
            );
            let mut expected = between(&ran.stdout, place == "work");
            expected.retain(|n| *n > 20);
            assert!(expected.len() > 50, "{}", ran.stdout);
            let frames = built.frames();
            assert_eq!(numbers(&frames, 3), expected, "{mechanism}, {place}");
            let all = log(&ran.stdout);
            for (tracepoint, function) in [(1, "begin"), (2, "end")] {
                let own = all.iter().filter(|(name, _)| *name == function);
                let own: Vec<u64> = own.map(|(_, number)| *number).collect();
                assert_eq!(numbers(&frames, tracepoint), own, "{mechanism}");
            }
            let info = built.info();
            let hits = info["tracepoints"].as_array().expect("a list").iter();
            let hits: Vec<&Value> = hits
                .filter(|one| one["number"] == 3)
                .map(|one| &one["hits"])
                .collect();
            assert_eq!(hits, [&Value::from(expected.len())]);
        }
    }
}

/// A script with `disable` and lines of `actions`.
#[test]
fn a_script_enables_and_disables_at_hits() {
    let built = calls();
    let script = "trace begin\nactions\ncollect n\nenable 3 4\nend\ntrace end\nactions\ndis 3-4\nend\n\
                  trace work\nactions\ncollect n\ndisable 3\nend\ntrace work if n % 2 == 0\nactions\ncollect n\nend\ndisable 3 4\n";
    std::fs::write(built.path("script"), script).expect("written");
    for mechanism in MECHANISMS {
        let ran = built
            .run(&[
                "record",
                "--mechanism",
                mechanism,
                "-o",
                "out.tf",
                "-x",
                "script",
                "--",
                "./program",
                CALLS_MADE,
            ])
            .code(0);
        // Each `begin` enables one hit.
        let mut first = Vec::new();
        let mut is_enabled = false;
        for (name, number) in log(&ran.stdout) {
            match name {
                "begin" => is_enabled = true,
                "end" => is_enabled = false,
                _ if std::mem::take(&mut is_enabled) => first.push(number),
                _ => {}
            }
        }
        let mut even = between(&ran.stdout, false);
        even.retain(|n| n % 2 == 0);
        let frames = built.frames();
        assert_eq!(numbers(&frames, 3), first, "{mechanism}");
        assert_eq!(numbers(&frames, 4), even, "{mechanism}");
    }
    // GDB opens the file, and shows the variable that has the tracepoint's state.
    let commands = ["target tfile out.tf", "info tvariables", "info tracepoints"];
    let gdb = Gdb::new().program(&built.program);
    let said = gdb.directory(built.folder.path()).commands(commands).run();
    said.assert_in_order(&[
        "$enabled_4",
        "$enabled_3",
        "teval $enabled_3 = 1, $enabled_4 = 1",
        "trace only if $enabled_3 != 0",
        "trace only if $enabled_4 != 0 && (n % 2 == 0)",
    ]);
}

/// A call that was enabled when it began is seen to its end.
#[test]
fn a_span_is_enabled_and_disabled_at_its_entry() {
    let built = calls();
    for mechanism in MECHANISMS {
        let ran = record(
            &built,
            mechanism,
            &[
                "begin : enable(3)",
                "end : disable(3)",
                "disabled span work if $retval > 20 : n, $retval, count() by n / 100",
            ],
        );
        let mut expected = between(&ran.stdout, false);
        let counted = expected.iter().filter(|n| *n + u64::from(*n % 7 == 0) > 20);
        let counted = counted.count() as u64;
        expected.retain(|n| n + u64::from(n % 7 == 0) > 20);
        let frames = built.frames();
        assert_eq!(numbers(&frames, 3), expected, "{mechanism}");
        for span in frames.iter().filter(|frame| frame["kind"] == "span") {
            assert_eq!(span["ended"], "return", "{mechanism}: {span}");
        }
        let shown = built.run(&["show", "--aggregates", "--json", "out.tf"]);
        let rows = shown.code(0).json();
        let all: u64 = rows.iter().filter_map(|row| row["value"].as_u64()).sum();
        assert_eq!(all, counted, "{mechanism}: {rows:?}");
    }
}

#[test]
fn what_cannot_be_enabled_is_refused_at_its_words() {
    let built = calls();
    let record = |specification: &str| {
        let words = ["record", "-o", "out.tf", "-t", specification];
        built.run(&[&words[..], &["--", "./program", "1"]].concat())
    };
    for (specification, words) in [
        ("begin : enable(7)", "there is no tracepoint number 7"),
        ("begin : enable()", "the number of a tracepoint expected"),
        (
            "begin : n, disable(x)",
            "the number of a tracepoint, N or N-M, expected",
        ),
        (
            "begin : enable(1-5000)",
            "1000 tracepoints at most expected",
        ),
    ] {
        record(specification).code(2).says(&[words, "^"]);
    }
    let script =
        "tvariable $enabled_1 = 3\ntrace begin\nactions\nwhile-stepping 1\nenable 1\nend\nend\n";
    std::fs::write(built.path("script"), script).expect("written");
    let words = [
        "record",
        "-o",
        "out.tf",
        "-x",
        "script",
        "--",
        "./program",
        "1",
    ];
    built
        .run(&words)
        .code(2)
        .says(&["put this line before while-stepping"]);
    let script = script.replace("while-stepping 1\nenable 1\nend\n", "enable 1\n");
    std::fs::write(built.path("script"), script).expect("written");
    built
        .run(&words)
        .code(2)
        .says(&["$enabled_1 says whether the tracepoint is enabled"]);
}
