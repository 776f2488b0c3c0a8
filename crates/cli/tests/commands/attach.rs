//! Attaching to a busy program again and again, and leaving it at any moment.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Built, tracewire, value};
use crate::working::{self, Working};
use tracewire_test_support::assert_clean;

/// How often the program is visited; TRACEWIRE_ATTACH_TIMES sets another number.
fn times() -> usize {
    std::env::var("TRACEWIRE_ATTACH_TIMES").map_or(20, |times| times.parse().expect("a number"))
}

#[test]
fn a_program_visited_again_and_again_computes_right() {
    let built = working::build(4, 2000);
    let mut program = Working::start(&built);
    let mut recorded = 0;
    for visit in 0..times() {
        recorded += usize::from(visit_once(&built, &program, visit));
        assert!(
            program.ended().is_none(),
            "the program is gone after visit {visit}"
        );
    }
    program.finish().expect("alive");
    // Every fourth visit waits for frames; the others may be cut short before they have a file.
    assert!(recorded * 4 >= times(), "{recorded} of {} visits", times());
    let _ = writeln!(
        std::io::stderr(),
        "{recorded} of {} visits left a file",
        times()
    );
}

/// Whether the visit left a file with frames in it.
fn visit_once(built: &Built, program: &Working, visit: usize) -> bool {
    let file = format!("{visit}.tf");
    let mut recorder = tracewire();
    recorder
        .current_dir(built.folder.path())
        .args(["record", "-o", &file, "-p", &program.id().to_string()])
        .args(["-t", "mix if state % 16 == 0 : state, *salt@4"])
        .stderr(Stdio::piped());
    let ends_itself = visit.is_multiple_of(4);
    if ends_itself {
        recorder.args(["--duration", "0.02"]);
    }
    let mut recorder = recorder.spawn().expect("tracewire runs");
    if !ends_itself {
        // At another moment each time: at once, when the tracepoint is inserted, or after some hits.
        let mut says = BufReader::new(recorder.stderr.take().expect("stderr"));
        if visit % 4 != 1 {
            says.read_line(&mut String::new()).expect("text");
        }
        if visit % 4 == 3 {
            let growing = built.path(&format!("{file}.recording"));
            let has_frames = || {
                tracewire_tracefile::TraceFile::open(&growing)
                    .is_ok_and(|file| file.frame_count() > visit as u64)
            };
            while !has_frames() {
                assert!(recorder.try_wait().expect("waited").is_none());
                std::thread::yield_now();
            }
        }
        let signal = ["-INT", "-TERM"][visit / 4 % 2];
        let killed = Command::new("kill")
            .args([signal, &recorder.id().to_string()])
            .status();
        assert!(killed.expect("kill runs").success());
        std::io::copy(&mut says, &mut std::io::sink()).expect("text");
    }
    let ended = recorder.wait_with_output().expect("ended");
    if ends_itself || visit % 4 == 3 {
        // A short visit may see no hit.
        let code = ended.status.code();
        assert!(matches!(code, Some(0 | 1)), "visit {visit}: {ended:?}");
    }
    let path = built.path(&file);
    // Those that wait for frames are large.
    if ends_itself && path.exists() {
        assert_clean(&path);
    }
    let file = tracewire_tracefile::TraceFile::open(path);
    file.is_ok_and(|file| file.frame_count() > 0)
}

/// Makes threads that end at once, until its standard input ends.
const SHORT_LIVED: &str = r#"
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
volatile long total;
__attribute__ ((noinline)) void site (long by) { total += by; }
static void *work (void *by) { site ((long) by); return by; }
int main (void)
{
  struct pollfd input = { 0, POLLIN, 0 };
  puts ("ready");
  fflush (stdout);
  do
    {
      pthread_t threads[4];
      for (long by = 0; by < 4; by++)
        if (pthread_create (&threads[by], 0, work, (void *) by))
          return 3;
      for (int by = 0; by < 4; by++)
        pthread_join (threads[by], 0);
    }
  while (poll (&input, 1, 0) == 0);
  puts ("done");
  return 0;
}
"#;

/// On one cpu a new thread often runs, and ends, before the one that has made it reports it.
#[test]
fn threads_that_end_before_they_are_reported_are_not_waited_for() {
    const LIMIT: Duration = Duration::from_secs(60);
    let built = Built::new(SHORT_LIVED, &["-O1", "-pthread", "-static"]);
    let mut program = Command::new("taskset")
        .args(["--cpu-list", "0"])
        .arg(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut said = BufReader::new(program.stdout.take().expect("stdout"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    for _ in 0..4 {
        let mut recorder = Command::new("taskset")
            .args(["--cpu-list", "0", env!("CARGO_BIN_EXE_tracewire")])
            .args(["record", "-t", "site", "-o", "out.tf", "--duration", "0.1"])
            .args(["-p", &program.id().to_string()])
            .current_dir(built.folder.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("tracewire runs");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = recorder.try_wait().expect("waited") {
                break status;
            }
            if begun.elapsed() > LIMIT {
                recorder.kill().expect("killed");
                program.kill().expect("killed");
                panic!("it waits for ever");
            }
            std::thread::yield_now();
        };
        // On a busy machine there may be no hit in so short a time.
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    }
    drop(program.stdin.take());
    line.clear();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, "done\n");
    assert!(program.wait().expect("ended").success());
}

/// Becomes itself again after each 100 calls, until its standard input ends.
const TURNS: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
volatile long total;
__attribute__ ((noinline)) void site (long turn) { total += turn; }
int main (int argc, char **argv)
{
  long turn = argc > 1 ? atol (argv[1]) : 0;
  char next[32];
  for (int i = 0; i < 100; i++) site (turn);
  struct pollfd input = { .fd = 0, .events = POLLIN };
  if (poll (&input, 1, 0) != 0) return total == 100 * turn ? 0 : 1;
  snprintf (next, sizeof next, "%ld", turn + 1);
  execl ("/proc/self/exe", argv[0], next, (char *) 0);
  return 2;
}
"#;

#[test]
fn a_program_that_becomes_another_while_its_symbols_are_read_is_recorded() {
    let built = Built::new(TURNS, &["-O1"]);
    let mut program = Command::new(&built.program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program runs");
    for mechanism in ["jump", "trap", "jump", "trap"] {
        let id = program.id().to_string();
        let done = built.run(&[
            "record",
            "-t",
            "site : turn",
            "-o",
            "out.tf",
            "--duration",
            "0.3",
            "--mechanism",
            mechanism,
            "-p",
            &id,
        ]);
        assert!(program.try_wait().expect("waited").is_none());
        done.code(0);
        let frames = built.frames();
        assert!(!frames.is_empty(), "{mechanism}");
        // Every turn begins with the number after the one before, and calls it 100 times.
        let turns: Vec<i64> = frames
            .iter()
            .map(|frame| value(frame, "turn").expect("a value").parse().expect("one"))
            .collect();
        assert!(turns.is_sorted(), "{turns:?}");
        for turn in turns.chunk_by(|one, next| one == next) {
            assert!(turn.len() <= 100, "{}", turn.len());
        }
        assert_clean(&built.path("out.tf"));
        std::fs::remove_file(built.path("out.tf")).expect("removed");
    }
    drop(program.stdin.take());
    assert!(program.wait().expect("ended").success());
}

/// Starts 100 threads, which wait until its standard input ends.
const CROWD: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
volatile long total;
static pthread_barrier_t called;
__attribute__ ((noinline)) void site (long by) { total += by; }
static void *work (void *by) { site ((long) by); pthread_barrier_wait (&called); pause (); return by; }
int main (void)
{
  pthread_barrier_init (&called, 0, 101);
  for (long by = 0; by < 100; by++)
    {
      pthread_t thread;
      if (pthread_create (&thread, 0, work, (void *) by))
        return 3;
    }
  pthread_barrier_wait (&called);
  puts ("ready");
  fflush (stdout);
  return getchar () == EOF ? 0 : 4;
}
"#;

/// The niceness of the thread of a process that has the least. The thread that waits for signals is not asked: it comes first at all
/// times, and does nothing until a signal comes.
fn least_niceness(process: u32) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let niceness = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        // The name before is in parentheses.
        let (name, fields) = stat.rsplit_once(')')?;
        if name.ends_with("(signals") {
            return None;
        }
        fields.split_whitespace().nth(16)?.parse().ok()
    });
    niceness.min()
}

/// Until its tracepoints are in, Tracewire comes before the threads that it stops one by one: among 100 busy ones it would wait
/// for its turn again and again. While they run, it does not.
#[test]
fn tracewire_comes_before_the_threads_that_it_stops() {
    // A user who may not raise a priority has to wait.
    let raised = Command::new("nice").args(["-n", "-15", "true"]).output();
    if !raised.expect("nice runs").stderr.is_empty() {
        return;
    }
    let usual = least_niceness(std::process::id()).expect("a number");
    let built = Built::new(CROWD, &["-O1", "-pthread"]);
    let mut program = Command::new(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut reported = BufReader::new(program.stdout.take().expect("stdout"));
    reported.read_line(&mut String::new()).expect("a line");
    let mut recorder = tracewire()
        .args(["record", "-t", "site", "-o", "out.tf"])
        .args(["-p", &program.id().to_string()])
        .current_dir(built.folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let said = BufReader::new(recorder.stderr.take().expect("stderr"));
    let process = recorder.id();
    let (placed, is_placed) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            if line.contains("tracepoint 1 by ") {
                let _ = placed.send(());
            }
        }
    });
    let mut is_raised = false;
    while is_placed.try_recv().is_err() {
        assert!(recorder.try_wait().expect("asked").is_none());
        is_raised |= least_niceness(process).is_some_and(|niceness| niceness < usual);
        std::thread::yield_now();
    }
    assert!(is_raised);
    while least_niceness(process) != Some(usual) {
        assert!(recorder.try_wait().expect("asked").is_none());
        std::thread::yield_now();
    }
    // The recording ends with the program.
    drop(program.stdin.take());
    assert!(program.wait().expect("ended").success());
    // All calls were before.
    assert_eq!(recorder.wait().expect("ended").code(), Some(1));
    reader.join().expect("it reads to the end");
}

/// A thread in a pad gets a signal without a handler: no handler can return into the pad, whose memory can be freed.
#[test]
fn signals_that_are_ignored_leave_nothing_in_the_program() {
    let built = Built::new(
        "#include <sys/wait.h>\n#include <unistd.h>\n\
         __attribute__ ((noinline)) long work (long n)\n\
         { __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : \"+r\" (n)); return n; }\n\
         int main (void)\n\
         { for (;;)\n\
             { pid_t child = fork ();\n\
               if (child == 0) _exit (0);\n\
               for (long n = 0; n < 50000; n++) work (n);\n\
               if (waitpid (child, 0, 0) != child || getppid () == 1) return 1; } }\n",
        &["-O1"],
    );
    let mut program = Command::new(&built.program)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let process = program.id().to_string();
    let left = |process: &str| {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it runs");
        let left = maps.lines().filter(|map| map.contains("memfd:tracewire"));
        left.map(str::to_owned).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        built
            .run(&[
                "record",
                "-o",
                "out.tf",
                "--circular",
                "--duration",
                "0.3",
                "--mechanism",
                "jump",
                "-t",
                "work : n",
                "-p",
                &process,
            ])
            .code(0);
        assert_eq!(left(&process), [""; 0]);
    }
    assert!(program.try_wait().expect("its state").is_none());
    program.kill().expect("killed");
    program.wait().expect("ended");
}
