//! Values as people read them: what a program prints of its variables, against what `show` prints of what was recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const CPP: &str = include_str!("values.cpp");
const RUST: &str = include_str!("values.rs");

fn tracewire(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command
        .current_dir(directory)
        // No rules of the user who runs the tests.
        .env("XDG_CONFIG_HOME", directory);
    command
}

#[track_caller]
fn compiled(directory: &Path, compiler: &str, options: &[&str], source: &str) -> PathBuf {
    let extension = if compiler == "rustc" { "rs" } else { "cpp" };
    let path = directory.join(format!("values.{extension}"));
    std::fs::write(&path, source).expect("the source is written");
    let built = Command::new(compiler)
        .current_dir(directory)
        .args(options)
        .args(["-o", "program"])
        .arg(&path)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler} {options:?}: {said}");
    directory.join("program")
}

/// Records a program; what it printed, a line each.
#[track_caller]
fn recorded(directory: &Path, program: &Path, arguments: &[&str]) -> Vec<String> {
    let ran = tracewire(directory)
        .args(["record", "-o", "out.tf"])
        .args(arguments)
        .arg("--")
        .arg(program)
        .stdin(Stdio::null())
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let printed = String::from_utf8(ran.stdout).expect("text");
    printed.lines().map(str::to_owned).collect()
}

/// Every frame of `out.tf`.
#[track_caller]
fn frames(directory: &Path, arguments: &[&str]) -> Vec<Value> {
    let ran = tracewire(directory)
        .args(["show", "--json", "out.tf"])
        .args(arguments)
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let lines = String::from_utf8(ran.stdout).expect("text");
    let frame = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(frame).collect()
}

fn value(frame: &Value) -> &str {
    frame["values"][0]["value"].as_str().unwrap_or("<none>")
}

/// Whether a value is what the program printed. Where the program leaves elements out, more of them may have been collected on
/// the way.
fn is_same(found: &str, printed: &str) -> bool {
    match printed.strip_suffix("...}") {
        Some(start) => found.starts_with(start) && found.ends_with("...}"),
        None => found == printed,
    }
}

/// Records `see`, and compares each value with the line that the program printed of it.
#[track_caller]
fn assert_as_printed(compiler: &str, options: &[&str], source: &str, at_least: usize) {
    let directory = TempDir::new().expect("a directory");
    let directory = directory.path();
    let program = compiled(directory, compiler, options, source);
    let printed = recorded(directory, &program, &["-t", "see : value"]);
    let frames = frames(directory, &[]);
    assert_eq!(frames.len(), printed.len());
    assert!(printed.len() >= at_least, "{} values", printed.len());
    let wrong: Vec<String> = frames
        .iter()
        .zip(&printed)
        .filter(|(frame, printed)| !is_same(value(frame), printed))
        .map(|(frame, printed)| format!("printed {printed}\nshown   {}\n", value(frame)))
        .collect();
    assert!(
        wrong.is_empty(),
        "{compiler} {options:?}: {} of {} values:\n{}",
        wrong.len(),
        printed.len(),
        wrong.join("\n")
    );
}

#[test]
fn cpp_values_are_what_the_program_prints() {
    assert_as_printed("g++", &["-std=c++17", "-g", "-O0"], CPP, 150);
}

#[test]
fn cpp_values_of_optimized_code_are_what_the_program_prints() {
    assert_as_printed("g++", &["-std=c++17", "-g", "-O2"], CPP, 150);
}

#[test]
fn rust_values_are_what_the_program_prints() {
    assert_as_printed("rustc", &["-g"], RUST, 200);
}

#[test]
fn rust_values_of_optimized_code_are_what_the_program_prints() {
    assert_as_printed("rustc", &["-g", "-C", "opt-level=2"], RUST, 200);
}
