//! Signals that end a run, and the contents of an unfinished file.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use crate::support::{Built, ran, tracewire, value};
use tracewire_tracefile::TraceFile;

/// A program that prints whether it ignores SIGINT, and then works until its standard input ends.
const PATIENT: &str = r#"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
volatile int calls;
__attribute__ ((noinline)) void tick (int n) { calls += n; }
int main (void)
{
  struct pollfd input = { 0, POLLIN, 0 };
  struct sigaction action;
  sigset_t blocked;
  sigaction (SIGINT, 0, &action);
  sigprocmask (SIG_BLOCK, 0, &blocked);
  printf ("%s %s\n", action.sa_handler == SIG_IGN ? "ignored" : "default",
          sigismember (&blocked, SIGINT) ? "blocked" : "open");
  fflush (stdout);
  while (poll (&input, 1, 1) == 0)
    tick (1);
  puts ("done");
  return 0;
}
"#;

/// Waits until the file of a recording has frames.
fn until_frames(built: &Built, recorder: &mut Child) {
    let growing = built.path("out.tf.recording");
    while !TraceFile::open(&growing).is_ok_and(|file| file.frame_count() > 3) {
        assert!(recorder.try_wait().expect("waited").is_none());
        std::thread::yield_now();
    }
}

/// A shell without job control makes programs that it starts with `&` ignore SIGINT. The process id is on the first line.
fn in_background(
    built: &Built,
    arguments: &str,
) -> (Child, String, BufReader<std::process::ChildStdout>) {
    let line = format!(
        "exec 3<&0; {} record -t tick -o out.tf {arguments} <&3 & echo $!; wait $!; echo status $?",
        env!("CARGO_BIN_EXE_tracewire")
    );
    let mut shell = Command::new("env")
        .args(["--default-signal=INT,HUP", "sh", "-c", &line])
        .current_dir(built.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut said = BufReader::new(shell.stdout.take().expect("stdout"));
    let mut id = String::new();
    said.read_line(&mut id).expect("a line");
    (shell, id.trim().to_owned(), said)
}

/// Sends SIGINT to a process that takes it: where it is ignored, nothing would ever come of it.
fn interrupt(id: &str) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
    let masks = status.lines().filter_map(|line| {
        let mask = line
            .strip_prefix("SigBlk:")
            .or(line.strip_prefix("SigCgt:"));
        u64::from_str_radix(mask?.trim(), 16).ok()
    });
    let taken = masks.fold(0, |taken, mask| taken | mask);
    assert_ne!(
        taken & (1 << (libc::SIGINT - 1)),
        0,
        "SIGINT is ignored: {status}"
    );
    let killed = Command::new("kill").args(["-INT", id]).status();
    assert!(killed.expect("kill runs").success());
}

#[test]
fn a_script_ends_its_recording_with_sigint() {
    let built = Built::new(PATIENT, &["-O1"]);
    let mut program = Command::new(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut reported = BufReader::new(program.stdout.take().expect("stdout"));
    let mut line = String::new();
    reported.read_line(&mut line).expect("a line");
    let (mut shell, id, mut said) = in_background(&built, &format!("-p {}", program.id()));
    until_frames(&built, &mut shell);
    interrupt(&id);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "status 0\n");
    ran(shell.wait_with_output().expect("ended")).says(&["runs on", "in out.tf"]);
    drop(program.stdin.take());
    assert!(program.wait().expect("ended").success());
}

#[test]
fn the_program_of_a_background_job_ignores_sigint_as_its_shell_wants() {
    let built = Built::new(PATIENT, &["-O1"]);
    let (mut shell, id, mut said) = in_background(&built, "-- ./program");
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "ignored open\n");
    until_frames(&built, &mut shell);
    interrupt(&id);
    // The run is over; the program goes on, and the recorder does not wait for it: the signal was no ^C.
    line.clear();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "status 0\n");
    drop(shell.stdin.take());
    ran(shell.wait_with_output().expect("ended")).says(&["in out.tf"]);

    let output = tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-t", "main", "-o", "other.tf", "--", "./program"])
        .output();
    assert_eq!(
        ran(output.expect("runs")).code(0).stdout,
        "default open\ndone\n"
    );
}

#[test]
fn a_file_that_grows_says_nothing_of_frames_that_is_not_so() {
    let built = Built::new(PATIENT, &["-O1"]);
    let mut recorder = tracewire()
        .current_dir(built.folder.path())
        .args([
            "record",
            "-t",
            "tick : n",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    until_frames(&built, &mut recorder);
    let shown = built.run(&["info", "out.tf.recording"]).code(0);
    assert!(!shown.stdout.contains("0 kept"), "{}", shown.stdout);
    let info = built
        .run(&["info", "--json", "out.tf.recording"])
        .code(0)
        .json()
        .remove(0);
    assert!(info["frames"].as_u64() > Some(3), "{info}");
    assert!(
        info["status"]["frames"].is_null() && info["status"]["created"].is_null(),
        "{info}"
    );
    assert!(info["tracepoints"][0]["hits"].is_null(), "{info}");
    drop(recorder.stdin.take());
    ran(recorder.wait_with_output().expect("ended")).code(0);
    // The finished one is complete.
    let info = built.info();
    assert_eq!(info["status"]["frames"], info["frames"]);
    assert_eq!(info["tracepoints"][0]["hits"], info["frames"]);
    assert!(
        built
            .frames()
            .iter()
            .all(|frame| value(frame, "n") == Some("1"))
    );
}
