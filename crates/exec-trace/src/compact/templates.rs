//! The templates of a segment that is being made, each once, by their numbers.
//!
//! Text that does not repeat has nearly as many templates as groups. So what a template needs is small and has no allocation of its
//! own: its skeleton is in one row of bytes with all others, and what it shares with many is in a [`Shape`]. What is looked up is a
//! number of 4 bytes: the table stays in the processor's cache, and one that grows does not go over the skeletons again.

use std::hash::Hasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::group::Group;
use super::map::{Map, Mixer};
use super::template::{Shape, TemplateInstruction};
use tracewire_arch::Stores;

/// A template without its text.
#[derive(Clone, Copy, Debug)]
struct Row {
    instruction: Option<TemplateInstruction>,
    shape: u32,
    /// Where its skeleton ends.
    end: u32,
    /// Of its skeleton, its shape and its instruction.
    hash: u64,
    /// Whether its instruction writes memory.
    stores: Stores,
    /// The template that came after it the last time; [`NONE`] before that is known.
    next: u32,
}

/// No template.
const NONE: u32 = u32::MAX;

/// Templates, numbered from 0.
#[derive(Default)]
pub(crate) struct Templates {
    shapes: Vec<Shape>,
    by_key: Map<Box<[u8]>, u32>,
    /// Room for the key of a shape.
    key: Vec<u8>,
    skeletons: Vec<u8>,
    rows: Vec<Row>,
    /// The numbers of all.
    numbers: HashTable<u32>,
    /// The latest that was asked for.
    latest: Option<u32>,
}

impl Templates {
    /// The number of a group's template. `stores` is asked of a new one: whether its instruction writes memory.
    #[inline]
    pub(crate) fn number(&mut self, group: &Group, stores: impl FnOnce() -> Stores) -> u32 {
        // A program does mostly what it did before: to compare a group with one template takes less time than to look it up.
        let latest = self.latest;
        let expected = latest.map_or(NONE, |latest| self.rows[latest as usize].next);
        if expected != NONE && self.is_of(group, expected) {
            self.latest = Some(expected);
            return expected;
        }
        let number = self.look_up(group, stores);
        if let Some(latest) = latest {
            self.rows[latest as usize].next = number;
        }
        self.latest = Some(number);
        number
    }

    /// Whether a group is of a template.
    fn is_of(&self, group: &Group, number: u32) -> bool {
        let row = &self.rows[number as usize];
        row.instruction == group.instruction
            && *skeleton(&self.rows, &self.skeletons, number) == group.skeleton
            && group.is_of_shape(&self.shapes[row.shape as usize])
    }

    fn look_up(&mut self, group: &Group, stores: impl FnOnce() -> Stores) -> u32 {
        let shape = self.shape(group);
        let mut mixer = Mixer::default();
        mixer.write(&group.skeleton);
        mixer.write_u64(u64::from(shape));
        if let Some(instruction) = &group.instruction {
            mixer.write_u64(instruction.address);
            mixer.write_u64(u64::from(instruction.cpu) << 32 | u64::from(instruction.line));
        }
        let hash = mixer.finish();
        let (rows, skeletons) = (&self.rows, &self.skeletons);
        let is_this = |number: &u32| {
            let row = &rows[*number as usize];
            row.hash == hash
                && row.shape == shape
                && row.instruction == group.instruction
                && *skeleton(rows, skeletons, *number) == group.skeleton
        };
        let new = rows.len() as u32;
        match (self.numbers).entry(hash, is_this, |number| rows[*number as usize].hash) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(entry) => entry.insert(new),
        };
        self.skeletons.extend_from_slice(&group.skeleton);
        self.rows.push(Row {
            instruction: group.instruction,
            shape,
            end: self.skeletons.len() as u32,
            hash,
            stores: stores(),
            next: NONE,
        });
        new
    }

    /// The number of a group's shape.
    fn shape(&mut self, group: &Group) -> u32 {
        group.shape_key(&mut self.key);
        if let Some(shape) = self.by_key.get(self.key.as_slice()) {
            return *shape;
        }
        let shape = self.shapes.len() as u32;
        self.by_key.insert(self.key.as_slice().into(), shape);
        self.shapes.push(group.shape());
        shape
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// What a template shares with others.
    #[inline]
    pub(crate) fn shape_of(&self, number: u32) -> &Shape {
        &self.shapes[self.rows[number as usize].shape as usize]
    }

    /// A template's instruction.
    #[inline]
    pub(crate) fn instruction(&self, number: u32) -> Option<&TemplateInstruction> {
        self.rows[number as usize].instruction.as_ref()
    }

    /// Whether a template's instruction writes memory.
    #[inline]
    pub(crate) fn stores(&self, number: u32) -> Stores {
        self.rows[number as usize].stores
    }

    /// Forgets all, and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.shapes.clear();
        self.by_key.clear();
        self.skeletons.clear();
        self.rows.clear();
        self.numbers.clear();
        self.latest = None;
    }

    /// The skeletons, one after the other.
    pub(crate) fn skeletons(&self) -> &[u8] {
        &self.skeletons
    }

    /// Of each template its instruction, its shape, and how long its skeleton is.
    pub(crate) fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (Option<&TemplateInstruction>, &Shape, u32)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let length = row.end - start;
            start = row.end;
            let shape = &self.shapes[row.shape as usize];
            (row.instruction.as_ref(), shape, length)
        })
    }
}

/// The skeleton of a template.
fn skeleton<'a>(rows: &[Row], skeletons: &'a [u8], number: u32) -> &'a [u8] {
    let start = number.checked_sub(1).map_or(0, |at| rows[at as usize].end);
    &skeletons[start as usize..rows[number as usize].end as usize]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_group_has_one_template() {
        let mut templates = Templates::default();
        let group = |number: u32| Group {
            skeleton: number.to_string().repeat(number as usize % 5).into_bytes(),
            lines: number % 3,
            instruction: (!number.is_multiple_of(4)).then_some(TemplateInstruction {
                cpu: number % 2,
                address: u64::from(number % 7),
                taken: true,
                line: 0,
            }),
            ..Group::default()
        };
        type Key = (Vec<u8>, u32, Option<(u32, u64)>);
        let mut numbers: HashMap<Key, u32> = HashMap::new();
        for round in 0..2 {
            for of in 0..5000 {
                let group = group(of);
                let instruction = group.instruction.map(|of| (of.cpu, of.address));
                let key = (group.skeleton.clone(), group.lines, instruction);
                let next = numbers.len() as u32;
                let expected = *numbers.entry(key).or_insert(next);
                let mut is_new = false;
                let number = templates.number(&group, || {
                    is_new = true;
                    Stores::No
                });
                assert_eq!((number, is_new), (expected, round == 0 && expected == next));
            }
        }
        assert_eq!(templates.len(), numbers.len());
        let lengths: usize = templates.iter().map(|(_, _, length)| length as usize).sum();
        assert_eq!(lengths, templates.skeletons().len());
    }
}
