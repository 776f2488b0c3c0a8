//! Value change dumps: program counter, registers and accesses of each cpu as signals.
//!
//! Each instruction is a separate step, because simulators give many instructions the same time; on the trace's own time axis those
//! of one time follow one another in smaller steps. In a step, registers have the values that the instruction left. `z` is a signal
//! that it did not access, `x` is an unknown value.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::{ControlFlow, Range};

use tracewire_arch::{Architecture, Machine};
use tracewire_exec_analysis::state::Registers;
use tracewire_exec_trace::record::{AccessKind, CpuNumber, InstructionNumber, Scale, Time};
use tracewire_exec_trace::recording::{
    Effect, Executed, ReadError, Recording, RegisterId, RegisterValue, StartEffect,
};
use vcd::{IdCode, SimulationCommand, TimescaleUnit, Value, VarType, Writer};

use super::each;
use crate::ConvertError;

/// The time axis of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TimeAxis {
    /// Instructions: the first is at 0, the next at 1.
    #[default]
    Instructions,
    /// The trace's own times.
    Times,
}

/// The decimal exponent of a scale's unit, in seconds. Counted units are shown as nanoseconds.
const fn exponent(scale: Scale) -> i32 {
    match scale {
        Scale::Milliseconds => -3,
        Scale::Microseconds => -6,
        Scale::Picoseconds => -12,
        _ => -9,
    }
}

/// The sizes of a recording's signals.
struct Sizes {
    /// The bits of each register.
    registers: Vec<u32>,
    /// The most accesses of one instruction.
    accesses: usize,
    /// The bits of the longest access.
    data: u32,
}

impl Sizes {
    fn of(
        recording: &Recording,
        machine: Option<&Machine>,
        range: Range<u64>,
    ) -> Result<Self, ReadError> {
        let names = recording.register_names();
        // The trace has the width of a register that GDB does not have.
        let mut registers: Vec<u32> = (names.iter())
            .map(|name| {
                let parts = machine.and_then(|machine| machine.locate(name.as_bytes()));
                let bits = |parts: &[_]| parts.iter().map(part_bits).sum();
                parts.map_or(1, bits)
            })
            .collect();
        let widen = |registers: &mut Vec<u32>, id: RegisterId, bits: u32| {
            if let Some(known) = registers.get_mut(id.0 as usize) {
                *known = bits.max(*known);
            }
        };
        recording.for_each_at_start(&mut |effect| {
            if let StartEffect::Register(write) = effect {
                let bits = match write.part {
                    Some(part) => u32::from(part.high) + 1,
                    None => u32::from(write.value.digits()) * 4,
                };
                widen(&mut registers, write.register, bits);
            }
            ControlFlow::Continue(())
        })?;
        let start = Self {
            registers,
            accesses: 1,
            data: 8,
        };
        let rows = recording.scan(
            range,
            |_| (start.registers.clone(), 1, 1),
            |(registers, accesses, bytes): &mut (Vec<u32>, usize, u32), step| {
                let mut count = 0;
                step.effects(|effect| match effect {
                    Effect::Access(access) => {
                        count += 1;
                        *bytes = access.size.max(*bytes);
                    }
                    Effect::Register(write) => {
                        let bits = match write.part {
                            Some(part) => u32::from(part.high) + 1,
                            None => write.digits() * 4,
                        };
                        widen(registers, write.register, bits);
                    }
                });
                *accesses = count.max(*accesses);
            },
        )?;
        Ok(rows.into_iter().fold(start, |mut all, row| {
            for (known, bits) in all.registers.iter_mut().zip(row.0) {
                *known = bits.max(*known);
            }
            all.accesses = row.1.max(all.accesses);
            all.data = row.2.saturating_mul(8).max(all.data);
            all
        }))
    }
}

fn part_bits(part: &tracewire_arch::RegisterPart) -> u32 {
    u32::from(part.bits)
}

/// The signals of one access.
struct Channel {
    address: IdCode,
    size: IdCode,
    data: IdCode,
    write: IdCode,
}

/// The signals of a cpu.
struct Signals {
    instruction: IdCode,
    counter: IdCode,
    opcode: IdCode,
    taken: IdCode,
    text: IdCode,
    accesses: Vec<Channel>,
    registers: Vec<IdCode>,
}

/// The digits of a value in base 2, `x` for unknown ones.
fn binary(value: &RegisterValue, bits: u32) -> Vec<Value> {
    let bits = bits as usize;
    let mut all = Vec::with_capacity(bits);
    for digit in value.to_string().chars() {
        match digit.to_digit(16) {
            Some(digit) => all.extend((0..4).rev().map(|bit| bit_of(u64::from(digit), bit))),
            None => all.extend([Value::X; 4]),
        }
    }
    let above = all.len().saturating_sub(bits);
    let zeros = bits.saturating_sub(all.len());
    let mut padded = vec![Value::V0; zeros];
    padded.extend(all.drain(above..));
    padded
}

const fn bit_of(value: u64, bit: u32) -> Value {
    if value >> bit & 1 == 1 {
        Value::V1
    } else {
        Value::V0
    }
}

/// A number without zeros before it.
fn number(value: u128) -> impl Iterator<Item = Value> {
    let bits = (128 - value.leading_zeros()).max(1);
    (0..bits)
        .rev()
        .map(move |bit| bit_of((value >> bit) as u64, 0))
}

/// A string has no blanks in a dump.
fn word(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_ascii_graphic() { c } else { '_' })
        .collect()
}

/// Names that are one for a dump are distinguished by a number.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    // Brackets and blanks mean something else in a dump.
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let mut candidate = name.clone();
    let mut next = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}_{next}");
        next += 1;
    }
    candidate
}

/// The time axis: where each instruction is on it.
struct Clock {
    axis: TimeAxis,
    decimals: u8,
    /// Into how many steps a unit of the trace's time is divided: a power of ten.
    steps: u64,
    now: Option<u64>,
}

impl Clock {
    /// As fine as it must be for the instructions that have one time.
    fn new(recording: &Recording, axis: TimeAxis, range: Range<u64>) -> Result<Self, ReadError> {
        let times = [
            recording.summary().first_time,
            recording.summary().last_time,
        ];
        let decimals = times.iter().flatten().map(|time| time.decimals).max();
        let mut clock = Self {
            axis,
            decimals: decimals.unwrap_or(0),
            steps: 1,
            now: None,
        };
        if axis == TimeAxis::Times {
            let (mut most, mut row, mut latest) = (1, 0u64, None);
            recording.for_each_instruction(range, &mut |step| {
                let ticks = clock.ticks(step.time());
                if latest.is_none_or(|latest| ticks > latest) {
                    (latest, row) = (Some(ticks), 0);
                }
                row += 1;
                most = row.max(most);
                ControlFlow::Continue(())
            })?;
            while clock.steps < most {
                clock.steps *= 10;
            }
        }
        Ok(clock)
    }

    fn ticks(&self, time: Time) -> u64 {
        time.ticks_with(self.decimals).unwrap_or(u64::MAX)
    }

    /// The timescale's unit.
    fn unit(&self, recording: &Recording) -> (u32, TimescaleUnit) {
        let first = recording.summary().first_time;
        let scale = first.map_or(Scale::None, |time| time.scale);
        let exponent = match self.axis {
            TimeAxis::Instructions => -9,
            TimeAxis::Times => {
                exponent(scale) - i32::from(self.decimals) - self.steps.ilog10() as i32
            }
        };
        // Nothing is finer than a femtosecond.
        let exponent = exponent.max(-15);
        let (unit, below) = match exponent {
            -3.. => (TimescaleUnit::MS, exponent + 3),
            -6..=-4 => (TimescaleUnit::US, exponent + 6),
            -9..=-7 => (TimescaleUnit::NS, exponent + 9),
            -12..=-10 => (TimescaleUnit::PS, exponent + 12),
            _ => (TimescaleUnit::FS, exponent + 15),
        };
        (10u32.pow(below.unsigned_abs()), unit)
    }

    /// The place of the next instruction, after all before.
    fn next(&mut self, executed: &Executed, first: u64) -> u64 {
        let at = match self.axis {
            TimeAxis::Instructions => executed.number.0 - first,
            TimeAxis::Times => self.ticks(executed.time).saturating_mul(self.steps),
        };
        let at = self.now.map_or(at, |now| at.max(now.saturating_add(1)));
        self.now = Some(at);
        at
    }
}

/// Writes a dump of a range of instructions.
///
/// # Errors
/// When the recording's file is damaged, or the dump cannot be written.
pub fn write(
    recording: &Recording,
    range: Range<u64>,
    axis: TimeAxis,
    out: &mut impl io::Write,
) -> Result<(), ConvertError> {
    let machine = recording.architecture().map(Machine::of);
    let sizes = Sizes::of(recording, machine, range.clone())?;
    let mut clock = Clock::new(recording, axis, range.clone())?;
    let mut out = Writer::new(out);
    out.version("Tracewire")?;
    let (count, unit) = clock.unit(recording);
    out.timescale(count, unit)?;
    let mut cpus: HashMap<CpuNumber, Signals> = HashMap::new();
    for cpu in &recording.summary().cpus {
        out.add_module(&format!("cpu{cpu}"))?;
        cpus.insert(*cpu, signals(&mut out, recording, machine, &sizes)?);
        out.upscope()?;
    }
    out.enddefinitions()?;

    let mut registers = Registers::at(recording, None, InstructionNumber(range.start))?;
    out.begin(SimulationCommand::Dumpvars)?;
    for cpu in &recording.summary().cpus {
        let Some(signals) = cpus.get(cpu) else {
            continue;
        };
        for id in [signals.instruction, signals.counter, signals.opcode] {
            out.change_vector(id, [Value::X])?;
        }
        out.change_scalar(signals.taken, Value::X)?;
        for channel in &signals.accesses {
            release(&mut out, channel)?;
        }
        for (at, (id, bits)) in signals.registers.iter().zip(&sizes.registers).enumerate() {
            match registers.value(*cpu, RegisterId(at as u32)) {
                Some(value) => out.change_vector(*id, binary(value, *bits))?,
                None => out.change_vector(*id, [Value::X])?,
            }
        }
    }
    out.end()?;

    // The signals of the accesses of the step before.
    let mut driven: (CpuNumber, usize) = (CpuNumber(0), 0);
    let first = range.start;
    each(recording, range, |executed| {
        out.timestamp(clock.next(executed, first))?;
        registers.apply(executed);
        let Some(signals) = cpus.get(&executed.cpu) else {
            return Ok(());
        };
        let count = executed.accesses.len();
        if let Some(before) = cpus.get(&driven.0) {
            let kept = if driven.0 == executed.cpu { count } else { 0 };
            for channel in before.accesses.iter().take(driven.1).skip(kept) {
                release(&mut out, channel)?;
            }
        }
        driven = (executed.cpu, count);
        step(&mut out, executed, signals, &sizes)?;
        for write in &executed.register_writes {
            let at = write.register.0 as usize;
            let of = cpus
                .get(&write.cpu)
                .and_then(|signals| signals.registers.get(at));
            if let (Some(id), Some(bits)) = (of, sizes.registers.get(at))
                && let Some(value) = registers.value(write.cpu, write.register)
            {
                out.change_vector(*id, binary(value, *bits))?;
            }
        }
        Ok(())
    })
}

/// Writes what signals a cpu has.
fn signals(
    out: &mut Writer<impl io::Write>,
    recording: &Recording,
    machine: Option<&Machine>,
    sizes: &Sizes,
) -> io::Result<Signals> {
    let pointer = machine.map_or(64, |machine| u32::from(machine.pointer_size()) * 8);
    let is_x86 = machine.is_some_and(|machine| {
        matches!(
            machine.architecture(),
            Architecture::X86_64 | Architecture::I386
        )
    });
    let mut taken = HashSet::new();
    let mut add =
        |out: &mut Writer<_>, bits: u32, name: &str| out.add_wire(bits, &unique(name, &mut taken));
    Ok(Signals {
        counter: add(out, pointer, "pc")?,
        instruction: add(out, 64, "instruction")?,
        opcode: add(out, if is_x86 { 128 } else { 64 }, "opcode")?,
        taken: add(out, 1, "taken")?,
        text: out.add_var(VarType::String, 1, "disassembly", None)?,
        accesses: (1..=sizes.accesses)
            .map(|number| {
                let number = match number {
                    1 => String::new(),
                    number => number.to_string(),
                };
                let mut add =
                    |bits: u32, name: &str| add(out, bits, &format!("memory{number}_{name}"));
                Ok(Channel {
                    address: add(pointer, "address")?,
                    size: add(32, "size")?,
                    data: add(sizes.data, "data")?,
                    write: add(1, "write")?,
                })
            })
            .collect::<io::Result<_>>()?,
        registers: (recording.register_names().iter())
            .zip(&sizes.registers)
            .map(|(name, bits)| add(out, *bits, name))
            .collect::<io::Result<_>>()?,
    })
}

/// Releases the signals of an access.
fn release(out: &mut Writer<impl io::Write>, channel: &Channel) -> io::Result<()> {
    for id in [channel.address, channel.size, channel.data] {
        out.change_vector(id, [Value::Z])?;
    }
    out.change_scalar(channel.write, Value::Z)
}

fn step(
    out: &mut Writer<impl io::Write>,
    executed: &Executed,
    signals: &Signals,
    sizes: &Sizes,
) -> io::Result<()> {
    out.change_vector(signals.instruction, number(executed.number.0.into()))?;
    out.change_vector(signals.counter, number(executed.address.0.into()))?;
    match executed.code.opcode {
        Some(opcode) => out.change_vector(signals.opcode, number(opcode.value))?,
        None => out.change_vector(signals.opcode, [Value::X])?,
    }
    out.change_scalar(signals.taken, executed.taken)?;
    out.change_string(signals.text, &word(&executed.code.disassembly))?;
    for (access, channel) in executed.accesses.iter().zip(&signals.accesses) {
        out.change_vector(channel.address, number(access.address.0.into()))?;
        out.change_vector(channel.size, number(access.size.into()))?;
        out.change_vector(channel.data, binary(&access.number, sizes.data))?;
        out.change_scalar(channel.write, access.kind == AccessKind::Write)?;
    }
    Ok(())
}
