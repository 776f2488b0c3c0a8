//! Files that another program cuts short while a command reads them.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use tracewire_arch::Architecture;

use crate::generated::{Described, smallest, write};
use crate::support::{ran, tracewire};

/// Enough for an output that fills a pipe many times.
const FRAMES: u64 = 3000;

fn trace_file(path: &Path) {
    write(
        path,
        &smallest(Architecture::Riscv64),
        Described::Registers,
        FRAMES,
    );
}

fn truncate(path: &Path, length: u64) {
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(length))
        .expect("truncates");
}

fn start(arguments: &[&str], directory: &Path) -> Child {
    tracewire()
        .args(arguments)
        .current_dir(directory)
        .env("XDG_CACHE_HOME", directory.join("cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Runs a command until it prints, cuts the file while the command waits for its reader, and reads the rest.
fn cut_while_printing(arguments: &[&str], file: &Path, length: u64) -> Output {
    let directory = file.parent().expect("a directory");
    let mut child = start(arguments, directory);
    let mut first = [0];
    child
        .stdout
        .as_mut()
        .expect("a pipe")
        .read_exact(&mut first)
        .expect("it prints");
    truncate(file, length);
    child.wait_with_output().expect("ends")
}

#[test]
fn a_cut_trace_file_is_an_error_with_its_length() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.tf");
    for arguments in [
        &["show", "run.tf"][..],
        &["show", "--json", "run.tf"],
        &["convert", "run.tf", "-", "--to", "jsonl"],
        &["convert", "run.tf", "-", "--to", "csv"],
    ] {
        for length in [0, 5000, 500_000] {
            trace_file(&file);
            let ran = ran(cut_while_printing(arguments, &file, length));
            assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
            ran.says(&["run.tf was cut to", &format!("{length} bytes")]);
        }
    }
}

#[test]
fn a_cut_execution_trace_is_an_error_with_its_length() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.qemu4v");
    // The last line is no record, so `check` prints nothing before it has read all: the first output is about the first line.
    let text: String = (0..200_000)
        .map(|n| format!("{n} clk 0 XX {n}\n"))
        .collect();
    for length in [0, 5000, 1_000_000] {
        std::fs::write(
            &file,
            format!("1 clk 0 IT (1) 00001000 e1a00000 A svc_ns : nop\n{text}"),
        )
        .expect("a file");
        let arguments = ["check", "run.qemu4v", "--architecture", "arm"];
        let ran = ran(cut_while_printing(&arguments, &file, length));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        ran.says(&["run.qemu4v was cut to", &format!("{length} bytes")]);
    }
}

/// A packet with its checksum.
fn packet(payload: &str) -> String {
    let sum = payload.bytes().fold(0_u8, u8::wrapping_add);
    format!("${payload}#{sum:02x}")
}

/// Sends a packet and reads its reply.
fn ask(child: &mut Child, payload: &str) -> String {
    let stdin = child.stdin.as_mut().expect("a pipe");
    stdin
        .write_all(packet(payload).as_bytes())
        .and_then(|()| stdin.flush())
        .expect("it reads");
    let mut reply = Vec::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    let mut byte = [0];
    while !(reply.len() >= 4 && reply[reply.len() - 3] == b'#') {
        stdout.read_exact(&mut byte).expect("it answers");
        // The acknowledgement before the reply.
        if !(reply.is_empty() && byte[0] == b'+') {
            reply.push(byte[0]);
        }
    }
    stdin.write_all(b"+").expect("it reads");
    String::from_utf8_lossy(&reply[1..reply.len() - 3]).into_owned()
}

#[test]
fn a_served_file_that_is_cut_makes_replies_errors() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.tf");
    trace_file(&file);
    let mut child = start(&["serve", "-", "run.tf"], directory.path());
    assert!(ask(&mut child, "qTStatus").starts_with("T0"));
    assert_eq!(ask(&mut child, "QTFrame:3"), "F3T2");
    truncate(&file, 5000);
    let reply = ask(&mut child, &format!("QTFrame:{:x}", FRAMES - 1));
    assert!(reply.starts_with("E."), "{reply}");
    assert!(reply.contains("was cut to 5000 bytes"), "{reply}");
    drop(child.stdin.take());
    let ran = ran(child.wait_with_output().expect("ends"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn what_is_made_of_a_cut_file_is_not_put_in_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run.tf");
    let out = directory.path().join("out.tf");
    trace_file(&path);
    let file = tracewire_diagnose::repair::DamagedFile::open(&path).expect("opens");
    truncate(&path, 5000);
    let error =
        tracewire_diagnose::repair::repair(file.as_bytes(), &out).expect_err("the input was cut");
    let text = format!("{:#}", anyhow::Error::from(error));
    assert!(text.contains("was cut to 5000"), "{text}");
    assert!(!out.exists());
}
