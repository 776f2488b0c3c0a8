//! `find` on execution traces.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::ControlFlow;

use anyhow::{Context, bail};
use tracewire_exec_analysis::state::Registers;
use tracewire_exec_analysis::view::Viewer;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Need, RegisterId, Search, What};
use tracewire_model::Address;

use super::open::{Opened, Source};
use super::{FileKind, refuse_options};
use crate::answer::Answer;
use crate::arguments::{CodePlace, FindArguments, tell_hexadecimal};
use crate::stdout::output_of;

/// `find`.
pub fn find(source: Source, arguments: &FindArguments) -> anyhow::Result<Answer> {
    refuse_options(
        &[
            ("--tracepoint", arguments.tracepoint.is_some()),
            ("--time", arguments.time.is_some()),
            ("--thread", arguments.thread.is_some()),
            ("--where", arguments.condition.is_some()),
        ],
        FileKind::ExecutionTrace,
    )?;
    let opened = source.open(&arguments.elf, arguments.machine)?;
    let recording = &opened.recording;
    if arguments.register.is_some() {
        opened.require(Need::Registers)?;
    }
    if arguments.writes.is_some() || arguments.reads.is_some() {
        opened.require(Need::Accesses)?;
    }
    let searches = searches(&opened, arguments)?;
    let first = arguments
        .after
        .map_or(0, |after| after.saturating_add(1))
        .max(arguments.from);
    let end = arguments.before.unwrap_or(u64::MAX).min(recording.len());
    let (only_first, only_last) = (arguments.first, arguments.last);

    let found = match &searches[..] {
        // What one search can do needs no list.
        [one] if one.len() == 1 && (only_first || only_last) => {
            let found = if only_first {
                recording.find_first(&one[0], InstructionNumber(first))?
            } else {
                recording.find_last(&one[0], InstructionNumber(end))?
            };
            found
                .map(|number| number.0)
                .filter(|number| (first..end).contains(number))
                .into_iter()
                .collect()
        }
        _ => all(&opened, &searches, first..end)?,
    };
    let found: Vec<u64> = match (only_first, only_last) {
        (true, _) => found.into_iter().take(1).collect(),
        (_, true) => found.last().copied().into_iter().collect(),
        _ => found,
    };
    write_found(&opened, &found, arguments.json)?;
    if let (
        true,
        Some(CodePlace::Address {
            address,
            as_hexadecimal: Some(meant),
        }),
    ) = (found.is_empty(), &arguments.pc)
    {
        let search = Search::new(What::Visit, *meant..=*meant);
        if recording
            .find_first(&search, InstructionNumber(0))?
            .is_some()
        {
            tell_hexadecimal(*address, *meant);
        }
    }
    Ok(if found.is_empty() {
        Answer::No
    } else {
        Answer::Yes
    })
}

fn write_found(opened: &Opened, found: &[u64], json: bool) -> anyhow::Result<()> {
    if !json {
        return write_numbers(found).map_err(Into::into);
    }
    let recording = &opened.recording;
    let mut output = output_of(json);
    let viewer = Viewer::new(
        recording,
        opened.registers.as_ref(),
        opened.symbols.as_ref(),
    );
    for number in found {
        let number = InstructionNumber(*number);
        let Some(executed) = recording.instruction(number)? else {
            continue;
        };
        let registers = Registers::at(recording, opened.registers.as_ref(), number)?;
        writeln!(output, "{}", viewer.json(&executed, &registers, &[])?)?;
    }
    output.flush()?;
    Ok(())
}

/// A number a line. There may be millions, so that they go past what looks for colours.
fn write_numbers(numbers: &[u64]) -> io::Result<()> {
    const PIECE: usize = 1 << 16;
    let mut output = io::stdout().lock();
    let mut digits = itoa::Buffer::new();
    let mut text = Vec::with_capacity(PIECE + 32);
    for number in numbers {
        text.extend_from_slice(digits.format(*number).as_bytes());
        text.push(b'\n');
        if text.len() >= PIECE {
            output.write_all(&text)?;
            text.clear();
        }
    }
    output.write_all(&text)?;
    output.flush()
}

/// The instructions of a range that each group of searches finds, in order; without a search, all of them.
fn all(
    opened: &Opened,
    searches: &[Vec<Search>],
    range: std::ops::Range<u64>,
) -> anyhow::Result<Vec<u64>> {
    let mut fitting: Option<Vec<u64>> = None;
    for group in searches {
        let mut found = Vec::new();
        for search in group {
            opened
                .recording
                .find_all(search, range.clone(), &mut |number| {
                    found.push(number.0);
                    ControlFlow::Continue(())
                })?;
        }
        if group.len() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        fitting = Some(match fitting {
            None => found,
            Some(before) => {
                let found: BTreeSet<u64> = found.into_iter().collect();
                before
                    .into_iter()
                    .filter(|number| found.contains(number))
                    .collect()
            }
        });
    }
    Ok(fitting.unwrap_or_else(|| range.collect()))
}

/// What is looked for: every group must find an instruction, each by any of its searches.
fn searches(opened: &Opened, arguments: &FindArguments) -> anyhow::Result<Vec<Vec<Search>>> {
    let cpu = arguments.cpu.map(CpuNumber);
    let search = |what, first, last| {
        let search = Search::new(what, first..=last);
        match cpu {
            Some(cpu) => search.on_cpu(cpu),
            None => search,
        }
    };
    let mut groups = Vec::new();
    if let Some(pc) = &arguments.pc {
        let one = |address: u64| search(What::Visit, address, address);
        groups.push(match pc {
            CodePlace::Address { address, .. } => vec![one(*address)],
            CodePlace::Location(location) => code_places(opened, location)?
                .into_iter()
                .map(|place| one(place.0))
                .collect(),
        });
    }
    for (bounds, outside) in [(&arguments.range, false), (&arguments.outside, true)] {
        let Some([a, b]) = bounds.as_deref() else {
            continue;
        };
        if a > b {
            let name = if outside { "--outside" } else { "--range" };
            bail!("{name} {a:#x} {b:#x}: expected the lower address first");
        }
        let group = if outside {
            let below = a.checked_sub(1).map(|last| search(What::Visit, 0, last));
            let above = b
                .checked_add(1)
                .map(|first| search(What::Visit, first, u64::MAX));
            below.into_iter().chain(above).collect()
        } else {
            vec![search(What::Visit, *a, *b)]
        };
        groups.push(group);
    }
    for (what, place) in [
        (What::Write, &arguments.writes),
        (What::Read, &arguments.reads),
    ] {
        if let Some(place) = place {
            let (first, last) = place.bounds(opened)?;
            groups.push(vec![search(what, first, last)]);
        }
    }
    if let Some(name) = &arguments.register {
        let registers = registers_named(opened, name)?;
        let one = |id| search(What::Register(id), 0, u64::MAX);
        groups.push(registers.into_iter().map(one).collect());
    }
    if let Some(line) = &arguments.line {
        let symbols = opened
            .symbols
            .as_ref()
            .context("--line needs the program: add --elf PROGRAM")?;
        let places = symbols
            .resolve(line, None)
            .with_context(|| format!("--line {line}"))?;
        let one = |address: Address| search(What::Visit, address.0, address.0);
        groups.push(places.iter().map(|place| one(place.address)).collect());
    }
    if groups.is_empty() && cpu.is_some() {
        groups.push(vec![search(What::Visit, 0, u64::MAX)]);
    }
    Ok(groups)
}

/// The places in the code that a location names: a function where it begins, a line where a tracepoint on it would be.
fn code_places(opened: &Opened, location: &str) -> anyhow::Result<Vec<Address>> {
    let symbols = opened
        .symbols
        .as_ref()
        .with_context(|| format!("--pc {location} needs the program: add --elf PROGRAM"))?;
    let places = symbols
        .resolve(location, None)
        .with_context(|| format!("--pc {location}"))?;
    Ok(places
        .iter()
        .map(|place| {
            let entry = symbols.entry_of(location, place);
            entry.unwrap_or(place.address)
        })
        .collect())
}

/// The registers that the trace writes which are meant by a name: the trace's own, else those that are the same to GDB.
pub fn registers_named(opened: &Opened, name: &str) -> anyhow::Result<Vec<RegisterId>> {
    let mut found: Vec<RegisterId> = opened.recording.register(name).into_iter().collect();
    if let Some(registers) = &opened.registers {
        for part in registers
            .machine()
            .locate(name.as_bytes())
            .unwrap_or_default()
        {
            for id in registers.names_of(part.register) {
                if !found.contains(&id) {
                    found.push(id);
                }
            }
        }
    }
    if found.is_empty() {
        let known = opened.recording.register_names().join(" ");
        bail!("the trace never writes a register `{name}`; it writes: {known}");
    }
    Ok(found)
}
