//! Tracepoints by jumps: the same frames as by traps, and programs that nothing harms.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Built, ran, tracewire};

const KINDS: &str = r#"
#include <stdio.h>
#include <string.h>
struct point { int x, y; double weight; };
static struct point points[3] = { { 1, 2, 0.5 }, { 3, 4, 1.5 }, { -5, 6, 2.5 } };
long total;
__attribute__ ((noinline)) long leaf (long a, long b, const char *name, struct point *point)
{
  long local = a * b;
  total += local + point->x + name[0];
  return total;
}
__attribute__ ((noinline)) double scale (double value, int times)
{
  while (times-- > 0)
    value = value * 1.25 + 0.5;
  return value;
}
int main (int argc, char **argv)
{
  double sum = 0;
  for (int i = 0; i < 60; i++)
    {
      leaf (i, i - 30, i % 2 ? "odd" : "even", &points[i % 3]);
      sum += scale (i, i % 4);
    }
  printf ("%ld %.3f\n", total, sum);
  return 0;
}
"#;

const SCRIPT: &str = "tvariable $hits = 5
trace leaf if a * b > -200 && point->x != 3
actions
collect a, b, *point, name, *name@4, total, $hits
collect/s name
teval $hits = $hits + 1
end
trace scale
actions
collect $regs, value, times
end
trace leaf
actions
collect points[a % 3].weight, $hits, *(char *) 8
end
passcount 50 3
";

/// Records by a mechanism, at addresses that are the same each time; the frames without what differs from run to run.
fn frames(built: &Built, mechanism: &str) -> Vec<Value> {
    std::fs::write(built.path("script.gdb"), SCRIPT).expect("written");
    let file = format!("{mechanism}.tf");
    let output = Command::new("setarch")
        .args(["-R", env!("CARGO_BIN_EXE_tracewire")])
        .current_dir(built.folder.path())
        .args(["record", "-x", "script.gdb", "--mechanism", mechanism])
        .args(["-o", &file, "--"])
        .arg(&built.program)
        .stdin(Stdio::null())
        .output()
        .expect("tracewire runs");
    let done = ran(output).code(0);
    assert!(
        done.stderr.contains(&format!("by {mechanism}"))
            || mechanism == "jump" && done.stderr.contains("jump"),
        "{}",
        done.stderr
    );
    let shown = ran(tracewire()
        .current_dir(built.folder.path())
        .args(["show", "--json", &file])
        .output()
        .expect("tracewire runs"))
    .code(0);
    let mut frames = shown.json();
    assert!(frames.len() > 100, "{}", frames.len());
    for frame in &mut frames {
        let frame = frame.as_object_mut().expect("an object");
        for field in ["time_us", "thread", "cpu", "values"] {
            frame.remove(field);
        }
        if let Some(Value::Object(variables)) = frame.get_mut("variables") {
            variables.retain(|name, _| !name.starts_with("$trace_") && !name.starts_with("trace_"));
        }
    }
    frames
}

#[test]
fn a_jump_collects_what_a_trap_collects() {
    for (compiler, flags) in [
        ("cc", &["-O0", "-no-pie"][..]),
        ("cc", &["-O2"]),
        ("cc", &["-O1", "-static"]),
        ("musl-gcc", &["-O2", "-static"]),
    ] {
        let built = Built::new(KINDS, &[]);
        let status = Command::new(compiler)
            .current_dir(built.folder.path())
            .args(["-g", "-o", "program", "program.c"])
            .args(flags)
            .status();
        assert!(status.expect("the compiler runs").success());
        let (jumped, trapped) = (frames(&built, "jump"), frames(&built, "trap"));
        for (jump, trap) in jumped.iter().zip(&trapped) {
            assert_eq!(jump, trap, "{compiler} {flags:?}");
        }
        assert_eq!(jumped.len(), trapped.len());
    }
}

const WILD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
unsigned long state = SEED;
__attribute__ ((noinline)) long look (const char *wild, long n) { __asm__ volatile (""); return n + ((unsigned long) wild & 1); }
int main (void)
{
  long sum = 0;
  for (long i = 0; i < 1000; i++)
    {
      state = state * 6364136223846793005ul + 1442695040888963407ul;
      unsigned long wild = state;
      switch (i % 4)
        {
        case 0: wild &= 0x7ffffffffffful; break;
        case 1: wild &= 0xffff; break;
        case 2: wild |= 0xffff800000000000ul; break;
        }
      sum += look ((const char *) wild, i) - (wild & 1);
    }
  printf ("%ld\n", sum);
  return 0;
}
"#;

/// A thousand pointers to nowhere are collected, and the program does not notice; in a condition the first ends the run.
#[test]
fn bad_pointers_harm_nobody() {
    let seed = std::env::var("TRACEWIRE_WILD_SEED").unwrap_or_else(|_| "88172645463325252".into());
    let built = Built::new(WILD, &["-O1", &format!("-DSEED={seed}ul")]);
    let record = |tracepoint: &str| {
        ran(tracewire()
            .current_dir(built.folder.path())
            .args(["record", "--mechanism", "jump", "-o", "out.tf"])
            .args(["-t", tracepoint, "--"])
            .arg(&built.program)
            .output()
            .expect("tracewire runs"))
        .code(0)
    };
    let done = record("look : collect *wild@8, wild, $_ret, *(long *) wild");
    assert_eq!(done.stdout, "499500\n");
    assert!(
        done.stderr.contains("values could not be read"),
        "{}",
        done.stderr
    );
    let info = built.info();
    assert_eq!(info["frames"], 1000, "{}", done.stderr);
    let done = record("look if *wild == 7 || *wild == 8");
    assert_eq!(done.stdout, "499500\n");
    let info = built.info();
    let status = &info["status"];
    assert_eq!(status["stop_reason"], "terror", "{status}");
    assert!(
        status["stop_text"]
            .as_str()
            .unwrap_or("")
            .contains("memory"),
        "{status}"
    );
}

const WORKING: &str = r#"
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
      for (int i = 0; i < 200; i++)
        state = mix (state, "salt");
      if (work->rounds++ == 0)
        expected = state;
      work->wrong += state != expected;
    }
  return NULL;
}
int main (void)
{
  static struct work works[2];
  char byte;
  unsigned long wrong = 0, idle = 0;
  for (int i = 0; i < 2; i++)
    pthread_create (&works[i].thread, NULL, run, &works[i]);
  puts ("ready");
  fflush (stdout);
  ssize_t end = read (0, &byte, 1);
  over = 1;
  for (int i = 0; i < 2; i++)
    {
      pthread_join (works[i].thread, NULL);
      wrong += works[i].wrong;
      idle += works[i].rounds == 0;
    }
  printf ("%s, %lu wrong, %lu idle\n", end == 0 ? "ended" : "disturbed", wrong, idle);
  return 0;
}
"#;

/// Tracewire is killed at any moment while it records by jumps: the program computes on, and right.
#[test]
fn a_killed_tracewire_leaves_jumps_that_do_no_harm() {
    let times: u32 =
        std::env::var("TRACEWIRE_KILL_TIMES").map_or(12, |times| times.parse().expect("a number"));
    let built = Built::new(WORKING, &["-O1", "-pthread"]);
    // How long it takes until the tracepoints are in, to aim by.
    let mut aim = Duration::from_millis(400);
    let mut program: Option<(std::process::Child, BufReader<std::process::ChildStdout>)> = None;
    for time in 0..times {
        let (child, told) = program.get_or_insert_with(|| {
            let mut child = Command::new(&built.program)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the program runs");
            let mut told = BufReader::new(child.stdout.take().expect("stdout"));
            told.read_line(&mut String::new()).expect("text");
            (child, told)
        });
        let begun = Instant::now();
        let mut recorder = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "-o", &format!("{time}.tf"), "--mechanism", "jump"])
            .args(["-p", &child.id().to_string()])
            .args(["-t", "mix if state % 16 == 0 : state, *salt@4"])
            .args(if time % 3 == 2 {
                &["--duration", "0.05"][..]
            } else {
                &[]
            })
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        if time == 0 {
            let said = BufReader::new(recorder.stderr.take().expect("stderr"));
            assert!(
                said.lines()
                    .map_while(Result::ok)
                    .any(|line| line.contains("by "))
            );
            aim = begun.elapsed();
        } else {
            // Anywhere from the start to a while into the run, and now and then into the removal.
            let part = (time * 37 + 11) % 100;
            let wait = (aim + Duration::from_millis(60)) * part / 80;
            std::thread::sleep(wait.saturating_sub(begun.elapsed()));
        }
        recorder.kill().expect("killed");
        recorder.wait().expect("ended");
        assert!(
            child.try_wait().expect("asked").is_none(),
            "the program is gone after kill {time}"
        );
        // Several recordings and kills of one program, then another one.
        if time % 4 == 3 || time + 1 == times {
            drop(child.stdin.take());
            let mut line = String::new();
            told.read_line(&mut line).expect("text");
            assert_eq!(line, "ended, 0 wrong, 0 idle\n", "after kill {time}");
            assert!(child.wait().expect("ended").success());
            program = None;
        }
    }
    let _ = writeln!(std::io::stderr(), "{times} kills");
}
