//! Frames and jumps of a killed Tracewire, saved and removed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::support::{Built, Ran, ran, tracewire, value};
use crate::working::{self, Working};
use tracewire_test_support::assert_clean;

#[test]
fn what_a_killed_recording_left_is_saved_and_taken_out() {
    let built = working::build(2, 2000);
    let mut program = Working::start(&built);
    let rescue = |program: &Working| {
        ran(tracewire()
            .current_dir(built.folder.path())
            .args(["rescue", "-p", &program.id().to_string()])
            .args(["-o", "rest.tf"])
            .output()
            .expect("tracewire runs"))
    };
    rescue(&program).code(1).says(&["nothing was left there"]);
    // Twice: the second removes the first one's jump.
    for round in 0..2 {
        let mut recorder = tracewire()
            .current_dir(built.folder.path())
            .args([
                "record",
                "-o",
                "out.tf",
                "--mechanism",
                "jump",
                "--circular",
            ])
            .args(["-p", &program.id().to_string()])
            .args(["-t", "mix if state % 3 == 0 : state, *salt@4"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let said = BufReader::new(recorder.stderr.take().expect("stderr"));
        let mut said = said.lines().map_while(Result::ok);
        let taken_over = said.next().expect("text").contains("had left 1 jump, ");
        assert_eq!(taken_over, round == 1);
        assert!(said.any(|line| line.contains("by ")), "round {round}");
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
    }
    let done = rescue(&program).code(0).says(&["1 jump taken out"]);
    if done.stderr.contains("rest.tf: ") {
        let info = built.run(&["info", "rest.tf", "--json"]).code(0).json();
        assert_eq!(info[0]["tracepoints"][0]["source"]["at"], "mix");
        assert_ne!(info[0]["frames"], 0);
        assert_clean(&built.path("rest.tf"));
        let shown = built.run(&["show", "--json", "rest.tf"]).code(0).json();
        assert!(value(&shown[0], "state").is_some(), "{}", shown[0]);
    }
    assert!(program.ended().is_none());
    // Its code is unchanged: a recording by traps finds the same places, and nothing is left to be saved.
    rescue(&program).code(1).says(&["nothing was left there"]);
    program.finish().expect("alive");
}

/// A recording of a process into `out.tf`, by jumps, whose tracepoint is in.
fn recorder(built: &Built, process: &str, options: &[&str]) -> Child {
    let mut recorder = tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-o", "out.tf", "--mechanism", "jump"])
        .args(options)
        .args(["-p", process])
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("tracepoint 1 by ")));
    recorder
}

/// Prints the counter of its probe whenever that changes.
const MARKED: &str = r#"
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <unistd.h>
#include <sys/sdt.h>

unsigned short app_turn_semaphore __attribute__ ((section (".probes")));

int
main (void)
{
  unsigned before = 99;
  /* Not for ever: should nobody end it. */
  for (long turn = 0; turn < 600000; turn++)
    {
      unsigned now = *(volatile unsigned short *) &app_turn_semaphore;
      if (now != before)
        printf ("%u\n", before = now), fflush (stdout);
      STAP_PROBE1 (app, turn, turn);
      usleep (100);
    }
  return 0;
}
"#;

#[test]
fn the_counter_of_a_marker_is_lowered_that_a_killed_recording_raised() {
    let built = Built::new(MARKED, &["-O1"]);
    let mut program = Command::new(&built.program)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let counts = BufReader::new(program.stdout.take().expect("stdout"));
    let mut counts = counts.lines().map_while(Result::ok);
    assert_eq!(counts.next().as_deref(), Some("0"));
    let process = program.id().to_string();
    let mut recorder = tracewire()
        .current_dir(built.folder.path())
        .args(["record", "-o", "out.tf", "--mechanism", "jump"])
        .args(["--circular", "-p", &process, "-t", "-probe-stap app:turn"])
        .stderr(Stdio::null())
        .spawn()
        .expect("tracewire runs");
    assert_eq!(counts.next().as_deref(), Some("1"));
    recorder.kill().expect("killed");
    recorder.wait().expect("ended");
    for code in [0, 1] {
        let mut rescue = tracewire();
        rescue
            .current_dir(built.folder.path())
            .args(["rescue", "-p", &process, "-o", "rest.tf"]);
        ran(rescue.output().expect("tracewire runs")).code(code);
        let rest = built.path("rest.tf");
        if rest.exists() {
            assert_clean(&rest);
        }
    }
    assert_eq!(counts.next().as_deref(), Some("0"));
    program.kill().expect("it lives");
    program.wait().expect("ended");
}

/// Waits until a program has taken some processor time.
fn works(program: &Working) {
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id()));
        let stat = stat.expect("it lives");
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let field = fields.split(' ').nth(11).expect("its time");
        field.parse().expect("a number")
    };
    let before = ticks();
    while ticks() < before + 5 {
        std::thread::yield_now();
    }
}

#[test]
fn what_several_killed_recordings_left_is_in_several_files() {
    let built = working::build(2, 2000);
    let mut program = Working::start(&built);
    let process = program.id().to_string();
    for notes in ["older", "newer"] {
        let script = built.path("script.gdb");
        std::fs::write(
            &script,
            format!("set trace-notes {notes}\ntrace mix\nactions\ncollect state\nend\n"),
        )
        .expect("written");
        let mut recorder = recorder(&built, &process, &["--circular", "-x", "script.gdb"]);
        // The threads run once the jump is there.
        works(&program);
        // Frames that come while it is stopped are not read.
        let stopped = Command::new("kill")
            .args(["-STOP", &recorder.id().to_string()])
            .status();
        assert!(stopped.expect("kill runs").success());
        works(&program);
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
    }
    let done = built
        .run(&["rescue", "-p", &process, "-o", "rest.tf"])
        .code(0)
        .says(&["1 jump taken out", "rest.tf.2: "]);
    for (name, notes) in [("rest.tf", "newer"), ("rest.tf.2", "older")] {
        let info = built
            .run(&["info", name, "--json"])
            .code(0)
            .json()
            .remove(0);
        assert_eq!(info["status"]["notes"], notes, "{}", done.stderr);
        assert_ne!(info["frames"], 0, "{}", done.stderr);
        assert_clean(&built.path(name));
    }
    assert!(program.ended().is_none());
    program.finish().expect("alive");
}

/// A program that makes this many calls of `work` while it is recorded with these options. The recording is killed, and the frames
/// that it has left are saved in `rest.tf`.
pub fn of_a_killed_recording(calls: u32, options: &[&str]) -> (Built, Ran) {
    let built = Built::new(
        &format!(
            "#include <stdio.h>\n\
             __attribute__ ((noinline)) long work (long n)\n\
             {{ __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : : \"r\" (n) : \"memory\"); return n; }}\n\
             int main (void)\n\
             {{ if (getchar () == EOF) return 1;\n\
               for (long n = 0; n < {calls}; n++) work (n);\n\
               puts (\"done\"); fflush (stdout);\n\
               return getchar () == EOF ? 0 : 1; }}\n"
        ),
        &["-O1"],
    );
    let mut program = Command::new(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let process = program.id().to_string();
    let options = [options, &["-t", "work : n"]].concat();
    let mut recorder = recorder(&built, &process, &options);
    let mut input = program.stdin.take().expect("stdin");
    input.write_all(b"x").expect("written");
    let output = BufReader::new(program.stdout.take().expect("stdout"));
    let done = output.lines().map_while(Result::ok).next();
    assert_eq!(done.as_deref(), Some("done"));
    recorder.kill().expect("killed");
    recorder.wait().expect("ended");
    let rescued = built
        .run(&["rescue", "-p", &process, "-o", "rest.tf"])
        .code(0);
    drop(input);
    assert!(program.wait().expect("ended").success());
    (built, rescued)
}

/// Calls `work` until a signal has found it outside of its own code, in a pad. The handler prints that and waits there.
const IN_A_PAD: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

extern char __executable_start, etext;
static volatile int was_in_a_pad;

__attribute__ ((noinline)) long
work (long n)
{
  __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" : : "r" (n) : "memory");
  return n;
}

static void
handler (int signal, siginfo_t *info, void *context)
{
  (void) signal, (void) info;
  char *at = (char *) ((ucontext_t *) context)->uc_mcontext.gregs[REG_RIP];
  if (was_in_a_pad || (at >= &__executable_start && at < &etext))
    return;
  was_in_a_pad = 1;
  char byte;
  if (write (1, "in a pad\n", 9) != 9 || read (0, &byte, 1) != 1)
    _exit (1);
}

int
main (void)
{
  struct sigaction action = { 0 };
  struct itimerval every = { { 0, 100 }, { 0, 100 } };
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  if (getchar () == EOF || sigaction (SIGALRM, &action, NULL) != 0 || setitimer (ITIMER_REAL, &every, NULL) != 0)
    return 1;
  long n = 0;
  while (!was_in_a_pad)
    work (n++);
  for (long more = 0; more < 1000; more++)
    work (n++);
  puts ("done"), fflush (stdout);
  return getchar () == EOF ? 0 : 1;
}
"#;

#[test]
fn a_recording_that_has_ended_has_left_nothing_though_its_pads_stay() {
    let built = Built::new(IN_A_PAD, &["-O1"]);
    let mut program = Command::new(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let process = program.id().to_string();
    let mut recorder = recorder(&built, &process, &["--circular", "-t", "work : n"]);
    let mut input = program.stdin.take().expect("stdin");
    input.write_all(b"x").expect("written");
    let output = BufReader::new(program.stdout.take().expect("stdout"));
    let mut output = output.lines().map_while(Result::ok);
    assert_eq!(output.next().as_deref(), Some("in a pad"));
    let interrupted = Command::new("kill")
        .args(["-INT", &recorder.id().to_string()])
        .status();
    assert!(interrupted.expect("kill runs").success());
    assert!(recorder.wait().expect("ended").success());
    // The frame of the hit that was interrupted is finished now.
    input.write_all(b"x").expect("written");
    assert_eq!(output.next().as_deref(), Some("done"));
    built
        .run(&["rescue", "-p", &process, "-o", "rest.tf"])
        .code(1)
        .says(&["nothing was left there"]);
    assert!(!built.path("rest.tf").exists());
    drop(input);
    assert!(program.wait().expect("ended").success());
}
