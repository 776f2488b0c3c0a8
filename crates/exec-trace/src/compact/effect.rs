//! What an instruction did, as a template gives it: which register or memory, and where its numbers are.

use super::bytes::{Damaged, Reader, put, put_signed};
use super::template::{Class, MOST_IN_GROUP, scale};
use crate::record::{AccessAttribute, AccessKind, BitRange, DataOrder, Scale};

/// In the place of an attribute: it follows, and a time with it.
const HAS_TIME: u8 = 3;

/// The most decimals that a time has.
const MOST_DECIMALS: u8 = 18;

/// Digits of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Digits {
    /// Those of a variable.
    Variable { row: u16, digits: u8 },
    /// So many unknown ones.
    Unknown(u16),
}

/// The digits of a value, the most significant first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ValueTemplate {
    /// One variable has them all.
    One { row: u16, digits: u8 },
    /// Several pieces.
    Pieces(Box<[Digits]>),
}

/// To which instruction an effect belongs, counted from the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Offset(pub(crate) i32);

impl Offset {
    /// The effect is of the state before the first instruction.
    pub(crate) const START: Self = Self(i32::MIN);
    /// It belongs to the group's own instruction; 0 is the one before, and so on.
    pub(crate) const OWN: Self = Self(1);

    /// The slot, given the number of instructions before the group: the effect is seen from the instruction of this
    /// number on.
    #[inline]
    pub(crate) fn slot(self, before: u64) -> u64 {
        if self == Self::START {
            return 0;
        }
        before.saturating_add_signed(i64::from(self.0))
    }
}

/// The time of a record that is not that of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OtherTime {
    /// The row, among those of the text, of the difference to the group's ticks.
    pub(crate) row: u16,
    pub(crate) scale: Scale,
    pub(crate) decimals: u8,
}

/// What an instruction did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) offset: Offset,
    pub(crate) cpu: u32,
    pub(crate) value: ValueTemplate,
    /// None where it has the group's time, as nearly all have.
    pub(crate) time: Option<OtherTime>,
    pub(crate) kind: EffectKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum EffectKind {
    Register {
        /// By its place in the segment's list of names.
        register: u32,
        part: Option<BitRange>,
    },
    Access {
        kind: AccessKind,
        size: u32,
        attribute: Option<AccessAttribute>,
        order: DataOrder,
        /// The row of the address.
        address: u16,
        address_digits: u8,
    },
}

impl Effect {
    /// The class that the value's rows are of.
    pub(crate) const fn class(&self) -> Class {
        match self.kind {
            EffectKind::Register { .. } => Class::Register,
            EffectKind::Access { .. } => Class::Memory,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let whole = matches!(self.value, ValueTemplate::One { .. });
        let own = self.offset == Offset::OWN;
        let (kind, attribute, order, part) = match &self.kind {
            EffectKind::Register { part, .. } => (0, None, DataOrder::Number, part.is_some()),
            EffectKind::Access {
                kind,
                attribute,
                order,
                ..
            } => match kind {
                AccessKind::Read => (1, *attribute, *order, false),
                AccessKind::Write => (2, *attribute, *order, false),
            },
        };
        let attribute = match attribute {
            None => 0,
            Some(AccessAttribute::X) => 1,
            Some(AccessAttribute::T) => 2,
        };
        // A time of its own is rare: the attribute then follows with it.
        let in_flags = match self.time {
            None => attribute,
            Some(_) => HAS_TIME,
        };
        // Registers have no order, and accesses no part: they share a bit.
        let order = match order {
            DataOrder::Number => 0,
            DataOrder::HighestAddressFirst => 1,
            DataOrder::LowestAddressFirst => 2,
        };
        out.push(
            kind | in_flags << 2
                | order << 4
                | u8::from(part) << 5
                | u8::from(whole) << 6
                | u8::from(own) << 7,
        );
        if let Some(OtherTime {
            row,
            scale,
            decimals,
        }) = self.time
        {
            out.extend([attribute, scale as u8, decimals]);
            put(out, u64::from(row));
        }
        if !own {
            put_signed(out, i64::from(self.offset.0));
        }
        put(out, u64::from(self.cpu));
        match &self.kind {
            EffectKind::Register { register, part } => {
                put(out, u64::from(*register));
                if let Some(BitRange { high, low }) = part {
                    put(out, u64::from(*high));
                    put(out, u64::from(*low));
                }
            }
            EffectKind::Access {
                size,
                address,
                address_digits,
                ..
            } => {
                put(out, u64::from(*size));
                put(out, u64::from(*address));
                out.push(*address_digits);
            }
        }
        match &self.value {
            ValueTemplate::One { row, digits } => {
                put(out, u64::from(*row));
                out.push(*digits);
            }
            ValueTemplate::Pieces(pieces) => {
                put(out, pieces.len() as u64);
                for piece in pieces {
                    match piece {
                        Digits::Variable { row, digits } => {
                            out.push(*digits);
                            put(out, u64::from(*row));
                        }
                        Digits::Unknown(digits) => {
                            out.push(0);
                            put(out, u64::from(*digits));
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let flags = reader.byte()?;
        let (attribute, time) = match flags >> 2 & 3 {
            HAS_TIME => (
                reader.byte()?,
                Some(OtherTime {
                    scale: scale(reader.byte()?)?,
                    decimals: reader.byte()?,
                    row: reader.small()?,
                }),
            ),
            attribute => (attribute, None),
        };
        let offset = if flags & 0x80 != 0 {
            Offset::OWN
        } else {
            Offset(i32::try_from(reader.signed()?).map_err(|_| Damaged)?)
        };
        let cpu = reader.small()?;
        let attribute = match attribute {
            0 => None,
            1 => Some(AccessAttribute::X),
            2 => Some(AccessAttribute::T),
            _ => return Err(Damaged),
        };
        let order = flags >> 4 & 3;
        let kind = match flags & 3 {
            0 => EffectKind::Register {
                register: reader.small()?,
                part: if flags & 0x20 != 0 {
                    let (high, low) = (reader.small()?, reader.small()?);
                    (low <= high).then_some(BitRange { high, low })
                } else {
                    None
                },
            },
            kind @ (1 | 2) => EffectKind::Access {
                kind: if kind == 1 {
                    AccessKind::Read
                } else {
                    AccessKind::Write
                },
                attribute,
                order: match order {
                    0 => DataOrder::Number,
                    1 => DataOrder::HighestAddressFirst,
                    2 => DataOrder::LowestAddressFirst,
                    _ => return Err(Damaged),
                },
                size: reader.small()?,
                address: reader.small()?,
                address_digits: reader.byte()?,
            },
            _ => return Err(Damaged),
        };
        let value = if flags & 0x40 != 0 {
            ValueTemplate::One {
                row: reader.small()?,
                digits: reader.byte()?,
            }
        } else {
            let count = reader.count()?;
            let mut pieces = Vec::with_capacity(count.min(MOST_IN_GROUP));
            for _ in 0..count {
                pieces.push(match reader.byte()? {
                    0 => Digits::Unknown(reader.small()?),
                    digits => Digits::Variable {
                        digits,
                        row: reader.small()?,
                    },
                });
            }
            ValueTemplate::Pieces(pieces.into())
        };
        Ok(Self {
            offset,
            cpu,
            value,
            time,
            kind,
        })
    }

    /// Whether every row that is named is there and every width is one that a record can have.
    pub(crate) fn check(&self, rows: [u16; 3]) -> Result<(), Damaged> {
        let most = crate::value::MAX_DIGITS;
        let time = self.time.is_none_or(|time| {
            time.row < rows[Class::Text as usize] && time.decimals <= MOST_DECIMALS
        });
        let rows = rows[self.class() as usize];
        let is_good = |row: u16, digits: u8| row < rows && (1..=16).contains(&digits);
        let value = match &self.value {
            ValueTemplate::One { row, digits } => is_good(*row, *digits),
            ValueTemplate::Pieces(pieces) => {
                let mut all = 0u32;
                pieces.iter().all(|piece| {
                    let (good, digits) = match piece {
                        Digits::Variable { row, digits } => {
                            (is_good(*row, *digits), u32::from(*digits))
                        }
                        Digits::Unknown(digits) => (true, u32::from(*digits)),
                    };
                    all = all.saturating_add(digits);
                    good && all <= most
                })
            }
        };
        let kind = match self.kind {
            EffectKind::Register { .. } => true,
            EffectKind::Access { size, address, .. } => size <= most / 2 && address < rows,
        };
        if value && kind && time {
            Ok(())
        } else {
            Err(Damaged)
        }
    }
}
