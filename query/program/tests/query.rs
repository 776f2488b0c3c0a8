//! `tracewire query`: exit statuses, formats and files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/test-support/samples")
        .join(name)
}

/// Asks the sample's run.
fn query(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracewire-query"))
        .arg("query")
        .arg("--elf")
        .arg(sample("sample"))
        .arg(sample("sample.tf"))
        .args(arguments)
        .output()
        .expect("tracewire-query runs")
}

#[track_caller]
fn assert_ended(arguments: &[&str], status: i32, out: &str, said: &str) {
    let ended = query(arguments);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert_eq!(
        ended.status.code(),
        Some(status),
        "{arguments:?}: {stdout}{stderr}"
    );
    assert_eq!(stdout, out, "{arguments:?}: {stderr}");
    assert!(
        stderr.contains(said) && said.is_empty() == stderr.is_empty(),
        "{arguments:?}: {stderr}"
    );
}

#[test]
fn the_exit_status_says_whether_there_are_rows() {
    let first = "select frame, function, null as nothing from hits order by frame limit 1";
    assert_ended(
        &[first],
        0,
        "frame  function  nothing\n    0  handle    NULL\n",
        "",
    );
    assert_ended(
        &[first, "--format", "csv"],
        0,
        "frame,function,nothing\n0,handle,\n",
        "",
    );
    assert_ended(
        &[first, "--format=json"],
        0,
        "{\"frame\":0,\"function\":\"handle\"}\n",
        "",
    );
    assert_ended(&["select frame from hits where false"], 1, "", "");
    assert_ended(
        &["select frame from hits where false", "--format=csv"],
        1,
        "frame\n",
        "",
    );
    assert_ended(
        &["select frame from hits where frame = $n", "--set", "n=3"],
        0,
        "frame\n    3\n",
        "",
    );
    assert_ended(
        &["select frame from hits where frame = $n"],
        2,
        "",
        "tracewire: ",
    );
    assert_ended(&["select"], 2, "", "tracewire: ");
    assert_ended(
        &["select frame from nowhere"],
        2,
        "",
        "tracewire: no table nowhere; the tables are runs, modules",
    );
    assert_ended(&["--named", "nobody"], 2, "", "no query is named nobody");
    assert_ended(
        &["--named", "hottest"],
        2,
        "",
        "needs a value for expression",
    );
    assert_ended(
        &["--named", "hottest", "--set", "expression=nothing"],
        1,
        "",
        "",
    );
    assert_ended(&["--memory", "1KiB", "select 1"], 2, "", "at least 16 MiB");
    assert_ended(
        &["--spill", "/nowhere", "select 1"],
        2,
        "",
        "/nowhere is no directory",
    );
    assert_ended(&["--file", "/nowhere.sql"], 2, "", "/nowhere.sql");
    assert_ended(
        &["/nowhere.tf", "select 1"],
        2,
        "",
        "/nowhere.tf cannot be read as a trace file",
    );
    assert_ended(
        &["select '\u{1b}[31m' as \"\u{7}\" from runs"],
        0,
        "\\u{7}\n\\u{1b}[31m\n",
        "",
    );
    assert_ended(&["select \"\u{1b}[31m\" from runs"], 2, "", "\\u{1b}[31m");
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let shown = |name: &str| path(name).display().to_string();
    for (name, magic) in [
        ("rows.csv", &b"frame,pc\n"[..]),
        ("rows.json", b"{\"frame\":0,"),
        ("rows.parquet", b"PAR1"),
        ("rows.arrow", b"\xff\xff\xff\xff"),
        ("rows.txt", b"frame "),
    ] {
        assert_ended(
            &[
                "select frame, pc from hits order by frame",
                "-o",
                &shown(name),
            ],
            0,
            "",
            "",
        );
        let written = fs::read(path(name)).expect("a file");
        assert!(written.starts_with(magic), "{name}");
    }
    // A query that fails on its way leaves what was there.
    let before = fs::read(path("rows.csv")).expect("a file");
    let failing = "select 1 / (frame - 5) from hits";
    assert_ended(&[failing, "-o", &shown("rows.csv")], 2, "", "ivide by zero");
    assert_eq!(fs::read(path("rows.csv")).expect("a file"), before);
    assert_eq!(
        fs::read_dir(directory.path())
            .expect("the directory")
            .count(),
        5
    );
    assert_ended(&["select 1 as x", "-o", "/dev/null"], 0, "", "");
    assert_ended(
        &["select 1 as x", "-o", "-", "--format=csv"],
        0,
        "x\n1\n",
        "",
    );
    assert_ended(
        &["select 1", "-o", &directory.path().display().to_string()],
        2,
        "",
        "is a directory",
    );
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    for format in ["table", "csv", "json", "parquet", "arrow"] {
        let script = format!(
            "set -o pipefail; '{}' query --elf '{}' '{}' --format {format} \\
             'select a.*, b.pc as other from hits a, hits b, hits c' | head -c 1 >/dev/null",
            env!("CARGO_BIN_EXE_tracewire-query"),
            sample("sample").display(),
            sample("sample.tf").display()
        );
        let ended = Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("bash runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success() && said.is_empty(),
            "{format}: {said}"
        );
    }
}
