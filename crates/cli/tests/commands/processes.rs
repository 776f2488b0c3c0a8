//! Several processes recorded in one run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tracewire_test_support::assert_clean;

use crate::support::{Built, Ran, ran, tracewire, value};

/// Calls `work` once for each byte of its standard input, and says how often at the end.
const OBEYS: &str = r#"
#include <stdio.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (void)
{
  char byte;
  int n = 0;
  while (read (0, &byte, 1) == 1)
    work (n++);
  printf ("%d %d\n", (int) getpid (), n);
  return 0;
}
"#;

/// Processes that wait for their input.
fn obedient(built: &Built, count: usize) -> Vec<Child> {
    let started = (0..count).map(|_| {
        let mut command = Command::new(&built.program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().expect("it starts")
    });
    started.collect()
}

/// Has each of them make calls, one more than the one before, and gives how many each has made by its own count.
fn obey(processes: Vec<Child>) -> BTreeMap<u64, u64> {
    let ended = processes
        .into_iter()
        .enumerate()
        .map(|(index, mut process)| {
            let mut input = process.stdin.take().expect("its input");
            input.write_all(&vec![b'x'; 10 + index]).expect("written");
            drop(input);
            let output = process.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{output:?}");
            counts(&String::from_utf8_lossy(&output.stdout))
        });
    ended.flatten().collect()
}

/// The lines of processes that have counted their own calls.
fn counts(text: &str) -> BTreeMap<u64, u64> {
    let lines = text.lines().filter_map(|line| {
        let (process, count) = line.split_once(' ')?;
        Some((process.parse().ok()?, count.parse().ok()?))
    });
    lines.collect()
}

/// Starts a recording and waits until it says something.
fn start(
    command: &mut Command,
    words: &str,
) -> (Child, BufReader<std::process::ChildStderr>, String) {
    let mut child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("tracewire runs");
    let mut errors = BufReader::new(child.stderr.take().expect("its errors"));
    let mut said = String::new();
    while !said.contains(words) {
        assert_ne!(errors.read_line(&mut said).expect("read"), 0, "{said}");
    }
    (child, errors, said)
}

/// Waits for the end of a recording, with all that it has said.
fn finish(child: Child, mut errors: BufReader<std::process::ChildStderr>, said: String) -> Ran {
    let mut rest = said;
    std::io::Read::read_to_string(&mut errors, &mut rest).expect("read");
    let mut done = ran(child.wait_with_output().expect("it ends"));
    done.stderr = rest;
    done
}

fn record(built: &Built, arguments: &[&str]) -> Command {
    let mut command = tracewire();
    command
        .current_dir(built.folder.path())
        .arg("record")
        .args(arguments);
    command
}

/// How many frames each process has in a run.
fn frames_of(frames: &[Value]) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for frame in frames {
        let process = frame["process"].as_u64().expect("a process");
        *counts.entry(process).or_default() += 1;
    }
    counts
}

fn numbers(processes: &[Child]) -> Vec<String> {
    processes
        .iter()
        .map(|process| process.id().to_string())
        .collect()
}

#[test]
fn five_processes_are_recorded_together() {
    let built = Built::new(OBEYS, &["-O1"]);
    for mechanism in ["jump", "trap"] {
        let processes = obedient(&built, 5);
        let ids = numbers(&processes);
        let mut arguments = vec!["--mechanism", mechanism, "-t", "work : n", "-o", mechanism];
        for id in &ids {
            arguments.extend(["-p", id]);
        }
        let (child, errors, said) =
            start(&mut record(&built, &arguments), "5 processes are recorded");
        let counted = obey(processes);
        assert_eq!(counted.values().sum::<u64>(), 10 + 11 + 12 + 13 + 14);
        let done = finish(child, errors, said).code(0).says(&[&format!(
            "60 frames of 5 processes in {mechanism}; hits: tracepoint 1 60"
        )]);
        // What holds for all is said once.
        assert_eq!(
            done.stderr.matches("tracepoint 1 at").count(),
            1,
            "{}",
            done.stderr
        );
        let frames = built.run(&["show", mechanism, "--json"]).code(0).json();
        assert_eq!(frames_of(&frames), counted);
        let times: Vec<_> = frames
            .iter()
            .map(|frame| frame["time_us"].as_u64())
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        let table = built.run(&["show", mechanism]).code(0).stdout;
        assert!(table.starts_with("Process  Frame  TP"), "{table}");
        assert_eq!(table.lines().count(), 61);
        // Each part is a trace file as any other.
        for (process, count) in &counted {
            let part = built.path(&format!("{mechanism}/{process}.tf"));
            assert_clean(&part);
            let part = part.to_str().expect("a name");
            let own = built.run(&["show", part, "--json"]).code(0).json();
            assert_eq!(own.len() as u64, *count);
            assert!(own.iter().all(|frame| frame["function"] == "work"));
        }
        let infos = built.run(&["info", mechanism, "--json"]).code(0).json();
        assert_eq!(infos.len(), 5);
        for info in infos {
            let process = info["process"].as_u64().expect("a number");
            assert_eq!(info["frames"], counted[&process]);
            assert_eq!(
                Path::new(info["program"].as_str().expect("a name")),
                built.program
            );
        }
        built.run(&["check", mechanism]).code(0);
        built.run(&["convert", mechanism, "all.tf"]).code(0);
        assert_eq!(
            built
                .run(&["show", "all.tf", "--json"])
                .code(0)
                .json()
                .len(),
            60
        );
    }
}

#[test]
fn processes_are_selected_by_name_and_shown_as_they_come() {
    let name = format!("obeys-{}", std::process::id());
    let built = Built::named(&name, OBEYS, &["-O1"]);
    let processes = obedient(&built, 3);
    let (child, errors, said) = start(
        &mut record(
            &built,
            &["--name", &name, "--live", "--json", "-t", "work : n"],
        ),
        "3 processes are recorded",
    );
    let counted = obey(processes);
    let done = finish(child, errors, said)
        .code(0)
        .says(&["33 frames of 3 processes, kept in no file"]);
    let frames = done.json();
    assert_eq!(frames_of(&frames), counted);
    assert!(frames.iter().all(|frame| value(frame, "n").is_some()));
    built
        .run(&["record", "--name", &name, "-t", "work", "-o", "none"])
        .code(2)
        .says(&["no process of this name runs now"]);
}

#[test]
fn a_process_that_cannot_be_recorded_leaves_the_others() {
    let built = Built::new(OBEYS, &["-O1"]);
    let processes = obedient(&built, 2);
    let ids = numbers(&processes);
    let mut ended = Command::new("true").spawn().expect("it starts");
    let gone = ended.id().to_string();
    ended.wait().expect("it ends");
    let arguments = [
        "-t", "work", "-o", "run", "-p", &ids[0], "-p", &gone, "-p", &ids[1],
    ];
    let (child, errors, said) = start(&mut record(&built, &arguments), "2 processes are recorded");
    assert!(
        said.contains(&format!("process {gone}: not recorded")),
        "{said}"
    );
    let counted = obey(processes);
    finish(child, errors, said).code(0);
    let frames = built.run(&["show", "run", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted);
    // A folder with something in it is no place for another run.
    built
        .run(&["record", "-t", "work", "-o", "run", "-p", &gone, "-p", "1"])
        .code(2)
        .says(&["has files in it"]);
}

#[test]
fn a_mistyped_function_is_an_error_of_the_run() {
    let built = Built::new(OBEYS, &["-O1"]);
    let processes = obedient(&built, 2);
    let ids = numbers(&processes);
    built
        .run(&[
            "record", "-t", "wrok", "-o", "run", "-p", &ids[0], "-p", &ids[1],
        ])
        .code(2)
        .says(&["wrok", "work"]);
    assert!(!built.path("run").exists());
    // Nothing has happened to them.
    assert_eq!(obey(processes).values().sum::<u64>(), 21);
}
