//! Several processes recorded in one run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tracewire_test_support::assert_clean;

use crate::support::{Built, OBEYS, Ran, ran, tracewire, value};

/// Processes that wait for their input.
fn obedient(built: &Built, count: usize) -> Vec<Child> {
    let started = (0..count).map(|_| {
        let mut command = Command::new(&built.program);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    });
    started.collect()
}

/// Makes each of them make calls, one more than the previous one. Returns each one's own count.
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
            counts(&String::from_utf8_lossy(&output.stderr).replace(" calls", ""))
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

/// Starts a recording and waits for a message.
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

/// Waits for the end of a recording, with all its output.
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
        // A message about all of them is printed once.
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

/// Reads a recording's output up to these words.
fn hear(errors: &mut BufReader<std::process::ChildStderr>, said: &mut String, words: &str) {
    while !said.contains(words) {
        assert_ne!(errors.read_line(said).expect("read"), 0, "{said}");
    }
}

#[test]
fn processes_that_start_later_are_recorded_too() {
    let name = format!("later-{}", std::process::id());
    let built = Built::named(&name, OBEYS, &["-O1"]);
    // Another program with the same function is not selected.
    let other = Built::named("other", OBEYS, &["-O1"]);
    for (mechanism, early) in [("jump", 0), ("trap", 2)] {
        let (out, first) = (format!("{mechanism}-{early}"), obedient(&built, early));
        let arguments = [
            "--name",
            &name,
            "--later",
            "--mechanism",
            mechanism,
            "-t",
            "work : n",
            "-o",
            &out,
        ];
        let begins = match early {
            0 => "those that start are recorded",
            _ => "2 processes are recorded",
        };
        let (child, mut errors, mut said) = start(&mut record(&built, &arguments), begins);
        let mut counted = obey(first);
        for _ in 0..2 {
            let strangers = obedient(&other, 1);
            let later = obedient(&built, 2);
            for id in numbers(&later) {
                let words = format!("process {id} has started, and is recorded");
                hear(&mut errors, &mut said, &words);
            }
            counted.extend(obey(later));
            obey(strangers);
        }
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(child.id().cast_signed()),
            nix::sys::signal::Signal::SIGINT,
        )
        .expect("sent");
        let done = finish(child, errors, said).code(0);
        assert!(!done.stderr.contains("warning"), "{}", done.stderr);
        let frames = built.run(&["show", &out, "--json"]).code(0).json();
        assert_eq!(frames_of(&frames), counted, "{}", done.stderr);
    }
}

#[test]
fn one_process_goes_first_and_the_others_follow_if_it_is_well() {
    let built = Built::new(OBEYS, &["-O1"]);
    let processes = obedient(&built, 3);
    let ids = numbers(&processes);
    let selected: Vec<&str> = ids.iter().flat_map(|id| ["-p", id.as_str()]).collect();
    let mut command = record(&built, &selected);
    command.args(["--canary", "1s", "-t", "work : n", "-o", "well"]);
    let (child, mut errors, mut said) =
        start(&mut command, "is recorded first, for 1s; 2 others follow");
    hear(&mut errors, &mut said, "is well: the others follow");
    hear(&mut errors, &mut said, "3 processes are recorded");
    let counted = obey(processes);
    finish(child, errors, said).code(0);
    let frames = built.run(&["show", "well", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted);

    // One that is killed, and one that ends with an error.
    let aborts = OBEYS.replace("return 0;", "return n == 11;");
    let aborting = Built::named("aborting", &aborts, &["-O1"]);
    for (built, is_killed) in [(&built, true), (&aborting, false)] {
        let mut processes = obedient(built, 2);
        let ids = numbers(&processes);
        let mut command = record(built, &["-p", &ids[0], "-p", &ids[1], "--canary", "1h"]);
        command.args(["-t", "work : n", "-o", "unwell"]);
        let (child, mut errors, mut said) = start(
            &mut command,
            "is recorded first, for 3600s; the other one follows",
        );
        hear(&mut errors, &mut said, "tracepoint 1 by");
        let mut first = processes.remove(0);
        let reason = if is_killed {
            first.kill().expect("killed");
            "the program was killed by signal 9 (SIGKILL)"
        } else {
            let mut input = first.stdin.take().expect("its input");
            input.write_all(&[b'x'; 11]).expect("written");
            "the program exited with code 1"
        };
        let expected = format!(
            "tracewire: process {}, which was to go first, is not well: {reason}; the others were left alone\n",
            ids[0]
        );
        let done = finish(child, errors, said).code(2).says(&[&expected]);
        assert!(!done.stderr.contains("follow\n"), "{}", done.stderr);
        first.wait().expect("it ends");
        let parts = built.run(&["info", "unwell", "--json"]).code(0).json();
        assert_eq!(parts.len(), 1);
        obey(processes);
    }
}

#[test]
fn processes_are_selected_by_user_and_control_group() {
    let name = format!("chosen-{}", std::process::id());
    let built = Built::named(&name, OBEYS, &["-O1"]);
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("the control groups");
    let path = own.lines().find_map(|line| line.splitn(3, ':').nth(2));
    let path = path.expect("a control group");
    let user = nix::unistd::geteuid().to_string();
    let user_name = nix::unistd::User::from_uid(nix::unistd::geteuid());
    let user_name = user_name.expect("looked up").expect("a user").name;
    for (more, is_chosen) in [
        (["--user", user.as_str()], true),
        (["--user", user_name.as_str()], true),
        (["--cgroup", path], true),
        (["--cgroup", "/no/such/group"], false),
        (["--unit", "no-such-unit"], false),
        (["--container", "0123456789ab"], false),
        (["--user", "65533"], false),
    ] {
        let processes = obedient(&built, 1);
        let arguments = ["--name", &name, more[0], more[1], "--live", "--json"];
        let mut command = record(&built, &arguments);
        command.args(["-t", "work : n"]);
        if !is_chosen {
            let ran = ran(command.output().expect("tracewire runs"));
            ran.code(2)
                .says(&["no such process runs now; --later waits for one"]);
            obey(processes);
            continue;
        }
        let (child, errors, said) = start(&mut command, "1 process is recorded");
        let counted = obey(processes);
        let done = finish(child, errors, said).code(0);
        assert_eq!(frames_of(&done.json()), counted, "{more:?}");
    }
    built
        .run(&[
            "record",
            "--user",
            "no-such-user",
            "-t",
            "work",
            "-o",
            "none",
        ])
        .code(2)
        .says(&["there is no such user"]);
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

/// Makes 8 processes, which count their calls, and calls once itself before each. With an argument it first waits for its input to end.
const FORKS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (int argc, char **argv)
{
  char byte;
  int bad = 0;
  if (argc > 1)
    while (read (0, &byte, 1) == 1);
  for (int i = 0; i < 8; i++)
    {
      work (-1);
      if (fork () == 0)
        {
          char line[40];
          int n;
          for (n = 0; n < 100 + i; n++)
            work (n);
          write (1, line, sprintf (line, "%d %d\n", (int) getpid (), n));
          _exit (i);
        }
    }
  for (int i = 0; i < 8; i++)
    {
      int status;
      if (wait (&status) < 0 || !WIFEXITED (status)) bad = 1;
    }
  printf ("%d 8\n", (int) getpid ());
  return bad;
}
"#;

/// Calls `work` as often as requested, and prints it.
const WORKER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (int argc, char **argv)
{
  int n;
  for (n = 0; n < atoi (argv[1]); n++)
    work (n);
  fprintf (stderr, "worker %d %d\n", (int) getpid (), n);
  return 0;
}
"#;

/// Starts workers by `vfork`, `posix_spawn` and `fork`, and becomes one.
const STARTS: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main (void)
{
  char *three[] = { "./worker", "3", 0 }, *four[] = { "./worker", "4", 0 }, *five[] = { "./worker", "5", 0 };
  pid_t spawned;
  pid_t child = vfork ();
  if (child == 0)
    {
      execv (three[0], three);
      _exit (1);
    }
  if (posix_spawn (&spawned, four[0], 0, 0, four, environ) != 0) return 1;
  if (fork () == 0)
    {
      execv (five[0], five);
      _exit (1);
    }
  while (wait (0) > 0);
  execl ("./worker", "./worker", "6", (char *) 0);
  return 1;
}
"#;

/// Detaches from its parents as a daemon does, and then works.
const DAEMON: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (void)
{
  if (fork () > 0) return 0;
  setsid ();
  if (fork () > 0) return 0;
  int n;
  for (n = 0; n < 50; n++)
    work (n);
  FILE *file = fopen ("daemon", "w");
  fprintf (file, "%d %d\n", (int) getpid (), n);
  return fclose (file);
}
"#;

/// Makes children and kills each at once.
const KILLS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (void)
{
  int n;
  for (n = 0; n < 30; n++)
    {
      pid_t child = fork ();
      if (child == 0)
        for (;;) work (0);
      kill (child, SIGKILL);
      int status;
      if (waitpid (child, &status, 0) != child || !WIFSIGNALED (status) || WTERMSIG (status) != SIGKILL) return 1;
      work (n);
    }
  printf ("%d %d\n", (int) getpid (), n);
  return 0;
}
"#;

/// Forks in the handler of a signal that comes at any moment of its calls, and so within a pad, too. Each process prints its number, the
/// call that it was made in, and its last one; the first one also prints how many of the handlers ran outside of its code.
const FORKS_IN_HANDLER: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
enum { CHILDREN = 12 };
struct block { int number; char bytes[508]; } block;
static volatile int calls, signals, children, first, left = -1, outside;
extern char __executable_start, etext;
__attribute__ ((noinline)) int work (int n, struct block *block)
{ block->number = n; __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
static void handler (int signal, siginfo_t *info, void *context)
{
  char *at = (char *) ((ucontext_t *) context)->uc_mcontext.gregs[REG_RIP];
  int is_outside = at < &__executable_start || at >= &etext;
  if (left >= 0 || ++signals % 5 != 0 || children == CHILDREN) return;
  if (fork () == 0)
    {
      first = calls;
      left = 100;
      return;
    }
  children++;
  outside += is_outside;
}
int main (void)
{
  struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };
  struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
  int bad = 0, status;
  sigaction (SIGALRM, &action, 0);
  setitimer (ITIMER_REAL, &often, 0);
  while (left != 0 && (left > 0 || children < CHILDREN))
    {
      if (left > 0) left--;
      calls++;
      work (calls, &block);
    }
  setitimer (ITIMER_REAL, &never, 0);
  char line[60];
  write (1, line, sprintf (line, "%d %d %d %d\n", (int) getpid (), first, calls, outside));
  if (left == 0) _exit (0);
  while (wait (&status) > 0) bad |= status != 0;
  return bad;
}
"#;

/// Makes as many children as requested when it gets a byte, each of which says that it is ready. They and the program each get one more
/// byte, make calls, some more in each, and print the count. They stay until the input ends.
const STAYS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
static void work_often (int number)
{
  char byte, line[40];
  int n;
  if (read (0, &byte, 1) != 1) _exit (1);
  for (n = 0; n < 100 + number; n++)
    work (n);
  write (1, line, sprintf (line, "%d %d\n", (int) getpid (), n));
}
int main (int argc, char **argv)
{
  int children = atoi (argv[1]), done[2], end[2], status, bad = 0;
  char byte;
  if (read (0, &byte, 1) != 1 || pipe (done) || pipe (end)) return 1;
  for (int child = 0; child < children; child++)
    if (fork () == 0)
      {
        close (end[1]);
        write (1, "ready\n", 6);
        work_often (child);
        write (done[1], &byte, 1);
        return read (end[0], &byte, 1);
      }
  work_often (children);
  for (int child = 0; child < children; child++)
    read (done[0], &byte, 1);
  while (read (0, &byte, 1) == 1);
  close (end[1]);
  for (int child = 0; child < children; child++)
    if (wait (&status) < 0 || status != 0) bad = 1;
  return bad;
}
"#;

/// Records the program and its children by this mechanism, into a folder of the same name.
fn followed(built: &Built, mechanism: &str, tracepoints: &[&str]) -> Ran {
    let mut words = vec![
        "record",
        "--follow-forks",
        "--mechanism",
        mechanism,
        "-o",
        mechanism,
    ];
    words.extend(
        tracepoints
            .iter()
            .flat_map(|tracepoint| ["-t", *tracepoint]),
    );
    words.extend(["--", "./program"]);
    built.run(&words).code(0)
}

/// The lines of workers.
fn workers(text: &str) -> BTreeMap<u64, u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("worker "));
    counts(&lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn children_by_fork_are_recorded_from_their_first_instruction() {
    let built = Built::new(FORKS, &["-O1"]);
    for mechanism in ["jump", "trap"] {
        let done = followed(&built, mechanism, &["work : n", "work : count()"])
            .says(&["of 9 processes", "threads were stopped"]);
        let counted = counts(&done.stdout);
        assert_eq!(counted.len(), 9, "{}", done.stdout);
        // The counts of the processes are added.
        let table = built
            .run(&["show", mechanism, "--aggregates", "--json"])
            .code(0)
            .json();
        assert_eq!(table.len(), 1);
        assert_eq!(table[0]["value"], counted.values().sum::<u64>());
        let mut frames = built.run(&["show", mechanism, "--json"]).code(0).json();
        frames.retain(|row| row["kind"] != "aggregate");
        assert_eq!(frames_of(&frames), counted, "{}", done.stderr);
        let infos = built.run(&["info", mechanism, "--json"]).code(0).json();
        assert_eq!(
            infos.iter().filter(|info| info["parent"].is_u64()).count(),
            8
        );
        for process in counted.keys() {
            assert_clean(&built.path(&format!("{mechanism}/{process}.tf")));
        }
    }
}

/// A child returns from its handler to where its parent was: into a pad of the parent, where it was in one. Its own pads may not be there.
#[test]
fn children_that_return_from_a_handler_into_a_pad_are_recorded() {
    let built = Built::new(FORKS_IN_HANDLER, &["-O1"]);
    for mechanism in ["jump", "trap"] {
        let done = followed(&built, mechanism, &["work : n, *block"]);
        let lines: Vec<Vec<u64>> = (done.stdout.lines())
            .map(|line| {
                let words = line.split_whitespace();
                words.map(|word| word.parse().expect("a number")).collect()
            })
            .collect();
        assert_eq!(lines.len(), 13, "{}", done.stdout);
        if mechanism == "jump" {
            assert!(lines.iter().any(|line| line[3] > 0), "{}", done.stdout);
        }
        let frames = built.run(&["show", mechanism, "--json"]).code(0).json();
        for line in &lines {
            let own = |frame: &&Value| frame["process"] == line[0];
            let mut numbers: Vec<u64> = (frames.iter().filter(own))
                .map(|frame| value(frame, "n").expect("n").parse().expect("a number"))
                .collect();
            numbers.sort_unstable();
            let is_child = line[1] > 0;
            // Of the call during which a child was made, the child makes the frame if it had not begun, and its parent if it had. The child
            // goes on in the memory that it shares with its parent then, whose file gets the frame of both.
            let made_during = |number: u64| lines.iter().filter(|line| line[1] == number).count();
            numbers
                .dedup_by(|next, number| next == number && !is_child && made_during(*number) > 0);
            let before = usize::from(is_child && numbers.first() == Some(&line[1]));
            let expected = (line[2] - line[1]) as usize;
            let missing = (line[1] + 1..=line[2])
                .filter(|number| !numbers.contains(number))
                .count();
            assert_eq!(
                numbers.len() - before + missing,
                expected,
                "{line:?} and {numbers:?}"
            );
            // The parent stays in its handler while the child is taken, and a frame that it had begun is given up.
            let lost = format!("process {}: {missing} frame", line[0]);
            assert!(
                missing == 0 || !is_child && done.stderr.contains(&lost),
                "{mechanism}: {line:?} and {numbers:?}\n{}",
                done.stderr
            );
            assert_clean(&built.path(&format!("{mechanism}/{}.tf", line[0])));
        }
    }
}

#[test]
fn children_that_are_not_recorded_are_reported() {
    let built = Built::new(FORKS, &["-O1"]);
    let done = built
        .run(&[
            "record",
            "-t",
            "work : n",
            "-o",
            "out.tf",
            "--",
            "./program",
        ])
        .code(0)
        .says(&["8 children were not traced; --follow-forks traces them"]);
    assert_eq!(counts(&done.stdout).len(), 9);
    assert_eq!(built.frames().len(), 8);
}

#[test]
fn children_of_an_attached_program_are_recorded_as_they_come() {
    let built = Built::new(FORKS, &["-O1"]);
    let mut command = Command::new(&built.program);
    let mut program = command
        .arg("waits")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let id = program.id().to_string();
    let (child, errors, said) = start(
        &mut record(
            &built,
            &["--follow-forks", "-t", "work : n", "-o", "run", "-p", &id],
        ),
        "1 process is recorded",
    );
    drop(program.stdin.take());
    let output = program.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let counted = counts(&String::from_utf8_lossy(&output.stdout));
    let done = finish(child, errors, said).code(0);
    let frames = built.run(&["show", "run", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted, "{}", done.stderr);
}

#[test]
fn programs_that_processes_execute_are_recorded() {
    let built = Built::new(STARTS, &["-O1"]);
    built.compile("worker", WORKER, &["-O1"]);
    let done = built
        .run(&[
            "record",
            "--follow-forks",
            "--pending",
            "-t",
            "work : n",
            "-o",
            "run",
            "--",
            "./program",
        ])
        .code(0);
    let counted = workers(&done.stderr);
    let mut numbers: Vec<u64> = counted.values().copied().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 4, 5, 6], "{}", done.stderr);
    let frames = built.run(&["show", "run", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted, "{}", done.stderr);
    assert!(frames.iter().all(|frame| frame["function"] == "work"));
    // Without --pending the first program must have all places.
    built
        .run(&[
            "record",
            "--follow-forks",
            "-t",
            "work",
            "-o",
            "none",
            "--",
            "./program",
        ])
        .code(2)
        .says(&["work", "--pending"]);
    assert!(!built.path("none").exists());
}

#[test]
fn a_pipe_of_a_shell_is_recorded() {
    let built = Built::named("worker", WORKER, &["-O1"]);
    let done = built
        .run(&[
            "record",
            "--follow-forks",
            "--pending",
            "-t",
            "work : n",
            "-o",
            "run",
            "--",
            "sh",
            "-c",
            "./worker 7 | ./worker 8; ./worker 9",
        ])
        .code(0)
        .says(&["hits: tracepoint 1 24"]);
    let counted = workers(&done.stderr);
    assert_eq!(counted.len(), 3, "{}", done.stderr);
    let frames = built.run(&["show", "run", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted);
    // Stock GDB opens a part, with the symbols of its own program.
    let part = built.path(&format!("run/{}.tf", counted.keys().next().expect("one")));
    let infos = built
        .run(&["info", part.to_str().expect("a name"), "--json"])
        .code(0)
        .json();
    let modules = infos[0]["modules"].as_array().expect("modules");
    assert_eq!(
        modules[0]["path"].as_str().map(Path::new),
        Some(built.program.as_path())
    );
    // A place that another program lacks is reported once.
    let lacks =
        done.stderr.matches("no symbol").count() + done.stderr.matches("no function").count();
    assert!(lacks <= 1, "{}", done.stderr);
}

#[test]
fn a_daemon_is_recorded_until_it_ends() {
    let built = Built::new(DAEMON, &["-O1"]);
    let done = built
        .run(&[
            "record",
            "--follow-forks",
            "-t",
            "work : n",
            "-o",
            "run",
            "--",
            "./program",
        ])
        .code(0);
    let counted = counts(&std::fs::read_to_string(built.path("daemon")).expect("written"));
    let frames = built.run(&["show", "run", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted, "{}", done.stderr);
}

#[test]
fn a_child_that_is_killed_at_once_harms_nothing() {
    let built = Built::new(KILLS, &["-O1"]);
    for mechanism in ["jump", "trap"] {
        let done = followed(&built, mechanism, &["work : n"]);
        let counted = counts(&done.stdout);
        let (process, count) = counted.first_key_value().expect("it has counted");
        let frames = built.run(&["show", mechanism, "--json"]).code(0).json();
        assert_eq!(frames_of(&frames)[process], *count, "{}", done.stderr);
    }
}

#[test]
fn children_outlive_a_tracewire_that_is_killed_while_it_takes_them() {
    let built = Built::new(FORKS, &["-O1"]);
    for (index, point) in [
        "fork/born:1",
        "fork/followed:1",
        "fork/followed:4",
        "record/prepared:2",
        "record/start:2",
        "record/started:2",
        "record/run:3",
        "record/ended:2",
        "leave/jumps-out:1",
    ]
    .iter()
    .enumerate()
    {
        let mut program = Command::new(&built.program)
            .arg("waits")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let id = program.id().to_string();
        let output = format!("killed-{index}");
        let arguments = [
            "--follow-forks",
            "--mechanism",
            "jump",
            "-t",
            "work : n",
            "-o",
            &output,
            "-p",
            &id,
        ];
        let mut command = record(&built, &arguments);
        command.env("TRACEWIRE_FAIL_POINT", point);
        let (mut recorder, _errors, _) = start(&mut command, "1 process is recorded");
        drop(program.stdin.take());
        let ended = program.wait_with_output().expect("it ends");
        // All of them have worked to their ends.
        assert!(ended.status.success(), "{point}: {ended:?}");
        let counted = counts(&String::from_utf8_lossy(&ended.stdout));
        assert_eq!(counted.len(), 9, "{point}");
        recorder.wait().expect("it ends");
    }
}

/// A program that runs, which has made children.
struct Family {
    program: Child,
    output: BufReader<std::process::ChildStdout>,
    children: usize,
}

impl Family {
    fn start(built: &Built, children: usize) -> Self {
        let mut program = Command::new(&built.program)
            .arg(children.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let output = BufReader::new(program.stdout.take().expect("its output"));
        Self {
            program,
            output,
            children,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut input = self.program.stdin.as_ref().expect("its input");
        input.write_all(bytes).expect("written");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("read");
        line
    }

    fn make_children(&mut self) {
        self.write(b"x");
        for _ in 0..self.children {
            assert_eq!(self.line(), "ready\n");
        }
    }

    /// Makes all of them work, and gives their own counts.
    fn work(&mut self) -> BTreeMap<u64, u64> {
        self.write(&vec![b'x'; self.children + 1]);
        let lines: Vec<String> = (0..=self.children).map(|_| self.line()).collect();
        let counted = counts(&lines.concat());
        assert_eq!(counted.len(), self.children + 1, "{lines:?}");
        counted
    }

    fn end(mut self) {
        drop(self.program.stdin.take());
        assert!(self.program.wait().expect("it ends").success());
    }
}

/// How many mappings a process has that are shared with Tracewire.
fn shared_mappings(process: u64) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it runs");
    maps.matches("memfd:tracewire").count()
}

/// Each child has its own part of the memory that the parent has mapped for its children. There is none left for some of these.
#[test]
fn many_children_at_once_are_recorded_and_let_go() {
    let built = Built::new(STAYS, &["-O1"]);
    let mut family = Family::start(&built, 70);
    let id = family.program.id().to_string();
    let (child, errors, said) = start(
        &mut record(
            &built,
            &["--follow-forks", "-t", "work : n", "-o", "run", "-p", &id],
        ),
        "1 process is recorded",
    );
    family.make_children();
    let counted = family.work();
    let recorder = Pid::from_raw(child.id().cast_signed());
    kill(recorder, Signal::SIGINT).expect("it is interrupted");
    let done = finish(child, errors, said).code(0);
    for process in counted.keys() {
        assert_eq!(shared_mappings(*process), 0, "{process}");
    }
    family.end();
    let frames = built.run(&["show", "run", "--json"]).code(0).json();
    assert_eq!(frames_of(&frames), counted, "{}", done.stderr);
    for process in counted.keys() {
        assert_clean(&built.path(&format!("run/{process}.tf")));
    }
}

/// What a child has made is rescued from that child, and from no other process, though all of them have the memory that it is in.
#[test]
fn frames_of_children_are_rescued_after_a_kill() {
    let built = Built::new(STAYS, &["-O1"]);
    let mut family = Family::start(&built, 3);
    let id = family.program.id().to_string();
    let options = ["--follow-forks", "--mechanism", "jump"];
    let target = ["-t", "work : n", "-o", "run", "-p", &id];
    let (mut recorder, errors, said) = start(
        &mut record(&built, &[&options[..], &target].concat()),
        "1 process is recorded",
    );
    family.make_children();
    // Nobody reads the rings from here on.
    let recorder_id = Pid::from_raw(recorder.id().cast_signed());
    kill(recorder_id, Signal::SIGSTOP).expect("it is stopped");
    let counted = family.work();
    recorder.kill().expect("it is killed");
    finish(recorder, errors, said);
    for (process, calls) in &counted {
        let rest = format!("rest-{process}.tf");
        built
            .run(&["rescue", "-p", &process.to_string(), "-o", &rest])
            .code(0)
            .says(&["1 jump taken out"]);
        assert_clean(&built.path(&rest));
        let rescued = built.run(&["show", &rest, "--json"]).code(0).json();
        assert_eq!(rescued.len() as u64, *calls, "{process}");
    }
    // A later recording of the parent gives up the memory for its children. That of its pads and of the pad at the dynamic linker's hook
    // stays after a kill.
    let again = ["record", "-t", "work : n", "-o", "again.tf"];
    let done = built.run(&[&again[..], &["--duration", "0.1", "-p", &id]].concat());
    let parent = id.parse().expect("a number");
    assert_eq!(shared_mappings(parent), 2, "{}", done.stderr);
    family.end();
}
