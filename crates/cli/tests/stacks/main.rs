//! The stacks that `$stack` collects: unwound as GDB unwinds them, in the trace frame and in the running program.
//!
//! `TRACEWIRE_STACK_HITS` sets how many hits of each program are compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tracewire_test_support::{Cc, Gdb, Said, assert_clean};
use tracewire_tracefile::TraceFile;

/// How many hits of each program are compared.
fn hits() -> usize {
    let asked = std::env::var("TRACEWIRE_STACK_HITS").ok();
    asked.and_then(|hits| hits.parse().ok()).unwrap_or(20)
}

fn source(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    directory.join("tests/stacks").join(name)
}

/// A program and its library in a directory.
struct Walk {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Walk {
    fn build(compiler: &str, name: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let frame_pointers = options.contains(&"-fno-omit-frame-pointer");
        let kept = if frame_pointers {
            "-fno-omit-frame-pointer"
        } else {
            "-fomit-frame-pointer"
        };
        Cc::new()
            .source(source("programs/hop.c"))
            .options(&["-O2", kept, "-shared", "-fPIC"])
            .build(path, "libhop.so");
        let mut search = std::ffi::OsString::from(match compiler {
            "rustc" => "-Clink-arg=-Wl,-rpath,",
            _ => "-Wl,-rpath,",
        });
        search.push(path);
        let program = Cc::of(compiler)
            .option("-g")
            .source(source(&format!("programs/{name}")))
            .options(options)
            .option(format!("-L{}", path.display()));
        let program = match compiler {
            "rustc" => program.option("--edition=2024"),
            _ => program.option("-lhop"),
        };
        let program = program.option(search).build(path, "walk");
        Self { directory, program }
    }

    fn tracewire(&self, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        output.stdout
    }

    fn record(&self, specification: &str, hits: usize) {
        let (program, hits) = (self.program.to_str().expect("a name"), hits.to_string());
        let arguments = ["record", "-t", specification, "-o", "out.tf", "--"];
        self.tracewire(&[&arguments[..], &[program, &hits]].concat());
        assert_clean(&self.directory.path().join("out.tf"));
    }

    /// The stacks as `show` has them, as lines `pc|function|file|line|inlined`.
    fn shown(&self) -> Vec<Vec<String>> {
        let shown = self.shown_with_ends().into_iter().map(|(stack, end)| {
            assert_eq!(end, "outermost", "{stack:?}");
            stack
        });
        shown.collect()
    }

    /// As `shown`, each stack with why it ends.
    fn shown_with_ends(&self) -> Vec<(Vec<String>, String)> {
        let shown = self.tracewire(&["show", "out.tf", "--json"]);
        let shown = String::from_utf8(shown).expect("text");
        let frames = shown.lines().map(|line| {
            let frame: Value = serde_json::from_str(line).expect("JSON");
            let entries = frame["stack"].as_array().expect("a stack");
            let end = frame["stack_end"].as_str().expect("an end").to_owned();
            (entries.iter().map(line_of).collect(), end)
        });
        frames.collect()
    }

    /// The stacks that GDB finds in the trace frames.
    fn by_gdb(&self, count: usize) -> Vec<Vec<String>> {
        self.by_gdb_with(&format!("frames({count})"))
    }

    fn by_gdb_with(&self, call: &str) -> Vec<Vec<String>> {
        let commands = self.tracewire(&["show", "out.tf", "--gdb"]);
        let script = self.directory.path().join("open.gdb");
        std::fs::write(&script, commands).expect("written");
        let gdb = Gdb::new().script(&script).script(&source("bt.py"));
        stacks(gdb.command(format!("python {call}")).run())
    }

    /// The stacks that GDB finds at the hits themselves.
    fn live(&self, count: usize) -> Vec<Vec<String>> {
        let gdb = Gdb::new().program(&self.program).script(&source("bt.py"));
        let gdb = gdb.commands([
            "handle SIGUSR1 nostop noprint pass".to_owned(),
            "set language c".to_owned(),
            "break leaf".to_owned(),
            "set language auto".to_owned(),
            format!("set args {count}"),
            format!("python hits({count})"),
            "kill".to_owned(),
        ]);
        stacks(gdb.run())
    }

    fn compare(&self) {
        let count = hits();
        self.record("leaf : $stack(64)", count);
        let shown = self.shown();
        assert!(shown.len() >= count, "{} frames", shown.len());
        let in_frames = self.by_gdb(count);
        let live = self.live(count);
        for (hit, shown) in shown.iter().take(count).enumerate() {
            let in_frame = from_leaf(in_frames.get(hit));
            // Of a trace frame, GDB shows what called `main`, too.
            let in_frame = in_frame.get(..shown.len()).unwrap_or(in_frame);
            assert_same(shown, in_frame, &format!("in frame {hit}"));
            let names: Vec<String> = shown.iter().map(|line| without_pc(line)).collect();
            assert_same(&names, from_leaf(live.get(hit)), &format!("at hit {hit}"));
        }
    }
}

/// What is collected by frame pointers ends at the first function that does not keep them, and at the frame of a signal. Up to there it
/// is what GDB finds, in the trace frame and in the running program.
fn compare_by_frame_pointers(walk: &Walk, mechanism: &str) {
    let count = hits();
    let program = walk.program.to_str().expect("a name");
    let hits = count.to_string();
    let tracepoint = [
        "record",
        "--mechanism",
        mechanism,
        "-t",
        "leaf : $stack_fp(64)",
    ];
    walk.tracewire(&[&tracepoint[..], &["-o", "out.tf", "--", program, &hits]].concat());
    assert_clean(&walk.directory.path().join("out.tf"));
    let shown = walk.shown_with_ends();
    assert!(shown.len() >= count, "{} frames", shown.len());
    let in_frames = walk.by_gdb_with(&format!("frames({count}, True)"));
    let live = walk.live(count);
    let mut whole = 0;
    for (hit, (shown, end)) in shown.iter().take(count).enumerate() {
        let live = from_leaf(live.get(hit));
        let (start, rest) = live.split_at(shown.len().min(live.len()));
        let names: Vec<String> = shown.iter().map(|line| without_pc(line)).collect();
        assert_same(&names, start, &format!("at hit {hit}"));
        let in_frame = from_leaf(in_frames.get(hit));
        let in_frame = in_frame.get(..shown.len()).unwrap_or(in_frame);
        assert_same(shown, in_frame, &format!("in frame {hit}"));
        // `raise` and `qsort` are of the C library, which keeps none.
        let is_kept = !live
            .iter()
            .any(|line| line.contains("raise|") || line.contains("compare|"));
        whole += usize::from(is_kept);
        match is_kept {
            true => assert!(
                rest.is_empty() && end == "outermost",
                "hit {hit}: {rest:?}, {end}"
            ),
            false => assert!(!rest.is_empty() && end == "unavailable", "hit {hit}: {end}"),
        }
    }
    assert!((1..count).contains(&whole), "{whole} of {count} are whole");
}

/// A stack from the tracepoint's function on: GDB also shows functions inlined at its start.
fn from_leaf(stack: Option<&Vec<String>>) -> &[String] {
    let stack = stack.expect("a stack");
    let leaf = stack.iter().position(|line| line.contains("leaf|"));
    &stack[leaf.expect("the function")..]
}

#[track_caller]
fn assert_same(ours: &[String], gdb: &[String], place: &str) {
    let (ours, gdb) = (ours.join("\n"), gdb.join("\n"));
    assert!(ours == gdb, "{place}\nours:\n{ours}\nGDB's:\n{gdb}");
}

fn without_pc(line: &str) -> String {
    let (_, rest) = line.split_once('|').expect("five words");
    format!("|{rest}")
}

fn line_of(entry: &Value) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let file = text("file").rsplit('/').next().unwrap_or_default();
    let line = entry["line"].as_u64();
    let line = line.map_or_else(String::new, |line| line.to_string());
    let inlined = if entry["inlined"] == true {
        "True"
    } else {
        "False"
    };
    let function = text("function");
    let function = match function.split_once('<') {
        Some((name, _)) if name.starts_with("std::") => name,
        _ => function,
    };
    format!("{}|{function}|{file}|{line}|{inlined}", text("pc"))
}

/// The output of `bt.py`.
fn stacks(said: Said) -> Vec<Vec<String>> {
    let mut stacks: Vec<Vec<String>> = Vec::new();
    for line in said.output.lines() {
        if line.starts_with("hit ") {
            stacks.push(Vec::new());
        } else if line.matches('|').count() == 4
            && let Some(stack) = stacks.last_mut()
        {
            stack.push(line.to_owned());
        }
    }
    assert!(!stacks.is_empty(), "{}", said.all());
    stacks
}

#[test]
fn stacks_of_c() {
    Walk::build("cc", "walk.c", &["-O2"]).compare();
}

#[test]
fn stacks_of_c_with_frame_pointers() {
    Walk::build("cc", "walk.c", &["-O2", "-fno-omit-frame-pointer"]).compare();
}

#[test]
fn stacks_of_cpp() {
    Walk::build("c++", "walk.cpp", &["-O2"]).compare();
}

#[test]
fn stacks_of_cpp_with_frame_pointers() {
    Walk::build("c++", "walk.cpp", &["-O2", "-fno-omit-frame-pointer"]).compare();
}

#[test]
fn stacks_of_rust() {
    Walk::build("rustc", "walk.rs", &["-Copt-level=2"]).compare();
}

#[test]
fn stacks_of_rust_with_frame_pointers() {
    let options = ["-Copt-level=2", "-Cforce-frame-pointers=yes"];
    Walk::build("rustc", "walk.rs", &options).compare();
}

#[test]
fn frame_pointers_are_walked_in_the_pad() {
    let walk = Walk::build("cc", "walk.c", &["-O2", "-fno-omit-frame-pointer"]);
    compare_by_frame_pointers(&walk, "jump");
    compare_by_frame_pointers(&walk, "trap");
}

/// A chain that leads nowhere ends there, and no hit reads what is not on the stack.
#[test]
fn a_frame_pointer_that_is_none_ends_the_stack() {
    let directory = tempfile::tempdir().expect("a directory");
    Cc::new()
        .source(source("programs/chains.c"))
        .options(&["-g", "-O1", "-pthread"])
        .build(directory.path(), "chains");
    for mechanism in ["jump", "trap"] {
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args([
                "record",
                "--mechanism",
                mechanism,
                "-t",
                "hit : $stack_fp(4)",
            ])
            .args(["-o", "out.tf", "--", "./chains"])
            .current_dir(directory.path())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        // How many call frames the program has made: the frame has the stack pointer's piece, and a piece for each.
        let expected: Vec<usize> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect();
        let file = directory.path().join("out.tf");
        assert_clean(&file);
        let trace = TraceFile::open(&file).expect("a trace file");
        let pieces: Vec<usize> = trace
            .frames()
            .map(|frame| {
                frame
                    .memory_blocks()
                    .filter(|(_, bytes)| bytes.len() == 16)
                    .count()
                    - 1
            })
            .collect();
        assert_eq!(pieces, expected, "{mechanism}: {said}");
        assert!(!said.contains("could not be read"), "{said}");
    }
}

#[test]
fn stacks_are_folded_and_shown_as_lines() {
    let walk = Walk::build("cc", "walk.c", &["-O2"]);
    walk.record("leaf : seed, $stack", 30);
    let folded = String::from_utf8(walk.tracewire(&["show", "out.tf", "--folded"])).expect("text");
    let counts = folded.lines().map(|line| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        let whole = stack.starts_with("main;") || stack.starts_with("[truncated];");
        assert!(whole && stack.ends_with(";leaf"), "{line}");
        count.parse::<usize>().expect("a number")
    });
    assert_eq!(counts.sum::<usize>(), 30);
    let shown = String::from_utf8(walk.tracewire(&["show", "out.tf"])).expect("text");
    assert!(shown.contains("#1 walk "), "{shown}");
    let one = String::from_utf8(walk.tracewire(&["show", "out.tf", "--frame", "0"])).expect("text");
    assert!(
        one.contains("#0  leaf ") && one.contains("of the stack"),
        "{one}"
    );
}
