//! The reader of QEMU4V's lines, which are MicroTESK's too.

use crate::record::{
    Access, AccessAttribute, AccessKind, Address, CpuNumber, DataOrder, Instruction, Record,
    RegisterWrite, Scale, Security, Time,
};
use crate::text::cursor::Cursor;
use crate::text::{Dialect, LineError, LineState};
use crate::value::{MAX_DIGITS, Value};
use tracewire_arch::{InstructionSet, Opcode};

/// The reader.
#[derive(Clone, Copy)]
pub(in crate::text) struct Qemu4v {
    /// Whether a hyphen may be in the place of an opcode, a set or a mode that the producer does not give.
    may_lack: bool,
}

impl Qemu4v {
    /// QEMU4V as its documentation has it.
    pub(in crate::text) const STRICT: Self = Self { may_lack: false };
    /// With hyphens for what is not known.
    pub(in crate::text) const LACKING: Self = Self { may_lack: true };
}

impl Dialect for Qemu4v {
    #[inline]
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        let mut cursor = Cursor::new(line);
        cursor.blanks();
        let Some(ticks) = cursor.decimal() else {
            return Err(cursor.expected("the time, a decimal number"));
        };
        cursor.blank("the scale, such as clk")?;
        let start = cursor.position();
        let Some(scale) = Scale::of_name(cursor.word()) else {
            return Err(cursor.expected_at(start, "a scale: clk ns ps us ms cs cyc tic"));
        };
        let time = Time::whole(ticks, scale);
        cursor.blank("a cpu number, MR, MW or R")?;
        let record = match cursor.peek() {
            Some(b'0'..=b'9') => {
                Record::Instruction(instruction(&mut cursor, time, self.may_lack)?)
            }
            Some(b'M') => Record::Access(access(&mut cursor, time)?),
            Some(b'R') => Record::Register(register(&mut cursor, time)?),
            _ => return Err(cursor.expected("a cpu number, MR, MW or R")),
        };
        state.time = time;
        state.explicit = true;
        emit(state, &record);
        Ok(())
    }
}

#[inline]
fn instruction<'a>(
    cursor: &mut Cursor<'a>,
    time: Time,
    may_lack: bool,
) -> Result<Instruction<'a>, LineError> {
    let start = cursor.position();
    let cpu = cursor
        .decimal()
        .and_then(|cpu| u32::try_from(cpu).ok())
        .ok_or_else(|| cursor.expected_at(start, "the cpu, a decimal number of 32 bits"))?;
    cursor.blank("IT or IS")?;
    let start = cursor.position();
    let taken = match cursor.word() {
        b"IT" => true,
        b"IS" => false,
        _ => return Err(cursor.expected_at(start, "IT or IS")),
    };
    cursor.blank("the instruction's number in parentheses")?;
    if !cursor.take(b'(') {
        return Err(cursor.expected("the instruction's number in parentheses"));
    }
    let Some(id) = cursor.decimal() else {
        return Err(cursor.expected("the instruction's number, decimal"));
    };
    if !cursor.take(b')') {
        return Err(cursor.expected("`)` after the instruction's number"));
    }
    cursor.blank("the address in hex")?;
    let Some(address) = cursor.hex() else {
        return Err(cursor.expected("the address in hex, of at most 16 digits"));
    };
    cursor.blank("the opcode in hex")?;
    let opcode = match may_lack && cursor.take(b'-') {
        true => None,
        false => Some(opcode(cursor)?),
    };
    cursor.blank("the instruction set: A, T or X")?;
    // Set, mode and security, then the colon. The set is the only one of them that can be before another.
    let start = cursor.position();
    let word = cursor.word();
    let set = InstructionSet::of_name(word);
    if set.is_none() && !(may_lack && word == b"-") {
        return Err(cursor.expected_at(start, "the instruction set: A, T or X"));
    }
    cursor.blank("the mode, such as svc or usr_ns")?;
    let start = cursor.position();
    let (mode, security) = mode(cursor.word_until(|byte| byte == b':'));
    if mode.is_empty() {
        return Err(cursor.expected_at(start, "the mode, such as svc or usr_ns"));
    }
    let mode = match mode {
        b"-" if may_lack => b"",
        mode => mode,
    };
    cursor.blanks();
    if !cursor.take(b':') {
        return Err(cursor.expected("`:` before the disassembly"));
    }
    Ok(Instruction {
        time,
        cpu: Some(CpuNumber(cpu)),
        taken,
        id: Some(id),
        address: Address(address.value),
        address_digits: address.count,
        opcode,
        set,
        mode,
        security,
        disassembly: cursor.rest_trimmed(),
    })
}

/// The code of an instruction. x86 has instructions of up to 15 bytes, so that 32 digits are read.
#[inline]
pub(in crate::text) fn opcode(cursor: &mut Cursor<'_>) -> Result<Opcode, LineError> {
    let start = cursor.position();
    let Some(value) = cursor.plain_value() else {
        return Err(cursor.expected("the opcode in hex"));
    };
    if let Some(number) = value.known() {
        return Ok(Opcode {
            value: u128::from(number),
            digits: value.digits() as u8,
        });
    }
    let mut number = 0u128;
    let mut digits = 0u8;
    for (nibble, shift) in value.nibbles().zip((0..128).step_by(4)) {
        number |= u128::from(nibble.unwrap_or(0)) << shift;
        digits += 1;
    }
    if u32::from(digits) < value.digits() {
        return Err(cursor.expected_at(start, "an opcode of at most 32 digits"));
    }
    Ok(Opcode {
        value: number,
        digits,
    })
}

/// Parts a mode from the security state after it.
#[inline]
pub(in crate::text) fn mode(word: &[u8]) -> (&[u8], Option<Security>) {
    match word {
        [mode @ .., b'_', b'n', b's'] => (mode, Some(Security::NonSecure)),
        [mode @ .., b'_', b's'] => (mode, Some(Security::Secure)),
        mode => (mode, None),
    }
}

#[inline]
fn access<'a>(cursor: &mut Cursor<'a>, time: Time) -> Result<Access<'a>, LineError> {
    let start = cursor.position();
    cursor.advance(1);
    let kind = if cursor.take(b'R') {
        AccessKind::Read
    } else if cursor.take(b'W') {
        AccessKind::Write
    } else {
        return Err(cursor.expected_at(start, "MR or MW and a size, such as MR4"));
    };
    let size = cursor
        .decimal()
        .and_then(|size| u32::try_from(size).ok())
        .filter(|size| (1..=MAX_DIGITS / 2).contains(size))
        .ok_or_else(|| cursor.expected_at(start, "a size from 1 to 2048 after MR or MW"))?;
    let attribute = if cursor.take(b'X') {
        Some(AccessAttribute::X)
    } else if cursor.take(b'T') {
        Some(AccessAttribute::T)
    } else {
        None
    };
    if !cursor.blanks() {
        return Err(cursor.expected_at(start, "MR or MW, a size, and nothing, X or T after it"));
    }
    let Some(address) = cursor.hex() else {
        return Err(cursor.expected("the address in hex, of at most 16 digits"));
    };
    cursor.blank("the data in hex")?;
    let start = cursor.position();
    let Some(data) = cursor.plain_value() else {
        return Err(cursor.expected("the data in hex"));
    };
    // At most the bytes of the size; never zero digits.
    if data.digits() > size * 2 {
        return Err(cursor.expected_at(start, "data of at most two hex digits a byte"));
    }
    end(cursor)?;
    Ok(Access {
        time,
        cpu: None,
        kind,
        size,
        attribute,
        address: Address(address.value),
        address_digits: address.count,
        data,
        order: DataOrder::Number,
    })
}

#[inline]
fn register<'a>(cursor: &mut Cursor<'a>, time: Time) -> Result<RegisterWrite<'a>, LineError> {
    let start = cursor.position();
    cursor.advance(1);
    if !cursor.blanks() {
        return Err(cursor.expected_at(start, "a cpu number, MR, MW or R"));
    }
    let register = cursor.word();
    if register.is_empty() {
        return Err(cursor.expected("the register's name"));
    }
    cursor.blank("the register's value in hex")?;
    let Some(value): Option<Value<'a>> = cursor.plain_value() else {
        return Err(cursor.expected("the register's value in hex"));
    };
    end(cursor)?;
    Ok(RegisterWrite {
        time,
        cpu: None,
        register,
        part: None,
        value,
    })
}

#[inline]
fn end(cursor: &mut Cursor<'_>) -> Result<(), LineError> {
    if cursor.is_at_end() {
        Ok(())
    } else {
        Err(cursor.expected("the end of the line"))
    }
}
