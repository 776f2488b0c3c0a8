//! What executions of one instruction have in common: everything but the numbers that change.
//!
//! A [`Form`] stands for a *group*: the line of an instruction and the lines of what it did, down to the next
//! instruction. Its *skeleton* is their text with marks in the places of numbers; a group's text is its skeleton
//! with its numbers in their places, byte for byte.

use super::bytes::{Damaged, Reader, put, put_signed, put_slice};
use crate::record::{AccessAttribute, AccessKind, BitRange, DataOrder, Scale};

/// Bytes of a skeleton that stand for something else. Lines that contain such bytes are kept apart.
pub(crate) mod mark {
    /// The group's time: whole ticks in decimal.
    pub(crate) const TIME: u8 = 0x01;
    /// The group's time with a decimal point before the last digits; their number follows, plus 16.
    pub(crate) const POINT_TIME: u8 = 0x02;
    /// The instruction's number in decimal.
    pub(crate) const ID: u8 = 0x03;
    /// The next variable in lower-case hex, all its digits.
    pub(crate) const LOWER: u8 = 0x04;
    /// The next variable in upper-case hex, all its digits.
    pub(crate) const UPPER: u8 = 0x05;
    /// The next variable in lower-case hex, without zeros before it.
    pub(crate) const SHORT: u8 = 0x06;
    /// The next variable in decimal, as a difference to the group's time.
    pub(crate) const OTHER_TIME: u8 = 0x07;
    /// A line that is kept apart: something else than an instruction and what it did.
    pub(crate) const EVENT: u8 = 0x0b;
    /// A line that is kept apart: it could not be read.
    pub(crate) const UNPARSED: u8 = 0x0c;
    /// A line that is kept apart because of its bytes.
    pub(crate) const ODD: u8 = 0x0e;

    /// Whether text with this byte cannot stand in a skeleton.
    pub(crate) const fn is_mark(byte: u8) -> bool {
        byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')
    }
}

/// The most variables and the most effects of one group; a group that has more goes on as another.
pub(crate) const MOST_IN_GROUP: usize = 1 << 12;

/// In which column a variable's values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    /// Values of registers.
    Register = 0,
    /// Addresses and data of accesses.
    Memory = 1,
    /// Numbers of the text only.
    Text = 2,
}

/// A number that changes from one execution to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Variable {
    pub(crate) class: Class,
    /// How many hex digits it has.
    pub(crate) digits: u8,
    /// Which row of its class's column it is.
    pub(crate) row: u16,
}

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
pub(crate) enum ValueForm {
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

/// What an instruction did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Effect {
    pub(crate) offset: Offset,
    pub(crate) cpu: u32,
    pub(crate) value: ValueForm,
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

/// The instruction of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FormInstruction {
    pub(crate) cpu: u32,
    pub(crate) address: u64,
    pub(crate) taken: bool,
    /// Where its line stands in the group, from 0.
    pub(crate) line: u32,
}

/// What executions of one instruction have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    /// None for a group of lines that belong to other groups' instructions or to none.
    pub(crate) instruction: Option<FormInstruction>,
    /// Whether the trace gives it a number.
    pub(crate) has_id: bool,
    pub(crate) scale: Scale,
    pub(crate) decimals: u8,
    /// How many lines the group has.
    pub(crate) lines: u32,
    /// How many of them are kept apart, and how many of these could not be read.
    pub(crate) apart: u32,
    pub(crate) unparsed: u32,
    pub(crate) variables: Box<[Variable]>,
    /// How many variables each class has.
    pub(crate) rows: [u16; 3],
    pub(crate) effects: Box<[Effect]>,
}

impl Form {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.instruction.is_some())
            | u8::from(self.instruction.is_some_and(|of| of.taken)) << 1
            | u8::from(self.apart > 0) << 2
            | u8::from(self.has_id) << 3;
        out.push(flags);
        out.push(self.scale as u8);
        out.push(self.decimals);
        put(out, u64::from(self.lines));
        if let Some(instruction) = self.instruction {
            put(out, u64::from(instruction.cpu));
            put(out, instruction.address);
            put(out, u64::from(instruction.line));
        }
        if self.apart > 0 {
            put(out, u64::from(self.apart));
            put(out, u64::from(self.unparsed));
        }
        put(out, self.variables.len() as u64);
        for variable in &self.variables {
            out.push((variable.class as u8) << 5 | variable.digits);
        }
        put(out, self.effects.len() as u64);
        for effect in &self.effects {
            effect.put(out);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let flags = reader.byte()?;
        let scale = scale(reader.byte()?)?;
        let decimals = reader.byte()?;
        let lines = reader.small()?;
        let instruction = if flags & 1 != 0 {
            Some(FormInstruction {
                cpu: reader.small()?,
                address: reader.number()?,
                line: reader.small()?,
                taken: flags & 2 != 0,
            })
        } else {
            None
        };
        let (apart, unparsed) = if flags & 4 != 0 {
            (reader.small()?, reader.small()?)
        } else {
            (0, 0)
        };
        let count = reader.count()?;
        let mut rows = [0u16; 3];
        let mut variables = Vec::with_capacity(count);
        for _ in 0..count {
            let byte = reader.byte()?;
            let class = match byte >> 5 {
                0 => Class::Register,
                1 => Class::Memory,
                2 => Class::Text,
                _ => return Err(Damaged),
            };
            let digits = byte & 0x1f;
            let row = &mut rows[class as usize];
            if !(1..=16).contains(&digits) || usize::from(*row) > MOST_IN_GROUP {
                return Err(Damaged);
            }
            variables.push(Variable {
                class,
                digits,
                row: *row,
            });
            *row += 1;
        }
        let count = reader.count()?;
        let mut effects = Vec::with_capacity(count.min(MOST_IN_GROUP));
        for _ in 0..count {
            let effect = Effect::read(reader)?;
            effect.check(rows)?;
            effects.push(effect);
        }
        Ok(Self {
            instruction,
            has_id: flags & 8 != 0,
            scale,
            decimals,
            lines,
            apart,
            unparsed,
            variables: variables.into(),
            rows,
            effects: effects.into(),
        })
    }
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
        let whole = matches!(self.value, ValueForm::One { .. });
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
        out.push(
            kind | attribute << 2
                | u8::from(order == DataOrder::HighestAddressFirst) << 4
                | u8::from(part) << 5
                | u8::from(whole) << 6
                | u8::from(own) << 7,
        );
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
            ValueForm::One { row, digits } => {
                put(out, u64::from(*row));
                out.push(*digits);
            }
            ValueForm::Pieces(pieces) => {
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

    fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let flags = reader.byte()?;
        let offset = if flags & 0x80 != 0 {
            Offset::OWN
        } else {
            Offset(i32::try_from(reader.signed()?).map_err(|_| Damaged)?)
        };
        let cpu = reader.small()?;
        let attribute = match flags >> 2 & 3 {
            0 => None,
            1 => Some(AccessAttribute::X),
            2 => Some(AccessAttribute::T),
            _ => return Err(Damaged),
        };
        let order = if flags & 0x10 != 0 {
            DataOrder::HighestAddressFirst
        } else {
            DataOrder::Number
        };
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
                order,
                size: reader.small()?,
                address: reader.small()?,
                address_digits: reader.byte()?,
            },
            _ => return Err(Damaged),
        };
        let value = if flags & 0x40 != 0 {
            ValueForm::One {
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
            ValueForm::Pieces(pieces.into())
        };
        Ok(Self {
            offset,
            cpu,
            value,
            kind,
        })
    }

    /// Whether every row that is named is there and every width is one that a record can have.
    fn check(&self, rows: [u16; 3]) -> Result<(), Damaged> {
        let most = crate::value::MAX_DIGITS;
        let rows = rows[self.class() as usize];
        let is_good = |row: u16, digits: u8| row < rows && (1..=16).contains(&digits);
        let value = match &self.value {
            ValueForm::One { row, digits } => is_good(*row, *digits),
            ValueForm::Pieces(pieces) => {
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
        if value && kind { Ok(()) } else { Err(Damaged) }
    }
}

/// The scale of this number.
pub(crate) fn scale(number: u8) -> Result<Scale, Damaged> {
    Scale::NAMED
        .into_iter()
        .chain([Scale::None])
        .find(|known| *known as u8 == number)
        .ok_or(Damaged)
}

/// The forms of a segment: their number, then each.
pub(crate) fn put_forms(out: &mut Vec<u8>, forms: &[(Form, Box<[u8]>)], registers: &[Box<[u8]>]) {
    put(out, registers.len() as u64);
    for name in registers {
        put_slice(out, name);
    }
    put(out, forms.len() as u64);
    for (form, skeleton) in forms {
        put(out, skeleton.len() as u64);
        form.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_come_back() {
        let form = Form {
            instruction: Some(FormInstruction {
                cpu: 3,
                address: 0xffff_8000_1234_5678,
                taken: true,
                line: 1,
            }),
            has_id: true,
            scale: Scale::Clk,
            decimals: 2,
            lines: 5,
            apart: 2,
            unparsed: 1,
            variables: [
                (Class::Register, 16),
                (Class::Memory, 8),
                (Class::Memory, 3),
            ]
            .into_iter()
            .zip([0, 0, 1])
            .map(|((class, digits), row)| Variable { class, digits, row })
            .collect(),
            rows: [1, 2, 0],
            effects: [
                Effect {
                    offset: Offset::START,
                    cpu: 1,
                    value: ValueForm::Pieces(
                        [Digits::Unknown(3), Digits::Variable { row: 0, digits: 16 }].into(),
                    ),
                    kind: EffectKind::Register {
                        register: 300,
                        part: Some(BitRange { high: 9, low: 9 }),
                    },
                },
                Effect {
                    offset: Offset::OWN,
                    cpu: 3,
                    value: ValueForm::One { row: 1, digits: 3 },
                    kind: EffectKind::Access {
                        kind: AccessKind::Write,
                        size: 8,
                        attribute: Some(AccessAttribute::T),
                        order: DataOrder::HighestAddressFirst,
                        address: 0,
                        address_digits: 16,
                    },
                },
            ]
            .into(),
        };
        let mut out = Vec::new();
        form.put(&mut out);
        let mut reader = Reader::new(&out);
        assert_eq!(Form::read(&mut reader), Ok(form));
        assert!(reader.is_empty());
        for cut in 0..out.len() {
            assert!(Form::read(&mut Reader::new(&out[..cut])).is_err());
        }
    }
}
