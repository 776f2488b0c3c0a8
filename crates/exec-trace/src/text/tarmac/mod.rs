//! Arm's Tarmac, as Fast Models, gem5 and register transfer simulators write it.
//!
//! ```text
//! [<time>[.<part>] [<scale>]] [cpu<N>] IT|IS|IF [(<index>)] <addr>[:<phys>] <opcode> <set> <mode> : <disasm>
//! …                                   IT|IS|IF (<addr>[:<index>]) <opcode> <set> [<mode> :] <disasm>
//! …                                   IT|IS <addr> <opcode> <disasm>
//! …                                   ES (<addr>:<opcode>) <set> <mode>: [CCFAIL] <disasm>
//! …                                   R <register>[ (<bank>)][<hi:lo>] <value>
//! …                                   MR|MW<size>[X|T] [X] <addr>[:<phys>] <data>
//! …                                   R01|R02|R04|R08|W01|W02|W04|W08 <addr>[:<phys>] <data>
//! …                                   LD|ST <addr> <16 bytes>
//! …                                   E|EXC|BR|… <text>
//! ```
//!
//! - A line without a time has that of the line before. The scale may be glued to the number.
//! - An index with a letter, or a zero in front, is hex (simulators of Cortex-M); else it is decimal (Fast Models).
//! - A set of `T16` or `T32` after an index with a colon has no mode (simulators of Cortex-M4), and where the colon
//!   follows the set there is none (of Cortex-R5). An address and a code alone are those of a Cortex-M0, which has no other
//!   set than Thumb.
//! - An opcode of hyphens says that the fetch failed (processors with error correction): nothing was executed.
//! - A diagram shows 16 bytes, the highest address first on every machine; `..` was not touched, `##` is not
//!   known. Lines of a diagram that goes on begin with the address, below the one above.
//! - An access marked `(ABORTED)` did not happen, and is kept as text. So are those of a Cortex-M4's instruction
//!   and peripheral bus (`MNR4O__I`, `MNR4O__A`), a Cortex-M0's fetches (`MR4_I`) and a Cortex-R5's transfers to
//!   coprocessors (`MCW4___R … TRANSFER`); those of a Cortex-M3's or M4's data bus (`…D`, 8 letters) have the lowest address first, unless
//!   the registers that are loaded and stored say otherwise of the trace ([`DataOrderEvidence`](crate::DataOrderEvidence)).
//! - Where the record's time and number are between the type and the address of an access (`MNW4____ (50:a8) …`), they
//!   are passed over.
//! - `x` stands for an unknown digit (models that know of undefined bits), unless it is between words of at
//!   least 8 digits, which it separates.
//! - Words that follow a register's value are notes (flags spelled out), unless they are digits just like the
//!   value's.

mod diagram;
mod instruction;
mod memory;
mod register;

use crate::record::{CpuNumber, Event, EventKind, Record, Scale, Time};
use crate::text::cursor::Cursor;
use crate::text::{Dialect, LineError, LineState};
use crate::value::Notation;

/// The reader.
#[derive(Clone, Copy)]
pub(super) struct Tarmac;

/// When and on which cpu: what is at the start of a line.
#[derive(Clone, Copy)]
struct Head {
    time: Time,
    cpu: Option<CpuNumber>,
}

/// Types of lines that may be without a time and are kept as text.
const TEXT_TYPES: &[&[u8]] = &[
    b"CADI",
    b"P",
    b"CACHE",
    b"TTW",
    b"BR",
    b"INFO_EXCEPTION_REASON",
    b"SIGNAL",
];

const TYPES: &str = "a type of record: IT IS IF ES R MR MW LD ST E EXC or another in capitals";

impl Dialect for Tarmac {
    fn line<'a>(
        &self,
        state: &mut LineState,
        line: &'a [u8],
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) -> Result<(), LineError> {
        if let Some((kind, column)) = state.diagram.take()
            && diagram::goes_on(line, column, kind, state, emit)
        {
            state.diagram = Some((kind, column));
            return Ok(());
        }
        let mut cursor = Cursor::new(line);
        let is_indented = cursor.blanks();
        let time = time(&mut cursor, state.time.scale)?;
        cursor.blanks();
        let head = Head {
            time: time.unwrap_or(state.time),
            cpu: cpu(&mut cursor),
        };
        cursor.blanks();
        let next = LineState {
            time: head.time,
            explicit: time.is_some(),
            ..*state
        };
        let start = cursor.position();
        let text = cursor.rest_trimmed();
        let word = cursor.word_until(|byte| byte == b'(' || byte == b':');
        let event = |kind| {
            Record::Event(Event {
                time: head.time,
                cpu: head.cpu,
                kind,
                text,
            })
        };
        let record = match word {
            b"IT" | b"IS" | b"IF" | b"ES" => {
                instruction::read(&mut cursor, word, head)?.unwrap_or(event(EventKind::Exception))
            }
            b"R" => register::read(&mut cursor, head)?.unwrap_or(event(EventKind::Other)),
            b"LD" | b"ST" => {
                cursor.blanks();
                let column = u32::try_from(cursor.position()).unwrap_or(u32::MAX);
                let kind = diagram::kind(word);
                let whole = diagram::Diagram::read(&mut cursor)?;
                *state = next;
                whole.emit(kind, head, state, emit);
                state.diagram = Some((kind, column));
                return Ok(());
            }
            b"EXC" => event(EventKind::Exception),
            b"E" => event(match text.get(1..).unwrap_or_default().trim_ascii_start() {
                rest if rest.starts_with(b"DebugEvent_") => EventKind::Other,
                _ => EventKind::Exception,
            }),
            b"Tarmac" => event(EventKind::Header),
            _ => match memory::read(&mut cursor, word, head)? {
                memory::Read::Access(access) => Record::Access(access),
                memory::Read::Text => event(EventKind::Other),
                memory::Read::None
                    if is_type(word)
                        && (time.is_some() || is_indented || TEXT_TYPES.contains(&word)) =>
                {
                    event(EventKind::Other)
                }
                memory::Read::None => return Err(cursor.expected_at(start, TYPES)),
            },
        };
        *state = next;
        emit(state, &record);
        Ok(())
    }
}

/// How the digits of a value are written: what an `x` among them is.
fn notation(value: &[u8]) -> Notation {
    let is_x = |byte: &u8| matches!(byte, b'x' | b'X');
    if !value.iter().any(is_x) {
        return Notation::Tarmac;
    }
    let mut words = value.split(|byte| *byte == b'x');
    let first = words.next().unwrap_or_default().len();
    let is_separator =
        !value.contains(&b'X') && first >= 8 && words.all(|word| word.len() == first);
    let is_prefix = value.starts_with(b"0x") && !value.iter().skip(2).any(is_x);
    if is_separator || is_prefix {
        Notation::Tarmac
    } else {
        Notation::Verilog
    }
}

/// Whether a word can be the type of a record: capitals, digits and underscores, a letter first.
fn is_type(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_uppercase)
        && word
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}

/// A time, if the line begins with one. A time without a scale has that of the times before.
fn time(cursor: &mut Cursor<'_>, before: Scale) -> Result<Option<Time>, LineError> {
    const EXPECTED: &str =
        "a time: a decimal number, and perhaps a scale: clk ns ps us ms cs cyc tic";
    let start = cursor.position();
    if !cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let error = |cursor: &Cursor<'_>| cursor.expected_at(start, EXPECTED);
    let mut ticks = cursor.decimal().ok_or_else(|| error(cursor))?;
    let mut decimals = 0u8;
    if cursor.take(b'.') {
        while let Some(digit @ b'0'..=b'9') = cursor.peek() {
            ticks = ticks
                .checked_mul(10)
                .and_then(|ticks| ticks.checked_add(u64::from(digit - b'0')))
                .filter(|_| decimals < 18)
                .ok_or_else(|| error(cursor))?;
            decimals += 1;
            cursor.advance(1);
        }
    }
    let mut ahead = *cursor;
    let is_apart = ahead.blanks();
    let scale = match Scale::of_name(ahead.word()) {
        Some(scale) => {
            *cursor = ahead;
            scale
        }
        None if is_apart => before,
        None => return Err(error(cursor)),
    };
    Ok(Some(Time {
        ticks,
        decimals,
        scale,
    }))
}

/// The cpu, if the line names one: `cpu` and a number.
fn cpu(cursor: &mut Cursor<'_>) -> Option<CpuNumber> {
    let mut ahead = *cursor;
    let mut name = Cursor::new(ahead.word().strip_prefix(b"cpu")?);
    let number = u32::try_from(name.decimal()?).ok()?;
    if !name.rest().is_empty() {
        return None;
    }
    *cursor = ahead;
    Some(CpuNumber(number))
}

/// Skips a second address after a colon, with its security state and, for Thumb instructions that cross a page, the
/// address of the second half after a comma.
fn physical_address(cursor: &mut Cursor<'_>) -> Result<(), LineError> {
    const EXPECTED: &str = "a physical address in hex, perhaps with _S or _NS after it";
    security_suffix(cursor);
    if !cursor.take(b':') {
        return Ok(());
    }
    loop {
        if cursor.hex().is_none() {
            return Err(cursor.expected(EXPECTED));
        }
        security_suffix(cursor);
        if !cursor.take(b',') {
            return Ok(());
        }
    }
}

fn security_suffix(cursor: &mut Cursor<'_>) {
    if cursor.rest().starts_with(b"_NS") {
        cursor.advance(3);
    } else if cursor.rest().starts_with(b"_S") {
        cursor.advance(2);
    }
}
