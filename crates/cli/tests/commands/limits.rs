//! The ends and the limits of a run.

use std::process::Stdio;

use crate::support::{Built, tracewire};

/// Calls `work` so many times in each of so many threads, as fast as it can, and prints how many calls that were.
const COUNTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static long calls;
__attribute__ ((noinline)) long work (long n)
{ __asm__ volatile (".byte 0x0f, 0x1f, 0x44, 0, 0" : : "r" (n) : "memory"); return n; }
static void *run (void *unused)
{
  for (long n = 0; n < calls; n++) work (n);
  return unused;
}
int main (int argc, char **argv)
{
  int count = atoi (argv[1]);
  pthread_t threads[64];
  calls = atol (argv[2]);
  for (int i = 0; i < count; i++) pthread_create (&threads[i], 0, run, 0);
  for (int i = 0; i < count; i++) pthread_join (threads[i], 0);
  printf ("%ld\n", count * calls);
  return 0;
}
"#;

pub fn counts() -> Built {
    Built::new(COUNTS, &["-O1", "-pthread"])
}

#[test]
fn a_run_ends_with_as_many_frames_as_were_asked_for() {
    let built = counts();
    for mechanism in ["jump", "trap"] {
        for threads in ["1", "8"] {
            let done = built
                .run(&[
                    "record",
                    "--max-frames",
                    "1234",
                    "--mechanism",
                    mechanism,
                    "-t",
                    "work : n",
                    "-o",
                    "out.tf",
                    "--",
                    "./program",
                    threads,
                    "2000",
                ])
                .code(0)
                .says(&[
                    "1234 frames in out.tf; hits: tracepoint 1 1234",
                    "the run has made 1234 frames, as many as were asked for",
                ]);
            // The program goes on to its end.
            assert!(done.stdout.contains("000\n"), "{}", done.stdout);
            assert_eq!(built.frames().len(), 1234);
        }
    }
}

/// The frames of all processes count together.
#[test]
fn processes_share_the_frames_that_were_asked_for() {
    let built = counts();
    for mechanism in ["jump", "trap"] {
        let done = built
            .run(&[
                "record",
                "--max-frames",
                "1234",
                "--mechanism",
                mechanism,
                "-t",
                "work : n",
                "--follow-forks",
                "--pending",
                "-o",
                mechanism,
                "--",
                "/bin/sh",
                "-c",
                "./program 2 3000 & ./program 2 3000 & ./program 2 3000; wait",
            ])
            .code(0);
        done.says(&["1234 frames of "]);
    }
}

#[test]
fn a_run_expires() {
    let started = std::time::Instant::now();
    let sleeper = Built::new(
        "#include <unistd.h>\n__attribute__ ((noinline)) int work (int n) { __asm__ volatile (\"\" : : \"r\" (n)); return n; }\n\
         int main (void) { work (1); alarm (20); pause (); return 0; }\n",
        &["-O1"],
    );
    // The program keeps its standard error after the recorder has ended.
    let words = std::fs::File::create(sleeper.path("words")).expect("created");
    let ended = tracewire()
        .current_dir(sleeper.folder.path())
        .args([
            "record",
            "--expire",
            "500ms",
            "-t",
            "work : n",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .stdout(Stdio::null())
        .stderr(words)
        .status()
        .expect("it runs");
    let said = std::fs::read_to_string(sleeper.path("words")).expect("read");
    // It may have come no further than to its first instruction.
    assert!(matches!(ended.code(), Some(0 | 1)), "{said}");
    assert!(
        said.contains("the run has expired: it may last 500ms"),
        "{said}"
    );
    // The recorder has not waited for the program's end.
    assert!(started.elapsed().as_secs() < 15);
}

#[test]
fn a_place_of_a_pattern_that_cannot_be_served_is_left_out() {
    // A jump of the function leads past its first byte, and the following bytes would make a punned jump lead into the function.
    let built = Built::new(
        "__attribute__ ((noinline)) int part_one (int n) { __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : : \"r\" (n)); return n; }\n\
         int part_two (int n);\n\
         __asm__ (\".globl part_two\\n.type part_two, @function\\npart_two: nop\\n1: .byte 0, 0, 0, 0\\njmp 1b\\nret\\n.size part_two, . - part_two\\n\");\n\
         int main (void) { return part_one (1) == 2 ? part_two (2) : 0; }\n",
        &["-O1"],
    );
    let run = |location: &str| {
        built.run(&[
            "record",
            "--mechanism",
            "jump",
            "-t",
            location,
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
    };
    run("part_two").code(2).says(&["it cannot be a jump"]);
    run("part_*")
        .code(0)
        .says(&["warning", "it cannot be a jump", "1 frame in out.tf"]);
    // There must be one place at least.
    run("part_tw*").code(2).says(&["it cannot be a jump"]);
}

#[test]
fn a_trigger_ends_the_run_so_many_frames_later() {
    let built = counts();
    for mechanism in ["jump", "trap"] {
        let record = |after: &str, trigger: &str| {
            built.run(&[
                "record",
                "--mechanism",
                mechanism,
                "-t",
                "work : n",
                "--until",
                trigger,
                "--after",
                after,
                "-o",
                "until.tf",
                "--",
                "./program",
                "1",
                "1000",
            ])
        };
        // Each call from the 300th on is a hit of both tracepoints.
        for (after, said, frames) in [
            ("0", "tracepoint 2 was hit", 302),
            ("1", "tracepoint 2 was hit, and 1 frame more was made", 303),
            (
                "7",
                "tracepoint 2 was hit, and 7 frames more were made",
                309,
            ),
        ] {
            let frames = format!("{frames} frames in until.tf");
            record(after, "work if n >= 300")
                .code(0)
                .says(&[said, &frames]);
        }
        // The program ends before.
        record("5", "work if n == 998")
            .code(0)
            .says(&["1001 frames in until.tf"]);
    }
    for (trigger, refusal) in [
        ("span work", "tracepoint 2 measures calls"),
        ("work : count()", "tracepoint 2 only counts"),
    ] {
        let options = ["record", "-t", "work", "--until", trigger];
        let rest = ["-o", "until.tf", "--", "./program", "1", "1"];
        built
            .run(&[&options[..], &rest[..]].concat())
            .code(2)
            .says(&[refusal]);
    }
}
