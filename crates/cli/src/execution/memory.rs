//! `memory`: the history of a location or a register.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, ValueHint};
use tracewire_exec_analysis::view::Viewer;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Need, Search, What};
use tracewire_views::words;

use super::find::registers_named;
use super::open::execution;
use super::place::{MemoryPlace, parse_place};
use crate::answer::Answer;
use crate::stdout::output;

pub const HELP: &str = "\
Each line is an instruction that wrote or read any of the bytes, or wrote the register; with --json what it is and did. \
Exit status 1 when there is none.

Examples:
  tracewire memory cpu.trace 0x80100000,4
  tracewire memory cpu.trace 0x80100000,4 --writes --before 5000 --last 1
  tracewire memory cpu.trace 'table[2].count' --writes --elf firmware.elf
  tracewire memory cpu.trace --register sp --last 10 --elf firmware.elf";

#[derive(Args, Debug)]
pub struct MemoryArguments {
    /// The execution trace; - for standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
    /// The bytes: an address, or with --elf a variable or a part of one, and how many
    #[arg(value_name = "PLACE[,LEN]", value_parser = parse_place, required_unless_present = "register", conflicts_with = "register")]
    pub place: Option<MemoryPlace>,
    /// A register instead
    #[arg(long, value_name = "NAME")]
    pub register: Option<String>,
    /// Only who wrote
    #[arg(long, conflicts_with = "reads")]
    pub writes: bool,
    /// Only who read
    #[arg(long, conflicts_with = "register")]
    pub reads: bool,
    /// Only instructions of this cpu
    #[arg(long, value_name = "C")]
    pub cpu: Option<u32>,
    /// Only instructions before this one
    #[arg(long, value_name = "N")]
    pub before: Option<u64>,
    /// Only instructions after this one
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
    /// Only the first so many
    #[arg(long, value_name = "N", conflicts_with = "last")]
    pub first: Option<usize>,
    /// Only the last so many
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
    /// The program, for names; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub machine: crate::open::Machine,
}

/// `memory`.
pub fn memory(arguments: &MemoryArguments) -> anyhow::Result<Answer> {
    let opened = execution(&arguments.trace)?.open(&arguments.elf, arguments.machine)?;
    let recording = &opened.recording;
    opened.require(match &arguments.register {
        Some(_) => Need::Registers,
        None => Need::Accesses,
    })?;
    let searches = match (&arguments.register, &arguments.place) {
        (Some(name), _) => registers_named(&opened, name)?
            .into_iter()
            .map(Search::register)
            .collect(),
        (None, Some(place)) => {
            let (first, last) = place.bounds(&opened)?;
            let what = match (arguments.writes, arguments.reads) {
                (true, _) => What::Write,
                (_, true) => What::Read,
                _ => What::Access,
            };
            vec![Search::new(what, first..=last)]
        }
        (None, None) => bail!("expected PLACE[,LEN] or --register NAME"),
    };
    let first = arguments.after.map_or(0, |after| after.saturating_add(1));
    let range = first..arguments.before.unwrap_or(u64::MAX);
    let mut found = found(&searches, arguments, recording, range)?;
    if let Some(count) = arguments.first {
        found.truncate(count);
    }
    if let Some(count) = arguments.last {
        found.drain(..found.len().saturating_sub(count));
    }
    let viewer = Viewer::new(
        recording,
        opened.registers.as_ref(),
        opened.symbols.as_ref(),
    );
    let mut output = output();
    for number in &found {
        let Some(executed) = recording.instruction(InstructionNumber(*number))? else {
            continue;
        };
        if arguments.json {
            let object = serde_json::Value::Object(viewer.executed_json(&executed));
            writeln!(output, "{object}")?;
        } else {
            writeln!(output, "{}", words::printable(&viewer.line(&executed)))?;
        }
    }
    output.flush()?;
    if found.is_empty() {
        message!("tracewire: no instruction did");
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

fn found(
    searches: &[Search],
    arguments: &MemoryArguments,
    recording: &tracewire_exec_trace::recording::Recording,
    range: std::ops::Range<u64>,
) -> anyhow::Result<Vec<u64>> {
    let mut found = Vec::new();
    for search in searches {
        let search = match arguments.cpu {
            Some(cpu) => search.clone().on_cpu(CpuNumber(cpu)),
            None => search.clone(),
        };
        if let ([_], Some(1)) = (searches, arguments.last) {
            let last =
                recording.find_last(&search, InstructionNumber(range.end.min(recording.len())))?;
            found.extend(
                last.map(|number| number.0)
                    .filter(|number| range.contains(number)),
            );
            continue;
        }
        recording.find_all(&search, range.clone(), &mut |number| {
            found.push(number.0);
            let is_enough =
                searches.len() == 1 && arguments.first.is_some_and(|most| found.len() >= most);
            if is_enough {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
