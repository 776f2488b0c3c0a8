//! GDB's trace file: each instruction is a frame, with the registers before it and the memory that it accesses.
//!
//! The smallest set of registers that has all of the trace's is used. A register without a value so far is zero in the register
//! block, and the frame marks it as unknown ([`FrameEncoder::unknown_registers`]). GDB ignores the mark, so the caller may warn
//! ([`Written::unknown`]).
//!
//! The tracepoint is at the first instruction, and the others are its steps: a frame at another address than its tracepoint is a
//! step of `while-stepping`, to GDB and to us.

use std::ops::Range;
use std::path::Path;

use tracewire_arch::{RegisterLayout, StandardRegisters};
use tracewire_exec_analysis::state::Registers;
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{InstructionNumber, Scale, Time};
use tracewire_exec_trace::recording::Recording;
use tracewire_model::{
    Action, RegisterMask, SourceStrings, Status, StatusFields, StopReason, Tracepoint,
    TracepointDefinition, TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::{
    Description, DescriptionParts, FrameEncoder, FrameFormat, TraceFileWriter, unknown_masks,
};

use super::each;
use crate::ConvertError;

/// The results of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// How many frames.
    pub frames: u64,
    /// In how many frames a register that the trace writes was not known, and is zero.
    pub unknown: u64,
}

const TRACEPOINT: TracepointNumber = TracepointNumber(1);
const TIMESTAMP: VariableNumber = VariableNumber(1);
const CPU: VariableNumber = VariableNumber(2);

/// A time as `$trace_timestamp`: microseconds if the trace has a unit of time, else its own count.
fn timestamp(time: Time) -> i64 {
    let divisor = 10u64.saturating_pow(u32::from(time.decimals));
    let ticks = time.ticks;
    let value = match time.scale {
        Scale::Nanoseconds => ticks / divisor.saturating_mul(1000),
        Scale::Picoseconds => ticks / divisor.saturating_mul(1_000_000),
        Scale::Milliseconds => ticks.saturating_mul(1000) / divisor,
        _ => ticks / divisor,
    };
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The smallest set of registers with all that the trace writes.
fn covering(registers: &DebuggerRegisters) -> StandardRegisters {
    let machine = registers.machine();
    let needed: Vec<&str> = machine
        .layout()
        .registers()
        .iter()
        .filter(|one| registers.names_of(one.number).next().is_some())
        .map(|one| one.name.as_str())
        .collect();
    let mut sets = StandardRegisters::all(machine.architecture());
    let place = sets.iter().position(|set| {
        let layout = set.layout();
        needed.iter().all(|name| layout.by_name(name).is_some())
    });
    // The machine's own set is one of them.
    sets.swap_remove(place.unwrap_or(0))
}

fn description(
    set: &StandardRegisters,
    recording: &Recording,
    range: &Range<u64>,
) -> Result<Description, ConvertError> {
    let first = recording.instruction(InstructionNumber(range.start))?;
    let frames = range.end - range.start;
    let steps = frames.saturating_sub(1);
    let mut mask = RegisterMask::default();
    for register in set.layout().registers() {
        mask.insert(register.number);
    }
    let registers = vec![Action::Registers(mask)];
    let mut commands = vec!["collect $regs".to_owned()];
    if steps > 0 {
        commands.extend([
            format!("while-stepping {steps}"),
            "collect $regs".to_owned(),
            "end".to_owned(),
        ]);
    }
    let builtin = |number, name: &str| VariableDefinition {
        number,
        initial: 0,
        builtin: true,
        name: name.to_owned(),
    };
    Ok(Description::build(&DescriptionParts {
        register_block_size: set.size(),
        target_xml: Some(set.target_xml()),
        status: Some(Status::from(StatusFields {
            stop_reason: Some(StopReason::Unknown),
            frames: Some(frames),
            frames_created: Some(frames),
            ..StatusFields::default()
        })),
        variables: vec![
            builtin(TIMESTAMP, "trace_timestamp"),
            builtin(CPU, "trace_cpu"),
        ],
        tracepoints: vec![Tracepoint::new(TracepointDefinition {
            step_count: steps,
            actions: registers.clone(),
            step_actions: if steps > 0 { registers } else { Vec::new() },
            source: SourceStrings {
                commands,
                ..SourceStrings::default()
            },
            ..TracepointDefinition::new(
                TRACEPOINT,
                first.map_or_else(Default::default, |first| first.address),
            )
        })],
        ..DescriptionParts::default()
    })?)
}

/// Writes a range of instructions.
///
/// # Errors
/// When the recording's file is damaged, or the file cannot be written.
pub fn write(
    recording: &Recording,
    registers: &DebuggerRegisters,
    range: Range<u64>,
    path: &Path,
) -> Result<Written, ConvertError> {
    let range = range.start..range.end.min(recording.len()).max(range.start);
    let set = covering(registers);
    let description = description(&set, recording, &range)?;
    let format = FrameFormat {
        byte_order: recording.byte_order(),
        register_block_size: set.size(),
    };
    let layout = set.layout();
    let first = range.start;
    let place = recording
        .instruction(InstructionNumber(first))?
        .map(|instruction| instruction.address);
    let places = Places::new(registers, &layout);
    let mut state = Registers::at(recording, Some(registers), InstructionNumber(range.start))?;
    let mut writer = TraceFileWriter::create(path, &description)?;
    let mut written = Written {
        frames: 0,
        unknown: 0,
    };
    let mut block = vec![0; layout.size() as usize];
    let mut known = vec![false; block.len()];
    let mut frame = Vec::new();
    each(recording, range, |executed| {
        frame.clear();
        let failed = |source| ConvertError::Instruction {
            instruction: executed.number.0,
            source,
        };
        let all_known = places.fill(
            (&mut block, &mut known),
            state.block(executed.cpu),
            executed.address.0,
            format,
        );
        written.unknown += u64::from(!all_known);
        let mut encoder = FrameEncoder::begin(&mut frame, format, TRACEPOINT).map_err(failed)?;
        encoder.registers(&block).map_err(failed)?;
        encoder.unknown_registers(&unknown_masks(layout.registers(), &known));
        if executed.number.0 > first && Some(executed.address) == place {
            encoder.step();
        }
        encoder.variable(TIMESTAMP, timestamp(executed.time));
        encoder.variable(CPU, i64::from(executed.cpu.0));
        for access in &executed.accesses {
            let mut bytes = vec![None; access.size as usize];
            recording.memory_at(executed.number, access.address, &mut bytes)?;
            // Blocks of bytes that are known.
            let mut at = 0;
            for run in bytes.chunk_by(|a, b| a.is_some() == b.is_some()) {
                let known: Vec<u8> = run.iter().copied().flatten().collect();
                if !known.is_empty() {
                    encoder.memory(access.address.offset(at), &known);
                }
                at += run.len() as i64;
            }
        }
        encoder.finish().map_err(failed)?;
        writer.append(&frame)?;
        written.frames += 1;
        state.apply(executed);
        Ok(())
    })?;
    writer.finish()?;
    Ok(written)
}

/// Where the registers of the machine's own block are in the file's.
struct Places {
    /// From, to, size, and whether the trace writes it.
    list: Vec<(usize, usize, usize, bool)>,
    /// The register that is always zero: place and size.
    zero: std::ops::Range<usize>,
    counter: (usize, usize),
}

impl Places {
    fn new(registers: &DebuggerRegisters, layout: &RegisterLayout) -> Self {
        let own = registers.machine().layout();
        let list = layout.registers().iter().filter_map(|to| {
            let from = own.by_name(&to.name)?;
            let is_written = registers.names_of(from.number).next().is_some();
            let size = to.size().min(from.size()) as usize;
            Some((from.offset as usize, to.offset as usize, size, is_written))
        });
        let counter = layout.program_counter();
        let zero = registers.machine().zero();
        let zero = zero.and_then(|zero| layout.by_number(zero.number));
        Self {
            list: list.collect(),
            zero: zero.map_or(0..0, |zero| {
                zero.offset as usize..(zero.offset + zero.size()) as usize
            }),
            counter: counter.map_or((0, 0), |one| (one.offset as usize, one.size() as usize)),
        }
    }

    /// Makes a block. Returns whether every register that the trace ever writes is known.
    fn fill(
        &self,
        (block, known): (&mut [u8], &mut [bool]),
        own: &[Option<u8>],
        counter: u64,
        format: FrameFormat,
    ) -> bool {
        let mut all_known = true;
        for (from, to, size, is_written) in &self.list {
            for offset in 0..*size {
                let byte = own.get(from + offset).copied().flatten();
                all_known &= byte.is_some() || !is_written;
                let place = block.get_mut(to + offset).zip(known.get_mut(to + offset));
                if let Some((place, known)) = place {
                    *place = byte.unwrap_or(0);
                    *known = byte.is_some();
                }
            }
        }
        let (start, size) = self.counter;
        let bytes = format.byte_order.u64_bytes(counter);
        let bytes = match format.byte_order {
            tracewire_model::ByteOrder::Little => bytes.get(..size),
            tracewire_model::ByteOrder::Big => bytes.get(8usize.saturating_sub(size)..),
        };
        if let (Some(place), Some(bytes)) = (block.get_mut(start..start + size), bytes) {
            place.copy_from_slice(bytes);
            known[start..start + size].fill(true);
            known[self.zero.clone()].fill(true);
        }
        all_known
    }
}
