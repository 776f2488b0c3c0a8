//! Register writes.

use super::{Head, notation};
use crate::record::{BitRange, Record, RegisterWrite};
use crate::text::LineError;
use crate::text::cursor::{Cursor, is_blank};
use crate::value::Value;

/// Reads what follows `R`. None for a system operation, which is kept as text.
pub(super) fn read<'a>(
    cursor: &mut Cursor<'a>,
    head: Head,
) -> Result<Option<Record<'a>>, LineError> {
    cursor.blank("the register's name")?;
    let from_name = cursor.rest();
    let start = cursor.position();
    let name = cursor.word_until(|byte| byte == b'(' || byte == b'<');
    if name.is_empty() {
        return Err(cursor.expected("the register's name"));
    }
    if matches!(name, b"DC" | b"IC" | b"TLBI" | b"AT") {
        return Ok(None);
    }
    let mut length = name.len();
    let mut ahead = *cursor;
    ahead.blanks();
    if ahead.take(b'(') {
        let bank = ahead.word_until(|byte| byte == b')');
        if bank.is_empty() || !ahead.take(b')') {
            return Err(cursor.expected("the register's bank in parentheses, such as (USR)"));
        }
        length = ahead.position() - start;
        *cursor = ahead;
    }
    let part = if cursor.take(b'<') {
        Some(bit_range(cursor)?)
    } else {
        None
    };
    cursor.blank("the register's value in hex")?;
    let value = value(cursor, part)?;
    Ok(Some(Record::Register(RegisterWrite {
        time: head.time,
        cpu: head.cpu,
        register: from_name.get(..length).unwrap_or(name),
        part,
        value,
    })))
}

/// `hi:lo>`.
fn bit_range(cursor: &mut Cursor<'_>) -> Result<BitRange, LineError> {
    const EXPECTED: &str = "a range of bits, such as <127:64>";
    let start = cursor.position().saturating_sub(1);
    let bit = |cursor: &mut Cursor<'_>| {
        cursor
            .decimal()
            .and_then(|bit| u16::try_from(bit).ok())
            .filter(|bit| *bit < 16384)
    };
    let high = bit(cursor);
    let is_parted = cursor.take(b':');
    let low = bit(cursor);
    match (high, low) {
        (Some(high), Some(low)) if is_parted && cursor.take(b'>') && low <= high => {
            Ok(BitRange { high, low })
        }
        _ => Err(cursor.expected_at(start, EXPECTED)),
    }
}

const fn is_value(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || matches!(byte, b'_' | b'-' | b':' | b'x' | b'X')
}

/// The value: a word of digits, and the words after it that are just like it.
fn value<'a>(cursor: &mut Cursor<'a>, part: Option<BitRange>) -> Result<Value<'a>, LineError> {
    let start = cursor.position();
    let text = cursor.rest();
    let first = cursor.word();
    let error = |cursor: &Cursor<'a>| {
        cursor.expected_at(start, "the register's value in hex, -- for unknown bytes")
    };
    if !first.iter().copied().all(is_value) {
        return Err(error(cursor));
    }
    let mut length = first.len();
    let notation = notation(first);
    if let Some(value) = Value::parse(first, notation) {
        // At least a word of the machine: shorter ones are flags spelled out.
        if value.digits() >= 8 && value.digits().is_multiple_of(8) {
            let mut ahead = *cursor;
            loop {
                ahead.blanks();
                let word = ahead.word();
                let is_more = !word.is_empty()
                    && word.iter().all(|byte| is_value(*byte) && !is_blank(*byte))
                    && Value::parse(word, notation)
                        .is_some_and(|more| more.digits() == value.digits());
                if !is_more {
                    break;
                }
                length = ahead.position() - start;
                *cursor = ahead;
            }
        }
    }
    let value = text
        .get(..length)
        .and_then(|text| Value::parse(text, notation))
        .ok_or_else(|| error(cursor))?;
    if let Some(BitRange { high, low }) = part
        && value.digits() > u32::from(high - low + 1).div_ceil(4)
    {
        return Err(cursor.expected_at(
            start,
            "a value of no more digits than the range of bits has",
        ));
    }
    Ok(value)
}
