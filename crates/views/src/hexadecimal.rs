//! Numbers in hexadecimal, without an allocation for each: a file may have millions of frames, and each of them dozens.

use std::fmt;
use std::ops::Deref;

use tracewire_model::{ByteOrder, hex};

/// `0x` and the digits of 64 bits.
const LONGEST: usize = 18;

/// A number in hexadecimal, `0x…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Hexadecimal(Digits);

#[derive(Clone, PartialEq, Eq)]
enum Digits {
    /// The last so many of these characters.
    Short([u8; LONGEST], u8),
    Long(Box<str>),
}

impl Hexadecimal {
    /// A number of 64 bits.
    #[must_use]
    pub fn new(mut number: u64) -> Self {
        let mut characters = [b'0'; LONGEST];
        let mut length = 0;
        for place in characters.iter_mut().rev() {
            *place = match (number & 15) as u8 {
                digit @ 0..10 => b'0' + digit,
                digit => b'a' - 10 + digit,
            };
            number >>= 4;
            length += 1;
            if number == 0 {
                break;
            }
        }
        // 16 digits at most: there is room for both.
        for (place, character) in characters.iter_mut().rev().skip(length).zip(*b"x0") {
            *place = character;
        }
        Self(Digits::Short(characters, length as u8 + 2))
    }

    /// A register's bytes.
    pub(crate) fn of_register(bytes: &[u8], order: ByteOrder) -> Self {
        if let Some(number) = order.unsigned(bytes) {
            return Self::new(number);
        }
        let is_zero = |byte: &&u8| **byte == 0;
        let zeros = match order {
            ByteOrder::Little => bytes.iter().rev().take_while(is_zero).count(),
            ByteOrder::Big => bytes.iter().take_while(is_zero).count(),
        };
        let length = bytes.len() - zeros;
        let significant = match order {
            ByteOrder::Little => &bytes[..length],
            ByteOrder::Big => &bytes[zeros..],
        };
        if let Some(number) = order.unsigned(significant) {
            return Self::new(number);
        }
        let mut text = String::with_capacity(2 + 2 * length);
        text.push_str("0x");
        match order {
            ByteOrder::Little => {
                let reversed: Vec<u8> = significant.iter().rev().copied().collect();
                hex::push(&mut text, &reversed);
            }
            ByteOrder::Big => hex::push(&mut text, significant),
        }
        if text.as_bytes().get(2) == Some(&b'0') {
            text.remove(2);
        }
        Self(Digits::Long(text.into()))
    }
}

impl Deref for Hexadecimal {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Digits::Short(characters, length) => {
                let start = LONGEST.saturating_sub(usize::from(*length));
                let digits = characters.get(start..).unwrap_or_default();
                std::str::from_utf8(digits).unwrap_or_default()
            }
            Digits::Long(digits) => digits,
        }
    }
}

impl fmt::Display for Hexadecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Hexadecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_rust_prints_them() {
        for shift in 0..64 {
            for number in [
                1_u64 << shift,
                (1 << shift) - 1,
                u64::MAX >> shift,
                0x0123_4567_89ab_cdef >> shift,
            ] {
                assert_eq!(&*Hexadecimal::new(number), format!("{number:#x}"));
            }
        }
    }

    #[test]
    fn registers_are_numbers() {
        let number = |bytes: &[u8], order| Hexadecimal::of_register(bytes, order).to_string();
        assert_eq!(number(&[0x58, 0x51, 0, 0], ByteOrder::Little), "0x5158");
        assert_eq!(number(&[0, 0, 0x51, 0x58], ByteOrder::Big), "0x5158");
        assert_eq!(number(&[0, 0], ByteOrder::Big), "0x0");
        assert_eq!(number(&[0; 16], ByteOrder::Little), "0x0");
        assert_eq!(
            number(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0], ByteOrder::Little),
            "0x90807060504030201"
        );
        let mut large = [0; 32];
        large[..9].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0xa1]);
        assert_eq!(number(&large, ByteOrder::Little), "0xa10000000000000000");
        large.reverse();
        assert_eq!(number(&large, ByteOrder::Big), "0xa10000000000000000");
        assert_eq!(
            number(&[0, 7, 0, 0, 0, 0, 0, 0, 0, 0], ByteOrder::Little),
            "0x700"
        );
        assert_eq!(number(&[], ByteOrder::Little), "0x0");
    }
}
