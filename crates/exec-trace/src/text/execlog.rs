//! The text of QEMU's stock plugin `execlog` (`contrib/plugins`), with or without `reg=`.
//!
//! ```text
//! 0, 0xa12, 0xf8012400, "movs r4, #0"
//! 0, 0xa14, 0xf87f42b4, "cmp r4, r6", load, 0x00000004, RAM, r4 -> 0x00000000
//! ```
//!
//! - The number before the disassembly is the first four bytes of the code, whatever its length. It is not an opcode, and none is
//!   given. RISC-V's disassembly has the code before it.
//! - An access has no size and no data. Of a user program its first byte is given, unknown. In a whole machine the address is
//!   the physical one, with the name of the device: it stays text. Memory that the program may write is unavailable in
//!   both cases ([`Format::reports_data`](super::Format::reports_data)).
//! - There is no time.
//! - The registers of a big-endian guest are written with their bytes in reverse. Where the machine is known, the text is transcribed
//!   to one that has them as they are.

use super::cursor::Cursor;
use super::riscv;
use super::stamp::Stamp;
use super::transcriber::Transcribe;
use super::{Dialect, LineError, LineState};
use crate::record::{AccessKind, CpuNumber, EventKind, Instruction, Record};
use crate::value::{Notation, Value};
use tracewire_arch::Opcode;
use tracewire_model::hex;

/// The reader.
#[derive(Clone, Copy)]
pub(super) struct Execlog;

fn number(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<(u64, u8), LineError> {
    let start = cursor.position();
    let digits = match cursor.rest().starts_with(b"0x") {
        true => {
            cursor.advance(2);
            cursor.hex()
        }
        false => None,
    };
    let digits = digits.ok_or_else(|| cursor.expected_at(start, expected))?;
    Ok((digits.value, digits.count))
}

fn comma(cursor: &mut Cursor<'_>) -> Result<(), LineError> {
    if cursor.take(b',') && cursor.blanks() {
        return Ok(());
    }
    Err(cursor.expected("a comma and a blank"))
}

/// The code that RISC-V's disassembly begins with.
fn code(disassembly: &[u8]) -> Option<Opcode> {
    let digits = disassembly
        .iter()
        .take_while(|byte| hex::digit(**byte) <= 15)
        .count();
    let (text, rest) = disassembly.split_at(digits);
    (matches!(digits, 4 | 8) && rest.starts_with(b"  ")).then_some(())?;
    Some(Opcode {
        value: u128::from(hex::number(text)?),
        digits: digits as u8,
    })
}

/// What is after the disassembly: fields between commas.
enum Field<'a> {
    /// Of a user program; the address and its digits.
    Access(AccessKind, u64, u8),
    /// Of a whole machine.
    Physical,
    Register(&'a [u8], Value<'a>),
}

/// Reads the fields and gives each.
fn fields<'a>(cursor: &mut Cursor<'a>, mut give: impl FnMut(Field<'a>)) -> Result<(), LineError> {
    const EXPECTED: &str = "load, store, or a register, `->` and its value";
    while !cursor.is_at_end() {
        comma(cursor)?;
        let start = cursor.position();
        let field = cursor.word_until(|byte| byte == b',');
        let kind = match field {
            b"load" => Some(AccessKind::Read),
            b"store" => Some(AccessKind::Write),
            _ => None,
        };
        if let Some(kind) = kind {
            comma(cursor)?;
            let (address, digits) = number(cursor, "the address in hex, with 0x")?;
            let mut ahead = *cursor;
            // A field that is no access and no register is the name of a device.
            let is_physical = comma(&mut ahead).is_ok() && {
                let device = ahead.rest();
                let end = memchr::memchr(b',', device).unwrap_or(device.len());
                let field = &device[..end];
                !matches!(field, b"load" | b"store")
                    && memchr::memmem::find(field, b" -> ").is_none()
            };
            if is_physical {
                let device = ahead.rest();
                ahead.advance(memchr::memchr(b',', device).unwrap_or(device.len()));
                *cursor = ahead;
                give(Field::Physical);
            } else {
                give(Field::Access(kind, address, digits));
            }
            continue;
        }
        if field.is_empty() || !cursor.blanks() || cursor.word() != b"->" || !cursor.blanks() {
            return Err(cursor.expected_at(start, EXPECTED));
        }
        let value = cursor.word_until(|byte| byte == b',');
        let value = value
            .strip_prefix(b"0x")
            .and_then(|digits| Value::parse(digits, Notation::Plain))
            .ok_or_else(|| cursor.expected_at(start, EXPECTED))?;
        give(Field::Register(field, value));
    }
    Ok(())
}

impl Dialect for Execlog {
    const HAS_TIME: bool = false;

    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        let mut cursor = Cursor::new(line);
        if line == REVERSED {
            emit(state, &Stamp::at(state.time).event(EventKind::Header, line));
            return Ok(());
        }
        let cpu = cursor.decimal().and_then(|cpu| u32::try_from(cpu).ok());
        let cpu = CpuNumber(cpu.ok_or_else(|| cursor.expected("the cpu, a decimal number"))?);
        comma(&mut cursor)?;
        let (address, address_digits) = number(&mut cursor, "the address in hex, with 0x")?;
        comma(&mut cursor)?;
        number(&mut cursor, "the code in hex, with 0x")?;
        comma(&mut cursor)?;
        let quoted = cursor.rest();
        // The disassembly may have quotation marks of its own: the last one before the fields ends it.
        let length = memchr::memrchr(b'"', quoted).filter(|end| *end > 0 && quoted[0] == b'"');
        let Some(length) = length else {
            return Err(cursor.expected("the disassembly between quotation marks"));
        };
        cursor.advance(length + 1);
        let disassembly = quoted[1..length].trim_ascii();
        fields(&mut cursor.clone(), |_| ())?;
        let opcode = code(disassembly);
        let text = match opcode {
            Some(opcode) => &disassembly[usize::from(opcode.digits)..],
            None => disassembly,
        };
        let stamp = Stamp::of_cpu(cpu);
        let instruction = Instruction {
            opcode,
            disassembly: text.trim_ascii(),
            ..stamp.instruction(address, address_digits)
        };
        emit(state, &Record::Instruction(instruction));
        let state: &LineState = state;
        fields(&mut cursor, |field| match field {
            Field::Physical => {}
            Field::Access(kind, address, digits) => {
                let access = stamp.access(kind, 1, (address, digits), riscv::unknown(1));
                emit(state, &access);
            }
            Field::Register(register, value) => emit(state, &stamp.register(register, value)),
        })
    }
}

/// The first line of a transcript whose registers are as they are.
const REVERSED: &[u8] = b"# transcript of an execlog of a big-endian machine";

/// Whether a text begins with a transcript's first line.
pub(super) fn is_reversed(text: &[u8]) -> bool {
    text.starts_with(REVERSED)
}

/// Reverses the bytes of registers.
#[derive(Default)]
pub(super) struct Reversed {
    out: Vec<u8>,
}

impl Transcribe for Reversed {
    fn header(&self) -> &[u8] {
        REVERSED
    }

    fn line(&mut self, line: &[u8]) {
        const SIGN: &[u8] = b" -> 0x";
        // A disassembly may have an arrow of its own.
        let mut at = memchr::memrchr(b'"', line).unwrap_or(line.len());
        self.out.extend_from_slice(&line[..at]);
        while let Some(sign) = memchr::memmem::find(&line[at..], SIGN) {
            let start = at + sign + SIGN.len();
            let digits = &line[start..];
            let length =
                (digits.iter().position(|byte| hex::digit(*byte) > 15)).unwrap_or(digits.len());
            self.out.extend_from_slice(&line[at..start]);
            match digits[..length].as_chunks::<2>() {
                (bytes, []) => bytes.iter().rev().for_each(|byte| self.out.extend(byte)),
                _ => self.out.extend_from_slice(&digits[..length]),
            }
            at = start + length;
        }
        self.out.extend_from_slice(&line[at..]);
        self.out.push(b'\n');
    }

    fn end(&mut self, _: bool) {}

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}
