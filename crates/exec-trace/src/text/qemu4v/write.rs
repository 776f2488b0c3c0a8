//! The writer of QEMU4V's lines, as its documentation has them.

use crate::record::{Access, AccessKind, CpuNumber, Instruction, Record, RegisterWrite, Time};
use crate::value::Value;

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Appends a decimal number.
pub(in crate::text) fn decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a hex number of at least so many digits.
pub(in crate::text) fn hex(out: &mut Vec<u8>, value: u128, digits: u8) {
    let needed = (128 - value.leading_zeros()).div_ceil(4).max(1);
    let digits = u32::from(digits).clamp(needed, 32);
    for place in (0..digits).rev() {
        out.push(LOWER[(value >> (place * 4)) as usize & 15]);
    }
}

/// Appends a value: its digits as they were written, or zeros before them up to `digits`. An unknown digit has no
/// form in QEMU4V: it is written as a zero.
pub(in crate::text) fn value(out: &mut Vec<u8>, value: &Value<'_>, digits: u32) {
    for _ in value.digits()..digits {
        out.push(b'0');
    }
    // One that the zeros make longer than a number is read again as text, of which the letters' case is not kept.
    let keeps_case = value.is_upper() && digits <= 16;
    let alphabet = if keeps_case { UPPER } else { LOWER };
    if let Some(known) = value.known() {
        for place in (0..value.digits()).rev() {
            out.push(alphabet[(known >> (place * 4)) as usize & 15]);
        }
        return;
    }
    let start = out.len();
    out.extend(
        value
            .nibbles()
            .map(|nibble| alphabet[usize::from(nibble.unwrap_or(0) & 15)]),
    );
    out[start..].reverse();
}

/// Appends the time and the scale, which is `clk` where the record has none. A part of a tick is dropped.
fn time(out: &mut Vec<u8>, time: Time) {
    let unit = 10u64.pow(u32::from(time.decimals).min(18));
    decimal(out, time.ticks / unit);
    out.push(b' ');
    out.extend_from_slice(match time.scale.name() {
        "" => b"clk",
        name => name.as_bytes(),
    });
    out.push(b' ');
}

/// Appends an instruction's line and its newline.
///
/// What the format demands and the record lacks is filled in: the cpu is 0, the number is `number`, the opcode is
/// eight zeros, the instruction set A, the mode `svc`.
pub fn write_instruction(out: &mut Vec<u8>, instruction: &Instruction<'_>, number: u64) {
    time(out, instruction.time);
    let CpuNumber(cpu) = instruction.cpu.unwrap_or_default();
    decimal(out, u64::from(cpu));
    out.extend_from_slice(if instruction.taken {
        b" IT ("
    } else {
        b" IS ("
    });
    decimal(out, instruction.id.unwrap_or(number));
    out.extend_from_slice(b") ");
    hex(
        out,
        u128::from(instruction.address.0),
        instruction.address_digits,
    );
    out.push(b' ');
    match instruction.opcode {
        Some(opcode) => hex(out, opcode.value, opcode.digits),
        None => out.extend_from_slice(b"00000000"),
    }
    out.push(b' ');
    out.extend_from_slice(instruction.set.map_or("A", |set| set.name()).as_bytes());
    out.push(b' ');
    out.extend_from_slice(if instruction.mode.is_empty() {
        b"svc"
    } else {
        instruction.mode
    });
    if let Some(security) = instruction.security {
        out.push(b'_');
        out.extend_from_slice(security.name().as_bytes());
    }
    out.extend_from_slice(b" : ");
    out.extend_from_slice(instruction.disassembly);
    out.push(b'\n');
}

/// Appends a memory access's line and its newline. The data has two digits a byte.
pub fn write_access(out: &mut Vec<u8>, access: &Access<'_>) {
    time(out, access.time);
    out.extend_from_slice(match access.kind {
        AccessKind::Read => b"MR",
        AccessKind::Write => b"MW",
    });
    decimal(out, u64::from(access.size));
    if let Some(attribute) = access.attribute {
        out.extend_from_slice(attribute.name().as_bytes());
    }
    out.push(b' ');
    hex(out, u128::from(access.address.0), access.address_digits);
    out.push(b' ');
    value(out, &access.data, access.size.saturating_mul(2));
    out.push(b'\n');
}

/// Appends a register write's line and its newline.
pub fn write_register(out: &mut Vec<u8>, write: &RegisterWrite<'_>) {
    time(out, write.time);
    out.extend_from_slice(b"R ");
    out.extend_from_slice(write.register);
    out.push(b' ');
    value(out, &write.value, 1);
    out.push(b'\n');
}

/// Appends any record's line and its newline. `number` is for instructions that have none of their own. Events have
/// no form in QEMU4V: nothing is written for them, and the answer is false.
pub fn write_record(out: &mut Vec<u8>, record: &Record<'_>, number: u64) -> bool {
    match record {
        Record::Instruction(instruction) => write_instruction(out, instruction, number),
        Record::Access(access) => write_access(out, access),
        Record::Register(write) => write_register(out, write),
        Record::Event(_) => return false,
    }
    true
}
