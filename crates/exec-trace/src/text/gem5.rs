//! gem5's `Exec` and `ExecAll`.
//!
//! ```text
//! 2457000: system.cpu: A0 T0 : 0x6220 @_malloc_r+640    :   adrp   x1, #73728   : IntAlu :  D=0x0000000000018000  flags=(IsInteger)
//! 2457000: system.cpu: A0 T0 : 0x6224 @_malloc_r+644    : stp
//! 2457000: system.cpu: A0 T0 : 0x6224 @_malloc_r+644. 0 :   addi_uop   sp, sp, #-32 : IntAlu :  D=0x…
//! 2457000: system.cpu: A0 T0 : 0x6224 @_malloc_r+644. 1 :   strxi_uop   x19, [ureg0] : MemWrite :  D=0x… A=0x7ffe40
//! ```
//!
//! - Micro-operations belong to their instruction, whose line may be before them; else the first of them is it.
//! - `D=` is a result, and the line does not say of which register: registers are unavailable.
//! - `A=` is an access without its size: its first byte is given, unknown. Memory that the program may write is unavailable.
//! - There is no code. The number after `system.cpu` is the cpu; the time counts ticks.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::cursor::Cursor;
use super::riscv;
use super::stamp::Stamp;
use super::{Dialect, LineError, LineState};
use crate::record::{AccessKind, CpuNumber, Event, EventKind, Instruction, Record, Scale, Time};

// To prepare a search takes longer than to search a line.
static NOT_TAKEN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"Predicated False"));
static STORES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"IsStore"));
static LOADS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"IsLoad"));

/// The reader.
#[derive(Clone, Copy)]
pub(super) struct Gem5;

/// The number at the end of a cpu's name: of the part that has `cpu` in it.
fn cpu_number(name: &[u8]) -> Option<CpuNumber> {
    let part = name
        .split(|byte| *byte == b'.')
        .find(|part| part.windows(3).any(|letters| letters == b"cpu"))?;
    let digits = part
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let digits = std::str::from_utf8(&part[part.len() - digits..]).ok()?;
    match digits {
        "" => Some(CpuNumber(0)),
        digits => digits.parse().ok().map(CpuNumber),
    }
}

/// The places of ` : ` in a text.
pub(crate) fn separators(text: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    memchr::memchr_iter(b':', text).filter_map(|colon| {
        let start = colon.checked_sub(1)?;
        (text.get(start..colon + 2)? == b" : ").then_some(start)
    })
}

/// A field of the end of a line, such as `A=0x7ffe40`.
fn field(text: &[u8], name: &[u8; 4]) -> Option<(u64, u8)> {
    let at = memchr::memmem::rfind(text, name)?;
    (at > 0 && text[at - 1] == b' ').then_some(())?;
    let mut cursor = Cursor::new(text.get(at + name.len()..)?);
    let digits = cursor.hex()?;
    Some((digits.value, digits.count))
}

impl Dialect for Gem5 {
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        let mut cursor = Cursor::new(line);
        cursor.blanks();
        let ticks = cursor
            .decimal()
            .ok_or_else(|| cursor.expected("the tick, a decimal number"))?;
        if !cursor.take(b':') || !cursor.blanks() {
            return Err(cursor.expected("`:` after the tick"));
        }
        let text = cursor.rest_trimmed();
        let start = cursor.position();
        let name = cursor.word_until(|byte| byte == b':');
        let cpu = cpu_number(name).ok_or_else(|| cursor.expected_at(start, "the name of a cpu"))?;
        let is_named = cursor.take(b':') && cursor.blanks();
        if !is_named {
            return Err(cursor.expected("`:` after the cpu's name"));
        }
        let time = Time::whole(ticks, Scale::Ticks);
        let next = LineState {
            time,
            explicit: true,
            ..*state
        };
        // Threads and address spaces.
        let mut head = cursor;
        loop {
            let mut ahead = head;
            match ahead.word() {
                [b'A' | b'T', rest @ ..]
                    if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {}
                b":" => {}
                _ => break,
            }
            ahead.blanks();
            head = ahead;
        }
        let address = head.rest().strip_prefix(b"0x").and_then(|_| {
            head.advance(2);
            head.hex().filter(|_| head.is_at_word_end())
        });
        let Some(address) = address else {
            // What other parts of the simulator write with the same name.
            *state = next;
            let event = Event {
                time,
                cpu: Some(cpu),
                kind: EventKind::Other,
                text,
            };
            emit(state, &Record::Event(event));
            return Ok(());
        };
        let rest = head.rest();
        let Some(colon) = separators(rest)
            .next()
            .or_else(|| rest.ends_with(b" :").then(|| rest.len() - 2))
        else {
            return Err(head.expected("` : ` and the disassembly"));
        };
        let symbol = rest[..colon].trim_ascii_end();
        let micro = micro_operation(symbol);
        let rest = rest.get(colon + 3..).unwrap_or_default();
        // The class is after the last colons; a disassembly may have some of its own.
        let end = separators(rest).find(|at| is_class(&rest[at + 3..]));
        let (mut disassembly, results) = match end {
            Some(end) => (&rest[..end], &rest[end + 3..]),
            None => (rest, &rest[rest.len()..]),
        };
        // A micro-operation has its instruction's name before its own.
        disassembly = disassembly.trim_ascii();
        let key = (cpu.0, address.value, 0);
        let is_own = match micro {
            None => true,
            Some(_) if state.listed == Some(key) => false,
            Some(number) => number == 0,
        };
        *state = next;
        state.listed = Some(key);
        let state: &LineState = state;
        let stamp = Stamp {
            time,
            cpu: Some(cpu),
        };
        if is_own {
            let instruction = Instruction {
                taken: NOT_TAKEN.find(results).is_none(),
                disassembly,
                ..stamp.instruction(address.value, address.count)
            };
            emit(state, &Record::Instruction(instruction));
        }
        let class = results
            .split(|byte| *byte == b' ')
            .next()
            .unwrap_or_default();
        let kind = match class {
            _ if class.ends_with(b"MemRead") => Some(AccessKind::Read),
            _ if class.ends_with(b"MemWrite") => Some(AccessKind::Write),
            _ if STORES.find(results).is_some() => Some(AccessKind::Write),
            _ if LOADS.find(results).is_some() => Some(AccessKind::Read),
            _ => None,
        };
        if let (Some(kind), Some(accessed)) = (kind, field(results, b"A=0x")) {
            emit(state, &stamp.access(kind, 1, accessed, riscv::unknown(1)));
        }
        if !is_own && kind.is_none() {
            emit(state, &stamp.event(EventKind::Other, text));
        }
        Ok(())
    }
}

/// The number of a micro-operation: after a point, in two columns.
fn micro_operation(symbol: &[u8]) -> Option<u32> {
    let point = memchr::memrchr(b'.', symbol)?;
    let digits = std::str::from_utf8(symbol.get(point + 1..)?).ok()?;
    digits.trim().parse().ok()
}

/// Whether a text begins with the class of an operation, and ` : ` or the end after it.
fn is_class(text: &[u8]) -> bool {
    let word = text
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    let is_name = text.first().is_some_and(u8::is_ascii_uppercase) && word >= 4;
    let rest = text[word..].trim_ascii_start();
    is_name && (rest.is_empty() || rest.starts_with(b":"))
}
