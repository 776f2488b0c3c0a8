//! Who may trace a program, and the messages to those who may not. Root makes the situations, and the user `nobody` tries the
//! forbidden operations.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tracewire_test_support::{copy_program, tool};

use crate::support::{Built, OBEYS, Ran, ran, value};

/// A user without rights, by number.
const NOBODY: &str = "65534";

/// A directory that `nobody` may write to, with a program, and with Tracewire where `nobody` can start it. `None` if the test is
/// not root.
fn folder_of_nobody(source: &str) -> Option<(Built, PathBuf)> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tried: only root can make other users' processes");
        return None;
    }
    let built = Built::new(source, &["-O1"]);
    let mode = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(built.folder.path(), mode).expect("changed");
    let copy = built.path("tracewire");
    let own = env!("CARGO_BIN_EXE_tracewire");
    std::fs::hard_link(own, &copy).unwrap_or_else(|_| copy_program(Path::new(own), &copy));
    Some((built, copy))
}

/// A command of `nobody`.
fn as_nobody(built: &Built, more: &[&str]) -> Command {
    let mut command = tool("setpriv");
    command
        .current_dir(built.folder.path())
        .env("HOME", built.folder.path())
        .env("NO_COLOR", "1")
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
        .args(more);
    command
}

/// Starts a program that waits for its input, and waits until it is there.
fn start(built: &Built, mut command: Command) -> Child {
    let child = command
        .arg(&built.program)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let program = built.program.file_name();
    let status = PathBuf::from(format!("/proc/{}", child.id()));
    let waits = || {
        let comm = std::fs::read_to_string(status.join("comm")).expect("it runs");
        let call = std::fs::read_to_string(status.join("syscall")).unwrap_or_default();
        Some(comm.trim_end().as_ref()) == program && call.starts_with("0 ")
    };
    while !waits() {
        std::thread::yield_now();
    }
    child
}

/// Makes a program make calls and end.
fn finish(mut child: Child) -> Ran {
    let mut input = child.stdin.take().expect("its input");
    input.write_all(b"xxx").expect("written");
    drop(input);
    ran(child.wait_with_output().expect("it ends"))
}

/// `record -p` by `nobody` is refused for this reason, and the program goes on.
fn refused(built: &Built, copy: &PathBuf, program: Child, reason: &str) {
    let output = as_nobody(built, &[])
        .arg(copy)
        .args(["record", "-t", "work : n", "-o", "no.tf", "-p"])
        .arg(program.id().to_string())
        .output()
        .expect("setpriv runs");
    let said = ran(output).code(2).stderr;
    let expected = format!("tracewire: process {} {reason}\n", program.id());
    assert_eq!(said, expected);
    assert!(!built.path("no.tf").exists());
    finish(program).code(0).says(&[" 3 calls\n"]);
}

#[test]
fn programs_that_a_user_may_not_trace_are_refused_with_a_way_out() {
    let Some((built, copy)) = folder_of_nobody(OBEYS) else {
        return;
    };
    let as_root = Command::new("env");
    refused(
        &built,
        &copy,
        start(&built, as_root),
        "may not be traced: it belongs to root (user 0), and this is nobody (user 65534); run as root or as that user",
    );
    let capable = as_nobody(
        &built,
        &["--inh-caps", "+net_raw", "--ambient-caps", "+net_raw"],
    );
    refused(
        &built,
        &copy,
        start(&built, capable),
        "may not be traced: it has capabilities that this user does not have; run as root",
    );
    let source = OBEYS.replace(
        "int n = 0;",
        "int n = 0; extern int prctl (int, ...); prctl (4, 0);",
    );
    let Some((hidden, copy)) = folder_of_nobody(&source) else {
        return;
    };
    let program = start(&hidden, as_nobody(&hidden, &[]));
    let reason = "may not be traced: the kernel refuses: it has changed its user or its capabilities, or does not let itself be dumped; \
                  run as root";
    refused(&hidden, &copy, program, reason);
}

#[test]
fn a_program_that_gets_no_rights_under_a_tracer_is_recorded_and_that_is_said() {
    let source = OBEYS.replace("fprintf (stderr, \"%d", "fprintf (stderr, \"%d ");
    let source = source.replace("(int) getpid ()", "(int) geteuid ()");
    let Some((built, copy)) = folder_of_nobody(&source) else {
        return;
    };
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(&built.program, mode).expect("changed");
    // It has root's rights, unless the file system gives none.
    let own = finish(start(&built, as_nobody(&built, &[]))).code(0).stderr;
    let mut recording = as_nobody(&built, &[])
        .arg(&copy)
        .args([
            "record",
            "-t",
            "work : n",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv runs");
    let mut input = recording.stdin.take().expect("its input");
    input.write_all(b"xx").expect("written");
    drop(input);
    let done = ran(recording.wait_with_output().expect("it ends"))
        .code(0)
        .says(&[
            "warning: the program should run with the rights of root (user 0) and does not",
            "65534  2 calls\n",
        ]);
    let frames = built.run(&["show", "out.tf", "--json"]).code(0).json();
    let values: Vec<_> = frames
        .iter()
        .filter_map(|frame| value(frame, "n"))
        .collect();
    assert_eq!(values, ["0", "1"], "{}", done.stderr);
    if own.starts_with("0 ") {
        let program = start(&built, as_nobody(&built, &[]));
        let reason = "may not be traced: it belongs to root (user 0), and this is nobody (user 65534); run as root or as that user";
        refused(&built, &copy, program, reason);
    }
}

#[test]
fn a_program_that_is_debugged_already_is_refused_with_the_debugger_s_name() {
    let built = Built::new(OBEYS, &["-O1"]);
    let program = start(&built, Command::new("env"));
    let id = program.id().to_string();
    let mut gdb = tool("gdb")
        .args(["-nx", "-q", "-p", &id, "-ex", "echo attached\\n"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("GDB starts");
    let mut lines = BufReader::new(gdb.stdout.take().expect("its output")).lines();
    let attached = lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with("attached")));
    assert!(attached.is_some());
    let refused = built
        .run(&["record", "-p", &id, "-t", "work", "-o", "no.tf"])
        .code(2);
    let expected = format!(
        "tracewire: process {id} is already traced by process {} (gdb), and a process has one tracer: detach that one first\n",
        gdb.id()
    );
    assert_eq!(refused.stderr, expected);
    drop(gdb.stdin.take());
    gdb.wait().expect("it ends");
    finish(program).code(0).says(&[" 3 calls\n"]);
}
