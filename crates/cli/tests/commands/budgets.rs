//! `--budget`: the kept and skipped hits are those of the program's own count, while its tracepoint is inserted.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::limits::counts;
use crate::rescue::of_a_killed_recording;
use crate::support::{Built, Ran, tracewire};
use crate::working::{self, Working};

const MECHANISMS: [&str; 2] = ["jump", "trap"];

/// Calls a function in several threads until its tracepoint has been removed and inserted this many times. Each thread reads the
/// first byte of the function before and after a call. It counts the calls with the tracepoint at both readings, and those with it
/// at one of them. A thread that waited for a cpu between the two may have missed a change and the next one. A hang ends by
/// SIGALRM.
const WATCHER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

long work (long n);
__asm__ (".text\n.globl work\n.type work, @function\nwork: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
         "mov %rdi, %rax\nret\n.size work, . - work\n");

static const volatile unsigned char *code = (const unsigned char *) work;
static const unsigned char original = 0x0f;
static long wanted, changes, in, perhaps;
/* Some milliseconds. A time in which the tracepoint is out is longer. */
static const unsigned long long LONG = 10000000;

static void *run (void *first)
{
  long n = 0, own_in = 0, own_perhaps = 0;
  int was_in = *code != original;
  while (__atomic_load_n (&changes, __ATOMIC_RELAXED) < wanted)
    {
      unsigned long long begun = __builtin_ia32_rdtsc ();
      int before = *code != original;
      work (n);
      int after = *code != original;
      int is_long = __builtin_ia32_rdtsc () - begun > LONG;
      if (n % 2 == 0)
        {
          own_in += before && after && !is_long;
          own_perhaps += before != after || is_long;
        }
      n++;
      if (first && after != was_in)
        { was_in = after; __atomic_add_fetch (&changes, 1, __ATOMIC_RELAXED); }
    }
  __atomic_add_fetch (&in, own_in, __ATOMIC_RELAXED);
  __atomic_add_fetch (&perhaps, own_perhaps, __ATOMIC_RELAXED);
  return NULL;
}

int main (int argc, char **argv)
{
  int threads = atoi (argv[1]);
  pthread_t all[8];
  wanted = atol (argv[2]);
  alarm (300);
  for (int i = 0; i < threads; i++) pthread_create (&all[i], NULL, run, i == 0 ? all : NULL);
  for (int i = 0; i < threads; i++) pthread_join (all[i], NULL);
  printf ("%ld %ld\n", in, perhaps);
  return 0;
}
"#;

fn watcher() -> Built {
    Built::new(WATCHER, &["-O1", "-pthread"])
}

fn record(built: &Built, options: &[&str], program: &[&str]) -> Ran {
    let mut words = vec!["record", "-o", "out.tf"];
    words.extend(options);
    words.extend(["--", "./program"]);
    words.extend(program);
    built.run(&words)
}

/// The numbers that the program has printed.
fn printed<const COUNT: usize>(done: &Ran) -> [u64; COUNT] {
    let words = done.stdout.split_whitespace();
    let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
    let numbers = numbers.try_into();
    numbers.unwrap_or_else(|numbers| panic!("{numbers:?}: {}", done.stderr))
}

/// A tracepoint's counts in a file: hits, skipped hits, and the times in which it was out of the program.
fn reported(info: &Value) -> (u64, u64, Vec<(u64, u64)>) {
    let tracepoint = &info["tracepoints"][0];
    let number = |name: &str| {
        tracepoint
            .get(name)
            .map_or(0, |n| n.as_u64().expect("a number"))
    };
    let pauses = tracepoint.get("pauses").map_or(&[][..], |pauses| {
        pauses.as_array().expect("a list").as_slice()
    });
    let time = |pause: &Value, name: &str| pause[name].as_u64().expect("a time");
    let pauses = pauses
        .iter()
        .map(|pause| (time(pause, "from_us"), time(pause, "to_us")))
        .collect();
    (number("hits"), number("skipped"), pauses)
}

/// The looks that keep a budget are not late beside busy threads, also where the program was there before. Root may raise a priority.
#[test]
fn who_keeps_a_budget_comes_before_busy_threads() {
    let raised = if nix::unistd::geteuid().is_root() {
        -20
    } else {
        0
    };
    let built = working::build(2, 2000);
    let program = Working::start(&built);
    for (budget, niceness) in [(&["--budget", "1%"][..], raised), (&[], 0)] {
        let mut recorder = tracewire();
        let mut recorder = recorder
            .current_dir(built.folder.path())
            .args(["record", "-o", "out.tf", "-t", "mix"])
            .args(["-p", &program.id().to_string()])
            .args(budget)
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire runs");
        let mut says = BufReader::new(recorder.stderr.take().expect("stderr"));
        let mut line = String::new();
        while !line.contains("tracepoint 1 by") {
            line.clear();
            assert_ne!(says.read_line(&mut line).expect("text"), 0, "it has ended");
        }
        let id = recorder.id();
        let stat = || std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        let is_so = || of_stat(&stat(), NICENESS) == niceness;
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LONGEST, "{}", stat());
            assert!(recorder.try_wait().expect("waited").is_none(), "{niceness}");
            std::thread::yield_now();
        }
        let ended = Command::new("kill")
            .args(["-INT", &id.to_string()])
            .status();
        assert!(ended.expect("kill runs").success());
        std::io::copy(&mut says, &mut std::io::sink()).expect("text");
        let status = recorder.wait().expect("ended");
        assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    }
    program.finish().expect("alive");
}

/// How long it may take until the priority is the right one: far more than it does.
const LONGEST: Duration = Duration::from_secs(60);

/// Where the niceness is in `/proc/PID/stat`, behind the name: proc_pid_stat(5).
const NICENESS: usize = 16;

fn of_stat(stat: &str, field: usize) -> i64 {
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let field = fields.split_whitespace().nth(field).expect("a field");
    field.parse().expect("a number")
}

/// The hits are so few that their cost is below the debt that a cpu may have.
#[test]
fn what_is_kept_and_what_is_skipped_is_all_there_was() {
    let built = counts();
    for (threads, calls) in [("1", "8000"), ("8", "1000")] {
        for buffer in [&[][..], &["--circular"]] {
            let mut options = vec![
                "--mechanism",
                "jump",
                "--budget",
                "1%",
                "-t",
                "work if n >= 0 : n",
            ];
            options.extend(buffer);
            let done = record(&built, &options, &[threads, calls]).code(0);
            let [count] = printed(&done);
            done.says(&["tracepoint 1: a hit takes at most ", ", a skipped one "]);
            let (hits, skipped, pauses) = reported(&built.info());
            assert_eq!((hits, pauses), (count, vec![]), "{options:?}, {threads}");
            assert_eq!(built.frames().len() as u64 + skipped, count);
        }
    }
}

/// A loop that is so hot that its tracepoint has to go, and comes back: each hit is counted while it is in. It is over a budget of 5%
/// also where other programs leave it little of a cpu.
#[test]
fn hits_are_counted_exactly_while_the_tracepoint_is_in() {
    let built = watcher();
    for mechanism in MECHANISMS {
        for threads in ["1", "8"] {
            for buffer in [&[][..], &["--circular"]] {
                let mut options = vec![
                    "--mechanism",
                    mechanism,
                    "--budget",
                    "5%",
                    "-t",
                    "work if ($rdi & 1) == 0 : $rdi",
                ];
                options.extend(buffer);
                let done = record(&built, &options, &[threads, "4"]).code(0);
                let [inside, perhaps] = printed(&done);
                let info = built.info();
                let (hits, skipped, pauses) = reported(&info);
                let what = format!("{mechanism}, {threads}, {buffer:?}: {inside}, {perhaps}");
                assert!(
                    (inside..=inside + perhaps).contains(&hits),
                    "{what}: {hits}"
                );
                // A circular buffer gives up old frames.
                let kept = hits - skipped;
                let frames = info["frames"].as_u64().expect("a number");
                assert!(
                    frames == kept || !buffer.is_empty() && frames < kept,
                    "{what}: {frames}"
                );
                assert!(skipped > 0, "{what}");
                assert!(pauses.len() >= 2, "{what}: {pauses:?}");
                done.says(&[&format!(
                    "tracepoint 1 was out of the program {} times, ",
                    pauses.len()
                )]);
            }
        }
    }
}

/// Costs that cannot be skipped are charged too: a condition that is never true.
#[test]
fn false_conditions_are_under_the_budget() {
    let built = watcher();
    for mechanism in MECHANISMS {
        let options = [
            "--mechanism",
            mechanism,
            "--budget",
            "5%",
            "-t",
            "work if $rdi < 0 : $rdi",
        ];
        // There is no frame.
        record(&built, &options, &["1", "2"]).code(1);
        let (hits, skipped, pauses) = reported(&built.info());
        assert_eq!((hits, skipped, pauses.is_empty()), (0, 0, false));
    }
    let text = built.run(&["info", "out.tf"]).code(0).stdout;
    assert!(
        text.contains("in all, for its budget; hits were not counted then"),
        "{text}"
    );
}

/// Only the dearest tracepoint goes.
#[test]
fn the_dearest_goes_and_the_others_stay() {
    let built = Built::new(
        &WATCHER.replace(
            "printf (\"%ld %ld\\n\", in, perhaps);",
            "long n; for (n = 0; n < 10; n++) rare (n); printf (\"%ld\\n\", n);",
        )
        .replace(
            "static const volatile",
            "__attribute__ ((noinline)) long rare (long n)\n\
             { __asm__ volatile (\".byte 0x0f, 0x1f, 0x44, 0, 0\" : : \"r\" (n) : \"memory\"); return n; }\n\
             static const volatile",
        ),
        &["-O1", "-pthread"],
    );
    let options = [
        "--budget",
        "5%",
        "-t",
        "rare : n",
        "-t",
        "work : $rdi",
        "--mechanism",
        "jump",
    ];
    let done = record(&built, &options, &["1", "2"]).code(0);
    assert_eq!(printed(&done), [10]);
    let info = built.info();
    let all = info["tracepoints"].as_array().expect("a list");
    let rare = all
        .iter()
        .find(|one| one["number"] == 1)
        .expect("tracepoint 1");
    assert_eq!(
        (&rare["hits"], rare.get("pauses")),
        (&Value::from(10), None)
    );
    done.says(&["tracepoint 2 was out of the program "]);
}

/// Each process counts for itself, and they share the budget.
#[test]
fn processes_share_a_budget() {
    let built = watcher();
    let done = built
        .run(&[
            "record",
            "--budget",
            "5%",
            "-t",
            "work if ($rdi & 1) == 0 : $rdi",
            "--follow-forks",
            "--pending",
            "-o",
            "out",
            "--",
            "/bin/sh",
            "-c",
            "./program 1 2 & ./program 2 2; wait",
        ])
        .code(0);
    let own: Vec<Vec<u64>> = (done.stdout.lines())
        .map(|line| {
            line.split(' ')
                .map(|word| word.parse().expect("a number"))
                .collect()
        })
        .collect();
    let mut hits = Vec::new();
    for entry in std::fs::read_dir(built.folder.path().join("out")).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "tf") {
            let file = path.to_str().expect("a name");
            let text = built.run(&["info", "--json", file]).code(0).stdout;
            let info: Value = serde_json::from_str(&text).expect("JSON");
            let (all, skipped, _) = reported(&info);
            assert_eq!(info["frames"].as_u64().expect("a number") + skipped, all);
            hits.push(all);
        }
    }
    assert_eq!(own.len(), 2, "{}", done.stdout);
    for own in own {
        let (inside, perhaps) = (own[0], own[1]);
        let place = hits
            .iter()
            .position(|hits| (inside..=inside + perhaps).contains(hits));
        assert!(place.is_some(), "{inside}, {perhaps}: {hits:?}");
    }
    built
        .run(&["show", "out"])
        .code(0)
        .says(&["tracepoint 1 was out of the program "]);
}

#[test]
fn budgets_that_cannot_be_are_refused_before_the_program_runs() {
    let built = counts();
    for (options, words) in [
        (
            &["--budget", "1%", "-t", "work : n", "-t", "span work : n"][..],
            "tracepoint 2 measures calls: where it is out of the program to keep a budget",
        ),
        (
            &["--budget", "0%", "-t", "work"],
            "a budget of 0%: 0.1% to 50% are possible",
        ),
        (
            &["--budget", "200%", "-t", "work"],
            "a budget of 200%: 0.1% to 50% are possible",
        ),
        (
            &["--budget", "1", "-t", "work"],
            "expected a percentage of each cpu, such as 1% or 0.5%",
        ),
        (
            &["--budget", "1 %", "-t", "work"],
            "expected a percentage of each cpu, such as 1% or 0.5%",
        ),
    ] {
        let done = record(&built, options, &["1", "10"]).code(2);
        assert_eq!(done.stdout, "");
        done.says(&[words]);
    }
}

/// The cost of a hit is printed before anything is inserted, also for traps, and without a budget in verbose mode.
#[test]
fn the_cost_of_a_hit_is_said_before() {
    let built = counts();
    for (option, says) in [
        (&["--budget", "1%"][..], true),
        (&["--verbose"], true),
        (&[], false),
    ] {
        for (mechanism, words) in [
            ("jump", "tracepoint 1: a hit takes at most "),
            (
                "trap",
                "tracepoint 1: a hit is a trap, and takes about 40 µs at most",
            ),
        ] {
            let mut options = vec!["--mechanism", mechanism, "-t", "work : n"];
            options.extend(option);
            let done = record(&built, &options, &["1", "10"]).code(0);
            let cost = done.stderr.find(words);
            assert_eq!(cost.is_some(), says, "{}", done.stderr);
            let installed = done.stderr.find("tracepoint 1 by ");
            assert!(cost < installed, "{}", done.stderr);
        }
    }
}

/// The counts are in the memory of the program, and outlive a Tracewire that is killed, whether its tracepoint was in the program then
/// or not.
#[test]
fn a_rescue_knows_what_a_killed_recording_has_skipped() {
    let (built, rescued) = of_a_killed_recording(8000, &["--budget", "0.1%"]);
    let words: Vec<&str> = rescued.stderr.split_whitespace().collect();
    let place = words
        .windows(2)
        .position(|pair| pair == ["hits", "skipped,"]);
    let skipped: u64 = words[place.expect("a number of hits") - 1]
        .parse()
        .expect("a number");
    let rescued =
        rescued.says(&["tracepoints may have been out of the program at times, for --budget"]);
    assert!(skipped > 0);
    let frames = |file: &str| {
        let text = built.run(&["info", "--json", file]).code(0).stdout;
        let info: Value = serde_json::from_str(&text).expect("JSON");
        info["frames"].as_u64().expect("a number")
    };
    let mut kept = frames("out.tf.recording");
    if built.folder.path().join("rest.tf").exists() {
        kept += frames("rest.tf");
    } else {
        rescued.says(&["no frames were left there"]);
    }
    assert!(kept > 0);
    // It may have been taken out before the last of the calls.
    assert!(kept + skipped <= 8000, "{kept} and {skipped}");
}
