//! `record -o NAME.twr`: lean recordings on the command line.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tracewire_test_support::assert_clean;

use crate::support::{Built, Ran, ran, tracewire, value};

/// Calls a function with a count, until it is killed or has called it so often.
const COUNTS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct item { long number; int square; char letter; };

static volatile long sum;
static char page[4096];

__attribute__ ((noinline)) void
work (long number, struct item *item, const char *name)
{
  sum += number + item->number + name[0];
}

int
main (int count, char **arguments)
{
  long calls = atol (arguments[1]);
  char name[32];
  /* Should nobody end it. */
  alarm (120);
  printf ("begun\n");
  fflush (stdout);
  for (long number = 0; number < calls; number++)
    {
      struct item item = { number * 3, (int) (number * number), (char) ('a' + number % 26) };
      snprintf (name, sizeof name, "item %ld", number % 1000);
      work (number, &item, name);
    }
  return sum == page[0];
}
"#;

const SPECIFICATION: &str = "work : /s number, *item, name";

fn built() -> Built {
    Built::new(COUNTS, &["-O1"])
}

fn record(built: &Built, options: &[&str], calls: &str) -> Ran {
    let mut command = tracewire();
    command
        .current_dir(built.folder.path())
        .args(["record", "-t", SPECIFICATION])
        .args(options)
        .arg("--")
        .arg(&built.program)
        .arg(calls);
    ran(command.output().expect("tracewire runs"))
}

/// What frames have of the program's values.
fn values(frames: &[Value]) -> Vec<[String; 3]> {
    let of = |frame: &Value| {
        ["number", "*item", "name"].map(|name| {
            let text = value(frame, name).unwrap_or_else(|| panic!("{name} in {frame}"));
            // The address of the text is another one at each run.
            let start = text.find('"').filter(|_| name == "name").unwrap_or(0);
            text[start..].to_owned()
        })
    };
    frames.iter().map(of).collect()
}

#[test]
fn it_has_the_values_of_a_trace_file_in_a_fifth_of_the_bytes() {
    let built = built();
    for mechanism in ["jump", "trap"] {
        let calls = if mechanism == "jump" { "20000" } else { "500" };
        let shown = ["run.tf", "run.twr"].map(|name| {
            record(&built, &["-o", name, "--mechanism", mechanism], calls).code(0);
            assert_clean(&built.path(name));
            values(&built.run(&["show", "--json", name]).code(0).json())
        });
        assert_eq!(shown[0].len(), calls.parse::<usize>().expect("a number"));
        assert_eq!(shown[0], shown[1], "{mechanism}");
        let size = |name| fs::metadata(built.path(name)).expect("it is there").len();
        let [plain, lean] = ["run.tf", "run.twr"].map(size);
        if mechanism == "jump" {
            assert!(lean * 5 < plain, "{lean} of {plain} bytes");
        }
        built.run(&["convert", "run.twr", "same.tf"]).code(0);
        assert_clean(&built.path("same.tf"));
        let converted = built.run(&["show", "--json", "same.tf"]).code(0).json();
        assert_eq!(values(&converted), shown[0]);
    }
}

#[test]
fn a_long_one_is_read_without_space_for_its_trace_file() {
    let built = built();
    let calls = 1_000_000_u64;
    record(&built, &["-o", "run.twr"], &calls.to_string()).code(0);
    let without_space = |arguments: &[&str]| {
        let mut command = tracewire();
        command
            .current_dir(built.folder.path())
            // Where temporary files would be.
            .env("TMPDIR", built.path("no-such-folder"))
            .args(arguments);
        ran(command.output().expect("tracewire runs")).code(0)
    };
    without_space(&["convert", "run.twr", "run.tf"]);
    assert_clean(&built.path("run.tf"));
    without_space(&["check", "run.twr"]);
    let size = fs::metadata(built.path("run.tf"))
        .expect("it is there")
        .len();
    assert!(size > 256 << 20, "{size} bytes are made in memory");
    let ranges = [0, 8190, 400_000, 100_000, calls - 3];
    for start in ranges {
        let range = format!("{start}..{}", start + 3);
        let shown = ["run.twr", "run.tf"].map(|name| {
            let frames = without_space(&["show", "--json", name, "--frame", &range]).json();
            let wanted: BTreeSet<u64> = (start..start + 3).collect();
            assert_eq!(numbers(&frames), wanted, "{name}");
            values(&frames)
        });
        assert_eq!(shown[0], shown[1], "{range}");
    }
    let found = without_space(&["find", "run.twr", "--where", "number == 765432"]);
    assert_eq!(found.stdout, "765432\n");
}

/// Functions with a structure, and with a number in a vector register.
const CALLS: &str = r#"
#include <stdio.h>

struct pair { int a; double b; };

__attribute__ ((noinline)) int
twice (int n, struct pair *p)
{
  __asm__ volatile ("" ::: "memory");
  return n * 2 + p->a;
}

__attribute__ ((noinline)) float
half (float x)
{
  __asm__ volatile ("" ::: "memory");
  return x / 2;
}

int
main (void)
{
  float sum = 0;
  for (int i = 0; i < 5; i++)
    {
      struct pair pair = { i, i / 2.0 };
      sum += twice (i, &pair) + half (i);
    }
  printf ("%f\n", sum);
  return 0;
}
"#;

#[test]
fn spans_return_values_and_stacks_are_those_of_a_trace_file() {
    let built = Built::new(CALLS, &["-O1"]);
    for mechanism in ["jump", "trap"] {
        let shown = ["run.tf", "run.twr"].map(|name| {
            // The same addresses each time.
            let mut command = Command::new("setarch");
            command
                .current_dir(built.folder.path())
                .args(["-R", env!("CARGO_BIN_EXE_tracewire"), "record"])
                .args(["--mechanism", mechanism, "-o", name])
                .args(["-t", "span twice : n, *p, $retval"])
                .args(["-t", "return half : $retval, x", "-t", "twice : $stack"])
                .arg("--")
                .arg(&built.program);
            ran(command.output().expect("setarch runs")).code(0);
            assert_clean(&built.path(name));
            let frames = built.run(&["show", "--json", name]).code(0).json();
            let fields = |frame: &Value| {
                let names = [
                    "tracepoint",
                    "pc",
                    "function",
                    "line",
                    "kind",
                    "ended",
                    "values",
                    "stack",
                ];
                names.map(|name| frame[name].clone())
            };
            frames.iter().map(fields).collect::<Vec<_>>()
        });
        assert!(shown[0].len() >= 15, "{shown:?}");
        assert!(
            shown[0]
                .iter()
                .flatten()
                .any(|field| field[0]["function"] == "twice")
        );
        assert_eq!(shown[0], shown[1], "{mechanism}");
    }
}

#[test]
fn all_commands_read_it() {
    let built = built();
    record(&built, &["-o", "run.twr"], "100")
        .code(0)
        .says(&["100 frames in run.twr", "tracewire convert run.twr run.tf"]);
    let info = built.run(&["info", "--json", "run.twr"]).code(0).json();
    assert_eq!(info[0]["kind"], "lean-recording");
    assert_eq!(info[0]["frames"], 100);
    assert_eq!(info[0]["status"]["frames"], 100);
    let found = built.run(&["find", "run.twr", "--where", "number == 77", "--json"]);
    let found = found.code(0).json();
    assert_eq!(found.len(), 1, "{found:?}");
    let checked = built.run(&["check", "run.twr"]).code(0);
    assert_eq!(checked.stdout, "");
    let table = built.run(&["convert", "run.twr", "run.csv", "--column", "number"]);
    table.code(0);
    let table = fs::read_to_string(built.path("run.csv")).expect("a table");
    assert_eq!(table.lines().count(), 101, "{table}");
    // What was not kept is not made up.
    let frame = built.run(&["show", "run.twr", "--frame", "3", "--json"]);
    let frame = frame.code(0).json().remove(0);
    assert!(frame["registers"]["rip"].is_string(), "{frame}");
    assert!(!frame["registers"]["r15"].is_string(), "{frame}");
    // A pipe has it, too.
    let mut show = tracewire();
    let input = fs::File::open(built.path("run.twr")).expect("it is there");
    show.args(["show", "--json", "-"]).stdin(input);
    let through = ran(show.output().expect("tracewire runs")).code(0).json();
    assert_eq!(values(&through).len(), 100);
}

#[test]
fn what_it_cannot_be_is_refused_with_words() {
    let built = built();
    for (options, words) in [
        (&["--circular"][..], "a lean recording has all frames"),
        (&["--until", "work"], "a lean recording has all frames"),
        (&["--live"], "--live shows the frames of a trace file"),
        (&["--follow-forks"], "a lean recording is of one process"),
        (&["--rotate", "10s"], "a lean recording is of one process"),
    ] {
        let options = [&["-o", "run.twr"], options].concat();
        record(&built, &options, "1").code(2).says(&[words]);
        assert!(!built.path("run.twr").exists(), "{options:?}");
    }
    record(&built, &["-o", "run.twr"], "10").code(0);
    for (command, words) in [
        (&["repair", "run.twr", "-o", "good.tf"][..], "convert"),
        (&["seal", "run.twr"], "whose blocks have their checksums"),
        (&["show", "run.twr", "--gdb"], "tracewire convert"),
        (&["rescue", "-p", "1", "-o", "rest.twr"], "ends with .tf"),
    ] {
        built.run(command).code(2).says(&[words]);
    }
}

#[test]
fn a_full_one_ends_the_run_and_keeps_its_frames() {
    let built = built();
    let options = ["-o", "run.twr", "--buffer-size", "64KiB"];
    record(&built, &options, "1000000").code(0).says(&["full"]);
    assert_clean(&built.path("run.twr"));
    let size = fs::metadata(built.path("run.twr"))
        .expect("it is there")
        .len();
    // The file at its end may be a little shorter than the one that was full.
    assert!((48 << 10..1 << 20).contains(&size), "{size}");
    let numbers = numbers(&built.run(&["show", "--json", "run.twr"]).code(0).json());
    let last = *numbers.last().expect("frames");
    assert_eq!(numbers.len() as u64, last + 1);
}

/// The numbers of frames, each once.
fn numbers(frames: &[Value]) -> BTreeSet<u64> {
    let of = |frame: &Value| value(frame, "number")?.parse().ok();
    let all: BTreeSet<u64> = frames.iter().filter_map(of).collect();
    assert_eq!(all.len(), frames.len(), "a frame is there twice");
    all
}

/// A number in a message.
fn reported(said: &str, words: &str) -> u64 {
    let line = said.lines().find(|line| line.contains(words));
    let digits = line.and_then(|line| {
        let before = line.split(" frame").next()?;
        before.rsplit(' ').next()?.parse().ok()
    });
    digits.unwrap_or(0)
}

/// Attaches to a program, and is killed at a place.
fn killed_at(built: &Built, place: &str, options: &[&str]) -> Child {
    let mut program = Command::new(&built.program)
        .arg("2000000000")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said = BufReader::new(program.stdout.take().expect("stdout"));
    said.read_line(&mut String::new()).expect("text");
    let mut recorder = tracewire()
        .current_dir(built.folder.path())
        .env("TRACEWIRE_FAIL_POINT", place)
        // Large frames: few of them fill a ring.
        .args(["record", "-t", "work : number, page", "-o", "run.twr"])
        .args(["--mechanism", "jump", "-p", &program.id().to_string()])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let mut said = String::new();
    let mut stderr = recorder.stderr.take().expect("stderr");
    stderr.read_to_string(&mut said).expect("text");
    let status = recorder.wait().expect("ended");
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{place}: {said}");
    program
}

/// What `rescue` would count is gone with the memory of the rings.
#[test]
fn a_run_that_has_left_the_program_has_all_frames_in_its_file() {
    let built = built();
    for place in ["pads/unshared:1", "record/detached:1"] {
        let mut program = killed_at(&built, place, &["--max-frames", "5001"]);
        program.kill().expect("it runs");
        program.wait().expect("ended");
        let growing = "run.twr.recording";
        let kept = numbers(&built.run(&["show", "--json", growing]).code(0).json());
        assert_eq!(kept.len(), 5001, "{place}");
        fs::remove_file(built.path(growing)).expect("it was there");
    }
}

#[test]
fn a_kill_costs_the_frames_that_are_in_no_block_and_they_are_counted() {
    let built = built();
    for place in [
        "lean/encoded:1",
        "lean/encoded:3",
        "lean/block-written:2",
        "frames/appended:700",
        "ring/given-out:300",
    ] {
        let mut program = killed_at(&built, place, &[]);
        let mut rescue = tracewire();
        rescue.current_dir(built.folder.path()).args([
            "rescue",
            "-o",
            "rest.tf",
            "-p",
            &program.id().to_string(),
        ]);
        let rescued = ran(rescue.output().expect("tracewire runs")).code(0);
        assert!(program.try_wait().expect("asked").is_none(), "{place}");
        program.kill().expect("it runs");
        program.wait().expect("ended");
        // The file is good up to its last block, and check says what it is.
        let growing = "run.twr.recording";
        built.run(&["check", growing]).code(1).says(&["1 error"]);
        let kept = numbers(&built.run(&["show", "--json", growing]).code(0).json());
        let rest = numbers(&built.run(&["show", "--json", "rest.tf"]).code(0).json());
        assert_clean(&built.path("rest.tf"));
        assert!(kept.is_disjoint(&rest), "{place}: a frame is in both");
        let all: BTreeSet<u64> = kept.union(&rest).copied().collect();
        let (first, last) = (all.first().expect("frames"), all.last().expect("frames"));
        let missing = last - first + 1 - all.len() as u64;
        let before = reported(&rescued.stderr, "before these");
        let lost = reported(&rescued.stderr, "in no block of that lean recording yet");
        assert_eq!(before, kept.len() as u64, "{place}: {}", rescued.stderr);
        // Where no block is whole, the first frame that is left is not the first one that there was.
        if !kept.is_empty() {
            assert_eq!(lost, missing, "{place}: {}", rescued.stderr);
        }
        // Both are merged to one file.
        built
            .run(&["convert", growing, "rest.tf", "both.tf"])
            .code(0);
        let both = numbers(&built.run(&["show", "--json", "both.tf"]).code(0).json());
        assert_eq!(both, all, "{place}");
        for name in [growing, "rest.tf", "both.tf"] {
            fs::remove_file(built.path(name)).expect("it was there");
        }
    }
}
