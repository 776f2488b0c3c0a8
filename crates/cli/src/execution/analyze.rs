//! `calls`, `profile` and `coverage`: what an execution trace says about a program's functions and lines.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueHint};
use serde_json::json;
use tracewire_exec_analysis::calls::{Call, CallTree, for_each_call};
use tracewire_exec_analysis::coverage::Coverage;
use tracewire_exec_trace::recording::Need;
use tracewire_views::words;

use super::open::{Opened, execution};
use crate::answer::Answer;
use crate::frames::FrameRange;
use crate::stdout::{Shown, output};

pub const PROFILE_HELP: &str = "\
A function that calls itself counts once for the time it is on the stack.

Examples:
  tracewire profile cpu.trace --elf firmware.elf
  tracewire profile cpu.trace --elf firmware.elf --json | jq 'select(.calls > 1000)'";

pub const COVERAGE_HELP: &str = "\
Without --lcov the code is listed, each instruction with the number of times it was executed.

Examples:
  tracewire coverage cpu.trace --elf firmware.elf
  tracewire coverage cpu.trace --elf firmware.elf --lcov > firmware.info && genhtml firmware.info";

/// Which part of which trace.
#[derive(Args, Debug)]
pub struct Part {
    /// The execution trace; - for standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// The program, for names and lines; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// Only these instructions: N..M (without M), N..=M, N.. or ..M
    #[arg(long, value_name = "N..M", value_parser = FrameRange::parse)]
    pub instruction: Option<FrameRange>,
    #[command(flatten)]
    pub machine: crate::open::Machine,
}

impl Part {
    fn open(&self) -> anyhow::Result<Opened> {
        execution(&self.trace)?.open(&self.elf, self.machine)
    }

    fn range(&self) -> std::ops::Range<u64> {
        let range = self
            .instruction
            .map(|range| range.start..range.end.unwrap_or(u64::MAX));
        range.unwrap_or(0..u64::MAX)
    }

    fn tree(&self) -> anyhow::Result<CallTree> {
        let opened = self.open()?;
        opened.require_calls()?;
        let machine = opened.machine()?;
        let symbols = opened.symbols.as_ref();
        Ok(CallTree::of(
            &opened.recording,
            machine,
            symbols,
            self.range(),
        )?)
    }
}

/// What `calls` shows of an execution trace.
#[derive(Debug)]
pub struct TraceCalls {
    pub part: Part,
    /// Only calls as deep as this.
    pub depth: usize,
    /// Only functions with at least so many instructions, those of what they called included.
    pub least: u64,
    /// As stacks for flame graph tools.
    pub folded: bool,
    /// Every single call, of this function only where one is named.
    pub list: Option<Option<String>>,
    /// As JSON objects.
    pub json: bool,
}

/// `calls` of an execution trace.
pub fn calls(arguments: &TraceCalls) -> anyhow::Result<Answer> {
    if let Some(function) = &arguments.list {
        return list(arguments, function.as_deref());
    }
    let tree = arguments.part.tree()?;
    let mut output = output();
    if arguments.folded {
        tree.write_folded(&mut output)?;
    } else if arguments.json {
        let nodes = tree.in_order().zip(tree.json());
        for (_, json) in
            nodes.filter(|(node, _)| node.depth <= arguments.depth && node.total >= arguments.least)
        {
            writeln!(output, "{json}")?;
        }
    } else {
        tree.write_text(&mut Shown(&mut output), arguments.depth, arguments.least)?;
    }
    output.flush()?;
    Ok(Answer::Yes)
}

/// `calls --list`.
fn list(arguments: &TraceCalls, function: Option<&str>) -> anyhow::Result<Answer> {
    let opened = arguments.part.open()?;
    opened.require_calls()?;
    let (machine, symbols) = (opened.machine()?, opened.symbols.as_ref());
    let mut output = output();
    if !arguments.json {
        writeln!(
            output,
            "{:>10}  {:>12}  {:>3}  {:>5}  call",
            "instruction", "time", "cpu", "depth"
        )?;
    }
    let mut found = 0u64;
    let mut failed: Option<std::io::Error> = None;
    let is_wanted = |call: &Call| {
        call.depth <= arguments.depth && function.is_none_or(|wanted| call.function == wanted)
    };
    let range = arguments.part.range();
    for_each_call(&opened.recording, machine, symbols, range, &mut |call| {
        if !is_wanted(&call) {
            return ControlFlow::Continue(());
        }
        found += 1;
        let written = if arguments.json {
            writeln!(output, "{}", call.json(symbols))
        } else {
            let line = call
                .line(symbols)
                .map_or(String::new(), |(file, line)| format!(" at {file}:{line}"));
            let from = match (&call.caller, call.from) {
                (Some(caller), Some(from)) => format!(" from {caller} ({from}){line}"),
                (None, Some(from)) => format!(" from {from}{line}"),
                _ => String::new(),
            };
            writeln!(
                output,
                "{:>10}  {:>12}  {:>3}  {:>5}  {}",
                call.instruction,
                call.time.to_string(),
                call.cpu,
                call.depth,
                words::printable(&format!("{}{from}", call.function))
            )
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    output.flush()?;
    if let (0, Some(function)) = (found, function) {
        message!("tracewire: the trace has no call of {function}");
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

#[derive(Args, Debug)]
pub struct ProfileArguments {
    #[command(flatten)]
    pub part: Part,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `profile`.
pub fn profile(arguments: &ProfileArguments) -> anyhow::Result<Answer> {
    let tree = arguments.part.tree()?;
    let all = tree.instructions().max(1) as f64;
    let share = |count: u64| count as f64 * 100.0 / all;
    let mut output = output();
    if !arguments.json {
        writeln!(
            output,
            "{:>7}  {:>12}  {:>7}  {:>12}  {:>10}  function",
            "own", "instructions", "total", "instructions", "calls"
        )?;
    }
    for one in tree.profile() {
        if arguments.json {
            let json = json!({
                "function": one.function,
                "address": one.address.to_string(),
                "calls": one.calls,
                "own": one.own,
                "instructions": one.total,
            });
            writeln!(output, "{json}")?;
        } else {
            writeln!(
                output,
                "{:>6.2}%  {:>12}  {:>6.2}%  {:>12}  {:>10}  {}",
                share(one.own),
                one.own,
                share(one.total),
                one.total,
                one.calls,
                words::printable(&one.function)
            )?;
        }
    }
    output.flush()?;
    Ok(Answer::Yes)
}

#[derive(Args, Debug)]
pub struct CoverageArguments {
    #[command(flatten)]
    pub part: Part,
    /// A tracefile for lcov and genhtml, by source lines; needs --elf with debug information
    #[arg(long, conflicts_with = "json")]
    pub lcov: bool,
    /// One JSON object a line for each instruction of the program
    #[arg(long)]
    pub json: bool,
}

/// `coverage`.
pub fn coverage(arguments: &CoverageArguments) -> anyhow::Result<Answer> {
    let opened = arguments.part.open()?;
    opened.require(Need::EveryInstruction)?;
    let coverage = Coverage::of(&opened.recording, arguments.part.range())?;
    let mut output = output();
    if arguments.lcov {
        let Some(symbols) = &opened.symbols else {
            bail!("--lcov needs the program's line numbers: add --elf PROGRAM");
        };
        if coverage.write_lcov(symbols, &mut output)? == 0 {
            bail!("the program has no line numbers: compile it with -g");
        }
    } else if arguments.json {
        for (address, one) in &coverage.instructions {
            let json = json!({
                "address": format!("{address:#x}"),
                "count": one.count,
                "skipped": one.skipped,
                "opcode": one.opcode,
                "disassembly": one.disassembly,
            });
            writeln!(output, "{json}")?;
        }
    } else {
        coverage.write_annotated(opened.symbols.as_ref(), &mut Shown(&mut output))?;
    }
    output.flush()?;
    Ok(Answer::Yes)
}
