//! A recording that gets too little memory: it ends in order, and the program goes on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::support::{Built, ran, tracewire};
use tracewire_test_support::assert_clean;

/// A program that counts in memory and in a register, until its standard input ends, and prints whether both agree.
const COUNTS: &str = r#"
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
volatile long total;
__attribute__ ((noinline)) void site (long by) { total += by; }
int main (void)
{
  struct pollfd input = { 0, POLLIN, 0 };
  long own = 0;
  puts ("ready");
  fflush (stdout);
  do
    for (int i = 0; i < 100; i++)
      {
        site (i);
        own += i;
      }
  while (poll (&input, 1, 0) == 0);
  puts (own == total ? "right" : "wrong");
  return 0;
}
"#;

struct Counting {
    program: Child,
    input: ChildStdin,
    said: BufReader<std::process::ChildStdout>,
}

impl Counting {
    fn start(built: &Built) -> Self {
        let mut program = Command::new(&built.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let input = program.stdin.take().expect("stdin");
        let mut said = BufReader::new(program.stdout.take().expect("stdout"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        Self {
            program,
            input,
            said,
        }
    }

    /// Ends it; whether its count is right.
    fn ends_unharmed(mut self) -> bool {
        self.input.write_all(b"\n").expect("it reads");
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        self.program.wait().expect("waited").success() && line == "right\n"
    }
}

/// From too little to look at the program up to enough for everything, in KiB.
#[test]
fn too_little_memory_ends_a_run_in_order() {
    // Without the C library's own symbols the look at the program is short.
    let built = Built::new(COUNTS, &["-O1", "-static"]);
    let (mut without, mut with) = (0, 0);
    for (mechanism, limits) in [("jump", 100_000..=240_000), ("trap", 90_000..=180_000)] {
        for limit in limits.step_by(20_000) {
            let counting = Counting::start(&built);
            let line = format!(
                "ulimit -v {limit}; exec {} record --mechanism {mechanism} -t 'site : total, $regs' -o limited.tf \
                 -p {} --duration 0.05",
                env!("CARGO_BIN_EXE_tracewire"),
                counting.program.id()
            );
            let file = built.path("limited.tf");
            let _ = std::fs::remove_file(&file);
            let done = ran(Command::new("sh")
                .args(["-c", &line])
                .current_dir(built.folder.path())
                .output()
                .expect("sh runs"));
            let what = format!("{mechanism}, {limit} KiB: {:?}\n{}", done.code, done.stderr);
            assert!(counting.ends_unharmed(), "{what}");
            // Not by a signal, and no panic.
            assert!(matches!(done.code, Some(0..=2)), "{what}");
            assert!(!done.stderr.contains("error:"), "{what}");
            if done.stderr.contains("emory") {
                without += 1;
            }
            match done.code {
                Some(0) => with += 1,
                _ => assert!(done.stderr.contains("tracewire: "), "{what}"),
            }
            if file.exists() {
                eprintln!("{what}");
                assert_clean(&file);
            }
        }
    }
    // The limits are such that both are tried.
    assert!(without > 0 && with > 0, "{without} without, {with} with");
}

/// A circular trace buffer larger than the disk is an error before the program is changed.
#[test]
fn a_buffer_without_room_on_the_disk_is_refused() {
    let built = Built::new(COUNTS, &["-O1"]);
    let counting = Counting::start(&built);
    let done = ran(tracewire()
        .args(["record", "--circular", "--buffer-size", "1000000000000000"])
        .args(["-t", "site", "-o", "large.tf", "-p"])
        .arg(counting.program.id().to_string())
        .current_dir(built.folder.path())
        .output()
        .expect("tracewire runs"));
    assert!(counting.ends_unharmed());
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("bytes free"), "{}", done.stderr);
    let folder = built.folder.path();
    assert!(!folder.join("large.tf.recording").exists());
}
