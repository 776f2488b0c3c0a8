//! `record` end to end, on programs built for it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{Built, ran, tracewire, value};
use tracewire_test_support::{assert_clean_but, is_unreadable, sample};

const SAMPLE: &str = include_str!("../../../test-support/samples/sample.c");

/// Four threads that work on and on, and check each other's sum.
const BUSY: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__ ((noinline)) int work (int n, const char *name) { return n * 3 + name[0]; }
static long rounds;
static void *run (void *unused)
{
  long sum = 0;
  for (int i = 0; i < rounds; i++)
    sum += work (i, "abc");
  return (void *) sum;
}
int main (int argc, char **argv)
{
  pthread_t threads[4];
  long total = 0;
  rounds = argc > 1 ? atol (argv[1]) : 10;
  for (int i = 0; i < 4; i++)
    pthread_create (&threads[i], 0, run, 0);
  for (int i = 0; i < 4; i++)
    {
      void *sum;
      pthread_join (threads[i], &sum);
      total += (long) sum;
    }
  printf ("total %ld\n", total);
  return 0;
}
"#;

/// A program that prints "ready", and then works slowly until its standard input ends.
const PATIENT: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <poll.h>
long calls;
__attribute__ ((noinline)) long tick (long n) { calls += n; return calls; }
int main (void)
{
  struct pollfd input = { 0, POLLIN, 0 };
  long expected = 0;
  puts ("ready");
  fflush (stdout);
  while (poll (&input, 1, 1) == 0)
    for (int i = 0; i < 10; i++)
      {
        tick (i);
        expected += i;
      }
  puts (calls == expected ? "right" : "wrong");
  return 0;
}
"#;

/// How many times `BUSY` calls `work` with this many rounds, and its output.
fn busy_total(rounds: i64) -> String {
    format!(
        "total {}\n",
        4 * (0..rounds).map(|i| i * 3 + 97).sum::<i64>()
    )
}

#[test]
fn a_session_of_gdb_recorded_by_us() {
    let script = std::fs::read_to_string(sample("session.gdb")).expect("the session");
    let built = Built::named("sample", SAMPLE, &["-O0"]);
    let done = built.record(&script, &[]).code(0);
    assert_eq!(done.stdout, "sum 33 total 58\n");
    let done = done.says(&[
        "24 frames in out.tf",
        "tracepoint 2 7",
        "tracepoint 3 3",
        "tracepoint 4 0",
    ]);
    assert!(done.stderr.contains("tstart (line"), "{}", done.stderr);
    let frames = built.frames();
    assert_eq!(frames.len(), 24);
    let hits: Vec<_> = frames
        .iter()
        .filter_map(|frame| value(frame, "$hits"))
        .collect();
    assert_eq!(hits, ["1", "2", "3", "4", "5", "6", "7"]);
    let names: Vec<_> = frames
        .iter()
        .filter(|frame| frame["tracepoint"] == 3)
        .filter_map(|frame| value(frame, "j->name")?.split(' ').nth(1))
        .collect();
    assert_eq!(names, ["\"beta\"", "\"gamma\"", "\"gamma\""]);
    let info = built.info();
    assert_eq!(info["status"]["notes"], "first run");
    assert_eq!(info["status"]["user"], "alice");
    assert_eq!(info["status"]["circular"], true);
    assert_eq!(info["status"]["buffer_size"], 1_000_000);
    assert_eq!(info["status"]["disconnected"], true);
    let times: Vec<_> = frames
        .iter()
        .filter_map(|frame| frame["time_us"].as_u64())
        .collect();
    assert_eq!(times.len(), 24);
    assert!(times.is_sorted());
    let within = info["status"]["start_us"].as_u64() <= times.first().copied()
        && info["status"]["stop_us"].as_u64() >= times.last().copied();
    assert!(within, "{info}");
    let modules = info["modules"].as_array().expect("modules");
    assert!(
        modules
            .iter()
            .any(|m| m["path"] == built.program.to_str().expect("text")),
        "{info}"
    );
    assert!(
        modules
            .iter()
            .any(|m| m["path"].as_str().is_some_and(|p| p.contains("libc"))),
        "{info}"
    );
}

#[test]
fn every_hit_of_four_threads_is_recorded() {
    let built = Built::new(BUSY, &["-O1", "-pthread"]);
    let done = built
        .record(
            "trace work if n >= 90\nactions\ncollect n\ncollect/s name\nend\n",
            &["100"],
        )
        .code(0);
    assert_eq!(done.stdout, busy_total(100));
    let frames = built.frames();
    assert_eq!(frames.len(), 40);
    for thread in frames.iter().map(|frame| &frame["thread"]) {
        let own: Vec<i32> = frames
            .iter()
            .filter(|frame| frame["thread"] == *thread)
            .filter_map(|frame| value(frame, "n")?.parse().ok())
            .collect();
        assert_eq!(own, (90..100).collect::<Vec<i32>>());
    }
    assert!(
        frames
            .iter()
            .all(|frame| value(frame, "name").is_some_and(|v| v.ends_with("\"abc\"")))
    );
}

#[test]
fn the_one_line_form_and_the_program_s_own_streams() {
    let built = Built::new(
        "#include <stdio.h>\nint twice (int n) { return 2 * n; }\n\
         int main (void) { int n; while (scanf (\"%d\", &n) == 1) printf (\"%d\\n\", twice (n));\n\
         fprintf (stderr, \"done\\n\"); return 3; }\n",
        &["-O0"],
    );
    let mut child = tracewire()
        .current_dir(built.folder.path())
        .args([
            "record",
            "-t",
            "twice if n > 1 : n",
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
    std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), b"1 2 3").expect("written");
    let done = ran(child.wait_with_output().expect("ended")).code(0);
    assert_eq!(done.stdout, "2\n4\n6\n");
    done.says(&["done\n", "exited with code 3", "2 frames in out.tf"]);
    let frames = built.frames();
    let values: Vec<_> = frames
        .iter()
        .filter_map(|frame| value(frame, "n"))
        .collect();
    assert_eq!(values, ["2", "3"]);
}

#[test]
fn a_pass_count_and_a_full_buffer_end_the_run_and_not_the_program() {
    let built = Built::new(BUSY, &["-O1", "-pthread"]);
    let done = built.record("trace work\npasscount 5\n", &["1000"]).code(0);
    assert_eq!(done.stdout, busy_total(1000));
    done.says(&["pass count of tracepoint 1"]);
    let info = built.info();
    assert_eq!(info["frames"], 5);
    assert_eq!(info["status"]["stop_reason"], "tpasscount");
    assert_eq!(info["status"]["stopping_tracepoint"], 1);

    let done = built
        .record("trace work\nset trace-buffer-size 4000\n", &["1000"])
        .code(0);
    assert_eq!(done.stdout, busy_total(1000));
    let info = built.info();
    assert_eq!(info["status"]["stop_reason"], "tfull");
    assert_eq!(info["status"]["buffer_size"], 4000);
    assert_eq!(
        built.frames().len() as u64,
        info["frames"].as_u64().unwrap_or(0)
    );
}

#[test]
fn a_circular_buffer_keeps_the_newest() {
    let built = Built::new(BUSY, &["-O1", "-pthread"]);
    let script = "set circular-trace-buffer on\nset trace-buffer-size 4000\ntvariable $n\ntrace work\nactions\n\
                  teval $n = $n + 1\ncollect $n\nend\n";
    built.record(script, &["100"]).code(0);
    let info = built.info();
    assert_eq!(info["status"]["created"], 400);
    assert_eq!(info["tracepoints"][0]["hits"], 400);
    let frames = built.frames();
    assert!(frames.len() < 20, "{}", frames.len());
    let last: Vec<i32> = frames
        .iter()
        .filter_map(|frame| value(frame, "$n")?.parse().ok())
        .collect();
    let expected: Vec<i32> = (401 - last.len() as i32..=400).collect();
    assert_eq!(last, expected);
}

#[test]
fn attaching_and_leaving_by_signal_harms_nothing() {
    let built = Built::new(PATIENT, &["-O1"]);
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut program = Command::new(&built.program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut reported = BufReader::new(program.stdout.take().expect("stdout"));
        let mut line = String::new();
        reported.read_line(&mut line).expect("text");
        let mut recorder = tracewire()
            .current_dir(built.folder.path())
            .args([
                "record",
                "-t",
                "tick if n == 3 : n, calls",
                "-o",
                "out.tf",
                "-p",
            ])
            .arg(program.id().to_string())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        // The file grows beside its name; it is big enough for a frame once there is one.
        let growing = built.path("out.tf.recording");
        let has_frames = || {
            tracewire_tracefile::TraceFile::open(&growing).is_ok_and(|file| file.frame_count() > 3)
        };
        while !has_frames() {
            assert!(recorder.try_wait().expect("waited").is_none());
            std::thread::yield_now();
        }
        let killed = Command::new("kill")
            .arg(signal)
            .arg(recorder.id().to_string())
            .status();
        assert!(killed.expect("kill runs").success());
        let done = ran(recorder.wait_with_output().expect("ended")).code(0);
        done.says(&["runs on", "in out.tf"]);
        let frames = built.frames();
        assert!(frames.len() > 3);
        assert!(frames.iter().all(|frame| value(frame, "n") == Some("3")));
        drop(program.stdin.take());
        line.clear();
        reported.read_line(&mut line).expect("text");
        assert_eq!(line, "right\n");
        assert!(program.wait().expect("ended").success());
    }
}

#[test]
fn the_time_ends_a_run_and_the_program_goes_on() {
    let built = Built::new(PATIENT, &["-O1"]);
    let mut child = tracewire()
        .current_dir(built.folder.path())
        .args([
            "record",
            "-t",
            "tick if n == 9",
            "--duration",
            "0.3",
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
    let mut reported = BufReader::new(child.stderr.take().expect("stderr")).lines();
    assert!(reported.any(|line| line.is_ok_and(|line| line.contains("frames in out.tf"))));
    // The file exists while the program still runs.
    assert!(!built.frames().is_empty());
    assert!(child.try_wait().expect("waited").is_none());
    drop(child.stdin.take());
    let mut output = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().expect("stdout"), &mut output)
        .expect("text");
    assert_eq!(output, "ready\nright\n");
    assert!(child.wait().expect("ended").success());
    assert_eq!(built.info()["status"]["stop_text"], "the time is over");
}

#[test]
fn a_program_that_becomes_another_is_followed() {
    let built = Built::new(
        "#include <unistd.h>\n#include <stdio.h>\nint step (int n) { return n; }\n\
         int main (int argc, char **argv)\n{\n  step (argc);\n  \
         if (argc == 1) execl (argv[0], argv[0], \"again\", (char *) 0);\n  puts (\"end\");\n  return 0;\n}\n",
        &["-O0"],
    );
    let done = built
        .record("trace step\nactions\ncollect n\nend\n", &[])
        .code(0);
    assert_eq!(done.stdout, "end\n");
    done.says(&["has become another"]);
    let frames = built.frames();
    let values: Vec<_> = frames
        .iter()
        .filter_map(|frame| value(frame, "n"))
        .collect();
    assert_eq!(values, ["1", "2"]);
}

#[test]
fn children_crashes_and_exits_pass() {
    let built = Built::new(
        "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint step (int n) { return n; }\n\
         int main (int argc, char **argv)\n{\n  step (1);\n  if (fork () == 0) { step (2); _exit (0); }\n  \
         int status; wait (&status); step (WIFEXITED (status) ? 3 : 4);\n  if (argc > 1) abort ();\n  return 0;\n}\n",
        &["-O0"],
    );
    let script = "trace step\nactions\ncollect n\nend\n";
    built
        .record(script, &[])
        .code(0)
        .says(&["exited with code 0"]);
    let values = |built: &Built| -> Vec<String> {
        let frames = built.frames();
        frames
            .iter()
            .filter_map(|frame| value(frame, "n"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(values(&built), ["1", "3"]);
    built
        .record(script, &["crash"])
        .code(0)
        .says(&["killed by signal 6 (SIGABRT)"]);
    assert_eq!(values(&built), ["1", "3"]);
}

#[test]
fn what_cannot_be_read_is_missing_and_said_so() {
    let built = Built::new(
        "struct item { int id; };\nint look (struct item *item, int n) { return n; }\nint main (void)\n{\n  \
         struct item good = { 7 };\n  look (0, 1);\n  look (&good, 2);\n  look ((struct item *) 16, 3);\n  \
         return 0;\n}\n",
        &["-O0"],
    );
    let done = built
        .record("trace look\nactions\ncollect n, item->id\nend\n", &[])
        .code(0);
    done.says(&["tracepoint 1: 2 values could not be read, the first at 0x0"]);
    let frames = built.frames();
    let numbers: Vec<_> = frames
        .iter()
        .filter_map(|frame| value(frame, "n"))
        .collect();
    assert_eq!(numbers, ["1", "2", "3"]);
    let ids: Vec<_> = frames
        .iter()
        .filter_map(|frame| value(frame, "item->id"))
        .collect();
    assert_eq!(ids, ["<unavailable>", "7", "<unavailable>"]);
    // `check` reports only what could not be read.
    let file = built.path("out.tf");
    assert_clean_but(&file, is_unreadable);
    std::fs::remove_file(file).expect("removed");
}

#[test]
fn registers_are_as_few_as_serve() {
    let built = Built::new(
        "double half (double x) { return x / 2; }\nint main (void) { return half (3) > 2; }\n",
        &["-O0"],
    );
    built
        .record("trace half\nactions\ncollect x\nend\n", &[])
        .code(0);
    assert_eq!(built.info()["register_block_size"], 164);
    assert_eq!(value(&built.frames()[0], "x"), Some("3"));
    built
        .record("trace half\nactions\ncollect $xmm0, $regs\nend\n", &[])
        .code(0);
    assert!(built.info()["register_block_size"].as_u64() >= Some(560));
}

/// The expansion of `sys/sdt.h`'s macro for a probe with one argument.
const MARKED: &str = r#"
#define MARK(name, a) __asm__ volatile ( \
    "990: nop\n" \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f,994f-993f,3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n" \
    "993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte 0\n.asciz \"app\"\n.asciz \"" name "\"\n.asciz \"-4@%0\"\n" \
    "994: .balign 4\n.popsection\n" \
    ".ifndef _.stapsdt.base\n.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n" \
    ".size _.stapsdt.base,1\n.popsection\n.endif\n" \
    :: "r" (a))
int main (void)
{
  for (int i = 0; i < 3; i++)
    {
      MARK ("turn", i);
      if (i == 2)
        MARK ("last", i);
    }
  return 0;
}
"#;

#[test]
fn markers_are_recorded_by_their_names() {
    let built = Built::new(MARKED, &["-O0"]);
    let done = built.record(
        "strace -m app:turn\nactions\ncollect i\nend\nstrace -m last if i == 2\nactions\ncollect i\nend\n",
        &[],
    );
    done.code(0);
    let frames = built.frames();
    let seen: Vec<_> = frames
        .iter()
        .map(|frame| (frame["tracepoint"].as_i64(), value(frame, "i")))
        .collect();
    let turn = |i| (Some(1), Some(i));
    assert_eq!(
        seen,
        [turn("0"), turn("1"), turn("2"), (Some(2), Some("2"))]
    );
    built
        .record("strace -m app:trun\n", &[])
        .code(2)
        .says(&["app:trun", "app:turn"]);
}

/// A user who may queue no signals has no timers either: frames are still taken from the rings in time.
#[test]
fn frames_are_kept_where_the_queue_for_signals_is_full() {
    let built = Built::new(BUSY, &["-O1", "-pthread"]);
    let output = Command::new("prlimit")
        .args(["--sigpending=0", env!("CARGO_BIN_EXE_tracewire")])
        .current_dir(built.folder.path())
        .args(["record", "--mechanism", "jump", "--buffer-size", "1GiB"])
        .args(["-t", "work : collect $regs", "-o", "out.tf", "--"])
        .arg(&built.program)
        .arg("20000")
        .output()
        .expect("prlimit runs");
    let done = ran(output).code(0);
    assert_eq!(done.stdout, busy_total(20_000));
    assert_eq!(built.info()["frames"], 80_000, "{}", done.stderr);
}

/// In a loop of two instructions every second step comes back to the tracepoint.
#[test]
fn a_step_that_comes_back_is_a_step() {
    let built = Built::new(
        "__attribute__((noinline)) long spin (long n) { long left = n;\n\
         asm volatile (\"top: dec %0\\n jnz top\\n nop\\n nop\" : \"+a\" (left) : : \"cc\"); return left; }\n\
         int main (void) { for (int turn = 0; turn < 3; turn++) if (spin (3)) return 1; return 0; }\n",
        &["-O1"],
    );
    let script = "trace *&top if $rax == 3\nactions\n  collect n\n  while-stepping 4\n    collect $rip\n  end\nend\n";
    built.record(script, &["./program"]).code(0);
    let frames = built.frames();
    let stepping: Vec<_> = frames
        .iter()
        .map(|frame| frame["stepping"] == true)
        .collect();
    let one = [false, true, true, true, true];
    assert_eq!(stepping, one.repeat(3));
    for (frame, stepping) in frames.iter().zip(stepping) {
        assert_eq!(value(frame, "$rip").is_some(), stepping, "{frame}");
        assert_eq!(value(frame, "n"), (!stepping).then_some("3"), "{frame}");
    }
    built
        .run(&["check", "out.tf"])
        .code(0)
        .says(&["15 frames, 0 errors, 0 warnings"]);
}
