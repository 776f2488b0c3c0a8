//! `calls` of a live program: the tree is that of the program's own log, and the program is unchanged afterwards.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tracewire_test_support::Cc;

use crate::source;

/// How often each function was called, by the addresses of those that had called it.
type Tree = BTreeMap<Vec<u64>, u64>;

struct Program {
    _directory: tempfile::TempDir,
    file: PathBuf,
}

impl Program {
    fn build(compiler: &str, name: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = Cc::of(compiler)
            .option("-g")
            .option("-pthread")
            .source(source(name))
            .options(options)
            .build(directory.path(), "flow");
        Self {
            _directory: directory,
            file,
        }
    }

    fn calls(&self, options: &[&str], arguments: &[&str]) -> (Vec<String>, Vec<Value>, String) {
        let output = calls()
            .args(options)
            .arg("--")
            .arg(&self.file)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{options:?}: {said}");
        let text = String::from_utf8(output.stdout).expect("text");
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with('{'));
        let nodes = ours.into_iter().map(serde_json::from_str);
        let nodes = nodes.collect::<Result<_, _>>().expect("JSON");
        let log = theirs.into_iter().map(str::to_owned).collect();
        (log, nodes, said)
    }

    /// Compares the tree with the log of the compiler's own instrumentation.
    fn compare(&self) {
        let (log, nodes, said) = self.calls(&["--json", "--hot", "none"], &["4"]);
        assert!(!said.contains("could not be followed"), "{said}");
        assert!(!said.contains("lost"), "{said}");
        let logged = logged(&log);
        assert!(logged.len() > 30, "{logged:?}");
        let names: BTreeMap<u64, &str> = (nodes.iter())
            .map(|node| (address(node), node["function"].as_str().expect("a name")))
            .collect();
        let shown = |tree: &Tree| {
            let named = tree.iter().map(|(path, calls)| {
                let path = path.iter().map(|at| names.get(at).copied().unwrap_or("?"));
                format!("{} {calls}", path.collect::<Vec<_>>().join(";"))
            });
            named.collect::<Vec<_>>()
        };
        assert_eq!(shown(&followed(&nodes)), shown(&logged));
        assert_eq!(followed(&nodes), logged);
    }
}

fn calls() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
    command.arg("calls");
    command
}

fn address(node: &Value) -> u64 {
    let text = node["address"].as_str().expect("an address");
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number")
}

/// The tree of a log.
fn logged(log: &[String]) -> Tree {
    let (mut tree, mut path) = (Tree::new(), Vec::new());
    for line in log {
        match line.split_once(" 0x") {
            Some((">", address)) => {
                path.push(u64::from_str_radix(address, 16).expect("an address"));
                *tree.entry(path.clone()).or_default() += 1;
            }
            _ => _ = path.pop().expect("a call that is open"),
        }
    }
    tree
}

/// The tree of `calls --json`, without the functions that make the log, which call nothing.
fn followed(nodes: &[Value]) -> Tree {
    let (mut tree, mut path) = (Tree::new(), Vec::new());
    for node in nodes {
        let name = node["function"].as_str().expect("a name");
        if name.starts_with("log_") || name.starts_with("__cyg_profile") {
            continue;
        }
        path.truncate(node["depth"].as_u64().expect("a depth") as usize);
        path.push(address(node));
        *tree.entry(path.clone()).or_default() += node["calls"].as_u64().expect("a number");
    }
    tree
}

#[test]
fn the_tree_of_a_c_program_is_that_of_its_log() {
    for options in [&["-O0"][..], &["-O2", "-DTAIL_CALLS"]] {
        let mut options = options.to_vec();
        options.push("-finstrument-functions");
        Program::build("gcc", "flow.c", &options).compare();
    }
}

#[test]
fn the_tree_of_a_cpp_program_is_that_of_its_log() {
    for level in ["-O0", "-O2"] {
        // Inlined functions are logged, too, and nothing calls them.
        let options = [level, "-std=c++17", "-fno-inline", "-finstrument-functions"];
        Program::build("g++", "flow.cpp", &options).compare();
    }
}

/// The calls of each function, by thread.
fn counts(nodes: &[Value]) -> BTreeMap<(u64, String), u64> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        let name = node["function"].as_str().expect("a name").to_owned();
        let thread = node["thread"].as_u64().unwrap_or(0);
        *counts.entry((thread, name)).or_default() += node["calls"].as_u64().expect("a number");
    }
    counts
}

#[test]
fn every_call_of_several_threads_is_counted() {
    let program = Program::build("gcc", "busy.c", &["-O1"]);
    let options = ["--json", "--hot", "none", "--threads", "/^(inner|outer)$/"];
    let (log, nodes, said) = program.calls(&options, &["4", "20000"]);
    assert!(!said.contains("lost"), "{said}");
    // Only the roots name their thread's number; those below follow them.
    let counts = counts(&nodes);
    let threads: Vec<&String> = log
        .iter()
        .filter(|line| line.starts_with("thread"))
        .collect();
    assert_eq!(threads.len(), 4);
    for line in threads {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        for (name, calls) in [("outer", number(3)), ("inner", number(5))] {
            let found = counts.get(&(number(1), name.to_owned())).copied();
            assert_eq!(found, Some(calls), "{line}: {nodes:?}");
        }
    }
}

#[test]
fn a_function_that_is_called_too_often_is_switched_down() {
    let program = Program::build("gcc", "busy.c", &["-O1"]);
    let mut busy = Busy::start(&program);
    let output = calls()
        .args([
            "--json",
            "--hot",
            "1000",
            "--duration",
            "1",
            "-p",
            &busy.id(),
        ])
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("inner is switched down"), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\"switched_down\":true"), "{text}");
    assert_eq!(busy.end(), "the code is as it was");
}

/// `other` begins with the first instruction of a copy of `tiny`.
#[test]
fn an_inlined_copy_is_not_followed() {
    let program = Program::build("gcc", "inlined.c", &["-O2"]);
    let refused = calls()
        .args(["tiny", "--"])
        .arg(&program.file)
        .output()
        .expect("tracewire runs");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("`tiny` is not called"), "{said}");
    for pattern in ["other", "/^(tiny|other)$/", "o*er"] {
        let (_, nodes, said) = program.calls(&["--json", pattern], &[]);
        let calls = counts(&nodes);
        let names: Vec<&str> = calls.keys().map(|(_, name)| name.as_str()).collect();
        let wanted: &[&str] = match pattern {
            "o*er" => &["other", "outer"],
            _ => &["other"],
        };
        assert_eq!(names, wanted, "{pattern}: {said}");
    }
}

/// A program that is busy until it is told to end.
struct Busy {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Busy {
    fn start(program: &Program) -> Self {
        let mut child = Command::new(&program.file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self { child, lines }
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// Ends it, and gives its last line.
    fn end(&mut self) -> String {
        let mut input = self.child.stdin.take().expect("a pipe");
        input.write_all(b".").expect("written");
        let mut text = String::new();
        self.lines.read_to_string(&mut text).expect("read");
        assert!(self.child.wait().expect("it ends").success(), "{text}");
        text.lines().last().unwrap_or_default().to_owned()
    }
}

#[test]
fn a_program_is_left_as_it_was_and_a_killed_tracer_does_it_no_harm() {
    let program = Program::build("gcc", "busy.c", &["-O1"]);
    let mut busy = Busy::start(&program);
    for kills in [false, true, false] {
        let mut tracer = calls()
            .args([
                "--hot",
                "none",
                "--duration",
                if kills { "600" } else { "0.3" },
            ])
            .args(["-p", &busy.id()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tracewire starts");
        let mut said = BufReader::new(tracer.stderr.take().expect("a pipe"));
        let mut line = String::new();
        while !line.contains("followed") {
            line.clear();
            assert_ne!(
                said.read_line(&mut line).expect("a line"),
                0,
                "it has ended"
            );
        }
        if kills {
            tracer.kill().expect("killed");
            tracer.wait().expect("it ends");
            continue;
        }
        let mut shown = String::new();
        let mut tree = tracer.stdout.take().expect("a pipe");
        tree.read_to_string(&mut shown).expect("read");
        assert!(tracer.wait().expect("it ends").success());
        assert!(shown.contains("  outer\n"), "{shown}");
    }
    assert_eq!(busy.end(), "the code is as it was");
}

/// The pads are written before the jumps that lead there: a tracer may be killed between any two writes.
#[test]
fn a_tracer_that_is_killed_while_it_writes_pads_does_no_harm() {
    use std::os::unix::process::ExitStatusExt as _;

    let program = Program::build("gcc", "busy.c", &["-O1"]);
    let mut busy = Busy::start(&program);
    let mut kills = 0;
    loop {
        let output = calls()
            .args(["--hot", "none", "--duration", "0.1", "-p", &busy.id()])
            .env(
                "TRACEWIRE_FAIL_POINT",
                format!("stage/written:{}", kills + 1),
            )
            .output()
            .expect("tracewire runs");
        if output.status.signal() != Some(9) {
            // There are no more writes. What the killed ones have left was taken out, and this one was not in the way of it.
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            break;
        }
        kills += 1;
    }
    assert!(kills >= 2, "pads and a page: {kills}");
    assert_eq!(busy.end(), "the code is as it was");
}
