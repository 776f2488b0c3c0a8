//! Attaching to a busy program again and again, and leaving it at any moment.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::support::{Built, tracewire};

/// Four threads that work, and check all their work, until standard input ends.
const CHECKED: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int over;
__attribute__ ((noinline)) unsigned long mix (unsigned long state, const char *salt)
{
  state = state * 6364136223846793005ul + (unsigned char) salt[state % 4];
  return state ^ state >> 29;
}
struct work { pthread_t thread; unsigned long rounds, wrong; };
static void *run (void *argument)
{
  struct work *work = argument;
  unsigned long expected = 0;
  while (!over)
    {
      unsigned long state = 1;
      for (int i = 0; i < 2000; i++)
        state = mix (state, "salt");
      if (work->rounds++ == 0)
        expected = state;
      work->wrong += state != expected;
    }
  return NULL;
}
int main (void)
{
  static struct work works[4];
  char byte;
  unsigned long wrong = 0, idle = 0;
  for (int i = 0; i < 4; i++)
    pthread_create (&works[i].thread, NULL, run, &works[i]);
  puts ("ready");
  fflush (stdout);
  ssize_t end = read (0, &byte, 1);
  over = 1;
  for (int i = 0; i < 4; i++)
    {
      pthread_join (works[i].thread, NULL);
      wrong += works[i].wrong;
      idle += works[i].rounds == 0;
    }
  printf ("%s, %lu wrong, %lu idle\n", end == 0 ? "ended" : "disturbed", wrong, idle);
  return 0;
}
"#;

/// How often the program is visited; TRACEWIRE_ATTACH_TIMES sets another number.
fn times() -> usize {
    std::env::var("TRACEWIRE_ATTACH_TIMES").map_or(20, |times| times.parse().expect("a number"))
}

#[test]
fn a_program_visited_again_and_again_computes_right() {
    let built = Built::new(CHECKED, &["-O1", "-pthread"]);
    let mut program = Command::new(&built.program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut told = BufReader::new(program.stdout.take().expect("stdout"));
    let mut line = String::new();
    told.read_line(&mut line).expect("text");
    let mut recorded = 0;
    for visit in 0..times() {
        recorded += usize::from(visit_once(&built, &program, visit));
        assert!(
            program.try_wait().expect("asked").is_none(),
            "the program is gone after visit {visit}"
        );
    }
    drop(program.stdin.take());
    line.clear();
    told.read_line(&mut line).expect("text");
    assert_eq!(line, "ended, 0 wrong, 0 idle\n");
    assert!(program.wait().expect("ended").success());
    // Some visits are cut short before they have a file.
    assert!(recorded * 2 > times(), "{recorded} of {} visits", times());
    let _ = writeln!(
        std::io::stderr(),
        "{recorded} of {} visits left a file",
        times()
    );
}

/// Whether the visit left a file with frames in it.
fn visit_once(built: &Built, program: &Child, visit: usize) -> bool {
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
        // At another moment each time: before anything, when the tracepoint is in, or after some hits.
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
        assert!(ended.status.success(), "visit {visit}: {ended:?}");
    }
    let file = tracewire_tracefile::TraceFile::open(built.path(&file));
    file.is_ok_and(|file| file.frame_count() > 0)
}
