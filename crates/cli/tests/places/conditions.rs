//! A condition, or an item of a list, that fits only one of several functions of a name: used where it fits, and reported where
//! not.

use crate::programs::{build, hits, record};
use crate::support::{ran, tracewire};
use tracewire_test_support::Gdb;

const ONE: &str = r#"
static volatile int sink;
__attribute__((noinline)) static int find(int key, int depth) { sink = key; return key + depth; }
int one(int i) { return find(i, i * 2); }
"#;
const OTHER: &str = r#"
static volatile int sink;
__attribute__((noinline)) static int find(int where, const char *name) { sink = where; return where + name[0]; }
int other(int i) { return find(i, "text"); }
"#;
const MAIN: &str = r#"
#include <stdio.h>
int one(int), other(int);
int main(void)
{
  int sum = 0;
  for (int i = 0; i < 10; i++) sum += one(i) + other(i);
  printf("%d\n", sum);
  return 0;
}
"#;

/// The program, in `one.c`, `other.c` and `main.c`.
fn program(directory: &std::path::Path) -> std::path::PathBuf {
    let sources: Vec<_> = [("one.c", ONE), ("other.c", OTHER), ("main.c", MAIN)]
        .map(|(name, text)| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        })
        .into();
    let sources: Vec<_> = sources.iter().map(std::path::PathBuf::as_path).collect();
    build(directory, "gcc", &["-g", "-O1"], &sources)
}

/// The values of a tracepoint's frames.
fn values(directory: &std::path::Path) -> Vec<String> {
    let show = tracewire()
        .current_dir(directory)
        .args(["show", "--json", "out.tf"])
        .output();
    let frames = ran(show.expect("tracewire runs")).code(0).json();
    let text = |frame: &serde_json::Value| {
        let values = frame["values"].as_array().cloned().unwrap_or_default();
        let text = |value: &serde_json::Value| value["value"].as_str().unwrap().to_owned();
        values.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    frames.iter().map(text).collect()
}

#[test]
fn a_condition_is_used_where_it_fits() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    let ran = record(&program, &["find if depth > 10 : key"], &[])
        .code(0)
        .says(&[
            "warning",
            "is not set in find",
            r#"No symbol "depth" in current context"#,
        ]);
    assert_eq!(hits(directory.path()), [4], "{}", ran.stderr);
    assert_eq!(values(directory.path()), ["6", "7", "8", "9"]);
    // GDB has the same rule for the locations of a breakpoint.
    let gdb = Gdb::new().program(&program);
    let gdb = gdb.commands(["break find if depth > 10", "info breakpoints"]);
    let said = gdb.run().all();
    assert!(
        said.contains("failed to validate condition at location 2, disabling"),
        "{said}"
    );
}

#[test]
fn a_condition_that_fits_nowhere_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    record(&program, &["find if depht > 10"], &[])
        .code(2)
        .says(&[r#"No symbol "depht" in current context"#]);
}

#[test]
fn an_item_is_collected_where_it_fits() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path());
    record(&program, &["find : where"], &[])
        .code(0)
        .says(&["warning", r#"No symbol "where" in current context"#]);
    assert_eq!(hits(directory.path()), [20]);
    let values = values(directory.path());
    let known: Vec<&String> = values
        .iter()
        .filter(|value| !value.starts_with('<'))
        .collect();
    assert_eq!(known, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}
