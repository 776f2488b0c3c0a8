//! Memory accesses drawn as 16 bytes, the highest address first.

use super::Head;
use crate::record::{Access, AccessKind, Address, DataOrder, Record};
use crate::text::cursor::{Cursor, Digits};
use crate::text::{LineError, LineState};
use crate::value::{Notation, Value};

/// How many bytes a diagram shows.
const BYTES: usize = 16;

/// A part of the bytes that was touched.
#[derive(Clone, Copy)]
struct Run<'a> {
    /// How many bytes are before it, which have higher addresses.
    before: u32,
    size: u32,
    data: Value<'a>,
}

/// A diagram: at most every other byte begins a run.
pub(super) struct Diagram<'a> {
    address: Digits,
    runs: [Option<Run<'a>>; BYTES / 2],
}

pub(super) fn kind(word: &[u8]) -> AccessKind {
    if word == b"ST" {
        AccessKind::Write
    } else {
        AccessKind::Read
    }
}

impl<'a> Diagram<'a> {
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, LineError> {
        const EXPECTED: &str =
            "words of 16 bytes in all: two hex digits each, .. if not touched, ## if unknown";
        let Some(address) = cursor.hex() else {
            return Err(cursor.expected("the address in hex, of at most 16 digits"));
        };
        cursor.blank(EXPECTED)?;
        let start = cursor.position();
        let text = cursor.rest();
        let mut diagram = Self {
            address,
            runs: [None; BYTES / 2],
        };
        let mut runs = diagram.runs.iter_mut();
        // The run that goes on: where its text starts, and how many bytes are before it.
        let mut open: Option<(usize, usize)> = None;
        let mut last_end = 0;
        let mut count = 0;
        let close = |open: Option<(usize, usize)>, end: usize, count: usize| {
            let (from, before) = open?;
            let data = Value::parse(text.get(from..end)?, Notation::Tarmac)?;
            Some(Run {
                before: before as u32,
                size: (count - before) as u32,
                data,
            })
        };
        while count < BYTES {
            cursor.blanks();
            let at = cursor.position() - start;
            let error = || cursor.expected_at(start + at, EXPECTED);
            let pair = text.get(at..at + 2).ok_or_else(error)?;
            let is_touched = match pair {
                b".." => false,
                b"##" => true,
                _ if pair.iter().all(u8::is_ascii_hexdigit) => true,
                _ => return Err(error()),
            };
            if is_touched {
                open.get_or_insert((at, count));
            } else if let Some(run) = close(open.take(), last_end, count)
                && let Some(slot) = runs.next()
            {
                *slot = Some(run);
            }
            last_end = at + 2;
            count += 1;
            cursor.advance(2);
        }
        if !cursor.is_at_word_end() {
            return Err(cursor.expected_at(start, EXPECTED));
        }
        if let Some(run) = close(open, last_end, count)
            && let Some(slot) = runs.next()
        {
            *slot = Some(run);
        }
        Ok(diagram)
    }

    /// Emits an access for each part that was touched, the lowest address first.
    pub(super) fn emit(
        &self,
        kind: AccessKind,
        head: Head,
        state: &LineState,
        emit: &mut impl FnMut(&LineState, &Record<'a>),
    ) {
        for run in self.runs.iter().rev().flatten() {
            let offset = BYTES as u64 - u64::from(run.before) - u64::from(run.size);
            emit(
                state,
                &Record::Access(Access {
                    time: head.time,
                    cpu: head.cpu,
                    kind,
                    size: run.size,
                    attribute: None,
                    address: Address(self.address.value.wrapping_add(offset)),
                    address_digits: self.address.count,
                    data: run.data,
                    order: DataOrder::HighestAddressFirst,
                }),
            );
        }
    }
}

/// Reads a line that goes on with the diagram of the line before, and says whether it does: its address is below
/// the one above.
pub(super) fn goes_on<'a>(
    line: &'a [u8],
    column: u32,
    kind: AccessKind,
    state: &mut LineState,
    emit: &mut impl FnMut(&LineState, &Record<'a>),
) -> bool {
    let mut cursor = Cursor::new(line);
    cursor.blanks();
    if cursor.position() == 0 || u32::try_from(cursor.position()) != Ok(column) {
        return false;
    }
    let Ok(diagram) = Diagram::read(&mut cursor) else {
        return false;
    };
    let head = Head {
        time: state.time,
        cpu: None,
    };
    diagram.emit(kind, head, state, emit);
    true
}
