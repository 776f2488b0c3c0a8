//! Where the numbers of a record are in its line.
//!
//! Readers tell what a line says, not where. A number that is not found again stays part of the text, which costs
//! room and is never wrong: text is put together again from the very places that were found.

use std::ops::Range;

use tracewire_model::hex;

use crate::record::Time;
use crate::value::Value;

/// Which letters a hex number has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Letters {
    None,
    Lower,
    Upper,
    Both,
}

impl Letters {
    pub(crate) fn of(digits: &[u8]) -> Self {
        let (lower, upper) = digits.iter().fold((false, false), |(lower, upper), byte| {
            (
                lower | byte.is_ascii_lowercase(),
                upper | byte.is_ascii_uppercase(),
            )
        });
        match (lower, upper) {
            (false, false) => Self::None,
            (true, false) => Self::Lower,
            (false, true) => Self::Upper,
            (true, true) => Self::Both,
        }
    }
}

/// The time at the front of a line from some place on, if it is written as this time is printed.
pub(crate) fn time(line: &[u8], from: usize, time: Time) -> Option<Range<usize>> {
    let blanks = (line.get(from..)?.iter()).position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let start = from + blanks;
    let digits = |from: usize| {
        line.get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let whole = start + digits(start);
    let mut value = decimal(line.get(start..whole)?)?;
    let mut end = whole;
    if time.decimals > 0 {
        if line.get(whole) != Some(&b'.') {
            return None;
        }
        end = whole + 1 + digits(whole + 1);
        let fraction = line.get(whole + 1..end)?;
        if fraction.len() != usize::from(time.decimals) {
            return None;
        }
        for digit in fraction {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
        }
    }
    (value == time.ticks).then_some(start..end)
}

/// A decimal number without needless zeros.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// How the number of an instruction is written.
pub(crate) enum Id {
    Decimal(Range<usize>),
    Hex(Range<usize>),
}

/// The number in parentheses, alone or beside a colon.
pub(crate) fn id(line: &[u8], id: u64) -> Option<Id> {
    let open = memchr::memchr(b'(', line)? + 1;
    let close = open + memchr::memchr(b')', line.get(open..)?)?;
    let inside = line.get(open..close)?;
    if inside.iter().all(u8::is_ascii_digit) && decimal(inside) == Some(id) {
        return Some(Id::Decimal(open..close));
    }
    let mut at = open;
    let mut found = None;
    for part in inside.split(|byte| *byte == b':') {
        let range = at..at + part.len();
        at = range.end + 1;
        if part.iter().all(u8::is_ascii_digit) && decimal(part) == Some(id) {
            found = Some(Id::Decimal(range));
        } else if number_of(part) == Some(id) {
            found = Some(Id::Hex(range));
        }
    }
    found
}

/// A hex number of at most 16 digits.
fn number_of(digits: &[u8]) -> Option<u64> {
    (digits.len() <= 16).then(|| hex::number(digits)).flatten()
}

fn is_digit(byte: u8) -> bool {
    hex::digit(byte) <= 15
}

/// The run of hex digits at a place, after `0x` if that is there; it may be empty.
pub(crate) fn hex_run_at(line: &[u8], at: usize) -> Range<usize> {
    let rest = line.get(at..).unwrap_or_default();
    let start = match rest {
        [b'0', b'x', ..] => at + 2,
        _ => at,
    };
    let digits = line.get(start..).unwrap_or_default();
    let length = (digits.iter().position(|byte| !is_digit(*byte))).unwrap_or(digits.len());
    start..start + length
}

/// The runs of hex digits in a line from some place on that are words of their own, or the front of one.
pub(crate) fn hex_runs(line: &[u8], from: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    hex_runs_of(line, from, 1)
}

/// Those of [`hex_runs`] that have at least so many digits, which is faster: where the last of so many bytes is no digit, none of them
/// begins such a run.
pub(crate) fn hex_runs_of(
    line: &[u8],
    from: usize,
    least: usize,
) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = from;
    std::iter::from_fn(move || {
        loop {
            let probe = at + least.saturating_sub(1);
            if !is_digit(*line.get(probe)?) {
                at = probe + 1;
                continue;
            }
            let mut start = probe;
            while start > at && is_digit(line[start - 1]) {
                start -= 1;
            }
            let mut end = probe + 1;
            while line.get(end).is_some_and(|byte| is_digit(*byte)) {
                end += 1;
            }
            at = end;
            let before = line.get(..start).unwrap_or_default();
            let is_word = match before.last() {
                None => true,
                Some(b'x' | b'X') => before.ends_with(b"0x") || before.ends_with(b"0X"),
                Some(byte) => !byte.is_ascii_alphanumeric(),
            };
            if is_word && end - start >= least {
                return Some(start..end);
            }
        }
    })
}

/// A number of so many digits, or one without zeros before it; whether it is of the second kind. With no digits, only the second kind
/// is meant.
pub(crate) fn number(
    line: &[u8],
    from: usize,
    value: u64,
    digits: u32,
) -> Option<(Range<usize>, bool)> {
    let mut short = None;
    // It is written with all its digits, or with those that are needed.
    let needed = (64 - value.leading_zeros()).div_ceil(4).max(1);
    let least = match digits {
        0 => needed,
        _ => needed.min(digits),
    };
    for run in hex_runs_of(line, from, least as usize) {
        let text = &line[run.clone()];
        if number_of(text) != Some(value) {
            continue;
        }
        if text.len() as u32 == digits {
            return Some((run, false));
        }
        if short.is_none() && (text[0] != b'0' || text.len() == 1) && is_short(text) {
            short = Some((run, true));
        }
    }
    short
}

pub(crate) fn is_short(text: &[u8]) -> bool {
    matches!(Letters::of(text), Letters::None | Letters::Lower)
}

/// A row of digits of a value: where they are, and whether they are known.
pub(crate) type DigitRow = (Range<usize>, bool);

/// Finds the digits of a value near the end of a line, separators between them left out. They are given from the
/// most significant on.
pub(crate) fn value(line: &[u8], from: usize, value: &Value<'_>, rows: &mut Vec<DigitRow>) -> bool {
    rows.clear();
    let mut end = line.len();
    for _ in 0..8 {
        while end > from && line[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
        if end <= from {
            return false;
        }
        if let Some(known) = value.known()
            && plain(line, from, end, known, value.digits())
        {
            rows.push((end - value.digits() as usize..end, true));
            return true;
        }
        if backwards(line, from, end, value, rows) {
            rows.reverse();
            return true;
        }
        rows.clear();
        // The word before.
        while end > from && !line[end - 1].is_ascii_whitespace() {
            end -= 1;
        }
    }
    false
}

/// Whether a run of exactly these digits ends at `end`.
#[inline]
fn plain(line: &[u8], from: usize, end: usize, known: u64, digits: u32) -> bool {
    let Some(start) = end
        .checked_sub(digits as usize)
        .filter(|start| *start >= from)
    else {
        return false;
    };
    let stands_alone = start == 0 || !line[start - 1].is_ascii_alphanumeric();
    stands_alone && number_of(&line[start..end]) == Some(known)
}

fn backwards(
    line: &[u8],
    from: usize,
    end: usize,
    value: &Value<'_>,
    rows: &mut Vec<DigitRow>,
) -> bool {
    let mut at = end;
    for nibble in value.nibbles() {
        loop {
            if at <= from {
                return false;
            }
            at -= 1;
            let byte = line[at];
            let is_digit = match nibble {
                Some(digit) => hex::digit(byte) == digit,
                None => matches!(byte, b'-' | b'#' | b'.' | b'x' | b'X' | b'z' | b'Z'),
            };
            if is_digit {
                break;
            }
            if !matches!(byte, b'_' | b':' | b' ' | b'\t' | b'x') {
                return false;
            }
        }
        match rows.last_mut() {
            Some((row, known))
                if row.start == at + 1
                    && *known == nibble.is_some()
                    && (!*known || row.len() < 16) =>
            {
                row.start = at;
            }
            _ => rows.push((at..at + 1, nibble.is_some())),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn long_runs_are_those_of_all(line in "[0-9a-fxXg, ]{0,40}", from in 0..12usize, least in 1..10usize) {
            let line = line.as_bytes();
            let all: Vec<_> = hex_runs(line, from).filter(|run| run.len() >= least).collect();
            prop_assert_eq!(hex_runs_of(line, from, least).collect::<Vec<_>>(), all);
        }
    }
    use crate::record::Scale;
    use crate::value::Notation;

    #[test]
    fn numbers_are_found_where_they_are() {
        let line = b"10 clk MR8 00103fc4 0010400000000000";
        assert_eq!(time(line, 0, Time::whole(10, Scale::Clk)), Some(0..2));
        assert_eq!(time(line, 0, Time::whole(11, Scale::Clk)), None);
        assert_eq!(number(line, 2, 0x10_3fc4, 8), Some((11..19, false)));
        assert_eq!(number(line, 2, 0x10_3fc4, 16), None);
        let mut rows = Vec::new();
        let data = Value::of(0x0010_4000_0000_0000, 16);
        assert!(value(line, 19, &data, &mut rows));
        assert_eq!(rows, [(20..36, true)]);

        let line = b"1.50 ns R V0 0123_4567:--ab (USR)";
        let mut of = Time::whole(150, Scale::Nanoseconds);
        of.decimals = 2;
        assert_eq!(time(line, 0, of), Some(0..4));
        let data = Value::parse(b"0123_4567:--ab", Notation::Tarmac).expect("a value");
        assert!(value(line, 10, &data, &mut rows));
        assert_eq!(
            rows,
            [
                (13..17, true),
                (18..22, true),
                (23..25, false),
                (25..27, true)
            ]
        );
        // A register that looks like a number is not taken for the value.
        assert!(value(
            b"1 clk R a0 000000a0",
            8,
            &Value::of(0xa0, 8),
            &mut rows
        ));
        assert_eq!(rows, [(11..19, true)]);
    }
}
