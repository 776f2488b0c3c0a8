//! `calls`: the tree of calls, of an execution trace or of a live program.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tracewire_model::ThreadId;
use tracewire_recorder::{
    CallEnd, CallFlowEvent, CallRecorder, CallReport, Ending, ListedCalls, Priority, RecordError,
    out_of_memory, program_words,
};
use tracewire_tracefile::IndexCache;
use tracewire_views::words;

use crate::answer::Answer;
use crate::execution::analyze::{Part, TraceCalls};
use crate::frames::FrameRange;
use crate::message::{say, warn};
use crate::record::signals::{Signals, Watch};
use crate::stdout::{Shown, output};

pub const HELP: &str = "\
Of an execution trace, counts are instructions: those of a function with all that it called, and its own. Functions are named by the \
program's symbols, else by their addresses.

Of a live program, counts are times. Each entry and each exit of a function runs into a jump, which costs some 20 ns; no hit stops a thread. \
PATTERN is a name, Cart::*, /regex/ or MODULE:NAME, as for `record -t`; without one, all functions of the program's own file are \
followed. A function whose first instruction or whose exits can have no jump is left out, and the summary on standard error says how \
many are, and why. A function that is called too often is switched down: its jumps are taken out, and the tree says so. A call that is \
left by an exception or by longjmp ends when its thread is next seen above it on the stack.

Exit status 1 when there is no call.

Examples:
  tracewire calls -- ./program --its-option
  tracewire calls -p 1234 --duration 5 --least 1ms
  tracewire calls 'Cart::*' /^http_/ -p 1234 --depth 3
  tracewire calls -p 1234 --duration 5 --folded | flamegraph.pl > flame.svg
  tracewire calls cpu.trace --elf firmware.elf
  tracewire calls cpu.trace --elf firmware.elf --depth 3 --least 1000
  tracewire calls cpu.trace --elf firmware.elf --list handle_request";

/// How often a function may be called in a second.
const HOT: Hot = Hot(Some(2_000_000));

/// The most single calls that are kept.
const MOST_LISTED: usize = 1_000_000;

/// How many reasons are printed for functions that are left out.
const REASONS: usize = 5;

#[derive(Args, Debug)]
pub struct CallsArguments {
    /// The execution trace, - for standard input; with -p or PROGRAM, the functions to follow
    #[arg(value_name = "TRACE|PATTERN", value_hint = ValueHint::FilePath)]
    pub subjects: Vec<OsString>,
    /// Follow the calls of this process
    #[arg(short, long, value_name = "PID", value_parser = crate::process_id::parse)]
    pub pid: Option<u32>,
    /// Of a trace: the program, for names and lines; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["pid", "program"])]
    pub elf: Vec<PathBuf>,
    /// Of a trace: only these instructions: N..M (without M), N..=M, N.. or ..M
    #[arg(long, value_name = "N..M", value_parser = FrameRange::parse, conflicts_with_all = ["pid", "program"])]
    pub instruction: Option<FrameRange>,
    #[command(flatten)]
    pub machine: crate::open::Machine,
    /// Only calls as deep as this
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub depth: usize,
    /// Only functions with at least so many instructions, those of what they called included; of a live program, that took at least so
    /// long: 50us, 1ms, 2s
    #[arg(long, value_name = "N|TIME", value_parser = Least::parse)]
    pub least: Option<Least>,
    /// Stacks for flame graph tools: main;work;leaf 42
    #[arg(long, conflicts_with_all = ["json", "list"])]
    pub folded: bool,
    /// Every single call, of this function only where one is named: when, how long or where from, depth, and the caller
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with = "least")]
    pub list: Option<Option<String>>,
    /// One JSON object a line, callers before callees
    #[arg(long)]
    pub json: bool,
    /// Of a live program: a tree for each thread
    #[arg(long)]
    pub threads: bool,
    /// Of a live program: end the run after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = crate::value_parser::parse_seconds)]
    pub duration: Option<Duration>,
    /// Of a live program: switch a function down that is called more often in a second; none lets all be
    #[arg(long, value_name = "N|none", value_parser = Hot::parse, default_value = "2000000")]
    pub hot: Hot,
    #[command(flatten)]
    pub debuginfod: crate::debuginfod::DebuginfodArguments,
    #[command(flatten)]
    pub policy: crate::policy::PolicyArguments,
    /// The program to run, and its arguments
    #[arg(last = true, value_name = "PROGRAM", num_args = 1.., conflicts_with = "pid", value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// The least value of a function that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Least {
    /// A number of instructions.
    Instructions(u64),
    /// A number of nanoseconds.
    Time(u64),
}

impl Least {
    fn parse(text: &str) -> Result<Self, String> {
        if let Ok(count) = text.parse() {
            return Ok(Self::Instructions(count));
        }
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let factor = match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => 0.0,
        };
        match number.parse::<f64>() {
            Ok(number) if factor > 0.0 => Ok(Self::Time((number * factor) as u64)),
            _ => Err(
                "expected a number of instructions, or a time such as 500ns, 50us, 1ms or 2s"
                    .to_owned(),
            ),
        }
    }
}

/// How often a function may be called in a second, if there is a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hot(Option<u64>);

impl Hot {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let number = text.parse().ok().filter(|number| *number > 0);
        number.map(|number| Self(Some(number))).ok_or_else(|| {
            "expected how often a function may be called in a second, such as 2000000, or none"
                .to_owned()
        })
    }
}

/// `calls`. The calling thread has the priority until a process is attached to.
pub fn calls(arguments: CallsArguments, priority: Option<Priority>) -> anyhow::Result<Answer> {
    if arguments.pid.is_some() || !arguments.program.is_empty() {
        return live(&arguments, priority);
    }
    let live_only = [
        ("--threads", arguments.threads),
        ("--duration", arguments.duration.is_some()),
        ("--hot", arguments.hot != HOT),
    ];
    if let Some((name, _)) = live_only.iter().find(|(_, is_given)| *is_given) {
        bail!("{name} is for a live program: add -p PID, or -- PROGRAM ARGS…");
    }
    let least = match arguments.least {
        None => 0,
        Some(Least::Instructions(least)) => least,
        Some(Least::Time(_)) => {
            bail!(
                "--least takes a number of instructions for a trace; a time is for a live program"
            )
        }
    };
    let trace = match arguments.subjects.as_slice() {
        [trace] => PathBuf::from(trace),
        [] => bail!("calls of what? expected an execution trace, -p PID, or -- PROGRAM ARGS…"),
        [_, more, ..] => bail!(
            "{} is one file too many: expected one execution trace; patterns are for a live program, with -p PID or -- PROGRAM ARGS…",
            more.display()
        ),
    };
    crate::execution::analyze::calls(&TraceCalls {
        part: Part {
            trace,
            elf: arguments.elf,
            instruction: arguments.instruction,
            machine: arguments.machine,
        },
        depth: arguments.depth,
        least,
        folded: arguments.folded,
        list: arguments.list,
        json: arguments.json,
    })
}

/// `calls` of a live program.
fn live(arguments: &CallsArguments, priority: Option<Priority>) -> anyhow::Result<Answer> {
    if arguments.machine.architecture.is_some() || arguments.machine.data_order.is_some() {
        bail!("--architecture and --data-order are for execution traces");
    }
    let least = match arguments.least {
        None => 0,
        Some(Least::Time(least)) => least,
        Some(Least::Instructions(_)) => {
            bail!("--least takes a time for a live program, such as 1ms")
        }
    };
    let recorder = recorder(arguments)?;
    let signals = Signals::block();
    out_of_memory::reserve().context("there is not the memory that a run needs to end in order")?;
    let watch = Watch::begin(signals, recorder.stop_handle()).context("cannot start a thread")?;
    drop(priority);
    let report = recorder.run(&mut print_event).map_err(error_words)?;
    summary(&report);
    let shown = show(arguments, &report, least);
    watch.only_wait();
    if !watch.signalled() {
        report.wait_for_program();
    }
    shown
}

fn recorder(arguments: &CallsArguments) -> anyhow::Result<CallRecorder> {
    let mut recorder = match (arguments.pid, arguments.program.as_slice()) {
        (Some(pid), _) => CallRecorder::attach(ThreadId(pid)),
        (None, [program, words @ ..]) => CallRecorder::spawn(program, words),
        (None, []) => bail!("no program: expected -p PID, or -- PROGRAM ARGS…"),
    };
    for pattern in &arguments.subjects {
        let Some(pattern) = pattern.to_str() else {
            bail!("{} is not a pattern: it is not UTF-8", pattern.display());
        };
        recorder.pattern(pattern);
    }
    let listed = arguments.list.as_ref().map(|function| ListedCalls {
        function: function.clone(),
        depth: arguments.depth,
        most: MOST_LISTED,
    });
    recorder
        .duration(arguments.duration)
        .hot(arguments.hot.0)
        .keep_threads(arguments.threads)
        .list(listed);
    let (policies, logs) = arguments.policy.read()?;
    for policy in policies {
        recorder.policy(policy);
    }
    for log in logs {
        recorder.audit(log);
    }
    if let Some(source) = arguments.debuginfod.source()? {
        recorder.take_debug_files_from(source);
    }
    if let Some(cache) = IndexCache::of_user() {
        recorder.keep_names_in(cache.folder());
    }
    Ok(recorder)
}

/// Prints an event of the run.
fn print_event(event: CallFlowEvent<'_>) {
    match event {
        CallFlowEvent::Armed {
            functions,
            sites,
            took,
        } => say(format_args!(
            "{} followed, with jumps at {} (it took {})",
            words::count(functions as u64, "function"),
            words::count(sites as u64, "place"),
            words::short(took)
        )),
        CallFlowEvent::SwitchedDown {
            function,
            rate,
            lost,
        } => {
            let why = match lost {
                true => ", and events were lost",
                false => "",
            };
            say(format_args!(
                "{function} is switched down: it was called {rate} times in a second{why}; --hot sets the limit",
            ));
        }
        CallFlowEvent::Warning(warning) => warn(warning),
        _ => {}
    }
}

fn error_words(error: RecordError) -> anyhow::Error {
    match error {
        RecordError::OutOfMemory(error) => anyhow::anyhow!("the run was ended: {error}"),
        error => anyhow::Error::new(error),
    }
}

/// Prints what is missing in the tree, and why the run has ended.
fn summary(report: &CallReport) {
    match &report.ending {
        Ending::Program(event) => say(program_words(event)),
        Ending::Executed => say("the program has executed another one, which is not followed"),
        Ending::Stopped(stop) => say(stop),
        _ => {}
    }
    let left_out = &report.left_out;
    if left_out.count() > 0 {
        say(format_args!(
            "{} could not be followed:",
            words::count(left_out.count(), "function")
        ));
        let reasons = left_out.reasons();
        for (count, example, reason) in reasons.iter().take(REASONS) {
            say(format_args!("  {count}, as {example}: {reason}"));
        }
        let rest: u64 = reasons
            .iter()
            .skip(REASONS)
            .map(|(count, _, _)| count)
            .sum();
        if rest > 0 {
            say(format_args!("  {rest} for other reasons"));
        }
    }
    if report.lost > 0 {
        warn(format_args!(
            "{} lost: the tree has fewer calls than there were; fewer functions, or a lower --hot, lose fewer",
            words::count(report.lost, "event")
        ));
    }
    if report.threads_without_ring > 0 {
        warn(format_args!(
            "{} not followed: there were too many at once",
            words::count(report.threads_without_ring, "thread")
        ));
    }
    if report.unlisted > 0 {
        warn(format_args!(
            "{} not listed: name a function after --list",
            words::count(report.unlisted, "call")
        ));
    }
}

/// Prints the tree, or the calls.
fn show(arguments: &CallsArguments, report: &CallReport, least: u64) -> anyhow::Result<Answer> {
    let mut output = output();
    let tree = &report.tree;
    let nanoseconds = CallReport::nanoseconds;
    if arguments.list.is_some() {
        list(arguments, report, &mut output)?;
    } else if arguments.folded {
        tree.write_folded(&mut output, nanoseconds)?;
    } else if arguments.json {
        for (node, json) in tree.json(nanoseconds) {
            if node.depth <= arguments.depth && nanoseconds(node.total) >= least {
                writeln!(output, "{json}")?;
            }
        }
    } else {
        let depth = arguments.depth;
        tree.write_text(&mut Shown(&mut output), depth, least, nanoseconds)?;
    }
    output.flush()?;
    let is_empty = match &arguments.list {
        Some(Some(function)) if report.calls.is_empty() => {
            say(format_args!("there was no call of {function}"));
            true
        }
        _ => tree.calls() == 0,
    };
    Ok(if is_empty { Answer::No } else { Answer::Yes })
}

/// Prints the calls one by one.
fn list(
    arguments: &CallsArguments,
    report: &CallReport,
    output: &mut crate::stdout::Output,
) -> anyhow::Result<()> {
    let nanoseconds = CallReport::nanoseconds;
    let name = |function: usize| report.tree.function(function).map_or("??", |f| &f.name);
    if !arguments.json {
        writeln!(
            output,
            "{:>14}  {:>10}  {:>8}  {:>5}  call",
            "at", "time", "thread", "depth"
        )?;
    }
    for call in &report.calls {
        let at = nanoseconds(call.begun.saturating_sub(report.begun));
        let took = nanoseconds(call.ended.saturating_sub(call.begun));
        let end = match call.end {
            CallEnd::Exit => "return",
            CallEnd::Left => "left",
            CallEnd::Open => "open",
        };
        if arguments.json {
            let mut object = json!({
                "at_ns": at,
                "duration_ns": took,
                "thread": call.thread.0,
                "depth": call.depth,
                "function": name(call.function),
                "ended": end,
            });
            if let (Some(caller), Some(object)) = (call.caller, object.as_object_mut()) {
                object.insert("caller".to_owned(), Value::from(name(caller)));
            }
            writeln!(output, "{object}")?;
            continue;
        }
        let from = call
            .caller
            .map_or_else(String::new, |caller| format!(" from {}", name(caller)));
        let end = match call.end {
            CallEnd::Exit => "",
            CallEnd::Left => " (left)",
            CallEnd::Open => " (open)",
        };
        writeln!(
            output,
            "{:>14}  {:>10}  {:>8}  {:>5}  {}",
            words::nanoseconds(at),
            words::nanoseconds(took),
            call.thread.0,
            call.depth,
            words::printable(&format!("{}{from}{end}", name(call.function)))
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Hot, Least};

    #[test]
    fn a_number_is_of_instructions_and_a_unit_makes_it_a_time() {
        assert_eq!(Least::parse("1000"), Ok(Least::Instructions(1000)));
        assert_eq!(Least::parse("1.5us"), Ok(Least::Time(1500)));
        assert_eq!(Least::parse("2s"), Ok(Least::Time(2_000_000_000)));
        for wrong in ["", "ms", "-1", "1y", "1.2.3ms"] {
            assert!(Least::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!(Hot::parse("none"), Ok(Hot(None)));
        assert_eq!(Hot::parse("5"), Ok(Hot(Some(5))));
        assert!(Hot::parse("0").is_err() && Hot::parse("x").is_err());
    }
}
