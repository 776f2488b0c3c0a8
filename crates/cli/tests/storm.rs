//! A program that does everything at once, with fast tracepoints that are enabled and disabled while it runs: fifty threads,
//! signals, a library that is loaded and unloaded, children. Its results are right to the end, and every frame is whole.
//!
//! It is controlled by GDB, which handles signals and libraries, and by a client that does not.
//!
//! `TRACEWIRE_STORM_SECONDS` is the duration (`cargo xtask torture storm`).

use std::path::Path;
use std::process::{Command, Stdio};

use tracewire_diagnose::{Severity, check_structure};
use tracewire_model::TracepointNumber;
use tracewire_test_support::{assert_clean_but, is_unreadable, setting};
use tracewire_tracefile::{Frame, TraceFile};

#[path = "storm/packets.rs"]
mod packets;
#[allow(dead_code, reason = "the other tests use the rest")]
mod wire;

const TRACEWIRE: &str = env!("CARGO_BIN_EXE_tracewire");

fn compile(folder: &Path, source: &str, output: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/storm")
        .join(source);
    let status = Command::new("cc")
        .args(["-g", "-O2", "-pthread"])
        .args(options)
        .arg("-o")
        .args([&folder.join(output), &source])
        .status()
        .expect("cc is installed");
    assert!(status.success());
}

fn seconds() -> u64 {
    setting("TRACEWIRE_STORM_SECONDS", 4)
}

fn seed() -> u64 {
    setting("TRACEWIRE_STORM_SEED", 1)
}

/// How many frames of tracepoint 2 and so on there are in a file, which is whole.
fn whole_frames(file: &Path, tracepoints: i32) -> Vec<usize> {
    let file = TraceFile::open(file).unwrap();
    let mut errors = Vec::new();
    check_structure(&file, &mut |finding| {
        if finding.fault.severity() == Severity::Error {
            errors.push(finding);
        }
    });
    assert_eq!(errors, []);
    (2..2 + tracepoints)
        .map(|number| {
            let of = |frame: &Frame<'_>| frame.tracepoint() == TracepointNumber(number);
            file.frames().filter(of).count()
        })
        .collect()
}

/// Runs it with stock GDB.
fn storm(kind: &str, mechanism: &str) {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path(), "storm.c", "storm", &["-fPIE", "-pie"]);
    compile(
        folder.path(),
        "plugin.c",
        "libplugin.so",
        &["-fPIC", "-shared"],
    );
    let server = format!(
        "| {TRACEWIRE} gdbserver --once{mechanism} --files {} - ./storm enough ./libplugin.so",
        folder.path().display()
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storm/storm.py");
    // The test ends after any failure: without GDB its server ends the program.
    let limit = 120 + seconds();
    let mut gdb = Command::new("timeout")
        .args([&limit.to_string(), "gdb"])
        .args(["-nx", "-q", "-x"])
        .arg(script)
        .arg("./storm")
        .current_dir(folder.path())
        .env("DEBUGINFOD_URLS", "")
        .env("STORM_KIND", kind)
        .env("STORM_SERVER", server)
        .env("STORM_SECONDS", seconds().to_string())
        .env("STORM_SEED", seed().to_string())
        // GDB ends when its input does; its input ends when this test does.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gdb is installed");
    let input = gdb.stdin.take();
    let output = gdb.wait_with_output().expect("gdb ends");
    drop(input);
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("exit: 0"), "{all}");
    assert!(all.contains(" wrong 0"), "{all}");

    // GDB sends a definition in pieces: a hit between the first and its actions collects nothing.
    assert_clean_but(&folder.path().join("storm.tf"), is_unreadable);
    let counts = whole_frames(&folder.path().join("storm.tf"), 5);
    assert!(counts.iter().sum::<usize>() > 100, "{counts:?}: {all}");
    let line = |start: &str| {
        all.lines()
            .find(|line| line.starts_with(start))
            .unwrap_or("")
    };
    eprintln!(
        "{kind}: {}; {}; frames in the buffer by tracepoint {counts:?}; {}",
        line("rounds"),
        line("changes"),
        line("Collected"),
    );
}

#[test]
fn jumps_in_a_storm() {
    storm("ftrace", "");
}

#[test]
fn traps_in_a_storm() {
    storm("trace", " --mechanism trap");
}

#[test]
fn jumps_that_packets_change_in_a_storm() {
    packets::storm("jump");
}

#[test]
fn traps_that_packets_change_in_a_storm() {
    packets::storm("trap");
}
