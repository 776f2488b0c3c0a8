//! `record --rotate`: files of a process that follow one another.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use crate::support::{Built, tracewire, value};
use tracewire_test_support::assert_clean;

/// Threads that call a function with their number and a count, until the input ends, and then say how often.
const COUNTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile int over;

__attribute__ ((noinline)) long
work (long thread, long n)
{
  __asm__ volatile ("" ::: "memory");
  return thread + n;
}

static void *
run (void *thread)
{
  long n = 0, sum = 0;
  while (!over)
    {
      sum += work ((long) thread, n++);
      if (n % 16 == 0)
        usleep (1000);
    }
  return (void *) (n + (sum == -1));
}

int
main (void)
{
  char byte;
  pthread_t all[3];
  if (read (0, &byte, 1) != 1)
    return 1;
  for (long i = 0; i < 3; i++)
    pthread_create (&all[i], 0, run, (void *) i);
  while (read (0, &byte, 1) == 1);
  over = 1;
  for (long i = 0; i < 3; i++)
    {
      void *count;
      pthread_join (all[i], &count);
      printf ("%ld\n", (long) count);
    }
  return 0;
}
"#;

#[test]
fn files_that_follow_one_another_have_each_hit_once() {
    let built = Built::new(COUNTS, &["-O1", "-pthread"]);
    for mechanism in ["jump", "trap"] {
        let mut program = std::process::Command::new(&built.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let process = program.id().to_string();
        let mut recorder = tracewire()
            .current_dir(built.folder.path())
            .args(["record", "--mechanism", mechanism, "--rotate", "50ms"])
            .args(["-p", &process, "-o", mechanism])
            .args(["-t", "work : thread, n, count()"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let mut said = BufReader::new(recorder.stderr.take().expect("stderr")).lines();
        let begun = said.find(|line| line.as_ref().is_ok_and(|line| line.contains("is recorded")));
        assert!(begun.is_some());
        let mut input = program.stdin.take().expect("its input");
        input.write_all(b"x").expect("written");
        let third = built.path(&format!("{mechanism}/{process}-4.tf.recording"));
        while !third.exists() {
            std::thread::yield_now();
        }
        drop(input);
        let output = program.wait_with_output().expect("it ends");
        let counts = String::from_utf8(output.stdout).expect("text");
        let counts: Vec<i64> = counts
            .lines()
            .map(|line| line.parse().expect("a count"))
            .collect();
        assert_eq!(counts.len(), 3);
        let rest: Vec<String> = said.map(|line| line.expect("text")).collect();
        assert!(recorder.wait().expect("it ends").success(), "{rest:?}");
        let sum: i64 = counts.iter().sum();
        // The message about the process counts all its files.
        let whole = format!("process {process}: {sum} frames; hits: tracepoint 1 {sum}; ");
        assert!(
            rest.iter().any(|line| line.contains(&whole)),
            "{whole}: {rest:?}"
        );
        let mut seen: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        let (mut hits, mut before) = (0, 0);
        for number in 1.. {
            let name = match number {
                1 => format!("{mechanism}/{process}.tf"),
                number => format!("{mechanism}/{process}-{number}.tf"),
            };
            if !built.path(&name).exists() {
                assert!(number > 4, "{number}");
                break;
            }
            assert_clean(&built.path(&name));
            let info = built.run(&["info", "--json", &name]).code(0).json();
            let own = info[0]["tracepoints"][0]["hits"].as_i64().expect("hits");
            hits += own;
            assert_eq!(info[0]["frames"], own, "{name}");
            // Parts do not overlap in time.
            let status = &info[0]["status"];
            let start = status["start_us"].as_u64().expect("a time");
            assert!(start >= before, "{name}");
            before = status["stop_us"].as_u64().expect("a time");
            let shown = built.run(&["show", "--json", &name]).code(0).json();
            // The counts come after the frames.
            for frame in shown.iter().filter(|line| line.get("frame").is_some()) {
                let number = |name: &str| -> i64 {
                    let text = value(frame, name).expect("collected");
                    text.parse().expect("a number")
                };
                seen.entry(number("thread")).or_default().push(number("n"));
            }
        }
        assert_eq!(hits, sum);
        for (thread, calls) in &seen {
            let count = counts[usize::try_from(*thread).expect("few")];
            assert!(
                calls.iter().copied().eq(0..count),
                "{mechanism}, thread {thread}"
            );
        }
        assert_eq!(seen.len(), 3);
    }
}
