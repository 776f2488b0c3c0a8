//! `show` on execution traces.

use std::io::Write;
use std::ops::ControlFlow;

use anyhow::bail;
use tracewire_exec_analysis::state::Registers;
use tracewire_exec_analysis::view::{MemoryPart, Viewer};
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber, Scale, Time};
use tracewire_views::words;

use super::open::{Opened, Source};
use super::{FileKind, refuse_options};
use crate::answer::Answer;
use crate::arguments::ShowArguments;
use crate::frames::FrameRange;
use crate::stdout::output_of;

/// A time as a number of the trace's own unit.
pub fn parse_time(text: &str) -> Result<Time, String> {
    Time::parse(text)
        .filter(|time| time.scale == Scale::None)
        .ok_or_else(|| "expected a time of the trace, a decimal number".to_owned())
}

/// `show`.
pub fn show(source: Source, arguments: &ShowArguments) -> anyhow::Result<Answer> {
    refuse_options(
        &[
            ("--frame", arguments.frame.is_some()),
            ("--tracepoint", arguments.tracepoint.is_some()),
            ("--where", arguments.condition.is_some()),
            ("--gdb", arguments.gdb),
            ("--folded", arguments.folded),
        ],
        FileKind::ExecutionTrace,
    )?;
    let opened = source.open(&arguments.elf, arguments.machine)?;
    let recording = &opened.recording;
    let cpu = arguments.cpu.map(CpuNumber);
    let range = chosen(&opened, arguments)?;
    let memory: Result<Vec<MemoryPart>, _> = (arguments.memory.iter())
        .map(|place| place.part(&opened))
        .collect();
    let memory = memory?;
    let viewer = Viewer::new(
        recording,
        opened.registers.as_ref(),
        opened.symbols.as_ref(),
    );
    let mut output = output_of(arguments.json);
    let mut shown = 0u64;
    let start = range.start.min(recording.len());
    let numbers = start..range.end.unwrap_or(u64::MAX).min(recording.len());
    let as_list = !arguments.json && !range.single;
    let mut registers = if as_list {
        None
    } else {
        let before = InstructionNumber(start);
        Some(Registers::at(recording, opened.registers.as_ref(), before)?)
    };
    let mut failed: Option<anyhow::Error> = None;
    recording.instructions(numbers, &mut |executed| {
        let mut write = || -> anyhow::Result<()> {
            if cpu.is_none_or(|cpu| executed.cpu == cpu) {
                shown += 1;
                match &registers {
                    None => {
                        writeln!(output, "{}", words::printable(&viewer.line(&executed)))?;
                    }
                    Some(registers) if arguments.json => {
                        let json = viewer.json(&executed, registers, &memory)?;
                        writeln!(output, "{json}")?;
                    }
                    Some(registers) => {
                        let text = viewer.text(&executed, registers, &memory)?;
                        write!(output, "{}", words::printable_lines(&text))?;
                    }
                }
            }
            if let Some(registers) = &mut registers {
                registers.apply(&executed);
            }
            Ok(())
        };
        match write() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    output.flush()?;
    if shown == 0 {
        message!(
            "tracewire: no instruction to show: the trace has {}",
            recording.len()
        );
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

/// The instructions that `show` is asked for.
fn chosen(opened: &Opened, arguments: &ShowArguments) -> anyhow::Result<FrameRange> {
    let recording = &opened.recording;
    if let Some(time) = arguments.time {
        let decimals = recording.summary().first_time.map_or(0, |of| of.decimals);
        let ticks = time.ticks_with(decimals).unwrap_or(u64::MAX);
        let found = recording.at_time(ticks, arguments.cpu.map(CpuNumber))?;
        let Some(InstructionNumber(number)) = found else {
            bail!("no instruction is at time {time} or later, and none did anything then");
        };
        return Ok(FrameRange {
            start: number,
            end: Some(number + 1),
            single: true,
        });
    }
    let range = arguments.instruction.unwrap_or(FrameRange {
        start: 0,
        end: None,
        single: false,
    });
    if range.single && range.start >= recording.len() {
        bail!(
            "there is no instruction {}: the trace has {}, numbered from 0",
            range.start,
            recording.len()
        );
    }
    Ok(range)
}
