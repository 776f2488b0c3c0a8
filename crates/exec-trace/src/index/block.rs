//! A block that was read, and where in it each instruction and what it did is.

use std::ops::Range;
use std::sync::OnceLock;

use super::write::BlockRow;
use crate::compact::block::{Block, GroupPlace, Walk};
use crate::compact::effect::Effect;
use crate::compact::template::Template;
use crate::compact::value::RegisterValue;

/// A block, and where its frames are.
#[derive(Debug)]
pub(crate) struct BlockAt {
    pub(crate) row: BlockRow,
    pub(crate) block: Block,
    /// Its groups, in order.
    places: OnceLock<Vec<GroupPlace>>,
    /// The group of each instruction.
    instructions: OnceLock<Vec<u32>>,
    /// The lines of the block before each group.
    lines: OnceLock<Vec<u64>>,
    /// Where its effects are not in the order of their slots: slot, group and place of each, in order.
    order: OnceLock<Vec<(u32, u32, u32)>>,
    /// The registers at its start.
    pub(crate) registers: OnceLock<Vec<(u32, u32, RegisterValue)>>,
}

/// A way over the groups of some templates.
pub(crate) enum Groups {
    /// Where each group has an instruction.
    Runs(Walk),
    Places {
        is_selected: Vec<bool>,
        /// How many instructions are before the first group that is not meant any more.
        end: u32,
        next: usize,
    },
}

impl Groups {
    /// The next group of a block: the one for which this was made.
    #[inline]
    pub(crate) fn next(&mut self, at: &BlockAt) -> Option<GroupPlace> {
        match self {
            Self::Runs(walk) => walk.next(&at.block),
            Self::Places {
                is_selected,
                end,
                next,
            } => {
                let rest = at.places().get(*next..)?;
                let rest = rest.iter().take_while(|place| place.before < *end);
                let mut rest = rest.inspect(|_| *next += 1);
                let found = rest.find(|place| is_selected[usize::from(place.local)]);
                found.copied()
            }
        }
    }
}

impl BlockAt {
    pub(crate) fn new(row: BlockRow, block: Block) -> Self {
        Self {
            row,
            block,
            places: OnceLock::new(),
            instructions: OnceLock::new(),
            lines: OnceLock::new(),
            order: OnceLock::new(),
            registers: OnceLock::new(),
        }
    }

    /// Its groups, in order.
    pub(crate) fn places(&self) -> &[GroupPlace] {
        self.places.get_or_init(|| self.block.groups())
    }

    /// Whether each group has an instruction.
    const fn is_full(&self) -> bool {
        self.row.groups == self.row.instructions
    }

    /// The group of an instruction, by its number in the block.
    #[inline]
    pub(crate) fn group_of(&self, instruction: u32) -> Option<GroupPlace> {
        let places = self.places();
        let group = if self.is_full() {
            instruction
        } else {
            let groups = self.instructions.get_or_init(|| {
                let with = |place: &&GroupPlace| self.template(**place).instruction.is_some();
                places
                    .iter()
                    .filter(with)
                    .map(|place| place.index)
                    .collect()
            });
            *groups.get(instruction as usize)?
        };
        places.get(group as usize).copied()
    }

    #[inline]
    pub(crate) fn template(&self, place: GroupPlace) -> &Template {
        self.block.template(place.local)
    }

    /// The lines of the trace before a group.
    pub(crate) fn lines_before(&self, place: GroupPlace) -> u64 {
        let before = self.lines.get_or_init(|| {
            let mut lines = 0;
            let before = |place: &GroupPlace| {
                let before = lines;
                lines += u64::from(self.template(*place).shape.lines);
                before
            };
            self.places().iter().map(before).collect()
        });
        let lines = before.get(place.index as usize).copied();
        self.row.lines + lines.unwrap_or_default()
    }

    /// The groups in which effects of a slot may be, in a block whose effects are in order.
    #[inline]
    fn groups_of_slot(&self, slot: u32) -> Range<usize> {
        // From after the group of the instruction before to that of the instruction after.
        let behind = |instruction: u32| {
            self.group_of(instruction)
                .map_or(self.places().len(), |place| place.index as usize)
        };
        let start = match slot.checked_sub(2) {
            None => 0,
            Some(before) => behind(before) + 1,
        };
        // Lines before the next instruction's own may be in its group. A damaged table may ask for slots that are not
        // there.
        let count = self.places().len();
        let start = start.min(count);
        start..(behind(slot) + 1).clamp(start, count)
    }

    /// Everything that is seen from a slot on, in order.
    #[inline]
    pub(crate) fn effects_at<'a>(
        &'a self,
        slot: u32,
        mut each: impl FnMut(GroupPlace, &'a Effect),
    ) {
        if self.row.is_unordered {
            let order = self.order();
            let start = order.partition_point(|(at, ..)| *at < slot);
            for (_, group, place) in order[start..].iter().take_while(|(at, ..)| *at == slot) {
                let group = self.places()[*group as usize];
                each(group, &self.template(group).shape.effects[*place as usize]);
            }
            return;
        }
        for place in &self.places()[self.groups_of_slot(slot)] {
            for effect in &self.template(*place).shape.effects {
                if self.block.slot(effect, place.before) == slot {
                    each(*place, effect);
                }
            }
        }
    }

    /// The groups of some templates, in order.
    pub(crate) fn groups_of(&self, is_selected: Vec<bool>) -> Groups {
        self.groups_before(is_selected, u32::MAX)
    }

    /// Those that have at most so many instructions before them.
    fn groups_before(&self, is_selected: Vec<bool>, end: u32) -> Groups {
        match self.is_full() {
            true => Groups::Runs(self.block.walk(is_selected, end.min(self.row.groups))),
            false => Groups::Places {
                is_selected,
                end,
                next: 0,
            },
        }
    }

    /// Everything that is seen at a slot already, in order, of the templates that are meant, by their
    /// numbers in the block.
    pub(crate) fn effects_up_to(
        &self,
        slot: u32,
        is_selected: &[bool],
        mut each: impl FnMut(GroupPlace, &Effect),
    ) {
        if self.row.is_unordered {
            for (_, group, place) in self.order().iter().take_while(|(at, ..)| *at <= slot) {
                let group = self.places()[*group as usize];
                if is_selected[usize::from(group.local)] {
                    each(group, &self.template(group).shape.effects[*place as usize]);
                }
            }
            return;
        }
        // Lines of the instruction before may be in the group of the next.
        let mut groups = self.groups_before(is_selected.to_vec(), slot.saturating_add(1));
        while let Some(place) = groups.next(self) {
            for effect in &self.template(place).shape.effects {
                if self.block.slot(effect, place.before) <= slot {
                    each(place, effect);
                }
            }
        }
    }

    pub(crate) fn order(&self) -> &[(u32, u32, u32)] {
        self.order.get_or_init(|| {
            let mut order = Vec::new();
            for place in self.places() {
                for (at, effect) in self.template(*place).shape.effects.iter().enumerate() {
                    let slot = self.block.slot(effect, place.before);
                    order.push((slot, place.index, at as u32));
                }
            }
            order.sort_unstable();
            order
        })
    }
}
