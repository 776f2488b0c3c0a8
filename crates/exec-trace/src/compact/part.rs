//! Accesses cut at granules, the units in which memory is indexed.

use tracewire_model::ByteOrder;

use super::effect::{Digits, Effect, EffectKind, ValueTemplate};
use super::value::RegisterValue;
use crate::record::{AccessKind, DataOrder};

/// How many bytes a granule has.
pub(crate) const GRANULE: u64 = 8;

/// The part of an access that is in one granule and either known or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The address divided by [`GRANULE`].
    pub(crate) granule: u64,
    /// The bytes, that at the lowest address in the lowest bits.
    pub(crate) data: u64,
    /// From which instruction of the segment on it is seen.
    pub(crate) slot: u32,
    /// The first byte in the granule.
    pub(crate) offset: u8,
    /// How many bytes.
    pub(crate) length: u8,
    pub(crate) kind: AccessKind,
    pub(crate) is_known: bool,
}

impl ValueTemplate {
    /// The value, given what its rows hold.
    pub(crate) fn register_value(&self, row: impl Fn(u16) -> u64) -> RegisterValue {
        match self {
            Self::One { row: at, digits } => RegisterValue::of(row(*at), *digits),
            Self::Pieces(pieces) => {
                let mut value = RegisterValue::UNKNOWN;
                let mut at = 0;
                for piece in pieces.iter().rev() {
                    match piece {
                        Digits::Variable { row: of, digits } => {
                            value.put_digits(at, row(*of), *digits);
                            at += u32::from(*digits);
                        }
                        Digits::Unknown(digits) => at += u32::from(*digits),
                    }
                }
                value.set_digits(at as u16);
                value
            }
        }
    }
}

/// Whether the least significant byte of a number is at the lowest address.
const fn is_little(order: DataOrder, target: ByteOrder) -> bool {
    match order {
        DataOrder::Number => matches!(target, ByteOrder::Little),
        DataOrder::HighestAddressFirst => true,
        DataOrder::LowestAddressFirst => false,
    }
}

/// The bytes of an access as they are in memory.
pub(crate) fn memory_bytes(
    value: &ValueTemplate,
    size: u32,
    order: DataOrder,
    target: ByteOrder,
    row: impl Fn(u16) -> u64,
) -> Vec<Option<u8>> {
    let size = size as usize;
    let value = value.register_value(row);
    let mut bytes: Vec<_> = value.bytes().take(size).collect();
    // What is missing at the front are zeros.
    bytes.resize(size, Some(0));
    if !is_little(order, target) {
        bytes.reverse();
    }
    bytes
}

/// The number that the bytes of an access make as they are in memory, the lowest address in the lowest bits; for
/// accesses of at most 8 bytes, all known.
#[inline]
pub(crate) fn memory_word(
    value: &ValueTemplate,
    size: u32,
    order: DataOrder,
    target: ByteOrder,
    row: impl Fn(u16) -> u64,
) -> Option<u64> {
    let ValueTemplate::One { row: at, digits } = value else {
        return None;
    };
    if !(1..=8).contains(&size) || u32::from(*digits) > size * 2 {
        return None;
    }
    let number = row(*at);
    Some(if is_little(order, target) {
        number
    } else {
        number.swap_bytes() >> (64 - size * 8)
    })
}

/// Cuts an access; adds its parts.
#[inline]
pub(crate) fn parts(
    effect: &Effect,
    slot: u32,
    target: ByteOrder,
    row: impl Fn(u16) -> u64,
    out: &mut Vec<Part>,
) {
    let EffectKind::Access {
        kind,
        size,
        order,
        address,
        ..
    } = effect.kind
    else {
        return;
    };
    let address = row(address);
    if let Some(word) = memory_word(&effect.value, size, order, target, &row) {
        let offset = address % GRANULE;
        let here = u64::from(size).min(GRANULE - offset);
        let part = Part {
            granule: address / GRANULE,
            data: word & bytes_mask(here),
            slot,
            offset: offset as u8,
            length: here as u8,
            kind,
            is_known: true,
        };
        out.push(part);
        let rest = u64::from(size) - here;
        if rest > 0 {
            out.push(Part {
                granule: address.wrapping_add(here) / GRANULE,
                data: word >> (here * 8) & bytes_mask(rest),
                offset: 0,
                length: rest as u8,
                ..part
            });
        }
        return;
    }
    let bytes = memory_bytes(&effect.value, size, order, target, row);
    let mut open: Option<Part> = None;
    for (at, byte) in bytes.into_iter().enumerate() {
        let address = address.wrapping_add(at as u64);
        let (granule, offset) = (address / GRANULE, (address % GRANULE) as u8);
        if let Some(part) = &mut open
            && part.granule == granule
            && part.is_known == byte.is_some()
        {
            part.data |= u64::from(byte.unwrap_or(0)) << (part.length * 8);
            part.length += 1;
            continue;
        }
        out.extend(open.replace(Part {
            granule,
            data: u64::from(byte.unwrap_or(0)),
            slot,
            offset,
            length: 1,
            kind,
            is_known: byte.is_some(),
        }));
    }
    out.extend(open);
}

/// The bits of so many bytes.
#[inline]
pub(crate) const fn bytes_mask(count: u64) -> u64 {
    if count >= 8 {
        u64::MAX
    } else {
        (1 << (count * 8)) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::effect::Offset;

    fn cut(address: u64, size: u32, number: u64, target: ByteOrder) -> Vec<(u64, u8, u8, u64)> {
        let effect = Effect {
            offset: Offset::OWN,
            cpu: 0,
            value: ValueTemplate::One {
                row: 1,
                digits: (size * 2) as u8,
            },
            time: None,
            kind: EffectKind::Access {
                kind: AccessKind::Write,
                size,
                attribute: None,
                order: DataOrder::Number,
                address: 0,
                address_digits: 8,
            },
        };
        let mut out = Vec::new();
        parts(
            &effect,
            0,
            target,
            |row| [address, number][usize::from(row)],
            &mut out,
        );
        out.iter()
            .map(|part| (part.granule, part.offset, part.length, part.data))
            .collect()
    }

    #[test]
    fn bytes_are_in_the_targets_order() {
        let number = 0x1122_3344;
        assert_eq!(
            cut(16, 4, number, ByteOrder::Little),
            [(2, 0, 4, 0x1122_3344)]
        );
        assert_eq!(cut(16, 4, number, ByteOrder::Big), [(2, 0, 4, 0x4433_2211)]);
        assert_eq!(
            cut(14, 4, number, ByteOrder::Little),
            [(1, 6, 2, 0x3344), (2, 0, 2, 0x1122)]
        );
        assert_eq!(
            cut(14, 4, number, ByteOrder::Big),
            [(1, 6, 2, 0x2211), (2, 0, 2, 0x4433)]
        );
        assert_eq!(
            cut(3, 8, 0x1122_3344_5566_7788, ByteOrder::Big),
            [(0, 3, 5, 0x55_4433_2211), (1, 0, 3, 0x88_7766)]
        );
    }
}
