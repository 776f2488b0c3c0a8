//! The tracers of RISC-V cores that follow RVFI: Ibex and the CV32E40 family.
//!
//! ```text
//! Time  Cycle  PC  Insn  [Ctx]  Decoded instruction  Register and memory contents
//!        262  126 00000e36 04812083 M lw   x1, 72(x2)   x1=0x00000f2a  x2:0x00000ff0 PA:0x00001038
//! ```
//!
//! Between the columns are tabs or blanks. `=` is before a value that is written, `:` before one that is read; `0x` may be
//! missing. What the line says of memory are its address, and the register that was loaded or stored: the size is that of the
//! code, the data are that register's low bytes, or unknown where the line does not show it. The store of an instruction
//! that is not in the standard sets has an unknown word.

use std::ops::Range;

use super::cursor::Cursor;
use super::riscv;
use super::stamp::Stamp;
use super::{Dialect, LineError, LineState};
use crate::record::{AccessKind, EventKind, Instruction, Record, Scale, Time};
use crate::value::{Notation, Value};
use tracewire_arch::Opcode;
use tracewire_model::hex;

/// The reader.
#[derive(Clone, Copy)]
pub(super) struct Rvfi;

/// Whether a line is the one that names the columns.
pub(super) fn is_header(line: &[u8]) -> bool {
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    words.next() == Some(b"Time")
        && matches!(words.next(), Some(b"Cycle" | b"Cycles"))
        && words.next() == Some(b"PC")
}

/// A word of the last column.
enum Content<'a> {
    Written(&'a [u8], Value<'a>),
    Read(&'a [u8], Value<'a>),
    Address(u64),
    /// The data of the bus, which are those of a register too.
    Data {
        is_store: bool,
    },
}

fn content(word: &[u8]) -> Option<Content<'_>> {
    let sign = word.iter().position(|byte| matches!(byte, b'=' | b':'))?;
    let (name, rest) = word.split_at(sign);
    let digits = &rest[1..];
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    // Nearly all are known, and short.
    let mut plain = Cursor::new(digits);
    let value = match plain.plain_value() {
        Some(value) if plain.is_at_end() => value,
        _ => Value::parse(digits, Notation::Verilog)?,
    };
    if value.digits() < 4 {
        return None;
    }
    let is_register = matches!(name, [b'x' | b'f', ones] if ones.is_ascii_digit())
        || matches!(name, [b'x' | b'f', tens, ones] if tens.is_ascii_digit() && ones.is_ascii_digit());
    Some(match (name, rest[0]) {
        (_, b'=') if is_register => Content::Written(name, value),
        (_, _) if is_register => Content::Read(name, value),
        (b"PA", b':') => Content::Address(value.known()?),
        (b"store", b':') => Content::Data { is_store: true },
        (b"load", b':') => Content::Data { is_store: false },
        _ => return None,
    })
}

/// Where the first word about a register or memory is, and what it says.
fn first_content(text: &[u8]) -> Option<(Range<usize>, Content<'_>)> {
    let is_blank = |byte: &u8| super::cursor::is_blank(*byte);
    let mut from = 0;
    // Such a word has a sign in it, which few words of a disassembly have.
    while let Some(sign) = memchr::memchr2(b'=', b':', &text[from..]) {
        let sign = from + sign;
        let before = text[from..sign].iter().rposition(is_blank);
        let start = before.map_or(from, |blank| from + blank + 1);
        let length = text[sign..].iter().position(is_blank);
        let end = length.map_or(text.len(), |length| sign + length);
        if let Some(content) = content(&text[start..end]) {
            return Some((start..end, content));
        }
        from = end;
    }
    None
}

/// The words of a text.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| super::cursor::is_blank(*byte))
        .filter(|word| !word.is_empty())
}

impl Dialect for Rvfi {
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        let mut cursor = Cursor::new(line);
        if line.trim_ascii_start().starts_with(b"Time") && is_header(line) {
            emit(state, &Stamp::at(state.time).event(EventKind::Header, line));
            return Ok(());
        }
        cursor.blanks();
        let ticks = cursor
            .decimal()
            .ok_or_else(|| cursor.expected("the time, a decimal number"))?;
        let mut ahead = cursor;
        ahead.blanks();
        let mut scale = Scale::None;
        if let Some(named) = Scale::of_name(ahead.word()) {
            (scale, cursor) = (named, ahead);
        }
        cursor.blank("the cycle, a decimal number")?;
        if cursor.decimal().is_none() {
            return Err(cursor.expected("the cycle, a decimal number"));
        }
        cursor.blank("the address in hex")?;
        let address = cursor
            .hex()
            .filter(|address| address.count == 8 || address.count == 16)
            .ok_or_else(|| cursor.expected("the address in hex, of 8 or 16 digits"))?;
        cursor.blank("the code in hex")?;
        let code = cursor
            .hex()
            .filter(|code| code.count == 4 || code.count == 8)
            .ok_or_else(|| cursor.expected("the code in hex, of 4 or 8 digits"))?;
        if !cursor.is_at_word_end() {
            return Err(cursor.expected("a blank after the code"));
        }
        cursor.blanks();
        let mut ahead = cursor;
        let mut mode: &[u8] = b"";
        if matches!(ahead.word(), b"M" | b"S" | b"U" | b"D") && ahead.blanks() {
            mode = &cursor.rest()[..1];
            cursor = ahead;
        }
        // Old versions fill a code of 16 bits up to 32.
        let digits = match code.value & 3 {
            3 => code.count,
            _ => 4,
        };
        let text = cursor.rest_trimmed();
        let first = first_content(text);
        let (disassembly, others, first) = match first {
            Some((place, first)) => (&text[..place.start], &text[place.end..], Some(first)),
            None => (text, &text[..0], None),
        };
        state.time = Time::whole(ticks, scale);
        state.explicit = true;
        let state: &LineState = state;
        let stamp = Stamp::at(state.time);
        let instruction = Instruction {
            opcode: Some(Opcode {
                value: u128::from(code.value & (u64::MAX >> (64 - u32::from(digits) * 4))),
                digits,
            }),
            mode,
            disassembly: disassembly.trim_ascii_end(),
            ..stamp.instruction(address.value, address.count)
        };
        emit(state, &Record::Instruction(instruction));
        let access = riscv::access(code.value, digits, address.count > 8);
        let mut data = None;
        let mut accessed = None;
        let mut is_store = false;
        // The register of the access by its name: two of a line may have one name, read and written.
        let is_of_access = |name: &[u8], of: AccessKind| {
            access
                .filter(|access| access.kind == of)
                .is_some_and(|access| {
                    let kind = if access.register.0 { b'f' } else { b'x' };
                    name.first() == Some(&kind)
                        && name.get(1..).and_then(decimal) == Some(access.register.1)
                })
        };
        let others = words(others).filter_map(content);
        for content in first.into_iter().chain(others) {
            match content {
                Content::Written(name, value) => {
                    if is_of_access(name, AccessKind::Read) {
                        data = value.known();
                    }
                    emit(state, &stamp.register(name, value));
                }
                Content::Read(name, value) if is_of_access(name, AccessKind::Write) => {
                    data = value.known();
                }
                Content::Read(..) => {}
                Content::Address(address) => accessed = Some(address),
                Content::Data { is_store: store } => is_store |= store,
            }
        }
        let Some(accessed) = accessed else {
            return Ok(());
        };
        let mut memory = |kind, size, data| {
            let place = (accessed, address.count);
            emit(state, &stamp.access(kind, size, place, data));
        };
        match access {
            Some(access) => {
                // The register that is always zero is not shown.
                let is_zero = access.kind == AccessKind::Write && access.register == (false, 0);
                let data = data.or(is_zero.then_some(0));
                memory(access.kind, access.size, riscv::low(data, access.size));
            }
            // A load of unknown size changes nothing.
            None if is_store || is_atomic(code.value) => {
                memory(AccessKind::Write, 4, riscv::unknown(4));
            }
            None => {}
        }
        Ok(())
    }
}

const fn is_atomic(code: u64) -> bool {
    code & 0x7f == 0x2f
}

fn decimal(digits: &[u8]) -> Option<u8> {
    hex::number(digits).filter(|_| digits.iter().all(u8::is_ascii_digit))?;
    digits.iter().try_fold(0u8, |value, digit| {
        value.checked_mul(10)?.checked_add(digit - b'0')
    })
}
