//! Frames come in one after the other, and go out as a block of columns.

use std::ops::Range;

use super::column::{self, Earlier};
use super::shape::{self, Item};
use super::{LONGEST_COLUMNS, MAX_FRAME, MAX_FRAMES};
use crate::register_set::RegisterSets;
use crate::write::{WriteError, check_frame};

/// A block ends with so many bytes of frames.
const BYTES: usize = 1 << 20;

/// A tracepoint with more shapes gets one that covers all lengths of memory.
const SHAPES_WITH_NUMBERS: usize = 32;

/// The encoder forgets its shapes when a block ends with more than this.
const SHAPES: usize = 4096;

/// The frames of a shape.
#[derive(Debug)]
struct Staged {
    tracepoint: u16,
    items: Vec<Item>,
    rows: usize,
    columns: Vec<Vec<u64>>,
    bytes: Vec<Vec<u8>>,
}

/// The frames of the next block. They are kept apart by their shapes, each value in its column.
#[derive(Debug, Default)]
pub struct BlockEncoder {
    shapes: Vec<Staged>,
    /// The shapes of each tracepoint, the latest first.
    of_tracepoint: Vec<Vec<u32>>,
    /// The shape of each frame.
    order: Vec<u64>,
    sets: RegisterSets,
    bytes: usize,
    scratch: Vec<u64>,
}

impl BlockEncoder {
    /// Says what the register sets of the next frames are. Those of frames that are here already stay as they are: sets are only added.
    pub fn note_sets(&mut self, sets: &RegisterSets) {
        self.sets.clone_from(sets);
    }

    /// How many frames there are.
    #[must_use]
    pub const fn frames(&self) -> usize {
        self.order.len()
    }

    /// How many bytes they had.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is time to write them.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.order.len() >= MAX_FRAMES || self.bytes >= BYTES
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// When the bytes are no frame, or too many.
    pub fn push(&mut self, frame: &[u8]) -> Result<(), WriteError> {
        check_frame(frame)?;
        if frame.len() > MAX_FRAME {
            return Err(WriteError::NotAFrame(frame.len()));
        }
        let tracepoint = shape::tracepoint(frame);
        let place = match self.known(tracepoint, frame) {
            Some(place) => place,
            None => self.add(tracepoint, frame),
        };
        let Some(staged) = self.shapes.get_mut(place) else {
            return Ok(());
        };
        shape::push(&staged.items, frame, &mut staged.columns, &mut staged.bytes);
        staged.rows += 1;
        self.order.push(place as u64);
        self.bytes += frame.len();
        Ok(())
    }

    /// The shape of a frame, if it was seen before.
    fn known(&mut self, tracepoint: u16, frame: &[u8]) -> Option<usize> {
        let known = self.of_tracepoint.get_mut(usize::from(tracepoint))?;
        let shapes = &self.shapes;
        let at = known.iter().position(|place| {
            let staged = shapes.get(*place as usize);
            staged.is_some_and(|staged| shape::matches(&staged.items, frame))
        })?;
        if at > 0 {
            known.swap(0, at);
        }
        known.first().map(|place| *place as usize)
    }

    fn add(&mut self, tracepoint: u16, frame: &[u8]) -> usize {
        let index = usize::from(tracepoint);
        if self.of_tracepoint.len() <= index {
            self.of_tracepoint.resize_with(index + 1, Vec::new);
        }
        let place = self.shapes.len();
        let Some(known) = self.of_tracepoint.get_mut(index) else {
            return place;
        };
        let items = shape::items(frame, &self.sets, known.len() < SHAPES_WITH_NUMBERS);
        known.insert(0, place as u32);
        let columns = items.iter().map(|item| item.columns()).sum();
        let bytes = items.iter().filter(|item| item.has_bytes()).count();
        self.shapes.push(Staged {
            tracepoint,
            items,
            rows: 0,
            columns: vec![Vec::new(); columns],
            bytes: vec![Vec::new(); bytes],
        });
        place
    }

    /// Puts the content of a block with all frames into `out`, and begins the next one.
    pub fn encode(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let used: Vec<usize> = (0..self.shapes.len())
            .filter(|place| {
                self.shapes
                    .get(*place)
                    .is_some_and(|staged| staged.rows > 0)
            })
            .collect();
        self.write_sets(&used, out);
        out.extend_from_slice(&(used.len() as u32).to_le_bytes());
        let mut numbers = vec![0; self.shapes.len()];
        for (number, place) in used.iter().enumerate() {
            if let Some(slot) = numbers.get_mut(*place) {
                *slot = number as u64;
            }
            if let Some(staged) = self.shapes.get(*place) {
                write_shape(staged, out);
            }
        }
        out.extend_from_slice(&(self.order.len() as u32).to_le_bytes());
        for shape in &mut self.order {
            *shape = numbers.get(*shape as usize).copied().unwrap_or_default();
        }
        column::write(&self.order, std::iter::empty(), &mut self.scratch, out);
        for place in used {
            if let Some(staged) = self.shapes.get_mut(place) {
                write_columns(staged, &mut self.scratch, out);
                staged.rows = 0;
                staged.columns.iter_mut().for_each(Vec::clear);
                staged.bytes.iter_mut().for_each(Vec::clear);
            }
        }
        self.order.clear();
        self.bytes = 0;
        if self.shapes.len() > SHAPES {
            self.shapes.clear();
            self.of_tracepoint.clear();
        }
    }

    /// Writes the register sets that the frames have.
    fn write_sets(&self, used: &[usize], out: &mut Vec<u8>) {
        let items = used.iter().filter_map(|place| self.shapes.get(*place));
        let items = items.flat_map(|staged| &staged.items);
        let mut sets: Vec<u32> = items
            .filter_map(|item| match item {
                Item::Registers { set, .. } => Some(*set),
                _ => None,
            })
            .collect();
        sets.sort_unstable();
        sets.dedup();
        out.extend_from_slice(&(sets.len() as u32).to_le_bytes());
        for number in sets {
            let mask = self.sets.get(number).map(|set| set.mask().bytes());
            let mask = mask.unwrap_or_default();
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&(mask.len() as u32).to_le_bytes());
            out.extend_from_slice(mask);
        }
    }
}

fn write_shape(staged: &Staged, out: &mut Vec<u8>) {
    out.extend_from_slice(&staged.tracepoint.to_le_bytes());
    out.extend_from_slice(&(staged.items.len() as u32).to_le_bytes());
    for item in &staged.items {
        out.push(item.letter());
        match *item {
            Item::Registers { set, .. } => out.extend_from_slice(&set.to_le_bytes()),
            Item::Variable(number) => out.extend_from_slice(&number.to_le_bytes()),
            Item::Number(length) => out.push(length),
            Item::Nanoseconds | Item::Memory | Item::Rest => {}
        }
    }
}

fn write_columns(staged: &Staged, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
    // The places of columns that later ones may be like.
    let mut varied: Vec<usize> = Vec::new();
    let (mut place, mut blob) = (0, 0);
    let mut of_one_length = Vec::new();
    for item in &staged.items {
        let columns = place..place + item.columns();
        place = columns.end;
        for place in columns.clone() {
            let Some(numbers) = staged.columns.get(place) else {
                continue;
            };
            let earlier = varied.iter().filter_map(|place| {
                let numbers = staged.columns.get(*place)?;
                Some(Earlier {
                    place: *place,
                    numbers,
                })
            });
            if column::write(numbers, earlier, scratch, out) {
                varied.push(place);
            }
        }
        if !item.has_bytes() {
            continue;
        }
        let bytes = staged.bytes.get(blob).map_or(&[][..], Vec::as_slice);
        blob += 1;
        match columns
            .last()
            .and_then(|last| one_length(staged.columns.get(last)?))
        {
            Some(length) => {
                for part in parts(length) {
                    of_one_length.clear();
                    let rows = bytes.chunks_exact(length);
                    let values =
                        rows.map(|row| shape::number(row.get(part.clone()).unwrap_or_default()));
                    of_one_length.extend(values);
                    column::write(&of_one_length, std::iter::empty(), scratch, out);
                }
            }
            None => out.extend_from_slice(bytes),
        }
    }
}

/// The length that all pieces of memory have, where they are columns.
pub(super) fn one_length(lengths: &[u64]) -> Option<usize> {
    let (first, others) = lengths.split_first()?;
    let is_one = (1..=LONGEST_COLUMNS).contains(first) && others.iter().all(|other| other == first);
    usize::try_from(*first).ok().filter(|_| is_one)
}

/// The parts of a piece of memory that are columns.
pub(super) fn parts(length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length)
        .step_by(8)
        .map(move |start| start..(start + 8).min(length))
}
