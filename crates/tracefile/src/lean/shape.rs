//! The shape of a frame: its tracepoint and the kinds of its blocks. Frames of one shape have their values in the same columns.

use std::ops::Range;

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

/// Reads a frame, whose tracepoint is the right one, as these items: a number for each column, and where the bytes are of items that have
/// bytes. Nothing where the frame has other items.
pub(super) fn read(
    items: &[Item],
    frame: &[u8],
    row: &mut [u64],
    bytes: &mut Vec<Range<usize>>,
) -> Option<()> {
    bytes.clear();
    let mut cells = row.iter_mut();
    let mut put = |number: u64| {
        if let Some(cell) = cells.next() {
            *cell = number;
        }
    };
    let mut rest = frame.get(FRAME_HEADER..)?;
    for item in items {
        match *item {
            Item::Registers { set, size } => {
                let ([letter, number @ ..], after) = rest.split_first_chunk::<SET_HEADER>()?;
                if *letter != SET_LETTER || u32::from_le_bytes(*number) != set {
                    return None;
                }
                let (registers, after) = after.split_at_checked(size)?;
                let (words, last) = registers.as_chunks::<8>();
                for word in words {
                    put(u64::from_le_bytes(*word));
                }
                if !last.is_empty() {
                    put(number_of(last));
                }
                rest = after;
            }
            Item::Variable(variable) => {
                let (value, after) = read_variable(rest, variable)?;
                put(value);
                rest = after;
            }
            Item::Nanoseconds => {
                let (value, after) = read_variable(rest, FRACTION.0)?;
                put(nanoseconds_of(value));
                rest = after;
            }
            Item::Number(wanted) => {
                let (address, length, after) = read_memory(rest)?;
                if length != u16::from(wanted) {
                    return None;
                }
                put(address);
                let (value, after) = after.split_at_checked(usize::from(wanted))?;
                put(number_of(value));
                rest = after;
            }
            Item::Memory => {
                let (address, length, after) = read_memory(rest)?;
                put(address);
                put(u64::from(length));
                let start = frame.len() - after.len();
                bytes.push(start..start + usize::from(length));
                rest = after.get(usize::from(length)..)?;
            }
            Item::Rest => {
                put(rest.len() as u64);
                bytes.push(frame.len() - rest.len()..frame.len());
                rest = &[];
            }
        }
    }
    rest.is_empty().then_some(())
}

/// The value of the variable whose block is next, and what follows the block.
fn read_variable(rest: &[u8], variable: i32) -> Option<(u64, &[u8])> {
    let (block, after) = rest.split_first_chunk::<VARIABLE_BLOCK>()?;
    let [letter, n0, n1, n2, n3, value @ ..] = *block;
    let is_it = letter == b'V' && i32::from_le_bytes([n0, n1, n2, n3]) == variable;
    is_it.then_some((u64::from_le_bytes(value), after))
}

/// The address and the length of the piece of memory whose block is next, and what follows these.
fn read_memory(rest: &[u8]) -> Option<(u64, u16, &[u8])> {
    let (header, after) = rest.split_first_chunk::<MEMORY_HEADER>()?;
    let [letter, a0, a1, a2, a3, a4, a5, a6, a7, l0, l1] = *header;
    let address = u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
    (letter == b'M').then_some((address, u16::from_le_bytes([l0, l1]), after))
}

/// The number of up to 8 bytes, least significant first.
pub(super) fn number_of(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => {
            let word = bytes.iter().rev();
            word.fold(0, |number, byte| number << 8 | u64::from(*byte))
        }
    }
}
