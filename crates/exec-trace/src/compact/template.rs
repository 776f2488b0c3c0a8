//! What executions of one instruction have in common: everything but the numbers that change.
//!
//! A [`Template`] stands for a *group*: the line of an instruction and the lines of what it did, down to the next
//! instruction. Its *skeleton* is their text with marks in the places of numbers; a group's text is its skeleton
//! with its numbers in their places, byte for byte.

use super::bytes::{Damaged, Reader, put, put_slice};
use super::effect::Effect;
use super::templates::Templates;
use crate::record::Scale;

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

    /// Whether text with this byte cannot be in a skeleton.
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

/// The instruction of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TemplateInstruction {
    pub(crate) cpu: u32,
    pub(crate) address: u64,
    pub(crate) taken: bool,
    /// Where its line is in the group, from 0.
    pub(crate) line: u32,
}

/// What executions of one instruction have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template {
    /// None for a group of lines that belong to other groups' instructions or to none.
    pub(crate) instruction: Option<TemplateInstruction>,
    pub(crate) shape: Shape,
}

/// What templates of one shape share: all but the text and the instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Whether the trace gives the instruction a number.
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

impl Shape {
    /// Appends a template of this shape.
    pub(crate) fn put(&self, instruction: Option<&TemplateInstruction>, out: &mut Vec<u8>) {
        let flags = u8::from(instruction.is_some())
            | u8::from(instruction.is_some_and(|of| of.taken)) << 1
            | u8::from(self.apart > 0) << 2
            | u8::from(self.has_id) << 3;
        out.push(flags);
        out.push(self.scale as u8);
        out.push(self.decimals);
        put(out, u64::from(self.lines));
        if let Some(instruction) = instruction {
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
}

impl Template {
    /// Whether any line has a time that is not its group's: then it has a row of differences.
    pub(crate) fn has_other_times(&self) -> bool {
        self.shape.rows[Class::Text as usize] > 0
            && (self.shape.effects.iter()).any(|effect| effect.time.is_some())
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let flags = reader.byte()?;
        let scale = scale(reader.byte()?)?;
        let decimals = reader.byte()?;
        let lines = reader.small()?;
        let instruction = if flags & 1 != 0 {
            Some(TemplateInstruction {
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
        let shape = Shape {
            has_id: flags & 8 != 0,
            scale,
            decimals,
            lines,
            apart,
            unparsed,
            variables: variables.into(),
            rows,
            effects: effects.into(),
        };
        Ok(Self { instruction, shape })
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

/// Some of the blocks of a segment, by their numbers in it: a bit each. The last bit is for all from the 64th on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Blocks(pub(crate) u64);

impl Blocks {
    const LAST: usize = 63;

    pub(crate) const fn insert(&mut self, block: usize) {
        self.0 |= 1
            << if block < Self::LAST {
                block
            } else {
                Self::LAST
            };
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The first of them from a block on, that one included.
    pub(crate) fn next(self, from: usize) -> Option<usize> {
        if from >= Self::LAST {
            return (self.0 >> Self::LAST != 0).then_some(from);
        }
        let rest = self.0 >> from;
        (rest != 0).then(|| from + rest.trailing_zeros() as usize)
    }

    /// The last of them up to a block, that one included.
    pub(crate) fn last(self, upto: usize) -> Option<usize> {
        if upto >= Self::LAST && self.0 >> Self::LAST != 0 {
            return Some(upto);
        }
        let rest = self.0 << (Self::LAST - upto.min(Self::LAST - 1));
        (rest != 0).then(|| upto.min(Self::LAST - 1) - rest.leading_zeros() as usize)
    }
}

/// The templates of a segment: their number, then each after the length of its skeleton and the blocks that have it.
pub(crate) fn put_templates(
    out: &mut Vec<u8>,
    templates: &Templates,
    registers: &[Box<[u8]>],
    blocks: &[Blocks],
) {
    put(out, registers.len() as u64);
    for name in registers {
        put_slice(out, name);
    }
    put(out, templates.len() as u64);
    debug_assert_eq!(blocks.len(), templates.len(), "each is in a block");
    for ((instruction, shape, length), blocks) in templates.iter().zip(blocks) {
        put(out, u64::from(length));
        put(out, blocks.0);
        shape.put(instruction, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::effect::{Digits, EffectKind, Offset, OtherTime, ValueTemplate};
    use crate::record::{AccessAttribute, AccessKind, BitRange, DataOrder};

    #[test]
    fn blocks_are_found_in_both_directions() {
        for all in [vec![], vec![0], vec![62], vec![63], vec![1, 5, 62, 64, 100]] {
            let mut blocks = Blocks::default();
            all.iter().for_each(|block| blocks.insert(*block));
            // Of those that share a bit each is found.
            let has = |block: usize| {
                all.contains(&block) || block >= 63 && all.iter().any(|of| *of >= 63)
            };
            for from in 0..110 {
                let next = (from..110).find(|block| has(*block));
                assert_eq!(blocks.next(from), next, "{all:?} from {from}");
                let last = (0..=from).rev().find(|block| has(*block));
                assert_eq!(blocks.last(from), last, "{all:?} up to {from}");
            }
        }
    }

    #[test]
    fn templates_come_back() {
        let instruction = TemplateInstruction {
            cpu: 3,
            address: 0xffff_8000_1234_5678,
            taken: true,
            line: 1,
        };
        let shape = Shape {
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
                (Class::Text, 16),
            ]
            .into_iter()
            .zip([0, 0, 1, 0])
            .map(|((class, digits), row)| Variable { class, digits, row })
            .collect(),
            rows: [1, 2, 1],
            effects: [
                Effect {
                    offset: Offset::START,
                    cpu: 1,
                    value: ValueTemplate::Pieces(
                        [Digits::Unknown(3), Digits::Variable { row: 0, digits: 16 }].into(),
                    ),
                    time: None,
                    kind: EffectKind::Register {
                        register: 300,
                        part: Some(BitRange { high: 9, low: 9 }),
                    },
                },
                Effect {
                    offset: Offset::OWN,
                    cpu: 3,
                    value: ValueTemplate::One { row: 1, digits: 3 },
                    time: Some(OtherTime {
                        row: 0,
                        scale: Scale::Nanoseconds,
                        decimals: 3,
                    }),
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
        shape.put(Some(&instruction), &mut out);
        let template = Template {
            instruction: Some(instruction),
            shape,
        };
        let mut reader = Reader::new(&out);
        assert_eq!(Template::read(&mut reader), Ok(template));
        assert!(reader.is_empty());
        for cut in 0..out.len() {
            assert!(Template::read(&mut Reader::new(&out[..cut])).is_err());
        }
    }
}
