//! The progress line at a terminal during long work.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::support::Built;
use tracewire_test_support::sample;

/// The second of two files to be merged comes through a pipe that is not written to before the line has been seen: the
/// work takes as long as that takes.
#[test]
fn long_work_is_told_on_a_terminal_and_wiped_at_the_end() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    fs::copy(sample("sample.tf"), folder.path("run.tf")).expect("copied");
    folder.run(&["convert", "run.tf", "run.jsonl"]).code(0);
    let lines = fs::read(folder.path("run.jsonl")).expect("read");
    let made = Command::new("mkfifo").arg(folder.path("pipe")).status();
    assert!(made.expect("mkfifo runs").success());

    // `script` is a terminal that prints what is written to it.
    let program = env!("CARGO_BIN_EXE_tracewire");
    let command = format!("'{program}' convert run.jsonl pipe both.tf");
    let mut terminal = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .current_dir(folder.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    // Opened both ways it need not wait for a reader.
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.path("pipe"))
        .expect("opened");
    pipe.write_all(&lines[..100]).expect("written");
    let mut output = terminal.stdout.take().expect("a pipe");
    let mut said = Vec::new();
    let mut byte = [0];
    let is_reported = |said: &[u8]| {
        let text = String::from_utf8_lossy(said);
        text.contains("tracewire: pipe: ") && text.ends_with(" s")
    };
    while !is_reported(&said) {
        let text = String::from_utf8_lossy(&said).into_owned();
        assert_eq!(output.read(&mut byte).expect("read"), 1, "{text}");
        said.push(byte[0]);
    }
    pipe.write_all(&lines[100..]).expect("written");
    drop(pipe);
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(terminal.wait().expect("ends").success(), "{rest}");
    assert!(rest.ends_with("\r\x1b[2K"), "{rest:?}");
    let info = folder.run(&["info", "both.tf", "--json"]).code(0).json();
    assert_eq!(info[0]["frames"], 48);
}

/// Without a terminal only messages are printed.
#[test]
fn a_pipe_gets_no_progress() {
    let folder = Built::at(tempfile::tempdir().expect("a folder"));
    fs::copy(sample("sample.tf"), folder.path("run.tf")).expect("copied");
    let checked = folder.run(&["check", "run.tf"]).code(0);
    assert!(!checked.stderr.contains('\r'));
}
