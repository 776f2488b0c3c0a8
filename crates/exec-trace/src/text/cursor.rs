//! A place in a line, moved over the tokens that every format has.

use tracewire_model::hex;

use super::LineError;
use crate::value::{Notation, Value};

/// Hex digits that were read: the number, how many, and whether there were upper-case letters.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    pub(super) value: u64,
    pub(super) count: u8,
    pub(super) upper: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    pub(super) const fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// The rest without the blanks around it.
    pub(super) fn rest_trimmed(&self) -> &'a [u8] {
        let mut rest = self.rest();
        while let [first, tail @ ..] = rest
            && is_blank(*first)
        {
            rest = tail;
        }
        while let [head @ .., last] = rest
            && is_blank(*last)
        {
            rest = head;
        }
        rest
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.at = self.at.saturating_add(count).min(self.line.len());
    }

    /// Takes one byte if it is this one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// Skips blanks, and says whether there were any.
    #[inline]
    pub(super) fn blanks(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
        self.at > start
    }

    /// At least one blank.
    #[inline]
    pub(super) fn blank(&mut self, next: &'static str) -> Result<(), LineError> {
        if self.blanks() {
            Ok(())
        } else {
            Err(self.expected(next))
        }
    }

    /// Whether nothing but blanks follows.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.blanks();
        self.at >= self.line.len()
    }

    /// The bytes to the next blank.
    #[inline]
    pub(super) fn word(&mut self) -> &'a [u8] {
        self.word_until(|_| false)
    }

    /// The bytes to the next blank or byte of `stop`.
    #[inline]
    pub(super) fn word_until(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let end = rest
            .iter()
            .position(|byte| is_blank(*byte) || stop(*byte))
            .unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// A decimal number; nothing is taken where there is none or it does not fit.
    #[inline]
    pub(super) fn decimal(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            // 18 digits always fit; what is longer is checked.
            if self.at - start < 18 {
                value = value * 10 + u64::from(digit - b'0');
            } else {
                let Some(next) = value
                    .checked_mul(10)
                    .and_then(|value| value.checked_add(u64::from(digit - b'0')))
                else {
                    self.at = start;
                    return None;
                };
                value = next;
            }
            self.at += 1;
        }
        (self.at > start).then_some(value)
    }

    /// A hex number of at most 16 digits; nothing is taken where there is none or it is longer.
    #[inline]
    pub(super) fn hex(&mut self) -> Option<Digits> {
        let start = self.at;
        let mut value = 0u64;
        let mut upper = false;
        while let Some(byte) = self.peek() {
            let digit = hex::digit(byte);
            if digit > 15 {
                break;
            }
            value = value << 4 | u64::from(digit);
            upper |= byte & 0x60 == 0x40;
            self.at += 1;
        }
        match self.at - start {
            count @ 1..=16 => Some(Digits {
                value,
                count: count as u8,
                upper,
            }),
            _ => {
                self.at = start;
                None
            }
        }
    }

    /// A hex number of up to 32 digits, of which the last 16 are given; nothing is taken where there is none.
    pub(super) fn hex_of_any_length(&mut self) -> Option<Digits> {
        let rest = self.rest();
        let count = rest
            .iter()
            .take_while(|byte| hex::digit(**byte) <= 15)
            .count();
        if !(1..=32).contains(&count) {
            return None;
        }
        let mut last = Self::new(rest.get(count.saturating_sub(16)..count)?);
        let digits = last.hex()?;
        self.at += count;
        Some(Digits {
            count: count as u8,
            ..digits
        })
    }

    /// Whether a blank or the end of the line is next.
    pub(super) fn is_at_word_end(&self) -> bool {
        self.peek().is_none_or(is_blank)
    }

    /// A hex number of any width, all digits known.
    #[inline]
    pub(super) fn plain_value(&mut self) -> Option<Value<'a>> {
        if let Some(Digits {
            value,
            count,
            upper,
        }) = self.hex()
        {
            return Some(Value::small(value, count, upper));
        }
        let rest = self.rest();
        let end = rest
            .iter()
            .position(|byte| hex::digit(*byte) > 15)
            .unwrap_or(rest.len());
        let value = Value::parse(rest.get(..end)?, Notation::Plain)?;
        self.at += end;
        Some(value)
    }

    /// A hex number of at most 16 digits with this byte right after it, and the byte; nothing is taken where that is not there.
    #[inline]
    pub(super) fn value_before(&mut self, next: u8) -> Option<Value<'a>> {
        // Many fields are a flag.
        if let [digit, after, ..] = self.rest()
            && *after == next
        {
            let value = hex::digit(*digit);
            if value > 15 {
                return None;
            }
            self.at += 2;
            return Some(Value::small(
                u64::from(value),
                1,
                digit.is_ascii_uppercase(),
            ));
        }
        let mut ahead = *self;
        let digits = ahead.hex()?;
        if !ahead.take(next) {
            return None;
        }
        *self = ahead;
        Some(Value::small(digits.value, digits.count, digits.upper))
    }

    /// An error about the token here.
    #[cold]
    pub(super) fn expected(&self, expected: &'static str) -> LineError {
        LineError::at(self.line, self.at, expected)
    }

    /// An error about the token that started at `position`.
    #[cold]
    pub(super) fn expected_at(&self, position: usize, expected: &'static str) -> LineError {
        LineError::at(self.line, position, expected)
    }
}
