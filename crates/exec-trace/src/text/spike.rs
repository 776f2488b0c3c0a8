//! Spike, the RISC-V simulator: what `-l` and `--log-commits` write, alone or together.
//!
//! ```text
//! core   0: 0x0000000080000004 (0x34202f73) csrr    t5, mcause
//! core   0: 3 0x0000000080000250 (0x638c) x11 0x0000000080001d68 mem 0x0000000080001d90
//! core   0: 3 0x0000000080001bf4 (0xe11c) mem 0x0000000080002050 0x0000000080002060
//! core   0: exception trap_illegal_instruction, epc 0x000000008000017c
//! core   0:           tval 0x0000000031ff9493
//! core   0: >>>>  trap_vector
//! ```
//!
//! - A line with the privilege (`3`) says what an instruction did. It is the instruction itself, unless the line before it of its
//!   core is the same instruction's disassembly.
//! - A store has its data. A load has its address only: its size is that of its code, and its data are the low bytes of the
//!   register that it wrote. The load of another kind of instruction (of vectors) stays text.
//! - There is no time.

use super::cursor::{Cursor, Digits};
use super::riscv;
use super::stamp::Stamp;
use super::{Dialect, LineError, LineState};
use crate::record::{AccessKind, CpuNumber, EventKind, Instruction, Record};
use crate::value::Value;
use tracewire_arch::Opcode;

/// The reader.
#[derive(Clone, Copy)]
pub(super) struct Spike;

/// `core   0:`.
fn core(cursor: &mut Cursor<'_>) -> Result<CpuNumber, LineError> {
    let start = cursor.position();
    let error = |cursor: &Cursor<'_>| cursor.expected_at(start, "`core`, its number and `:`");
    if cursor.word() != b"core" || !cursor.blanks() {
        return Err(error(cursor));
    }
    let number = cursor.decimal().and_then(|core| u32::try_from(core).ok());
    match number {
        Some(number) if cursor.take(b':') => Ok(CpuNumber(number)),
        _ => Err(error(cursor)),
    }
}

fn hex(cursor: &mut Cursor<'_>, expected: &'static str) -> Result<Digits, LineError> {
    let start = cursor.position();
    if !cursor.rest().starts_with(b"0x") {
        return Err(cursor.expected(expected));
    }
    cursor.advance(2);
    cursor
        .hex()
        .ok_or_else(|| cursor.expected_at(start, expected))
}

fn value<'a>(cursor: &mut Cursor<'a>) -> Result<Value<'a>, LineError> {
    const EXPECTED: &str = "a value in hex, with 0x";
    cursor.blank(EXPECTED)?;
    let start = cursor.position();
    if !cursor.rest().starts_with(b"0x") {
        return Err(cursor.expected(EXPECTED));
    }
    cursor.advance(2);
    let value = cursor.plain_value();
    value
        .filter(|_| cursor.is_at_word_end())
        .ok_or_else(|| cursor.expected_at(start, EXPECTED))
}

impl Dialect for Spike {
    const HAS_TIME: bool = false;

    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        let mut cursor = Cursor::new(line);
        let cpu = core(&mut cursor)?;
        let stamp = Stamp::of_cpu(cpu);
        cursor.blank("an address, a privilege or a word")?;
        let text = cursor.rest_trimmed();
        let start = cursor.position();
        let privilege = match cursor.peek() {
            Some(b'0'..=b'3') if !cursor.rest().starts_with(b"0x") => {
                let privilege = cursor.word();
                cursor.blank("the address in hex, with 0x")?;
                Some(privilege)
            }
            _ => None,
        };
        if !cursor.rest().starts_with(b"0x") {
            let kind = match text {
                _ if privilege.is_some() => {
                    return Err(cursor.expected("the address in hex, with 0x"));
                }
                [b'>', b'>', ..] => EventKind::Other,
                _ if text.starts_with(b"exception ") => EventKind::Exception,
                _ if text.starts_with(b"tval ") => EventKind::Other,
                _ => return Err(cursor.expected_at(start, "an address, a privilege or a word")),
            };
            state.listed = None;
            emit(state, &stamp.event(kind, text));
            return Ok(());
        }
        let address = hex(&mut cursor, "the address in hex, with 0x")?;
        cursor.blank("the code in parentheses")?;
        if !cursor.take(b'(') {
            return Err(cursor.expected("the code in parentheses"));
        }
        let code = hex(&mut cursor, "the code in hex, with 0x")?;
        if !cursor.take(b')') {
            return Err(cursor.expected("`)` after the code"));
        }
        // `-l` writes at least 8 digits; the code itself says how long it is.
        let digits = match code.value & 3 {
            3 => code.count.max(8),
            _ => 4,
        };
        let mut instruction = Instruction {
            opcode: Some(Opcode {
                value: u128::from(code.value),
                digits,
            }),
            ..stamp.instruction(address.value, address.count)
        };
        let key = (cpu.0, address.value, code.value);
        let Some(privilege) = privilege else {
            instruction.disassembly = cursor.rest_trimmed();
            state.listed = Some(key);
            emit(state, &Record::Instruction(instruction));
            return Ok(());
        };
        instruction.mode = match privilege {
            b"0" => b"U",
            b"1" => b"S",
            b"2" => b"H",
            b"3" => b"M",
            _ => return Err(cursor.expected_at(start, "a privilege, from 0 to 3")),
        };
        let commit = Commit::read(&mut cursor.clone(), &mut |_| ())?;
        if state.listed.take() != Some(key) {
            emit(state, &Record::Instruction(instruction));
        }
        let access = riscv::access(code.value, digits, address.count > 8);
        let state: &LineState = state;
        Commit::read(&mut cursor, &mut |effect| match effect {
            Effect::Register(register, value) => emit(state, &stamp.register(register, value)),
            Effect::Load(address) => {
                let Some(size) = access
                    .filter(|access| access.kind == AccessKind::Read)
                    .map(|access| access.size)
                    .or_else(|| amo_size(code.value, digits))
                else {
                    return;
                };
                let data = riscv::low(commit.loaded.filter(|_| commit.registers == 1), size);
                emit(
                    state,
                    &stamp.access(AccessKind::Read, size, place(address), data),
                );
            }
            Effect::Store(address, data) => {
                let size = data.size();
                emit(
                    state,
                    &stamp.access(AccessKind::Write, size, place(address), data),
                );
            }
        })?;
        Ok(())
    }
}

const fn place(address: Digits) -> (u64, u8) {
    (address.value, address.count)
}

/// The size of an atomic instruction's load, whose value goes to the register.
fn amo_size(code: u64, digits: u8) -> Option<u32> {
    let width = code >> 12 & 7;
    (digits == 8 && code & 0x7f == 0x2f && width < 4).then_some(1 << width)
}

enum Effect<'a> {
    Register(&'a [u8], Value<'a>),
    Load(Digits),
    Store(Digits, Value<'a>),
}

/// What an instruction did, in sum.
#[derive(Default)]
struct Commit {
    /// How many general registers and registers of floating point it wrote, and the latest value.
    registers: u32,
    loaded: Option<u64>,
}

impl Commit {
    /// Reads what follows the code.
    fn read<'a>(
        cursor: &mut Cursor<'a>,
        give: &mut impl FnMut(Effect<'a>),
    ) -> Result<Self, LineError> {
        let mut commit = Self::default();
        while !cursor.is_at_end() {
            let start = cursor.position();
            let word = cursor.word();
            match word {
                b"mem" => {
                    cursor.blank("the address in hex, with 0x")?;
                    let address = hex(cursor, "the address in hex, with 0x")?;
                    let mut ahead = *cursor;
                    ahead.blanks();
                    if ahead.rest().starts_with(b"0x") {
                        give(Effect::Store(address, value(cursor)?));
                    } else {
                        give(Effect::Load(address));
                    }
                }
                // The state of vectors, without a value.
                [b'e' | b'm' | b'l', rest @ ..] if is_setting(rest) => {}
                [kind @ (b'x' | b'f' | b'v' | b'c'), rest @ ..] => {
                    // Old versions have a blank before a number of one digit.
                    let mut name = word;
                    if rest.is_empty() {
                        cursor.blanks();
                        name = cursor.word();
                    }
                    let value = value(cursor)?;
                    if matches!(kind, b'x' | b'f') {
                        commit.registers += 1;
                        commit.loaded = value.known();
                    }
                    if let Some(name) = register(*kind, name) {
                        give(Effect::Register(name, value));
                    } else {
                        return Err(cursor.expected_at(start, "a register, such as x10"));
                    }
                }
                _ => return Err(cursor.expected_at(start, "a register, or mem")),
            }
        }
        Ok(commit)
    }
}

fn is_setting(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b"f").unwrap_or(rest);
    !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)
}

/// The name of a register: `x10`, `f8`, `v4`, `c768_mstatus`.
fn register(kind: u8, name: &[u8]) -> Option<&[u8]> {
    macro_rules! names {
        ($($name:literal)*) => { &[$($name.as_bytes()),*] };
    }
    const GENERAL: &[&[u8]; 32] = names!(
        "x0" "x1" "x2" "x3" "x4" "x5" "x6" "x7" "x8" "x9" "x10" "x11" "x12" "x13" "x14" "x15"
        "x16" "x17" "x18" "x19" "x20" "x21" "x22" "x23" "x24" "x25" "x26" "x27" "x28" "x29" "x30" "x31"
    );
    const FLOATING: &[&[u8]; 32] = names!(
        "f0" "f1" "f2" "f3" "f4" "f5" "f6" "f7" "f8" "f9" "f10" "f11" "f12" "f13" "f14" "f15"
        "f16" "f17" "f18" "f19" "f20" "f21" "f22" "f23" "f24" "f25" "f26" "f27" "f28" "f29" "f30" "f31"
    );
    let digits = match name {
        [first, rest @ ..] if *first == kind => rest,
        rest => rest,
    };
    match kind {
        b'c' => {
            let underscore = memchr::memchr(b'_', digits)?;
            digits.get(underscore + 1..).filter(|name| !name.is_empty())
        }
        b'v' => Some(name).filter(|_| digits.iter().all(u8::is_ascii_digit)),
        _ => {
            let number = match digits {
                [ones @ b'0'..=b'9'] => usize::from(ones - b'0'),
                [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
                    usize::from(tens - b'0') * 10 + usize::from(ones - b'0')
                }
                _ => return None,
            };
            match kind {
                b'x' => GENERAL.get(number).copied(),
                _ => FLOATING.get(number).copied(),
            }
        }
    }
}
