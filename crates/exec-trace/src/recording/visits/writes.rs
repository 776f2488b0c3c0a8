//! The writes to registers of a block, gone over as far as is asked.

use crate::compact::RegisterValue;
use crate::compact::block::{Block, Column, GroupPlace};
use crate::compact::bytes::Damaged;
use crate::compact::effect::{Effect, EffectKind, ValueTemplate};
use crate::compact::template::Class;
use crate::index::{BlockAt, Groups, Store};

/// Where the registers of a cpu are in the list.
pub(super) fn cpu_place(
    registers: &mut Vec<(u32, Vec<RegisterValue>)>,
    cpu: u32,
    names: usize,
) -> usize {
    match registers.iter().position(|(of, _)| *of == cpu) {
        Some(place) => place,
        None => {
            registers.push((cpu, vec![RegisterValue::UNKNOWN; names]));
            registers.len() - 1
        }
    }
}

/// The registers that are asked for.
#[derive(Debug)]
pub(super) enum Wanted {
    All,
    /// Those whose numbers have a `true`.
    Some(Vec<bool>),
}

impl Wanted {
    pub(super) fn has(&self, register: u32) -> bool {
        match self {
            Self::All => true,
            Self::Some(wanted) => wanted.get(register as usize) == Some(&true),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Some(wanted) if !wanted.contains(&true))
    }

    /// Which templates of a block write one of them, by their numbers there.
    fn writers(&self, block: &Block) -> Vec<bool> {
        let writes = |effect: &Effect| matches!(effect.kind, EffectKind::Register { register, .. } if self.has(register));
        let templates = block.templates();
        templates
            .map(|(_, template)| template.shape.effects.iter().any(writes))
            .collect()
    }
}

/// The writes to the wanted registers of a block, gone over in the order in which they are seen.
pub(super) struct Writes {
    /// Of each template of the block, by its number there.
    templates: Vec<std::ops::Range<u32>>,
    list: Vec<Write>,
    /// The numbers of these templates.
    column: Column,
    progress: Progress,
}

/// How far a block was gone over.
enum Progress {
    /// In a block whose effects are in order: the groups after this one, this one, and how many of its writes are done.
    Groups(Groups, Option<GroupPlace>, u32),
    /// In the block's order.
    Order(usize),
}

/// A write that a template makes.
#[derive(Clone, Copy)]
struct Write {
    /// The effect of the template.
    effect: u32,
    /// Where the cpu's registers are, and which of them it is.
    cpu: u32,
    register: u32,
    /// Where its numbers start in the column, and how many digits they have, where it writes a known number to all of
    /// the register.
    simple: Option<(u32, u8)>,
}

impl Writes {
    pub(super) fn new(
        store: &Store,
        at: &BlockAt,
        wanted: &Wanted,
        registers: &mut Vec<(u32, Vec<RegisterValue>)>,
        names: usize,
    ) -> Result<Self, Damaged> {
        let writers = wanted.writers(&at.block);
        let mut writes = Self {
            templates: Vec::new(),
            list: Vec::new(),
            column: Column::NONE,
            progress: Progress::Order(0),
        };
        if !writers.contains(&true) {
            return Ok(writes);
        }
        writes.column = store.column_of(at, Class::Register, &writers)?;
        if !at.row.is_unordered {
            let mut groups = at.groups_of(writers);
            let first = groups.next(at);
            writes.progress = Progress::Groups(groups, first, 0);
        }
        let column = &writes.column;
        for (local, template) in at.block.templates() {
            let start = writes.list.len() as u32;
            for (number, effect) in (0..).zip(&template.shape.effects) {
                let EffectKind::Register { register, part } = effect.kind else {
                    continue;
                };
                if !wanted.has(register) {
                    continue;
                }
                let cpu = cpu_place(registers, effect.cpu, names);
                let simple = match effect.value {
                    ValueTemplate::One { row, digits } if part.is_none() => {
                        Some((at.block.row_start(column, local, row), digits))
                    }
                    _ => None,
                };
                writes.list.push(Write {
                    effect: number,
                    cpu: cpu as u32,
                    register,
                    simple,
                });
            }
            writes.templates.push(start..writes.list.len() as u32);
        }
        Ok(writes)
    }

    /// Does every write that is seen at a slot already.
    pub(super) fn catch_up(
        &mut self,
        at: &BlockAt,
        slot: u32,
        registers: &mut [(u32, Vec<RegisterValue>)],
    ) {
        if self.list.is_empty() {
            return;
        }
        let column = &self.column;
        let (groups, next, done) = match &mut self.progress {
            Progress::Groups(groups, next, done) => (groups, next, done),
            Progress::Order(next) => {
                let order = at.order();
                while let Some((_, group, effect)) = order.get(*next).filter(|(of, ..)| *of <= slot)
                {
                    *next += 1;
                    let place = at.places()[*group as usize];
                    let writes = self.templates[usize::from(place.local)].clone();
                    for write in &self.list[writes.start as usize..writes.end as usize] {
                        if write.effect == *effect {
                            write.apply(at, column, place, registers);
                        }
                    }
                }
                return;
            }
        };
        while let Some(place) = next.filter(|place| place.before <= slot) {
            let writes = self.templates[usize::from(place.local)].clone();
            let rest = writes.start + *done..writes.end;
            for write in &self.list[rest.start as usize..rest.end as usize] {
                let effect = &at.template(place).shape.effects[write.effect as usize];
                if at.block.slot(effect, place.before) > slot {
                    return;
                }
                write.apply(at, column, place, registers);
                *done += 1;
            }
            *next = groups.next(at);
            *done = 0;
        }
    }
}

impl Write {
    #[inline]
    fn apply(
        &self,
        at: &BlockAt,
        column: &Column,
        place: GroupPlace,
        registers: &mut [(u32, Vec<RegisterValue>)],
    ) {
        let register = registers
            .get_mut(self.cpu as usize)
            .and_then(|(_, values)| values.get_mut(self.register as usize));
        let Some(register) = register else { return };
        if let Some((start, digits)) = self.simple {
            register.write_number(column.number(start + place.occurrence), digits);
            return;
        }
        let effect: &Effect = &at.template(place).shape.effects[self.effect as usize];
        let value = at.block.value(column, place, &effect.value);
        match effect.kind {
            EffectKind::Register {
                part: Some(part), ..
            } => register.write_part(part, &value),
            _ => register.write(&value),
        }
    }
}
