//! Values of registers and memory as a trace writes them: hex digits, of which some may be unknown.

use std::fmt;

/// The most digits of a value: 2 KiB, which is the widest matrix row and more than any access has.
pub const MAX_DIGITS: u32 = 4096;

/// A number of any width whose digits may be unknown.
///
/// Most values fit in a `u64` and have no unknown digit: [`Value::known`] gives them at once. The others are read
/// from the text when they are asked for.
#[derive(Clone, Copy)]
pub struct Value<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Small {
        value: u64,
        digits: u8,
        upper: bool,
    },
    /// Hex digits, marks of unknown digits and separators.
    Text {
        text: &'a [u8],
        digits: u32,
        notation: Notation,
    },
}

/// Which characters stand for unknown digits and which are separators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Notation {
    /// QEMU4V: hex digits and nothing else.
    Plain,
    /// Tarmac: `-`, `#` and `.` are unknown digits; `_`, `:`, `x` and blanks separate.
    Tarmac,
    /// Verilog: `x` and `z` are unknown digits, `_` separates.
    Verilog,
}

/// What one character of a value is.
enum Character {
    Digit(u8),
    Unknown,
    Separator,
    Wrong,
}

impl Notation {
    const fn character(self, byte: u8) -> Character {
        match byte {
            b'0'..=b'9' => Character::Digit(byte - b'0'),
            b'a'..=b'f' => Character::Digit(byte - b'a' + 10),
            b'A'..=b'F' => Character::Digit(byte - b'A' + 10),
            _ => match (self, byte) {
                (Self::Tarmac, b'-' | b'#' | b'.') | (Self::Verilog, b'x' | b'X' | b'z' | b'Z') => {
                    Character::Unknown
                }
                (Self::Tarmac, b'_' | b':' | b'x' | b' ' | b'\t') | (Self::Verilog, b'_') => {
                    Character::Separator
                }
                _ => Character::Wrong,
            },
        }
    }
}

/// One byte of a value: its bits, and which of them are known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueByte {
    /// The bits; unknown ones are zero.
    pub bits: u8,
    /// A one for every bit that is known: `ff`, `f0`, `0f` or `00`.
    pub known: u8,
}

impl<'a> Value<'a> {
    /// A number of so many hex digits, from 1 to 16; bits beyond them are dropped.
    #[must_use]
    pub const fn of(value: u64, digits: u8) -> Self {
        let digits = if digits > 16 { 16 } else { digits };
        let value = if digits == 16 {
            value
        } else {
            value & ((1 << (digits * 4)) - 1)
        };
        Self(Repr::Small {
            value,
            digits,
            upper: false,
        })
    }

    pub(crate) const fn small(value: u64, digits: u8, upper: bool) -> Self {
        Self(Repr::Small {
            value,
            digits,
            upper,
        })
    }

    /// Reads a value. None where it has a character that the notation does not know, no digit at all, or more than
    /// [`MAX_DIGITS`].
    #[must_use]
    pub fn parse(text: &'a [u8], notation: Notation) -> Option<Self> {
        let mut digits = 0u32;
        let mut value = 0u64;
        let (mut unknown, mut upper, mut lower) = (false, false, false);
        for byte in text {
            match notation.character(*byte) {
                Character::Digit(digit) => {
                    value = value << 4 | u64::from(digit);
                    upper |= byte.is_ascii_uppercase();
                    lower |= byte.is_ascii_lowercase();
                    digits = digits.saturating_add(1);
                }
                Character::Unknown => {
                    unknown = true;
                    digits = digits.saturating_add(1);
                }
                Character::Separator => {}
                Character::Wrong => return None,
            }
        }
        match digits {
            0 => None,
            1..=16 if !unknown => Some(Self(Repr::Small {
                value,
                digits: digits as u8,
                upper: upper && !lower,
            })),
            _ if digits <= MAX_DIGITS => Some(Self(Repr::Text {
                text,
                digits,
                notation,
            })),
            _ => None,
        }
    }

    /// How many hex digits it was written with, unknown ones included.
    #[must_use]
    pub const fn digits(&self) -> u32 {
        match self.0 {
            Repr::Small { digits, .. } => digits as u32,
            Repr::Text { digits, .. } => digits,
        }
    }

    /// How wide it is, in bytes; an odd digit counts as a byte.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.digits().div_ceil(2)
    }

    /// Whether its letters are upper-case, as MicroTESK may write them.
    #[must_use]
    pub const fn is_upper(&self) -> bool {
        match self.0 {
            Repr::Small { upper, .. } => upper,
            Repr::Text { .. } => false,
        }
    }

    /// The number, where it has at most 16 digits and all are known.
    #[must_use]
    pub const fn known(&self) -> Option<u64> {
        match self.0 {
            Repr::Small { value, .. } => Some(value),
            Repr::Text { .. } => None,
        }
    }

    /// The digits from the least significant one on; none for an unknown one.
    pub fn nibbles(&self) -> impl Iterator<Item = Option<u8>> + use<'a> {
        let (small, digits, text, notation) = match self.0 {
            Repr::Small { value, digits, .. } => (value, digits, &[][..], Notation::Plain),
            Repr::Text { text, notation, .. } => (0, 0, text, notation),
        };
        let small = (0..digits).map(move |at| Some((small >> (u32::from(at) * 4)) as u8 & 15));
        let text = text
            .iter()
            .rev()
            .filter_map(move |byte| match notation.character(*byte) {
                Character::Digit(digit) => Some(Some(digit)),
                Character::Unknown => Some(None),
                Character::Separator | Character::Wrong => None,
            });
        small.chain(text)
    }

    /// The bytes from the least significant one on. A digit that is missing at the front is a known zero.
    pub fn bytes(&self) -> impl Iterator<Item = ValueByte> + use<'a> {
        let mut nibbles = self.nibbles();
        std::iter::from_fn(move || {
            let low = nibbles.next()?;
            let high = nibbles.next().unwrap_or(Some(0));
            let half = |nibble: Option<u8>| nibble.map_or((0, 0), |digit| (digit, 15));
            let ((low, low_known), (high, high_known)) = (half(low), half(high));
            Some(ValueByte {
                bits: low | high << 4,
                known: low_known | high_known << 4,
            })
        })
    }

    /// Whether every digit is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.known().is_some() || self.nibbles().all(|nibble| nibble.is_some())
    }
}

/// The digits without separators, lower-case, `?` for an unknown one.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::Small { value, digits, .. } => {
                let digits = usize::from(digits);
                write!(f, "{value:0digits$x}")
            }
            Repr::Text { text, notation, .. } => {
                for byte in text {
                    match notation.character(*byte) {
                        Character::Digit(digit) => write!(f, "{digit:x}")?,
                        Character::Unknown => f.write_str("?")?,
                        Character::Separator | Character::Wrong => {}
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({self})")
    }
}

/// Values are the same when they have the same digits, however these were separated or unknown ones marked.
impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.digits() == other.digits() && self.nibbles().eq(other.nibbles())
    }
}

impl Eq for Value<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_separators_and_unknowns() {
        let value = Value::parse(b"0010400000000000", Notation::Plain).unwrap();
        assert_eq!(
            (value.known(), value.digits()),
            (Some(0x0010_4000_0000_0000), 16)
        );
        let value = Value::parse(b"00ff_12--:0x3", Notation::Tarmac).unwrap();
        assert_eq!(value.to_string(), "00ff12??03");
        assert_eq!((value.known(), value.size()), (None, 5));
        let bytes: Vec<_> = value.bytes().map(|byte| (byte.bits, byte.known)).collect();
        assert_eq!(bytes, [(3, 255), (0, 0), (0x12, 255), (255, 255), (0, 255)]);
        let value = Value::parse(b"1x", Notation::Verilog).unwrap();
        assert_eq!(value.to_string(), "1?");
        assert_eq!(
            value.bytes().next(),
            Some(ValueByte {
                bits: 0x10,
                known: 0xf0
            })
        );
        assert!(Value::parse(b"", Notation::Plain).is_none());
        assert!(Value::parse(b"_", Notation::Tarmac).is_none());
        assert!(Value::parse(b"0x1", Notation::Plain).is_none());
        assert_eq!(Value::of(0x1234, 2).to_string(), "34");
        let wide = Value::parse(b"000102030405060708090a0b0c0d0e0f", Notation::Plain).unwrap();
        assert!(wide.is_known());
        assert_eq!(wide.bytes().map(|byte| byte.bits).next(), Some(15));
    }
}
