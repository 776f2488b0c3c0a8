//! A segment as it is read: its templates, and their skeletons where text is asked for.

use std::sync::OnceLock;

use super::bytes::{Damaged, Reader};
use super::effect::EffectKind;
use super::encode::read_names;
use super::frame::unpack;
use super::map::Map;
use super::template::{Blocks, Template, mark};
use crate::record::Time;

/// What the blocks of a segment share.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) templates: Vec<Template>,
    /// Which blocks have each template.
    blocks: Vec<Blocks>,
    /// The trace's number of each register of the segment.
    registers: Vec<u32>,
    /// Where each template's skeleton ends, all of them one after the other.
    ends: Vec<u32>,
    skeletons: OnceLock<Vec<u8>>,
}

impl Segment {
    /// From its frame of templates. `registers` gives the trace's number of a register's name.
    pub(crate) fn read(frame: &[u8], registers: &Map<Box<[u8]>, u32>) -> Result<Self, Damaged> {
        let raw = unpack(frame)?;
        let mut reader = Reader::new(&raw);
        let registers = read_names(&mut reader)?
            .iter()
            .map(|name| registers.get(name).copied().ok_or(Damaged))
            .collect::<Result<Vec<_>, _>>()?;
        let count = reader.count()?;
        let mut templates = Vec::with_capacity(count);
        let mut ends = Vec::with_capacity(count);
        let mut blocks = Vec::with_capacity(count);
        let mut end = 0u32;
        for _ in 0..count {
            end = end.checked_add(reader.small()?).ok_or(Damaged)?;
            ends.push(end);
            blocks.push(Blocks(reader.number()?));
            let mut template = Template::read(&mut reader)?;
            for effect in &mut template.shape.effects {
                if let EffectKind::Register { register, .. } = &mut effect.kind {
                    *register = *registers.get(*register as usize).ok_or(Damaged)?;
                }
            }
            templates.push(template);
        }
        Ok(Self {
            templates,
            blocks,
            registers,
            ends,
            skeletons: OnceLock::new(),
        })
    }

    /// About how much memory it takes.
    pub(crate) fn size(&self) -> usize {
        self.templates.len() * 200
            + self.registers.len() * 4
            + self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The blocks that have any of some templates.
    pub(crate) fn blocks_of(&self, is_selected: &[bool]) -> Blocks {
        let all = self.blocks.iter().zip(is_selected);
        all.filter(|(_, is_selected)| **is_selected)
            .fold(Blocks::default(), |all, (blocks, _)| all.union(*blocks))
    }

    /// The skeleton of a template; `frame` is the segment's frame of skeletons.
    pub(crate) fn skeleton(&self, template: u32, frame: &[u8]) -> Result<&[u8], Damaged> {
        let all = match self.skeletons.get() {
            Some(all) => all,
            None => {
                let all = unpack(frame)?;
                if all.len() != self.ends.last().map_or(0, |end| *end as usize) {
                    return Err(Damaged);
                }
                self.skeletons.get_or_init(|| all)
            }
        };
        let at = template as usize;
        let start = match at.checked_sub(1) {
            None => 0,
            Some(before) => *self.ends.get(before).ok_or(Damaged)? as usize,
        };
        let end = *self.ends.get(at).ok_or(Damaged)? as usize;
        all.get(start..end).ok_or(Damaged)
    }
}

/// The numbers of one group, for its text.
pub(crate) struct GroupNumbers<'a, 'b> {
    pub(crate) time: Time,
    pub(crate) id: u64,
    /// The value of a variable, by its place.
    pub(crate) variable: &'a dyn Fn(u16) -> Option<(u64, u8)>,
    /// The lines kept apart, each after its length.
    pub(crate) apart: &'a mut Reader<'b>,
}

/// Writes a group's text.
pub(crate) fn render(
    skeleton: &[u8],
    numbers: GroupNumbers<'_, '_>,
    out: &mut Vec<u8>,
) -> Result<(), Damaged> {
    const LOWER: &[u8; 16] = b"0123456789abcdef";
    const UPPER: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = skeleton;
    loop {
        let Some(at) = rest.iter().position(|byte| mark::is_mark(*byte)) else {
            out.extend_from_slice(rest);
            return Ok(());
        };
        out.extend_from_slice(&rest[..at]);
        let mut reader = Reader::new(&rest[at..]);
        match reader.byte()? {
            mark::TIME => decimal(out, numbers.time.ticks),
            mark::POINT_TIME => {
                let decimals = reader.byte()?.checked_sub(0x20).ok_or(Damaged)?;
                let unit = 10u64.checked_pow(u32::from(decimals)).ok_or(Damaged)?;
                decimal(out, numbers.time.ticks / unit);
                out.push(b'.');
                let fraction = numbers.time.ticks % unit;
                let digits = usize::from(decimals);
                out.extend_from_slice(format!("{fraction:0digits$}").as_bytes());
            }
            mark::ID => decimal(out, numbers.id),
            kind @ (mark::LOWER | mark::UPPER | mark::SHORT | mark::OTHER_TIME) => {
                let low = reader.byte()?.checked_sub(0x20).ok_or(Damaged)?;
                let high = reader.byte()?.checked_sub(0x20).ok_or(Damaged)?;
                let place = u16::from(low) | u16::from(high) << 6;
                let (value, digits) = (numbers.variable)(place).ok_or(Damaged)?;
                let mut hex = |digits: u8, alphabet: &[u8; 16]| {
                    out.extend(
                        (0..digits)
                            .rev()
                            .map(|at| alphabet[(value >> (at * 4)) as usize & 15]),
                    );
                };
                match kind {
                    mark::LOWER => hex(digits, LOWER),
                    mark::UPPER => hex(digits, UPPER),
                    mark::SHORT => {
                        let digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
                        hex(digits as u8, LOWER);
                    }
                    _ => decimal(out, numbers.time.ticks.wrapping_add(value)),
                }
            }
            mark::EVENT | mark::UNPARSED | mark::ODD => {
                out.extend_from_slice(numbers.apart.slice()?);
            }
            _ => return Err(Damaged),
        }
        rest = reader.rest();
    }
}

fn decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}
