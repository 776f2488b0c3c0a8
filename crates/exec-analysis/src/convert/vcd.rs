//! Value change dumps: program counter, registers and accesses of each cpu as signals.

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use tracewire_exec_trace::machine::Machine;
use tracewire_exec_trace::record::{AccessKind, CpuNumber, InstructionNumber, Scale, Time};
use tracewire_exec_trace::recording::{Executed, Recording, RegisterValue};

use super::{ConvertError, each};
use crate::state::Registers;

/// The decimal exponent of a scale's unit, in seconds. Counted units are shown as nanoseconds.
const fn exponent(scale: Scale) -> i32 {
    match scale {
        Scale::Milliseconds => -3,
        Scale::Microseconds => -6,
        Scale::Picoseconds => -12,
        _ => -9,
    }
}

/// The signals of a cpu.
struct Signals {
    counter: String,
    opcode: String,
    text: String,
    address: String,
    data: String,
    writes: String,
    registers: Vec<String>,
}

/// Identifiers of printable characters, as short as can be.
fn identifier(number: &mut usize) -> String {
    let mut rest = *number;
    *number += 1;
    let mut text = String::new();
    loop {
        text.push(char::from(b'!' + (rest % 94) as u8));
        rest /= 94;
        if rest == 0 {
            return text;
        }
    }
}

/// The digits of a value in base 2, `x` for unknown ones.
fn binary(value: &RegisterValue, bits: u32) -> String {
    let mut text: String = value
        .to_string()
        .chars()
        .map(|digit| match digit.to_digit(16) {
            Some(digit) => format!("{digit:04b}"),
            None => "xxxx".to_owned(),
        })
        .collect();
    if text.len() > bits as usize {
        text = text.split_off(text.len() - bits as usize);
    }
    text
}

/// Writes a dump of a range of instructions.
///
/// # Errors
/// When the recording's file is damaged, or the dump cannot be written.
pub fn write(
    recording: &Recording,
    range: Range<u64>,
    out: &mut impl io::Write,
) -> Result<(), ConvertError> {
    let machine = recording.architecture().map(Machine::of);
    let pointer = machine.map_or(64, |machine| u32::from(machine.pointer_size()) * 8);
    let widths: Vec<u32> = recording
        .register_names()
        .iter()
        .map(|name| {
            let parts = machine.and_then(|machine| machine.locate(name.as_bytes()));
            let bits = parts.map_or(0, |parts| {
                parts.iter().map(|part| u32::from(part.bits)).sum()
            });
            if bits == 0 { 64 } else { bits }
        })
        .collect();
    let times = [
        recording.summary().first_time,
        recording.summary().last_time,
    ];
    let decimals = times
        .iter()
        .flatten()
        .map(|time| time.decimals)
        .max()
        .unwrap_or(0);
    let scale = times
        .iter()
        .flatten()
        .next()
        .map_or(Scale::None, |time| time.scale);
    header(out, exponent(scale) - i32::from(decimals))?;

    let mut number = 0;
    let mut cpus: HashMap<CpuNumber, Signals> = HashMap::new();
    for cpu in &recording.summary().cpus {
        writeln!(out, "$scope module cpu{cpu} $end")?;
        let mut variable = |kind: &str, bits: u32, name: &str| -> io::Result<String> {
            let id = identifier(&mut number);
            // Brackets and blanks mean something else in a dump.
            let name: String = name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
                .collect();
            writeln!(out, "$var {kind} {bits} {id} {name} $end")?;
            Ok(id)
        };
        let signals = Signals {
            counter: variable("wire", pointer, "pc")?,
            opcode: variable("wire", 64, "opcode")?,
            text: variable("string", 1, "disassembly")?,
            address: variable("wire", pointer, "memory_address")?,
            data: variable("wire", 64, "memory_data")?,
            writes: variable("wire", 1, "memory_write")?,
            registers: recording
                .register_names()
                .iter()
                .zip(&widths)
                .map(|(name, bits)| variable("wire", *bits, name))
                .collect::<io::Result<_>>()?,
        };
        writeln!(out, "$upscope $end")?;
        cpus.insert(*cpu, signals);
    }
    writeln!(out, "$enddefinitions $end\n$dumpvars")?;
    for cpu in &recording.summary().cpus {
        let Some(signals) = cpus.get(cpu) else {
            continue;
        };
        for id in [
            &signals.counter,
            &signals.opcode,
            &signals.address,
            &signals.data,
        ]
        .into_iter()
        .chain(&signals.registers)
        {
            writeln!(out, "bx {id}")?;
        }
        writeln!(out, "x{}", signals.writes)?;
    }
    writeln!(out, "$end")?;

    let mut registers = Registers::at(recording, None, InstructionNumber(range.start))?;
    let mut now: Option<u64> = None;
    each(recording, range, |executed| {
        let ticks = ticks(executed.time, decimals);
        // Time never goes back in a dump.
        if now.is_none_or(|now| ticks > now) {
            writeln!(out, "#{ticks}")?;
            now = Some(ticks);
        }
        registers.apply(executed);
        if let Some(signals) = cpus.get(&executed.cpu) {
            step(out, executed, signals, &registers, recording, &widths)?;
        }
        Ok(())
    })
}

fn header(out: &mut impl io::Write, exponent: i32) -> io::Result<()> {
    let exponent = exponent.max(-15);
    let (unit, below) = match exponent {
        -3.. => ("ms", exponent + 3),
        -6..=-4 => ("us", exponent + 6),
        -9..=-7 => ("ns", exponent + 9),
        -12..=-10 => ("ps", exponent + 12),
        _ => ("fs", exponent + 15),
    };
    let count = 10u32.pow(below.unsigned_abs());
    writeln!(
        out,
        "$version Tracewire $end\n$timescale {count} {unit} $end"
    )
}

fn ticks(time: Time, decimals: u8) -> u64 {
    let more = u32::from(decimals.saturating_sub(time.decimals));
    time.ticks.saturating_mul(10u64.saturating_pow(more))
}

fn step(
    out: &mut impl io::Write,
    executed: &Executed,
    signals: &Signals,
    registers: &Registers<'_>,
    recording: &Recording,
    widths: &[u32],
) -> io::Result<()> {
    writeln!(out, "b{:b} {}", executed.address.0, signals.counter)?;
    if let Some(opcode) = executed.code.opcode {
        writeln!(out, "b{:b} {}", opcode.value as u64, signals.opcode)?;
    }
    let text: String = executed
        .code
        .disassembly
        .chars()
        .map(|c| if c.is_ascii_graphic() { c } else { '_' })
        .collect();
    writeln!(out, "s{text} {}", signals.text)?;
    for access in &executed.accesses {
        writeln!(out, "b{:b} {}", access.address.0, signals.address)?;
        writeln!(out, "b{} {}", binary(&access.number, 64), signals.data)?;
        let writes = u8::from(access.kind == AccessKind::Write);
        writeln!(out, "{writes}{}", signals.writes)?;
    }
    for write in &executed.register_writes {
        let at = write.register.0 as usize;
        let (Some(name), Some(id), Some(bits)) = (
            recording.register_names().get(at),
            signals.registers.get(at),
            widths.get(at),
        ) else {
            continue;
        };
        if let Some((_, value)) = registers
            .by_name(write.cpu)
            .find(|(known, _)| **known == **name)
        {
            writeln!(out, "b{} {id}", binary(value, *bits))?;
        }
    }
    Ok(())
}
