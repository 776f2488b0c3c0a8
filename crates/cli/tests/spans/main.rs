//! Spans and returns: each entry has one end, by the program's own log, by jumps, by traps and with every way to leave a function.
//!
//! `TRACEWIRE_SPAN_ROUNDS` sets the number of rounds of the programs.

mod flow;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tracewire_model::{FrameNumber, SpanStatement};
use tracewire_test_support::{Cc, Gdb, assert_clean, tool};
use tracewire_tracefile::{GrowingFile, GrowingList, ListBatch, Span, Spool, TraceFile};

fn rounds() -> String {
    std::env::var("TRACEWIRE_SPAN_ROUNDS").unwrap_or_else(|_| "3".to_owned())
}

fn source(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    directory.join("tests/spans/programs").join(name)
}

struct Calls {
    directory: tempfile::TempDir,
    program: PathBuf,
    /// Whether what ends in a call of another function jumps there.
    has_tail_calls: bool,
}

/// A call, as the log or the recording has it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Call {
    name: String,
    argument: i64,
    end: String,
    value: Option<i64>,
    /// Which call of its thread it is in.
    parent: Option<usize>,
}

impl Calls {
    fn build(compiler: &str, name: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let program = Cc::of(compiler)
            .option("-g")
            .source(source(name))
            .options(options);
        let program = match compiler {
            "rustc" => program.option("--edition=2024"),
            _ => program.option("-pthread"),
        };
        let program = program.build(directory.path(), "calls");
        Self {
            directory,
            program,
            has_tail_calls: options.iter().any(|option| option.ends_with('2')),
        }
    }

    fn tracewire(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The program of Go. Its log names goroutines where the others name threads.
    fn of_go(name: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("calls");
        let built = tool("go")
            .arg("build")
            .args(options)
            .arg("-o")
            .arg(&program)
            .arg(source(name))
            .env("GO111MODULE", "off")
            .current_dir(directory.path())
            .output()
            .expect("go runs");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{said}");
        Self {
            directory,
            program,
            has_tail_calls: false,
        }
    }

    /// Records a run, and gives the program's output.
    fn record(&self, mechanism: &str, specification: &str) -> String {
        let program = self.program.to_str().expect("a name");
        let rounds = rounds();
        let mut arguments = vec!["record", "-t", specification, "-o", "out.tf"];
        if mechanism != "auto" {
            arguments.extend(["--mechanism", mechanism]);
        }
        arguments.extend(["--", program, &rounds]);
        let output = self.tracewire(&arguments);
        assert_clean(&self.directory.path().join("out.tf"));
        output
    }

    /// Shows the file, and gives each line to `see`. All of them together would take some kilobytes each.
    fn each_shown(&self, mut see: impl FnMut(Value)) {
        for line in self.tracewire(&["show", "out.tf", "--json"]).lines() {
            see(serde_json::from_str(line).expect("JSON"));
        }
    }

    fn shown(&self) -> Vec<Value> {
        let mut shown = Vec::new();
        self.each_shown(|frame| shown.push(frame));
        shown
    }

    /// The calls of each thread by the recording, or of each goroutine.
    fn recorded(&self) -> HashMap<i64, Vec<Call>> {
        let mut calls: HashMap<i64, Vec<Call>> = HashMap::new();
        let mut places = HashMap::new();
        self.each_shown(|frame| {
            if frame["kind"] == "aggregate" {
                return;
            }
            assert_eq!(frame["kind"], "span", "{frame}");
            let thread = frame.get("goroutine").unwrap_or(&frame["thread"]);
            let thread = calls.entry(thread.as_i64().expect("a thread")).or_default();
            places.insert(frame["frame"].as_u64().expect("a number"), thread.len());
            let parent = frame["parent"].as_u64().map(|parent| places[&parent]);
            let ended = frame["ended"].as_str().expect("an end");
            if ended == "return" || ended == "longjmp" || ended == "exception" {
                assert!(frame["duration_ns"].is_u64(), "{frame}");
            }
            let number = |name: &str| value(&frame, name).and_then(|text| text.parse().ok());
            let function = frame["function"].as_str().expect("a function");
            thread.push(Call {
                name: function
                    .rsplit([':', '.'])
                    .next()
                    .unwrap_or(function)
                    .to_owned(),
                argument: number("n").unwrap_or(0),
                end: ended.to_owned(),
                value: number("$retval"),
                parent,
            });
        });
        calls
    }

    /// Compares the spans with the program's log.
    fn compare(&self, mechanism: &str) {
        let log = self.record(mechanism, "span /(^|::|\\.)t_[a-z]+$/ : n, $retval");
        let wanted = self.logged(&log);
        let found = self.recorded();
        let count: usize = wanted.values().map(Vec::len).sum();
        assert!(count > 50, "{count} calls");
        println!("{count} calls, {mechanism}");
        assert_eq!(wanted.len(), found.len(), "threads");
        for (thread, wanted) in &wanted {
            let found = &found[thread];
            for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                let mut wanted = wanted.clone();
                if wanted.value.is_none() {
                    wanted.value = found.value;
                }
                assert_eq!(&wanted, found, "call {index} of thread {thread}");
            }
            assert_eq!(wanted.len(), found.len(), "calls of thread {thread}");
        }
    }

    /// Compares every third call with the program's log. Each is there wholly, and nothing of the others.
    fn compare_sampled(&self, mechanism: &str) {
        let log = self.record(
            mechanism,
            "span /(^|::|\\.)t_[a-z]+$/ sample 1/3 : n, $retval",
        );
        let wanted = self.logged(&log);
        let found = self.recorded();
        let count = |calls: &HashMap<i64, Vec<Call>>| calls.values().map(Vec::len).sum::<usize>();
        assert_eq!(count(&found), count(&wanted).div_ceil(3));
        for (thread, found) in &found {
            let mut wanted = wanted[thread].iter();
            for (index, found) in found.iter().enumerate() {
                // That a call was left is seen by a later hit of the thread, and there may be none.
                let is_unseen = matches!(&*found.end, "process-exit" | "thread-exit");
                let was_left = |end: &str| matches!(end, "longjmp" | "exception");
                let is_it = |wanted: &&Call| {
                    let fits = wanted.value.is_none() || wanted.value == found.value;
                    let of = |call: &Call| (call.name.clone(), call.argument);
                    let ended = wanted.end == found.end || is_unseen && was_left(&wanted.end);
                    fits && ended && of(wanted) == of(found)
                };
                let there = wanted.find(is_it);
                assert!(
                    there.is_some(),
                    "{found:?}, call {index} of thread {thread}"
                );
            }
        }
    }

    /// Records a run, shows its spans as they end, and compares these lines with those of the finished file.
    fn compare_live(&self, mechanism: &str, specification: &str) {
        let program = self.program.to_str().expect("a name");
        let rounds = rounds();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tracewire"));
        command.args(["record", "--live", "--json", "-o", "out.tf"]);
        if mechanism != "auto" {
            command.args(["--mechanism", mechanism]);
        }
        let output = command
            .args(["-t", specification, "--", program, &rounds])
            .env("NOTES_FILE", "notes")
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let live = String::from_utf8(output.stdout).expect("text");
        let frame = |line: &&str| -> u64 {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["frame"].as_u64().expect("a number")
        };
        let mut live: Vec<&str> = live.lines().collect();
        live.sort_by_key(frame);
        let shown = self.tracewire(&["show", "out.tf", "--json"]);
        let shown: Vec<&str> = shown.lines().collect();
        assert!(!shown.is_empty());
        for (live, shown) in live.iter().zip(&shown) {
            // A `return` in which another one is has no frame yet that represents it.
            match specification.starts_with("return") {
                true => assert_eq!(without_parent(live), without_parent(shown), "{mechanism}"),
                false => assert_eq!(live, shown, "{mechanism}"),
            }
        }
        assert_eq!(live.len(), shown.len(), "{mechanism}");
    }

    /// Writes the recording's frames once more, a few at a time, and compares the spans that a list has of them meanwhile with those of
    /// the whole file.
    fn compare_pieces(&self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let whole = TraceFile::open(self.directory.path().join("out.tf")).expect("a trace file");
        let copy = self.directory.path().join("copy.tf");
        let mut spool = Spool::create(&copy, whole.description()).expect("a file");
        let growing = GrowingFile::open(&copy).expect("a trace file");
        let mut list = GrowingList::new(growing.expect("it is written"));
        let mut seen: BTreeMap<FrameNumber, Span> = BTreeMap::new();
        let mut see = |batch: ListBatch| {
            let number = |local: FrameNumber| batch.numbers[local.0 as usize];
            for line in &batch.listed {
                let span = batch.file.spans().at(*line).expect("it is of spans only");
                assert_eq!(span.frame(), *line);
                let span = Span {
                    entry: number(span.entry),
                    exit: span.exit.map(number),
                    parent: span.parent.map(number),
                    ..*span
                };
                assert_eq!(seen.insert(span.entry, span), None, "it is there once");
            }
        };
        let mut frames = whole.frames().peekable();
        while frames.peek().is_some() {
            let pieces = [1, 2, 40][random.usize(..3)];
            for frame in frames.by_ref().take(random.usize(1..=pieces)) {
                spool.append(frame.bytes()).expect("written");
            }
            while let Some(batch) = list.batch().expect("a batch") {
                see(batch);
            }
        }
        assert!(list.is_written().expect("a lock"));
        spool.finish(whole.description()).expect("a file");
        // A process that another test starts at this moment has the lock until its exec.
        while list.is_written().expect("a lock") {
            std::thread::yield_now();
        }
        assert!(list.batch().expect("no batch").is_none());
        if let Some(batch) = list.finish().expect("the last batch") {
            see(batch);
        }
        let wanted: BTreeMap<_, _> = whole
            .spans()
            .iter()
            .map(|span| (span.entry, *span))
            .collect();
        for (seen, wanted) in seen.values().zip(wanted.values()) {
            let mut wanted = *wanted;
            // A `return` in which another one is has no frame yet that represents it.
            if wanted.statement == SpanStatement::Return && seen.parent.is_none() {
                wanted.parent = None;
            }
            assert_eq!(*seen, wanted, "seed {seed}");
        }
        assert_eq!(seen.len(), wanted.len(), "seed {seed}");
    }

    /// The calls of each thread by the program's log.
    fn logged(&self, log: &str) -> HashMap<i64, Vec<Call>> {
        let mut calls: HashMap<i64, Vec<Call>> = HashMap::new();
        // The calls that are open in each coroutine, below those in which it was entered first.
        let mut open: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
        let mut coroutine: HashMap<i64, i64> = HashMap::new();
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [thread, kind, name, number] = words[..] else {
                panic!("{line}");
            };
            let (thread, number): (i64, i64) = (
                thread.parse().expect("a thread"),
                number.parse().expect("a number"),
            );
            let calls = calls.entry(thread).or_default();
            let coroutine = coroutine.entry(thread).or_default();
            match kind {
                "C" => {
                    let before = open.get(&(thread, *coroutine)).cloned();
                    *coroutine = number;
                    open.entry((thread, number))
                        .or_insert_with(|| before.unwrap_or_default());
                    continue;
                }
                "N" => {
                    open.retain(|(of, number), _| *of != thread || *number == 0);
                    continue;
                }
                _ => {}
            }
            let open = open.entry((thread, *coroutine)).or_default();
            match kind {
                "E" => {
                    let parent = open.last().copied();
                    open.push(calls.len());
                    calls.push(Call {
                        name: name.to_owned(),
                        argument: number,
                        end: "open".to_owned(),
                        value: None,
                        parent,
                    });
                }
                "R" | "T" => {
                    let top = &mut calls[open.pop().expect("a call")];
                    assert_eq!(top.name, name);
                    top.end = "return".to_owned();
                    let is_known = kind == "R" && !VALUES_OF_OTHER_KINDS.contains(&name);
                    top.value = is_known.then_some(number);
                }
                "J" | "X" => {
                    while calls[*open.last().expect("a call")].name != name {
                        let left = open.pop().expect("a call");
                        let end = if kind == "J" { "longjmp" } else { "exception" };
                        calls[left].end = end.to_owned();
                    }
                }
                "D" | "P" => {
                    let end = if kind == "D" {
                        "thread-exit"
                    } else {
                        "process-exit"
                    };
                    for left in open.drain(..) {
                        calls[left].end = end.to_owned();
                    }
                }
                _ => panic!("{line}"),
            }
        }
        calls
    }
}

/// Functions whose values the log does not have as numbers.
const VALUES_OF_OTHER_KINDS: [&str; 11] = [
    "t_double", "t_pair", "t_three", "t_floats", "t_long", "t_owner", "t_text", "t_bool",
    "t_signal", "t_thread", "t_option",
];

/// A line of JSON without what its span is in.
fn without_parent(line: &str) -> String {
    let Some((before, after)) = line.split_once(",\"parent\":") else {
        return line.to_owned();
    };
    before.to_owned() + after.trim_start_matches(|c: char| c.is_ascii_digit())
}

fn value<'f>(frame: &'f Value, name: &str) -> Option<&'f str> {
    let values = frame["values"].as_array()?;
    let value = values.iter().find(|value| value["expression"] == name)?;
    value["value"].as_str()
}

#[test]
fn calls_of_c() {
    let calls = Calls::build("cc", "calls.c", &["-O0"]);
    calls.compare("auto");
    calls.compare("trap");
}

/// A span that is picked has both of its frames, however it ends.
#[test]
fn picked_calls() {
    let programs = [
        Calls::build("cc", "calls.c", &["-O0"]),
        Calls::build("cc", "calls.c", &["-O2"]),
        Calls::build("c++", "calls.cpp", &["-O2"]),
        Calls::build("rustc", "calls.rs", &["-Copt-level=2"]),
        Calls::build("cc", "coroutines.c", &["-O2"]),
        Calls::of_go("calls.go", &[]),
    ];
    for calls in programs {
        calls.compare_sampled("auto");
        calls.compare_sampled("trap");
    }
}

#[test]
fn calls_of_optimised_c() {
    let calls = Calls::build("cc", "calls.c", &["-O2"]);
    assert!(calls.has_tail_calls);
    calls.compare("auto");
    calls.compare("trap");
}

#[test]
fn calls_of_cpp() {
    Calls::build("c++", "calls.cpp", &["-O0"]).compare("auto");
}

#[test]
fn calls_of_optimised_cpp() {
    let calls = Calls::build("c++", "calls.cpp", &["-O2"]);
    calls.compare("auto");
    calls.compare("trap");
}

const PROGRAMS: [(&str, &str); 3] = [
    ("cc", "calls.c"),
    ("c++", "calls.cpp"),
    ("cc", "coroutines.c"),
];

#[test]
fn a_list_of_a_growing_file_has_the_spans_of_the_whole_one() {
    for (compiler, name) in PROGRAMS {
        for level in ["-O0", "-O2"] {
            let calls = Calls::build(compiler, name, &[level]);
            for statement in ["span", "return"] {
                calls.record("auto", &format!("{statement} /^t_/ : n, $retval"));
                for seed in 0..10 {
                    calls.compare_pieces(seed);
                }
            }
        }
    }
    let calls = Calls::of_go("calls.go", &[]);
    calls.record("auto", "span /\\.t_/ : n, $retval");
    for seed in 0..10 {
        calls.compare_pieces(seed);
    }
}

#[test]
fn spans_are_shown_live_as_the_finished_file_has_them() {
    for (compiler, name) in PROGRAMS {
        for level in ["-O0", "-O2"] {
            let calls = Calls::build(compiler, name, &[level]);
            for mechanism in ["auto", "trap"] {
                calls.compare_live(mechanism, "span /^t_/ : n, $retval");
                calls.compare_live(
                    mechanism,
                    "return /^t_/ if $duration > 2us : n, $retval, $duration",
                );
            }
        }
    }
}

#[test]
fn calls_of_rust() {
    for level in ["-Copt-level=0", "-Copt-level=2"] {
        let calls = Calls::build("rustc", "calls.rs", &[level]);
        calls.compare("auto");
        let mut seen = 0;
        for frame in calls.shown() {
            let number = |name: &str| value(&frame, name).and_then(|text| text.parse::<i64>().ok());
            let Some(n) = number("n") else { continue };
            let function = frame["function"].as_str().expect("a function");
            let wanted = match function.rsplit("::").next() {
                Some("t_pair") => format!("({n}, {})", n + 1),
                Some("t_floats") => format!("({n}.5, {n})"),
                Some("t_option") if n % 2 == 0 => format!("Some({n})"),
                Some("t_option") => "None".to_owned(),
                Some("t_text") => format!("\"number {n}\""),
                Some("t_bool") => (n % 2 == 1).to_string(),
                _ => continue,
            };
            assert_eq!(value(&frame, "$retval"), Some(&*wanted), "{level}: {frame}");
            seen += 1;
        }
        assert!(seen > 30, "{seen} values");
    }
}

/// A tree by thread would be wrong.
#[test]
fn calls_of_go_are_in_no_tree() {
    let calls = Calls::of_go("calls.go", &[]);
    let refused = Command::new(env!("CARGO_BIN_EXE_tracewire"))
        .args(["calls", r"/\.t_/", "--"])
        .arg(&calls.program)
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("a goroutine goes on in other threads"),
        "{said}"
    );
}

#[test]
fn calls_of_coroutines() {
    for level in ["-O0", "-O2"] {
        let calls = Calls::build("cc", "coroutines.c", &[level]);
        calls.compare("auto");
        calls.compare("trap");
    }
}

/// Stacks that grow, shrink and move, goroutines that go on in other threads, panics, and goroutines that end themselves.
#[test]
fn calls_of_go() {
    for options in [&[][..], &["-gcflags=-N -l"]] {
        let calls = Calls::of_go("calls.go", options);
        calls.compare("auto");
        calls.compare("trap");
    }
}

/// Goroutines that begin a call in one thread and end it in another: none is missing in a histogram of durations, and none is counted
/// twice because its stack had to grow first.
#[test]
fn durations_of_goroutines_are_counted() {
    let calls = Calls::of_go("calls.go", &[]);
    for mechanism in ["auto", "trap"] {
        let log = calls.record(
            mechanism,
            "span /\\.t_(yield|deep)$/ : count(), hist($duration)",
        );
        let is_end = |line: &&str| line.contains(" R t_yield ") || line.contains(" R t_deep ");
        let wanted = log.lines().filter(is_end).count() as u64;
        let (mut hits, mut measured) = (0, 0);
        calls.each_shown(|line| match line["aggregate"].as_str() {
            Some("count()") => hits += line["value"].as_u64().expect("a number"),
            Some("hist($duration)") => {
                let buckets = line["buckets"].as_array().expect("buckets");
                let of_each = buckets.iter().map(|bucket| bucket[2].as_u64());
                measured += of_each.map(|hits| hits.expect("a number")).sum::<u64>();
            }
            _ => panic!("{line}"),
        });
        assert!(wanted > 100, "{wanted} calls");
        assert_eq!((hits, measured), (wanted, wanted), "{mechanism}");
    }
}

/// Results in registers and on the stack, one or several, as Go itself prints them.
#[test]
fn return_values_of_go() {
    for options in [&[][..], &["-gcflags=-N -l"]] {
        let calls = Calls::of_go("results.go", options);
        let printed = calls.record("auto", "return /\\.r_/ : $retval");
        let mut shown = Vec::new();
        calls.each_shown(|frame| {
            let function = frame["function"].as_str().expect("a function");
            let name = function.trim_start_matches("main.");
            let text = value(&frame, "$retval").expect("a value");
            shown.push(format!("{name} {text}"));
        });
        assert_eq!(shown, printed.lines().collect::<Vec<_>>(), "{options:?}");
    }
}

#[test]
fn return_values_of_cpp() {
    for level in ["-O0", "-O2"] {
        let calls = Calls::build("c++", "calls.cpp", &[level]);
        calls.record("auto", "span /^t_/ : n, $retval");
        let mut seen = 0;
        for frame in calls.shown() {
            let number = |name: &str| value(&frame, name).and_then(|text| text.parse::<i64>().ok());
            let Some(n) = number("n") else { continue };
            let wanted = match frame["function"].as_str() {
                Some("t_double" | "t_long") => format!("{n}.5"),
                Some("t_pair") => format!("{{one = {n}, two = {}}}", n as f64 / 4.0),
                Some("t_three") => format!("{{a = {n}, b = {}, c = {}}}", n + 1, n + 2),
                Some("t_floats") => format!("{{x = {n}.25, y = {n}.5, z = {n}.75}}"),
                Some("t_bool") => (n % 2 != 0).to_string(),
                Some("t_text") => format!("\"number {n}\""),
                Some("t_owner") => {
                    let shown = value(&frame, "$retval").expect("a value");
                    assert!(shown.ends_with(&format!("-> {n}")), "{shown}");
                    seen += 1;
                    continue;
                }
                _ => continue,
            };
            assert_eq!(value(&frame, "$retval"), Some(&*wanted), "{frame}");
            seen += 1;
        }
        assert!(seen > 30, "{seen} values");
    }
}

/// The user asks for one function. Where else spans can end is one line, without addresses.
#[test]
fn the_places_of_a_span_are_said_with_their_roles() {
    let calls = Calls::build("cc", "calls.c", &["-O2"]);
    let said = |options: &[&str]| {
        let program = calls.program.to_str().expect("a name");
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(["record", "-t", "span t_many : n", "-o", "out.tf"])
            .args(options)
            .args(["--", program, "1"])
            .current_dir(calls.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let short = said(&[]);
    // Another line comes with a library that is loaded later.
    let mut of_longjmp = short.lines().filter(|line| line.contains("longjmp"));
    let words = "tracewire: spans that end by an exception, longjmp or pthread_exit are seen in ";
    assert!(of_longjmp.clone().count() > 0, "{short}");
    assert!(of_longjmp.all(|line| line.starts_with(words)), "{short}");
    let entries = |said: &str| said.matches(" in t_many (").count();
    let returns = |said: &str| said.matches("), a return\n").count();
    assert_eq!(entries(&short), returns(&short) + 1, "{short}");
    assert!(returns(&short) > 0, "{short}");
    let long = said(&["--verbose"]);
    assert!(
        long.contains(" in __libc_siglongjmp (") || long.contains(" in __libc_siglongjmp\n"),
        "{long}"
    );
}

#[test]
fn conditions_choose_spans_and_returns() {
    let calls = Calls::build("cc", "calls.c", &["-O2"]);
    calls.record(
        "auto",
        "span t_many if n % 3 == 1 && $retval > 10 : n, $retval, $duration",
    );
    let shown = calls.shown();
    assert!(!shown.is_empty());
    for frame in &shown {
        let number = |name: &str| value(frame, name).and_then(|text| text.parse::<i64>().ok());
        assert!(number("n").is_some_and(|n| n % 3 == 1), "{frame}");
        assert!(number("$retval").is_some_and(|value| value > 10), "{frame}");
        assert!(
            value(frame, "$duration").is_some_and(|value| value.ends_with('s')),
            "{frame}"
        );
    }
    calls.record("auto", "return t_many if $retval < 0 : n, $retval");
    let shown = calls.shown();
    assert!(!shown.is_empty());
    for frame in &shown {
        assert_eq!(
            (&frame["kind"], value(frame, "$retval")),
            (&Value::from("return"), Some("-7"))
        );
        assert!(
            frame["duration_ns"].is_u64() && value(frame, "n").is_some(),
            "{frame}"
        );
    }
    let frames = || calls.tracewire(&["info", "out.tf", "--json"]);
    let count = |info: &str| -> Value {
        let info: Value = serde_json::from_str(info).expect("JSON");
        info["frames"].clone()
    };
    calls.record("auto", "span t_round : n");
    let all = count(&frames());
    calls.record("auto", "span t_round if $duration > 1000s : n");
    let shown = Command::new(env!("CARGO_BIN_EXE_tracewire"))
        .args(["show", "out.tf"])
        .current_dir(calls.directory.path())
        .output()
        .expect("tracewire runs");
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(said.contains("the condition of each span is false"));
    assert_eq!((shown.status.code(), &*shown.stdout), (Some(1), &b""[..]));
    // The file has all calls.
    assert!(all.as_u64() > Some(0));
    assert_eq!(count(&frames()), all);
}

#[test]
fn gdb_opens_a_file_with_spans() {
    let calls = Calls::build("cc", "calls.c", &["-O2"]);
    calls.record("auto", "span t_many : n, $retval");
    // The first frames may all be entries, in several threads. The tracepoints of a span have one
    // number, so that GDB cannot search for the address of one.
    let commands = calls.tracewire(&["show", "out.tf", "--gdb"])
        + "\ntfind 0\nprint n\nwhile $pc == t_many\ntfind\nend\nprint $pc\n";
    let script = calls.directory.path().join("open.gdb");
    std::fs::write(&script, commands).expect("written");
    let said = Gdb::new().script(&script).run();
    said.assert_in_order(&[
        "Found trace frame 0",
        "$1 = ",
        "Found trace frame ",
        "<t_many+",
    ]);
}

#[test]
fn spans_in_a_script() {
    let calls = Calls::build("cc", "calls.c", &["-O2"]);
    let script = "span t_many\nactions\ncollect n, $retval\nend\nreturn t_leaf\nactions\ncollect $retval\nend\n";
    std::fs::write(calls.directory.path().join("script"), script).expect("written");
    let program = calls.program.to_str().expect("a name");
    calls.tracewire(&["record", "-x", "script", "-o", "out.tf", "--", program, "2"]);
    let shown = calls.shown();
    let kinds = |kind: &str| shown.iter().filter(|frame| frame["kind"] == kind).count();
    assert!(kinds("span") > 0 && kinds("return") > 0);
    assert_eq!(kinds("span") + kinds("return"), shown.len());
    let all = shown.iter().all(|frame| value(frame, "$retval").is_some());
    assert!(all, "{shown:?}");
}

#[test]
fn what_is_no_function_is_refused() {
    let calls = Calls::build("cc", "calls.c", &["-O2"]);
    let program = calls.program.to_str().expect("a name");
    let refusals = [
        (
            "span calls.c:20 : n",
            "names no function with code of its own",
        ),
        (
            "t_many : $retval",
            "$retval is known where a function returns",
        ),
    ];
    for (specification, reason) in refusals {
        let output = Command::new(env!("CARGO_BIN_EXE_tracewire"))
            .args(["record", "-t", specification, "-o", "out.tf", "--", program])
            .current_dir(calls.directory.path())
            .output()
            .expect("tracewire runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(reason),
            "{specification}: {said}"
        );
    }
}

/// Prints where it is called from, as exceptions, stack walkers and shadow stacks see it.
const RETURNS: &str = "\
#include <stdio.h>
__attribute__((noipa)) char *inner(long n) { return n < 0 ? 0 : __builtin_return_address(0); }
int main(void) {
    long wrong = 0;
    for (long n = 0; n < 100; n++) {
        char *from = inner(n);
        wrong += from <= (char *)main || from > (char *)main + 0x1000;
    }
    printf(\"%ld wrong\\n\", wrong);
    return 0;
}
";

#[test]
fn return_addresses_stay() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = Cc::new()
        .options(&["-g", "-O1"])
        .text(RETURNS)
        .build(directory.path(), "returns");
    let calls = Calls {
        directory,
        program,
        has_tail_calls: false,
    };
    for mechanism in ["auto", "trap"] {
        let said = calls.record(mechanism, "span inner : n, $retval");
        assert_eq!(said, "0 wrong\n", "{mechanism}");
        let shown = calls.shown();
        assert_eq!(shown.len(), 100, "{mechanism}");
        assert!(shown.iter().all(|frame| frame["ended"] == "return"));
    }
}
