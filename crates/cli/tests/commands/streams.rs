//! Trace files that go into streams.

use std::io::Write as _;
use std::process::{Command, Stdio};

use tracewire_test_support::assert_clean;
use tracewire_tracefile::TraceFile;

use crate::support::{Built, ran, tracewire, value};

const SAYS: &str = "#include <stdio.h>\n__attribute__ ((noinline)) int work (int n) { return n; }\n\
                    int main (void) { for (int i = 0; i < 3; i++) printf (\"%d\\n\", work (i)); return 0; }\n";

fn program() -> Built {
    Built::new(SAYS, &["-O1"])
}

/// The frames of a trace file by its bytes.
fn frames(built: &Built, bytes: &[u8]) -> Vec<Option<String>> {
    std::fs::write(built.path("out.tf"), bytes).expect("written");
    let frames = built.frames();
    frames
        .iter()
        .map(|frame| value(frame, "n").map(str::to_owned))
        .collect()
}

fn expected() -> Vec<Option<String>> {
    ["0", "1", "2"].map(|n| Some(n.to_owned())).to_vec()
}

#[test]
fn standard_output_has_the_trace_file_and_nothing_else() {
    let built = program();
    for name in ["-", "/dev/stdout"] {
        let output = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "-t", "work : n", "-o", name, "--", "./program"])
            .output()
            .expect("tracewire runs");
        let stdout = output.stdout.clone();
        let done = ran(output)
            .code(0)
            .says(&["3 frames in standard output", "\n0\n1\n2\n"]);
        assert!(!done.stderr.contains("look at it"), "{}", done.stderr);
        assert_eq!(frames(&built, &stdout), expected());
        built
            .run(&["check", "out.tf"])
            .code(0)
            .says(&["3 frames, 0 errors, 0 warnings"]);
        assert!(!built.path("-").exists());
    }
}

#[test]
fn the_next_program_reads_it() {
    let built = program();
    let line = format!(
        "{0} record -t 'work : n' -o - -- ./program 2>/dev/null | {0} show --json -",
        env!("CARGO_BIN_EXE_tracewire")
    );
    let done = Command::new("sh")
        .args(["-c", &line])
        .current_dir(built.folder.path())
        .output();
    assert_eq!(ran(done.expect("sh runs")).code(0).json().len(), 3);
    // A circular run is written in another way.
    let line = format!(
        "{0} record --circular -t 'work : n' -o /dev/stdout -- ./program | {0} show --json -",
        env!("CARGO_BIN_EXE_tracewire")
    );
    let done = Command::new("sh")
        .args(["-c", &line])
        .current_dir(built.folder.path())
        .output();
    assert_eq!(ran(done.expect("sh runs")).code(0).json().len(), 3);
}

#[test]
fn a_fifo_is_written() {
    let built = program();
    let made = Command::new("mkfifo").arg(built.path("fifo")).status();
    assert!(made.expect("mkfifo runs").success());
    let mut reader = Command::new("cat")
        .arg(built.path("fifo"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat runs");
    let done = built.run(&["record", "-t", "work : n", "-o", "fifo", "--", "./program"]);
    assert_eq!(done.code(0).stdout, "0\n1\n2\n");
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader.stdout.take().expect("stdout"), &mut bytes)
        .expect("read");
    assert!(reader.wait().expect("ended").success());
    assert_eq!(frames(&built, &bytes), expected());
}

#[test]
fn repair_and_collect_write_streams_too() {
    let built = program();
    built
        .run(&[
            "record",
            "-t",
            "work : n",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(0);
    let whole = std::fs::read(built.path("out.tf")).expect("read");
    let output = tracewire()
        .current_dir(built.folder.path())
        .args(["repair", "out.tf", "-o", "-"])
        .output()
        .expect("tracewire runs");
    assert_eq!(frames(&built, &output.stdout), expected());
    assert!(output.stdout.len() >= whole.len() / 2);

    std::fs::write(
        built.path("x.trace"),
        "1 clk IT (0) 0000000000401000 00000090 A svc : nop\n",
    )
    .expect("written");
    let output = tracewire()
        .current_dir(built.folder.path())
        .args([
            "collect",
            "-t",
            "*0x401000 : $pc",
            "--elf",
            "program",
            "-o",
            "-",
            "x.trace",
        ])
        .output()
        .expect("tracewire runs");
    let stdout = output.stdout.clone();
    ran(output).code(0).says(&["1 frames in standard output"]);
    std::fs::write(built.path("collected.tf"), stdout).expect("written");
    assert_clean(&built.path("collected.tf"));
    assert_eq!(
        TraceFile::open(built.path("collected.tf"))
            .expect("a trace file")
            .frame_count(),
        1
    );
}

#[test]
fn no_reader_is_no_fault_and_a_full_disk_loses_nothing() {
    let built = program();
    let child = tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-t", "work : n", "-o", "-", "--", "./program"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("tracewire runs");
    drop(child.stdout.take());
    ran(child.wait_with_output().expect("ended")).code(0);

    let directory = built.path("temporary");
    std::fs::create_dir(&directory).expect("made");
    let output = tracewire()
        .current_dir(built.folder.path())
        .env("TMPDIR", &directory)
        .args([
            "record",
            "-t",
            "work : n",
            "-o",
            "/dev/full",
            "--",
            "./program",
        ])
        .output();
    let done = ran(output.expect("tracewire runs")).code(2);
    let kept = done
        .stderr
        .split("the trace file is ")
        .nth(1)
        .and_then(|rest| rest.split(':').next());
    let kept = kept.unwrap_or_else(|| panic!("{}", done.stderr)).to_owned();
    let bytes = std::fs::read(kept.trim()).expect("kept");
    assert_eq!(frames(&built, &bytes), expected());
}

/// A terminal's end that `record` would write to.
#[test]
fn a_terminal_gets_no_trace_file() {
    let built = program();
    let line = format!(
        "{} record -t work -o - -- ./program",
        env!("CARGO_BIN_EXE_tracewire")
    );
    let mut done = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(built.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    done.stdin.take().expect("stdin").flush().expect("open");
    let done = ran(done.wait_with_output().expect("ended"));
    assert!(
        done.stdout.contains("standard output is a terminal"),
        "{}",
        done.stdout
    );
    assert_eq!(done.code, Some(2));
}

#[test]
fn a_full_disk_behind_the_messages_does_not_end_the_run() {
    let built = program();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = tracewire()
        .current_dir(built.folder.path())
        .args([
            "record",
            "-t",
            "work : n",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .stderr(full.expect("opened"))
        .output()
        .expect("tracewire runs");
    assert_eq!(ran(output).code(0).stdout, "0\n1\n2\n");
    assert_eq!(built.frames().len(), 3);
}
