//! `convert` to CSV: a line for each row that `show` has, with the same values.

use std::collections::HashMap;
use std::fs;

use serde_json::Value;

use crate::support::Built;

/// Calls functions with a structure, a text and a variable that has the name of a column.
const CALLS: &str = r#"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

struct pair { int a; const char *text; };

static jmp_buf out;

__attribute__ ((noinline)) int
twice (int n, struct pair *p)
{
  __asm__ volatile ("" ::: "memory");
  if (n % 1000 == 999)
    longjmp (out, 1);
  return n * 2 + p->a;
}

__attribute__ ((noinline)) void
note (const char *frame, double half)
{
  __asm__ volatile ("" : : "r" (frame), "x" (half) : "memory");
}

int
main (int count, char **arguments)
{
  static const char *texts[] = { "plain", "with, a comma", "with \"quotes\"", "" };
  volatile int calls = atol (arguments[1]);
  for (volatile int n = 0; n < calls; n++)
    {
      struct pair pair = { n, texts[n % 4] };
      if (setjmp (out) == 0)
        twice (n, &pair);
      if (n % 100 == 0)
        note (pair.text, n / 2.0);
    }
  return count == 0;
}
"#;

/// Records so many calls of the program.
fn record(built: &Built, file: &str, tracepoints: &[&str], calls: &str) {
    let mut arguments = vec!["record", "-o", file];
    for tracepoint in tracepoints {
        arguments.extend(["-t", tracepoint]);
    }
    let program = built.program.to_str().expect("a name");
    arguments.extend(["--", program, calls]);
    built.run(&arguments).code(0);
}

/// The cells of a table, by the titles of their columns.
fn rows(table: &str) -> (Vec<String>, Vec<HashMap<String, String>>) {
    let mut lines = vec![vec![String::new()]];
    let mut is_quoted = false;
    for character in table.chars() {
        let line = lines.last_mut().expect("a line");
        let is_empty = line.last().is_some_and(String::is_empty);
        match character {
            // Two quotes are one.
            '"' if !is_quoted && !is_empty => {
                is_quoted = true;
                line.last_mut().expect("a cell").push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => line.push(String::new()),
            '\n' if !is_quoted => lines.push(vec![String::new()]),
            other => line.last_mut().expect("a cell").push(other),
        }
    }
    assert_eq!(
        lines.pop(),
        Some(vec![String::new()]),
        "it ends with a line"
    );
    let titles = lines.remove(0);
    let rows = lines.into_iter().map(|cells| {
        assert_eq!(cells.len(), titles.len(), "{cells:?}");
        titles.iter().cloned().zip(cells).collect()
    });
    (titles.clone(), rows.collect())
}

#[test]
fn a_table_has_the_rows_and_the_values_of_a_list() {
    let built = Built::new(CALLS, &["-O1"]);
    // Fewer frames are made into text by one thread, more by several.
    for calls in ["500", "30000"] {
        for file in ["run.tf", "run.twr"] {
            let tracepoints = [
                "span twice : n, /s p->text, *p, $retval",
                "note : frame, half",
            ];
            record(&built, file, &tracepoints, calls);
            let shown = built.run(&["show", "--json", file]).code(0).json();
            built.run(&["convert", file, "run.csv"]).code(0);
            let table = fs::read_to_string(built.path("run.csv")).expect("a table");
            let (titles, rows) = rows(&table);
            assert_eq!(
                titles,
                [
                    "frame",
                    "tracepoint",
                    "pc",
                    "time_us",
                    "thread",
                    "cpu",
                    "duration_ns",
                    "ended",
                    "n",
                    "p->text",
                    "*p",
                    "$retval",
                    "(frame)",
                    "half"
                ]
            );
            assert_eq!(rows.len(), shown.len());
            for (row, shown) in rows.iter().zip(&shown) {
                let is_left = shown["ended"] == "longjmp";
                for name in ["frame", "tracepoint", "time_us", "duration_ns"] {
                    let number = shown[name].as_u64();
                    let number = number.map_or_else(String::new, |number| number.to_string());
                    assert_eq!(row[name], number, "{name} of {shown}");
                }
                assert_eq!(row["ended"], shown["ended"].as_str().unwrap_or_default());
                let values = shown["values"].as_array().map_or(&[][..], Vec::as_slice);
                let value = |name: &str| {
                    let mut values = values.iter();
                    let value: Option<&Value> = values.find(|value| value["expression"] == name);
                    let text = value.and_then(|value| value["value"].as_str());
                    text.filter(|text| *text != "<unavailable>")
                        .unwrap_or_default()
                };
                for name in ["n", "p->text", "*p", "$retval", "half"] {
                    assert_eq!(row[name], value(name), "{name} of {shown}");
                }
                assert_eq!(row["(frame)"], value("frame"), "{shown}");
                let has_value = shown["tracepoint"] == 1 && !is_left;
                assert_eq!(!row["$retval"].is_empty(), has_value, "{shown}");
            }
            let left = rows.iter().filter(|row| row["ended"] == "longjmp").count();
            assert_eq!(left, calls.parse::<usize>().expect("a number") / 1000);
        }
    }
}

#[test]
fn columns_are_what_was_asked_for() {
    let built = Built::new(CALLS, &["-O1"]);
    record(&built, "run.tf", &["span twice : n"], "5");
    let titles = [
        "n * 2",
        "time_ns",
        "$retval",
        "ended",
        "$rdi",
        "$duration",
        "$retval - n",
    ];
    let columns = titles.map(|title| ["--column", title]).concat();
    let converted = built.run(&[&["convert", "run.tf", "run.csv"], &*columns].concat());
    converted.code(0);
    let table = fs::read_to_string(built.path("run.csv")).expect("a table");
    let (found, rows) = rows(&table);
    assert_eq!(found, titles);
    assert_eq!(rows.len(), 5);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row["n * 2"], (2 * n).to_string());
        // It was not collected, but the register was.
        assert_eq!(row["$retval"], (3 * n).to_string());
        assert_eq!(row["$retval - n"], (2 * n).to_string());
        assert_eq!(row["ended"], "return");
        assert!(row["time_ns"].parse::<u64>().is_ok(), "{row:?}");
        assert!(row["$duration"].parse::<u64>().is_ok(), "{row:?}");
        assert_eq!(row["$rdi"], format!("{n:#x}"), "{row:?}");
    }
    let converted = built.run(&["convert", "run.tf", "run.csv", "--column", "$other"]);
    converted.code(0).says(&[
        "--column $other could be worked out for no frame: the file has no variable, no register and no value of this name",
    ]);
}

#[test]
fn spans_are_found_by_what_their_entries_and_returns_have() {
    let built = Built::new(CALLS, &["-O1"]);
    for (statement, list) in [("span", "n, *p, $retval"), ("return", "n, *p, $retval")] {
        let tracepoint = format!("{statement} twice : {list}");
        record(&built, "run.tf", &[&tracepoint], "2500");
        let shown = built.run(&["show", "--json", "run.tf"]).code(0).json();
        for (condition, is_it) in [
            ("$retval == 36", (|n| n == 12) as fn(u64) -> bool),
            ("n > 10 && $retval < 45", |n| n > 10 && n < 15),
            ("$retval >= 0 && $duration >= 0ns && n % 1000 > 996", |n| {
                n % 1000 > 996 && n % 1000 != 999
            }),
            ("$retval != n * 3", |_| false),
            // What is at the pointer was collected at the entry, and the return value is in a register.
            ("$retval == 2 * n + p->a && $retval > 7000", |n| n > 2333),
            ("$duration > 1s", |_| false),
        ] {
            let wanted: Vec<u64> = shown
                .iter()
                // What `longjmp` leaves has no return to collect a list at.
                .filter(|frame| {
                    crate::support::value(frame, "n")
                        .is_some_and(|number| is_it(number.parse().expect("a number")))
                })
                .map(|frame| frame["frame"].as_u64().expect("a number"))
                .collect();
            let found = built.run(&["find", "run.tf", "--where", condition]);
            let found: Vec<u64> = found
                .code(i32::from(wanted.is_empty()))
                .stdout
                .lines()
                .map(|line| line.parse().expect("a number"))
                .collect();
            assert_eq!(found, wanted, "{condition} of {tracepoint}");
            let shown = built.run(&["show", "run.tf", "--json", "--where", condition]);
            let shown = shown.code(i32::from(wanted.is_empty())).json();
            let numbers = shown.iter().map(|frame| frame["frame"].as_u64());
            assert!(
                numbers.eq(wanted.iter().copied().map(Some)),
                "{condition} of {tracepoint}"
            );
            // A part has the same rows, with other numbers.
            let _ = fs::remove_file(built.path("part.tf"));
            let cut = built.run(&["convert", "run.tf", "part.tf", "--where", condition]);
            let cut = cut.code(i32::from(wanted.is_empty()));
            if wanted.is_empty() {
                cut.says(&["--where is true of no frame"]);
                assert!(!built.path("part.tf").exists());
            } else {
                built.run(&["check", "part.tf"]).code(0);
                let part = built.run(&["show", "part.tf", "--json"]).code(0).json();
                assert_eq!(unnumbered(&part), unnumbered(&shown), "{condition}");
            }
            let table = built.run(&["show", "run.tf", "--where", condition]);
            let rows = table.stdout.matches("$retval = ").count();
            assert_eq!(
                rows,
                wanted.len(),
                "{condition} of {tracepoint}: {}",
                table.stdout
            );
        }
    }
}

/// Rows without the numbers of their frames.
fn unnumbered(rows: &[Value]) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for row in &mut rows {
        row.as_object_mut().expect("a row").remove("frame");
    }
    rows
}

#[test]
fn what_is_left_by_a_jump_is_so_in_a_part() {
    let built = Built::new(CALLS, &["-O1"]);
    // Fewer frames are looked at by one thread, more by several.
    for calls in ["2500", "30000"] {
        for file in ["run.tf", "run.twr"] {
            record(&built, file, &["span twice : n, *p, $retval"], calls);
            let condition = ["--where", "n % 1000 >= 998"];
            let show = ["show", "--json", file];
            let shown = built.run(&[&show, &condition[..]].concat()).code(0).json();
            let left = shown.iter().filter(|row| row["ended"] == "longjmp");
            assert_eq!(left.count(), shown.len() / 2);
            built
                .run(&[&["convert", file, "part.tf"], &condition[..]].concat())
                .code(0);
            let part = built.run(&["show", "part.tf", "--json"]).code(0).json();
            assert_eq!(unnumbered(&part), unnumbered(&shown), "{file} of {calls}");
            built
                .run(&[&["convert", file, "part.csv"], &condition[..]].concat())
                .code(0);
            let table = fs::read_to_string(built.path("part.csv")).expect("a table");
            assert_eq!(rows(&table).1.len(), shown.len());
            let first = built.run(&[&["find", file, "--first"], &condition[..]].concat());
            assert_eq!(first.code(0).stdout.trim(), shown[0]["frame"].to_string());
            let json = built.run(&[&["find", file, "--json"], &condition[..]].concat());
            assert_eq!(json.code(0).json(), shown, "{file} of {calls}");
        }
    }
}

/// Each of three children calls a function, and so does their parent.
const CHILDREN: &str = r#"
#include <sys/wait.h>
#include <unistd.h>

__attribute__ ((noinline)) int
step (int n, const char *who)
{
  __asm__ volatile ("" : : "r" (who) : "memory");
  return n * 3;
}

int
main (void)
{
  for (int child = 0; child < 3; child++)
    if (fork () == 0)
      {
        for (int n = 0; n < 5; n++)
          step (n, "child");
        _exit (0);
      }
  step (100, "parent");
  while (wait (0) > 0)
    ;
  return 0;
}
"#;

/// Records the children and their parent as a run.
fn record_children(built: &Built, tracepoint: &str) {
    let program = built.program.to_str().expect("a name");
    let options = ["record", "--follow-forks", "-o", "run", "-t", tracepoint];
    built
        .run(&[&options[..], &["--", program]].concat())
        .code(0);
}

#[test]
fn a_run_of_several_processes_is_searched_and_written_as_a_whole() {
    let built = Built::new(CHILDREN, &["-O1"]);
    record_children(&built, "span step : n, /s who, $retval");
    let shown = built.run(&["show", "--json", "run"]).code(0).json();
    assert_eq!(shown.len(), 16);
    built.run(&["convert", "run", "run.csv"]).code(0);
    let table = fs::read_to_string(built.path("run.csv")).expect("a table");
    let (titles, rows) = rows(&table);
    assert_eq!(titles[..4], ["process", "frame", "tracepoint", "pc"]);
    assert_eq!(rows.len(), shown.len());
    for (row, shown) in rows.iter().zip(&shown) {
        for name in ["process", "frame", "tracepoint", "time_us", "duration_ns"] {
            assert_eq!(row[name], shown[name].to_string(), "{name}");
        }
        for name in ["n", "who", "$retval"] {
            let value = crate::support::value(shown, name).expect("a value");
            assert_eq!(row[name], value, "{name}");
        }
    }
    let condition = ["--where", "$retval >= 9"];
    let found = built
        .run(&[&["find", "run"], &condition[..]].concat())
        .code(0);
    let wanted: Vec<String> = shown
        .iter()
        .filter(|frame| {
            let value = crate::support::value(frame, "$retval").expect("a value");
            value.parse::<i64>().expect("a number") >= 9
        })
        .map(|frame| format!("{} {}", frame["process"], frame["frame"]))
        .collect();
    assert_eq!(wanted.len(), 7);
    assert_eq!(found.stdout.lines().collect::<Vec<_>>(), wanted);
    let cut = built.run(&[&["convert", "run", "part.csv"], &condition[..]].concat());
    cut.code(0);
    let table = fs::read_to_string(built.path("part.csv")).expect("a table");
    assert_eq!(self::rows(&table).1.len(), wanted.len());
    let json = built.run(&[
        "find", "run", "--json", "--pc", "step", "--where", "n == 100",
    ]);
    let json = json.code(0).json();
    assert_eq!(json.len(), 1);
    let process = json[0]["process"].to_string();
    assert_eq!(crate::support::value(&json[0], "$retval"), Some("300"));
    let first = built.run(&["find", "run", "--thread", &process, "--first"]);
    let first = first.code(0);
    assert_eq!(first.stdout, format!("{process} {}\n", json[0]["frame"]));
    let none = built.run(&["find", "run", "--where", "n == 77"]).code(1);
    assert_eq!(none.stderr, "");
    let none = built.run(&["find", "run", "--where", "m == 77"]).code(1);
    none.says(&["--where could be worked out for none of the frames looked at"]);
    let some = built.run(&[&["show", "run", "--json"], &condition[..]].concat());
    assert_eq!(some.code(0).json().len(), wanted.len());
    for (condition, status, words) in [
        ("n == 77", 1, "--where is true of no frame"),
        (
            "m == 77",
            1,
            "--where could be worked out for no frame: No symbol \"m\"",
        ),
        ("n ==", 2, "--where: "),
    ] {
        for run in ["run".to_owned(), format!("run/{process}.tf")] {
            let shown = built.run(&["show", &run, "--where", condition]);
            shown.code(status).says(&[words]);
        }
    }
    for (option, words) in [
        (
            &["--from", "3"][..],
            "--from is for the trace file of one process",
        ),
        (&["--pc", "no_such_function"], "no_such_function"),
        (&["--line", "other.c:3"], "other.c"),
        (&["--last"], "--last"),
    ] {
        let found = built.run(&[&["find", "run"], option].concat());
        found.code(2).says(&[words]);
    }
}

#[test]
fn the_stacks_of_several_processes_are_counted_together() {
    let built = Built::new(CHILDREN, &["-O1"]);
    record_children(&built, "step : n, $stack");
    let stacks = |more: &[&str]| -> Vec<u64> {
        let shown = built.run(&[&["show", "run", "--folded"], more].concat());
        let lines = shown.code(0).stdout;
        let count = |line: &str| {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            assert!(stack.ends_with("main;step"), "{line}");
            count.parse::<u64>().expect("a number")
        };
        lines.lines().map(count).collect()
    };
    assert_eq!(stacks(&[]), [16]);
    assert_eq!(stacks(&["--where", "n == 100"]), [1]);
    assert_eq!(stacks(&["--where", "n == 3"]), [3]);
    let none = built.run(&["show", "run", "--folded", "--where", "n == 7"]);
    none.code(1).says(&["--where is true of no frame"]);
}
