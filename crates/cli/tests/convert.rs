//! `convert` and `check`, as someone types them.

#[path = "convert/export.rs"]
mod export;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn sample() -> String {
    tracewire_test_support::sample("sample.tf")
        .display()
        .to_string()
}

fn tracewire(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracewire"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("tracewire runs")
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = tracewire(folder, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn there_and_back_again() {
    let folder = tempfile::tempdir().expect("a folder");
    done(folder.path(), &["convert", &sample(), "run.jsonl"]);
    done(folder.path(), &["convert", "run.jsonl", "back.tf"]);
    let back = fs::read(folder.path().join("back.tf")).expect("written");
    assert!(back == fs::read(sample()).expect("the sample is there"));
    assert_eq!(done(folder.path(), &["check", "back.tf"]), "");
}

/// The files of GDB's own tests, also cut and damaged ones.
#[test]
fn any_file_comes_back_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = fs::read(sample()).expect("the sample is there");
    let mut damaged = whole.clone();
    damaged[9] = b'x';
    damaged[3000..3010].fill(0xff);
    damaged[50_000..50_100].fill(0xaa);
    for (name, bytes) in [
        ("cut.tf", whole[..50_000].to_vec()),
        ("cut-lines.tf", whole[..500].to_vec()),
        ("damaged.tf", damaged),
        (
            "basic.tf",
            fs::read(tracewire_test_support::sample("tfile-basic.tf")).unwrap(),
        ),
        (
            "error.tf",
            fs::read(tracewire_test_support::sample("tfile-error.tf")).unwrap(),
        ),
    ] {
        fs::write(folder.path().join(name), &bytes).expect("written");
        done(folder.path(), &["convert", name, "run.jsonl"]);
        done(folder.path(), &["convert", "run.jsonl", "back.tf"]);
        let back = fs::read(folder.path().join("back.tf")).expect("written");
        assert!(back == bytes, "{name}");
        done(folder.path(), &["convert", "back.tf", "again.jsonl"]);
        let read = |name: &str| fs::read(folder.path().join(name)).expect("written");
        assert!(read("again.jsonl") == read("run.jsonl"), "{name}");
    }
}

#[test]
fn every_format_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, start) in [
        ("run.csv", "frame,tracepoint,pc,"),
        ("run.chrome.json", "{\"displayTimeUnit\""),
        ("run.json", "{\"kind\":\"trace-file\""),
        ("run.ctf/metadata", "/* CTF 1.8 */"),
    ] {
        let out = name.split('/').next().unwrap_or(name);
        done(folder.path(), &["convert", &sample(), out]);
        // Existing output is replaced, too.
        done(folder.path(), &["convert", &sample(), out]);
        let text = fs::read(folder.path().join(name)).expect("written");
        assert!(text.starts_with(start.as_bytes()), "{name}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
    assert_eq!(left.len(), 4, "{left:?}");
    let text = done(
        folder.path(),
        &[
            "convert",
            &sample(),
            "-",
            "--to",
            "csv",
            "--column",
            "$hits",
        ],
    );
    assert!(text.starts_with("$hits\n1\n\n\n2\n"), "{text}");

    fs::create_dir(folder.path().join("full.ctf")).expect("made");
    fs::write(folder.path().join("full.ctf/mine"), "").expect("written");
    let output = tracewire(folder.path(), &["convert", &sample(), "full.ctf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(folder.path().join("full.ctf/mine").exists());
}

#[test]
fn cut_split_and_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    done(
        folder.path(),
        &["convert", &sample(), "one.tf", "--frame", "..10"],
    );
    done(
        folder.path(),
        &["convert", &sample(), "two.tf", "--frame", "10.."],
    );
    done(folder.path(), &["convert", "one.tf", "two.tf", "both.tf"]);
    let info = done(folder.path(), &["info", "--json", "both.tf"]);
    assert!(info.contains("\"frames\":24"), "{info}");
    assert_eq!(done(folder.path(), &["check", "both.tf"]), "");
    done(
        folder.path(),
        &["convert", "both.tf", "part.tf", "--split-by", "tracepoint"],
    );
    let frames = |name| {
        done(folder.path(), &["find", name, "--tracepoint", "3"])
            .lines()
            .count()
    };
    assert_eq!(frames("part-tracepoint-3.tf"), 3);
}

#[test]
fn options_stand_anywhere_among_the_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = &sample();
    for arguments in [
        ["convert", sample, "part.tf", "--frame", "2..5"],
        ["convert", sample, "--frame", "2..5", "part.tf"],
        ["convert", "--frame", "2..5", sample, "part.tf"],
    ] {
        done(folder.path(), &arguments);
        let text = done(folder.path(), &["show", "part.tf", "--json"]);
        assert_eq!(text.lines().count(), 3, "{arguments:?}");
        fs::remove_file(folder.path().join("part.tf")).expect("removed");
    }
    let both = [
        "convert", sample, sample, "--to", "jsonl", "--frame", "..2", "-",
    ];
    assert!(done(folder.path(), &both).contains("\"frame\":1"));
    let output = tracewire(folder.path(), &["convert", sample, "--frame", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.starts_with("error: both a file to read and one to write are required")
            && text.contains("Usage: tracewire convert [OPTIONS] <IN>... <OUT>"),
        "{text}"
    );
}

/// A column that stays empty has a reason, which is reported as by `find --where`.
#[test]
fn a_column_of_nothing_is_not_silent() {
    let folder = tempfile::tempdir().expect("a folder");
    let sample = sample();
    let program = sample.strip_suffix(".tf").expect("the program beside it");
    let table = |columns: &[&str]| {
        let mut arguments = vec!["convert", &sample, "x.csv", "--elf", program];
        for column in columns {
            arguments.extend(["--column", column]);
        }
        let output = tracewire(folder.path(), &arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = table(&["depth", "("]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("A syntax error in expression"), "{text}");
    assert!(!folder.path().join("x.csv").exists());
    let (code, text) = table(&["depth", "nosuch", "$nosuch", "0x10@4", "$hits"]);
    assert_eq!(code, Some(0), "{text}");
    let reported: Vec<_> = text.lines().collect();
    let none =
        |column: &str| format!("tracewire: --column {column} could be worked out for no frame: ");
    assert_eq!(
        reported,
        [
            none("nosuch") + "No symbol \"nosuch\" in current context.",
            none("$nosuch") + "the file has no variable, no register and no value of this name",
            none("0x10@4") + "no frame holds it",
        ]
    );
    assert!(folder.path().join("x.csv").exists());
}

#[test]
fn check_says_where_and_ends_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = fs::read(sample()).expect("the sample is there");
    fs::write(folder.path().join("cut.tf"), &bytes[..50_000]).expect("written");
    let output = tracewire(folder.path(), &["check", "--json", "cut.tf"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last: serde_json::Value =
        serde_json::from_str(text.lines().last().unwrap_or_default()).expect("JSON");
    assert_eq!(last["severity"], "error");
    assert_eq!(last["offset"], 49_606);
    assert!(
        last["message"]
            .as_str()
            .is_some_and(|text| text.contains("inside a frame")),
        "{last}"
    );
    assert_eq!(
        tracewire(folder.path(), &["check", "none.tf"])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, expected) in [
        (vec!["convert", "SAMPLE", "run"], "or --to"),
        (
            vec!["convert", "SAMPLE", "run.tf", "--column", "pc"],
            "--column is for a table",
        ),
        (
            vec!["convert", "SAMPLE", "run.tf", "--frame", "99"],
            "there is no frame 99: the file holds 24",
        ),
        (
            vec!["convert", "SAMPLE", "x.tf", "--split-by", "0"],
            "expected tracepoint, thread or a number",
        ),
        (
            vec!["convert", "nothing.tf", "x.tf"],
            "nothing.tf cannot be used: No such file",
        ),
        (
            vec!["convert", "SAMPLE", "x.csv", "--column", "0x10@"],
            "`0x10@` is no column",
        ),
    ] {
        let sample = sample();
        let arguments: Vec<_> = arguments
            .into_iter()
            .map(|word| {
                if word == "SAMPLE" {
                    sample.as_str()
                } else {
                    word
                }
            })
            .collect();
        let output = tracewire(folder.path(), &arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}
