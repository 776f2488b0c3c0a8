//! The shape of a frame: its tracepoint and the kinds of its blocks. Frames of one shape have their values in the same columns.

use tracewire_model::ByteOrder;

use crate::encode::FRAME_HEADER;
use crate::fraction::{FRACTION, nanoseconds_of};
use crate::register_set::{RegisterSets, SET_HEADER, SET_LETTER, VARIABLE_BLOCK};

/// The letter, the address and the length before the bytes of a piece of memory.
pub(super) const MEMORY_HEADER: usize = 11;

/// A block of a frame, as far as all frames of a shape have it in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item {
    /// Registers of a set, of so many bytes: a column for each 8 bytes, and one for the rest.
    Registers { set: u32, size: usize },
    /// A variable: a column.
    Variable(i32),
    /// The variable with the fraction of a microsecond, as nanoseconds: a column.
    Nanoseconds,
    /// Memory of 1, 2, 4 or 8 bytes: a column of addresses, and one of values.
    Number(u8),
    /// Memory: columns of addresses and lengths, then the bytes.
    Memory,
    /// All that follows, whatever it is: a column of lengths, then the bytes.
    Rest,
}

impl Item {
    /// How many columns of numbers it has, without those of memory whose pieces have one length.
    pub(super) const fn columns(self) -> usize {
        match self {
            Self::Registers { size, .. } => size.div_ceil(8),
            Self::Variable(_) | Self::Nanoseconds | Self::Rest => 1,
            Self::Number(_) | Self::Memory => 2,
        }
    }

    /// Whether it has bytes of any length, too.
    pub(super) const fn has_bytes(self) -> bool {
        matches!(self, Self::Memory | Self::Rest)
    }

    /// The letter in the file.
    pub(super) const fn letter(self) -> u8 {
        match self {
            Self::Registers { .. } => SET_LETTER,
            Self::Variable(_) => b'V',
            Self::Nanoseconds => b'N',
            Self::Number(_) => b'W',
            Self::Memory => b'M',
            Self::Rest => b'?',
        }
    }
}

/// The tracepoint number of a frame.
pub(super) fn tracepoint(frame: &[u8]) -> u16 {
    ByteOrder::Little.u16_at(frame, 0).unwrap_or_default()
}

/// The items of a frame. With `numbers`, short memory has columns of values; its length is part of the shape then.
pub(super) fn items(frame: &[u8], sets: &RegisterSets, numbers: bool) -> Vec<Item> {
    let order = ByteOrder::Little;
    let mut items = Vec::new();
    let mut at = FRAME_HEADER;
    while at < frame.len() {
        let item = match frame.get(at) {
            Some(&SET_LETTER) => order.u32_at(frame, at + 1).and_then(|set| {
                let size = sets.get(set)?.size();
                Some((Item::Registers { set, size }, SET_HEADER + size))
            }),
            Some(b'V') => order.u32_at(frame, at + 1).map(|number| {
                let number = number.cast_signed();
                let item = match number == FRACTION.0 {
                    true => Item::Nanoseconds,
                    false => Item::Variable(number),
                };
                (item, VARIABLE_BLOCK)
            }),
            Some(b'M') => order.u16_at(frame, at + 9).map(|length| {
                let item = match length {
                    1 | 2 | 4 | 8 if numbers => Item::Number(length as u8),
                    _ => Item::Memory,
                };
                (item, MEMORY_HEADER + usize::from(length))
            }),
            _ => None,
        };
        let (item, length) = item
            .filter(|(_, length)| at + length <= frame.len())
            .unwrap_or((Item::Rest, frame.len() - at));
        items.push(item);
        at += length;
    }
    items
}

/// Whether a frame, whose tracepoint is the right one, has these items.
pub(super) fn matches(items: &[Item], frame: &[u8]) -> bool {
    let order = ByteOrder::Little;
    let mut at = FRAME_HEADER;
    for item in items {
        let letter = frame.get(at).copied();
        let length = match *item {
            Item::Registers { set, size } => {
                if letter != Some(SET_LETTER) || order.u32_at(frame, at + 1) != Some(set) {
                    return false;
                }
                SET_HEADER + size
            }
            Item::Variable(_) | Item::Nanoseconds => {
                let number = match *item {
                    Item::Variable(number) => number,
                    _ => FRACTION.0,
                };
                let is_same = order.u32_at(frame, at + 1) == Some(number.cast_unsigned());
                if letter != Some(b'V') || !is_same {
                    return false;
                }
                VARIABLE_BLOCK
            }
            Item::Number(length) => {
                let is_same = order.u16_at(frame, at + 9) == Some(u16::from(length));
                if letter != Some(b'M') || !is_same {
                    return false;
                }
                MEMORY_HEADER + usize::from(length)
            }
            Item::Memory => {
                let length = order.u16_at(frame, at + 9).filter(|_| letter == Some(b'M'));
                let Some(length) = length else {
                    return false;
                };
                MEMORY_HEADER + usize::from(length)
            }
            // What cannot be told apart is not looked at again.
            Item::Rest => return false,
        };
        at += length;
    }
    at == frame.len()
}

/// Adds the values of a frame, which has these items, to the columns.
pub(super) fn push(items: &[Item], frame: &[u8], columns: &mut [Vec<u64>], bytes: &mut [Vec<u8>]) {
    let mut columns = columns.iter_mut();
    let mut bytes = bytes.iter_mut();
    let mut put = |number: u64| {
        if let Some(column) = columns.next() {
            column.push(number);
        }
    };
    let mut put_bytes = |part: &[u8]| {
        if let Some(bytes) = bytes.next() {
            bytes.extend_from_slice(part);
        }
    };
    let mut rest = frame.get(FRAME_HEADER..).unwrap_or_default();
    for item in items {
        let length = match *item {
            Item::Registers { size, .. } => {
                let registers = rest.get(SET_HEADER..SET_HEADER + size).unwrap_or_default();
                let (words, last) = registers.as_chunks::<8>();
                for word in words {
                    put(u64::from_le_bytes(*word));
                }
                if !last.is_empty() {
                    put(number(last));
                }
                SET_HEADER + size
            }
            Item::Variable(_) => {
                put(word_at(rest, 5));
                VARIABLE_BLOCK
            }
            Item::Nanoseconds => {
                put(nanoseconds_of(word_at(rest, 5)));
                VARIABLE_BLOCK
            }
            Item::Number(length) => {
                let length = usize::from(length);
                put(word_at(rest, 1));
                let value = rest.get(MEMORY_HEADER..MEMORY_HEADER + length);
                put(number(value.unwrap_or_default()));
                MEMORY_HEADER + length
            }
            Item::Memory => {
                let length = ByteOrder::Little.u16_at(rest, 9).unwrap_or_default();
                put(word_at(rest, 1));
                put(u64::from(length));
                let length = usize::from(length);
                let part = rest.get(MEMORY_HEADER..MEMORY_HEADER + length);
                put_bytes(part.unwrap_or_default());
                MEMORY_HEADER + length
            }
            Item::Rest => {
                put(rest.len() as u64);
                put_bytes(rest);
                rest.len()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    ByteOrder::Little.u64_at(bytes, at).unwrap_or_default()
}

/// The number of up to 8 bytes, least significant first.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let word = bytes.iter().rev();
    word.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
