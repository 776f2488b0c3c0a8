//! Memory accesses that are one number.

use super::{Head, notation, physical_address};
use crate::record::{Access, AccessAttribute, AccessKind, Address, DataOrder};
use crate::text::LineError;
use crate::text::cursor::Cursor;
use crate::value::{MAX_DIGITS, Value};

/// What a line turned out to be.
pub(super) enum Read<'a> {
    Access(Access<'a>),
    /// About memory, but no access that happened: kept as text.
    Text,
    /// Another type of record.
    None,
}

/// What the type of the record says.
struct Shape {
    kind: AccessKind,
    size: Option<u32>,
    attribute: Option<AccessAttribute>,
    order: DataOrder,
}

/// `R04` and the like; or `M`, and in any order R or W, a size, X, T and letters that only their producer knows.
fn shape(word: &[u8]) -> Option<Shape> {
    let mut shape = Shape {
        kind: AccessKind::Read,
        size: None,
        attribute: None,
        order: DataOrder::Number,
    };
    let letters = match word {
        [b'R', b'0', size @ (b'1' | b'2' | b'4' | b'8')]
        | [b'W', b'0', size @ (b'1' | b'2' | b'4' | b'8')] => {
            if word.first() == Some(&b'W') {
                shape.kind = AccessKind::Write;
            }
            shape.size = Some(u32::from(size - b'0'));
            return Some(shape);
        }
        [b'M', letters @ ..] => letters,
        _ => return None,
    };
    let mut kind = None;
    let mut cursor = Cursor::new(letters);
    while let Some(byte) = cursor.peek() {
        match byte {
            b'R' if kind.is_none() => kind = Some(AccessKind::Read),
            b'W' if kind.is_none() => kind = Some(AccessKind::Write),
            b'0'..=b'9' if shape.size.is_none() => {
                let size = cursor.decimal().and_then(|size| u32::try_from(size).ok())?;
                shape.size = Some(size);
                continue;
            }
            b'X' => shape.attribute = Some(AccessAttribute::X),
            b'T' => shape.attribute = Some(AccessAttribute::T),
            b'A'..=b'Z' | b'_' => {}
            _ => return None,
        }
        cursor.advance(1);
    }
    shape.kind = kind?;
    Some(shape)
}

pub(super) fn read<'a>(
    cursor: &mut Cursor<'a>,
    word: &'a [u8],
    head: Head,
) -> Result<Read<'a>, LineError> {
    let Some(mut shape) = shape(word) else {
        return Ok(Read::None);
    };
    match word {
        [b'M', _, _, _, _, _, _, b'I' | b'A'] => return Ok(Read::Text),
        [b'M', _, _, _, _, _, _, b'D'] => shape.order = DataOrder::LowestAddressFirst,
        // A fetch.
        [b'M', .., b'_', b'I'] => return Ok(Read::Text),
        _ => {}
    }
    cursor.blank("the address in hex")?;
    if pass_brackets(cursor) {
        cursor.blank("the address in hex")?;
        if is_transfer(*cursor) {
            return Ok(Read::Text);
        }
    }
    let mut ahead = *cursor;
    if ahead.word() == b"X" {
        shape.attribute = Some(AccessAttribute::X);
        *cursor = ahead;
        cursor.blanks();
    }
    let Some(address) = cursor.hex() else {
        return Err(cursor.expected("the address in hex, of at most 16 digits"));
    };
    physical_address(cursor)?;
    cursor.blank("the data in hex")?;
    if cursor.rest().starts_with(b"(ABORTED)") {
        return Ok(Read::Text);
    }
    let data = data(cursor, shape.size)?;
    let size = shape.size.unwrap_or(data.size());
    Ok(Read::Access(Access {
        time: head.time,
        cpu: head.cpu,
        kind: shape.kind,
        size,
        attribute: shape.attribute,
        address: Address(address.value),
        address_digits: address.count,
        data,
        order: shape.order,
    }))
}

/// Passes over numbers in brackets, `(50:a8)`.
fn pass_brackets(cursor: &mut Cursor<'_>) -> bool {
    let mut ahead = *cursor;
    if !ahead.take(b'(') {
        return false;
    }
    loop {
        ahead.blanks();
        if ahead.hex().is_none() {
            return false;
        }
        ahead.blanks();
        if ahead.take(b')') {
            *cursor = ahead;
            return true;
        }
        if !ahead.take(b':') {
            return false;
        }
    }
}

/// Whether a word in capitals is in the place of an address: what is transferred is not in memory.
fn is_transfer(mut cursor: Cursor<'_>) -> bool {
    let word = cursor.word();
    !word.is_empty()
        && word.iter().all(u8::is_ascii_uppercase)
        && !word.iter().all(u8::is_ascii_hexdigit)
}

/// The data: words of digits until there are two a byte. What follows them is a note.
fn data<'a>(cursor: &mut Cursor<'a>, size: Option<u32>) -> Result<Value<'a>, LineError> {
    const EXPECTED: &str = "the data in hex, two digits a byte";
    let start = cursor.position();
    let text = cursor.rest();
    if size.is_some_and(|size| size == 0 || size > MAX_DIGITS / 2) {
        return Err(cursor.expected_at(start, "a size from 1 to 2048 bytes before the data"));
    }
    let most = size.unwrap_or(MAX_DIGITS / 2).saturating_mul(2);
    let mut value: Option<Value<'a>> = None;
    loop {
        let mut ahead = *cursor;
        ahead.blanks();
        let word = ahead.word();
        let is_data = !word.is_empty()
            && word.iter().all(|byte| {
                byte.is_ascii_hexdigit() || matches!(byte, b'_' | b'-' | b'#' | b'x' | b'X')
            });
        let length = ahead.position() - start;
        let longer = text
            .get(..length)
            .filter(|_| is_data)
            .and_then(|text| Value::parse(text, notation(text)));
        match longer {
            Some(longer) if longer.digits() <= most => {
                value = Some(longer);
                *cursor = ahead;
                if longer.digits() == most || size.is_none() {
                    break;
                }
            }
            Some(_) if value.is_none() => return Err(cursor.expected_at(start, EXPECTED)),
            _ => break,
        }
    }
    value.ok_or_else(|| cursor.expected_at(start, EXPECTED))
}
