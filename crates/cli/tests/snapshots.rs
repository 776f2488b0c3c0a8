//! The program's output, kept as files: every `--help`, and tables, JSON lines and errors of the fixtures. A change of words is
//! then visible in review.
//!
//! `SNAPSHOTS=overwrite cargo test -p tracewire-cli --test snapshots` writes the files again.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use snapbox::Assert;
use snapbox::data::Data;
use tracewire_test_support::samples;

/// Runs the program in a directory with copies of the fixtures. Returns its output, its messages on stderr, and its exit status.
fn run(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    for entry in samples().read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
        .args(arguments)
        .current_dir(&directory)
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut text = format!("$ tracewire {}\n", arguments.join(" "));
    text += &String::from_utf8(output.stdout).unwrap();
    for line in String::from_utf8(output.stderr).unwrap().lines() {
        text += &format!("stderr: {line}\n");
    }
    text + &format!("exit status {}\n", output.status.code().unwrap())
}

fn assert(name: &str, actual: String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(format!("{name}.txt"));
    Assert::new()
        .action_env("SNAPSHOTS")
        .eq(Data::text(actual).raw(), Data::read_from(&path, None).raw());
}

/// Runs several commands into one file.
fn assert_runs(name: &str, runs: &[&[&str]]) {
    let texts: Vec<String> = runs.iter().map(|arguments| run(arguments)).collect();
    assert(name, texts.join("\n"));
}

/// The names of the commands, as the list in `--help` has them.
fn commands() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
        .arg("--help")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<String> = text
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 20, "{text}");
    names
}

#[test]
fn help_of_every_command() {
    assert_runs("help", &[&["--help"], &["-h"]]);
    for name in commands() {
        assert_runs(&format!("help-{name}"), &[&[&name, "--help"]]);
    }
}

#[test]
fn tables() {
    assert_runs(
        "tables",
        &[
            &["info", "sample.tf"],
            &["show", "sample.tf", "--elf", "sample"],
            &["show", "sample.tf", "--elf", "sample", "--frame", "6"],
            &["show", "sample.tf", "--frame", "6"],
            &["find", "sample.tf", "--tracepoint", "3"],
            &["check", "sample.tf"],
            &["info", "tfile-basic.tf"],
            &["show", "tfile-basic.tf"],
            &["info", "tfile-error.tf"],
            &["convert", "sample.tf", "-", "--to", "csv"],
        ],
    );
}

#[test]
fn tables_of_an_execution_trace() {
    const TRACE: &str = "thumb.trace.zst";
    assert_runs(
        "execution-tables",
        &[
            &["info", TRACE],
            &["show", TRACE, "--elf", "thumb.elf", "--instruction", "100"],
            &["calls", TRACE, "--elf", "thumb.elf"],
            &["profile", TRACE, "--elf", "thumb.elf"],
            &["coverage", TRACE, "--elf", "thumb.elf"],
            &["find", TRACE, "--elf", "thumb.elf", "--pc", "sort"],
            &["check", TRACE],
        ],
    );
}

#[test]
fn json_lines() {
    assert_runs(
        "json",
        &[
            &["info", "sample.tf", "--json"],
            &[
                "show",
                "sample.tf",
                "--elf",
                "sample",
                "--json",
                "--frame",
                "6",
            ],
            &["find", "sample.tf", "--tracepoint", "3", "--json"],
            &["check", "sample.tf", "--json"],
            &["info", "thumb.trace.zst", "--json"],
            &["profile", "thumb.trace.zst", "--elf", "thumb.elf", "--json"],
        ],
    );
}

#[test]
fn errors() {
    assert_runs(
        "errors",
        &[
            &[],
            &["recrod"],
            &["show"],
            &["show", "missing.tf"],
            &["show", "sample"],
            &["show", "sample.tf", "--elf", "missing"],
            &["show", "sample.tf", "--frame", "24"],
            &["find", "sample.tf", "--where", "total >"],
            &[
                "find",
                "sample.tf",
                "--elf",
                "sample",
                "--where",
                "nothing > 1",
            ],
            &["find", "sample.tf", "--tracepoint", "99"],
            &["record", "--", "/bin/true"],
            &[
                "record",
                "-o",
                "out.tf",
                "-t",
                "*0x10 if",
                "--",
                "/bin/true",
            ],
            &[
                "record",
                "-o",
                "out.tf",
                "-p",
                "nothing-of-this-name",
                "-t",
                "main",
            ],
            &[
                "collect",
                "thumb.trace.zst",
                "-o",
                "out.tf",
                "-t",
                "main : x",
            ],
            &["convert", "sample.tf", "out", "--to", "nothing"],
            &["serve", "-", "missing.tf"],
            &["packets", "missing.log"],
        ],
    );
}
