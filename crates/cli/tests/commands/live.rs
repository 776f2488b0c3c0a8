//! Frames that are shown as they come: `record --live`, `show --follow`.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::support::{Built, OBEYS, ran, tracewire, value};

/// Opens a library at a byte of its standard input, and calls a function of it for each byte.
const OPENS: &str = r#"
#include <dlfcn.h>
#include <unistd.h>
__attribute__ ((noinline)) int own (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (void)
{
  char byte;
  int (*theirs) (int) = own;
  int n = 0;
  while (read (0, &byte, 1) == 1)
    {
      if (byte == 'o')
        theirs = (int (*) (int)) dlsym (dlopen ("./library.so", RTLD_NOW), "theirs");
      theirs (n++);
    }
  return 0;
}
"#;

const LIBRARY: &str = "struct pair { int a, b; };\n\
    static int take (struct pair *p) { __asm__ volatile (\"\" : : \"r\" (p) : \"memory\"); return p->a; }\n\
    int theirs (int n) { struct pair p = { n, n + 1 }; return take (&p); }\n";

/// Makes the requested number of `work` hits as fast as it can, and prints when it is done.
const HURRIES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__ ((noinline)) int work (int n) { __asm__ volatile ("" : : "r" (n) : "memory"); return n; }
int main (int argc, char **argv)
{
  char byte;
  if (read (0, &byte, 1) != 1) return 1;
  for (int i = 0; i < atoi (argv[1]); i++) work (i);
  puts ("done");
  fflush (stdout);
  return read (0, &byte, 1) == 0 ? 0 : 1;
}
"#;

/// A command whose input is written and whose output is read while it runs.
struct Conversation {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    fn begin(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        Self {
            input: child.stdin.take().expect("its input"),
            output: BufReader::new(child.stdout.take().expect("its output")),
            child,
        }
    }

    fn write(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).expect("written");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("read");
        line
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Ends its input, and gives the rest of its output and its status.
    fn end(self) -> (String, Option<i32>) {
        let Self {
            mut child,
            input,
            mut output,
        } = self;
        drop(input);
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("read");
        (rest, child.wait().expect("it ends").code())
    }
}

fn recorder(built: &Built, arguments: &[&str]) -> Command {
    let mut command = tracewire();
    command
        .current_dir(built.folder.path())
        .arg("record")
        .args(arguments);
    command
}

/// Waits until a command has printed on standard error that tracepoints are in the program.
fn until_installed(conversation: &mut Conversation) -> BufReader<std::process::ChildStderr> {
    let mut errors = BufReader::new(conversation.child.stderr.take().expect("its errors"));
    let mut line = String::new();
    while !line.contains(" by ") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).expect("read"), 0);
    }
    errors
}

#[test]
fn a_frame_is_shown_before_the_next_hit() {
    let built = Built::new(OBEYS, &["-O1"]);
    // A span is shown when it has ended.
    let mixes = [
        ("jump", "work : n", 1),
        ("trap", "work : n", 1),
        ("jump", "span work : n, $retval", 2),
        ("trap", "span work : n, $retval", 2),
    ];
    for (mechanism, tracepoint, frames) in mixes {
        let mut recording = Conversation::begin(&mut recorder(
            &built,
            &[
                "--live",
                "--json",
                "--mechanism",
                mechanism,
                "-t",
                tracepoint,
                "-o",
                "out.tf",
                "--",
                "./program",
            ],
        ));
        let errors = until_installed(&mut recording);
        // Another one, beside it.
        let mut follower = tracewire();
        follower.current_dir(built.folder.path());
        let mut follower =
            Conversation::begin(follower.args(["show", "out.tf", "--follow", "--json"]));
        let mut choosy = tracewire();
        choosy.current_dir(built.folder.path());
        let condition = ["--where", "n % 7 == 6"];
        let mut choosy = Conversation::begin(
            choosy
                .args(["show", "out.tf", "--follow", "--json"])
                .args(condition),
        );
        for n in 0..20 {
            recording.write("x");
            let mut all = vec![recording.json(), follower.json()];
            if n % 7 == 6 {
                all.push(choosy.json());
            }
            for reported in all {
                assert_eq!(reported["frame"], n * frames, "{reported}");
                assert_eq!(reported["kind"], if frames == 2 { "span" } else { "hit" });
                assert_eq!(
                    value(&reported, "n"),
                    Some(n.to_string().as_str()),
                    "{reported}"
                );
            }
        }
        assert_eq!(recording.end(), (String::new(), Some(0)));
        assert_eq!(follower.end(), (String::new(), Some(0)));
        assert_eq!(choosy.end(), (String::new(), Some(0)));
        drop(errors);
    }
}

#[test]
fn counts_are_shown_while_the_program_runs() {
    let built = Built::new(OBEYS, &["-O1"]);
    for mechanism in ["jump", "trap"] {
        let options = ["--live", "--json", "--mechanism", mechanism];
        let tracepoints = ["-t", "work : count()", "--", "./program"];
        let mut recording = Conversation::begin(&mut recorder(
            &built,
            &[&options[..], &tracepoints].concat(),
        ));
        let errors = until_installed(&mut recording);
        let mut hits = 0;
        for more in [3, 1, 5] {
            recording.write(&"x".repeat(more));
            hits += more;
            // Counts never decrease, and reach the program's own count.
            let mut last = 0;
            while last < hits {
                let row = recording.json();
                assert_eq!(
                    (&row["kind"], &row["tracepoint"], &row["aggregate"]),
                    (&"aggregate".into(), &1.into(), &"count()".into()),
                    "{row}"
                );
                let count = row["value"].as_u64().expect("a number") as usize;
                assert!((last..=hits).contains(&count), "{row}");
                last = count;
            }
        }
        // All of it has been shown.
        assert_eq!(recording.end(), (String::new(), Some(0)));
        drop(errors);
    }
}

#[test]
fn what_is_shown_is_what_the_file_has() {
    let built = Built::new(OPENS, &["-O0"]);
    built.compile("library.so", LIBRARY, &["-O0", "-shared", "-fPIC"]);
    let tracepoints = ["--pending", "-t", "own : n", "-t", "take : *p"];
    for form in [&["--json"][..], &[]] {
        let arguments = [
            &tracepoints[..],
            &["--live", "-o", "out.tf"],
            form,
            &["--", "./program"],
        ];
        let mut recording = Conversation::begin(&mut recorder(&built, &arguments.concat()));
        let errors = until_installed(&mut recording);
        let mut shown = String::new();
        for reported in ["xxx", "o", "xx"] {
            recording.write(reported);
            for _ in 0..reported.len() + usize::from(shown.is_empty() && form.is_empty()) {
                shown.push_str(&recording.line());
            }
        }
        let (rest, code) = recording.end();
        assert_eq!((rest.as_str(), code), ("", Some(0)));
        drop(errors);
        let file = built.run(&[&["show", "out.tf"][..], form].concat()).code(0);
        let words = |text: &str| {
            // The widths of columns are those of the rows so far.
            let lines = text.lines().map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                words.join(" ")
            });
            lines.collect::<Vec<_>>()
        };
        assert_eq!(words(&shown), words(&file.stdout));
        assert!(shown.contains("{a = 5, b = 6}"), "{shown}");
    }
}

#[test]
fn without_a_name_no_file_is_kept() {
    let built = Built::new(OBEYS, &["-O1"]);
    let temporary = built.path("temporary");
    std::fs::create_dir(&temporary).expect("made");
    let mut command = recorder(&built, &["--live", "-t", "work : n", "--", "./program"]);
    command.env("TMPDIR", &temporary);
    let mut recording = Conversation::begin(&mut command);
    let mut errors = until_installed(&mut recording);
    recording.write("xx");
    assert!(recording.line().contains("What"));
    let (rows, code) = recording.end();
    assert_eq!((rows.lines().count(), code), (2, Some(0)), "{rows}");
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("read");
    assert!(said.contains("2 calls"), "{said}");
    assert!(
        said.contains("2 frames, kept in no file; hits: tracepoint 1 2"),
        "{said}"
    );
    let left = std::fs::read_dir(&temporary).expect("read").count();
    assert_eq!(left, 0);
}

#[test]
fn nobody_waits_for_a_reader_that_stalls() {
    const HITS: usize = 20_000;
    let built = Built::new(HURRIES, &["-O1"]);
    let mut program = Conversation::begin(Command::new(&built.program).arg(HITS.to_string()));
    let process = program.child.id().to_string();
    let mut recording = Conversation::begin(&mut recorder(
        &built,
        &["--live", "-t", "work : n", "-p", &process],
    ));
    let errors = until_installed(&mut recording);
    program.write("x");
    // The rows of so many hits do not fit into a pipe, and none was read.
    assert_eq!(program.line(), "done\n");
    assert_eq!(program.end().1, Some(0));
    let (rows, code) = recording.end();
    assert_eq!((rows.lines().count(), code), (HITS + 1, Some(0)));
    let last = format!("n = {}", HITS - 1);
    assert!(rows.trim_end().ends_with(&last));
    drop(errors);
}

#[test]
fn the_run_ends_with_its_reader() {
    let built = Built::new(OBEYS, &["-O1"]);
    let mut program = Conversation::begin(&mut Command::new(&built.program));
    let process = program.child.id().to_string();
    let mut recording = Conversation::begin(&mut recorder(
        &built,
        &["--live", "-t", "work : n", "-o", "out.tf", "-p", &process],
    ));
    let mut errors = until_installed(&mut recording);
    program.write("x");
    recording.line();
    drop(recording.output);
    // One hit is written into a pipe without a reader, and the run is over.
    program.write("x");
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("read");
    assert!(
        said.contains("the reader of the frames has closed the output"),
        "{said}"
    );
    assert_eq!(recording.child.wait().expect("it ends").code(), Some(0));
    assert_eq!(program.end().1, Some(0));
    assert_eq!(built.frames().len(), 2);
}

#[test]
fn a_recorder_that_is_killed_ends_what_follows_it() {
    let built = Built::new(OBEYS, &["-O1"]);
    let mut program = Conversation::begin(&mut Command::new(&built.program));
    let process = program.child.id().to_string();
    let arguments = ["--mechanism", "trap", "-t", "work : n", "-o", "out.tf"];
    let arguments = [&arguments[..], &["-p", &process]].concat();
    let mut recording = Conversation::begin(&mut recorder(&built, &arguments));
    let errors = until_installed(&mut recording);
    let mut follower = tracewire();
    follower.current_dir(built.folder.path());
    let mut follower = Conversation::begin(follower.args(["show", "out.tf", "--follow"]));
    program.write("x");
    assert!(follower.line().contains("What"));
    assert!(follower.line().contains("n = 0"));
    recording.child.kill().expect("killed");
    recording.child.wait().expect("it ends");
    assert_eq!(follower.end(), (String::new(), Some(0)));
    drop(errors);
    drop(program.input);
    program.child.wait().expect("it ends");
}

#[test]
fn a_file_that_nobody_writes_is_shown_as_it_is() {
    let done = crate::support::run("show sample.tf --follow").code(0);
    assert_eq!(
        done.stdout,
        crate::support::run("show sample.tf").code(0).stdout
    );
    crate::support::run("show none.tf --follow")
        .code(2)
        .says(&["none.tf"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let built = Built::new(OBEYS, &["-O1"]);
    for (arguments, said) in [
        (
            &["--live", "--circular"][..],
            "'--live' cannot be used with '--circular'",
        ),
        (
            &["--live", "-o", "-"],
            "--live prints on standard output: expected another -o, or none",
        ),
        (&["--json", "-o", "out.tf"], "--live"),
        (&[], "--output <FILE>"),
    ] {
        let mut command = recorder(&built, arguments);
        command.args(["-t", "work", "--", "./program"]);
        ran(command.output().expect("it runs"))
            .code(2)
            .says(&[said]);
    }
}
