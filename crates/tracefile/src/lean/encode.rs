//! Frames come in one after the other, and go out as a block of columns.

use super::column;
use super::shape::{self, Item};
use super::stage::Stage;
use super::{MAX_FRAME, MAX_FRAMES};
use crate::register_set::RegisterSets;
use crate::write::{WriteError, check_frame};

/// A block ends with so many bytes of frames.
const BYTES: usize = 1 << 20;

/// A tracepoint with more shapes gets one that covers all lengths of memory.
const SHAPES_WITH_NUMBERS: usize = 32;

/// The encoder forgets its shapes when a block ends with more than this.
const SHAPES: usize = 4096;

/// The frames of the next block. They are kept apart by their shapes, each value in its column.
#[derive(Debug, Default)]
pub struct BlockEncoder {
    shapes: Vec<Stage>,
    /// The shapes of each tracepoint, the latest first.
    of_tracepoint: Vec<Vec<u32>>,
    frames: usize,
    /// The shape of each frame. Of frames that all have the shape of the first one there are none.
    order: Vec<u64>,
    first: usize,
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
        self.frames
    }

    /// How many bytes they had.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is time to write them.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.frames >= MAX_FRAMES || self.bytes >= BYTES
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
        let place = match self.push_known(tracepoint, frame) {
            Some(place) => place,
            None => self.push_new(tracepoint, frame),
        };
        self.note_shape(place);
        self.frames += 1;
        self.bytes += frame.len();
        Ok(())
    }

    /// Notes the shape of the next frame.
    fn note_shape(&mut self, place: usize) {
        if self.frames == 0 {
            self.first = place;
        }
        if self.order.is_empty() {
            if place == self.first {
                return;
            }
            self.order.resize(self.frames, self.first as u64);
        }
        self.order.push(place as u64);
    }

    /// Adds a frame to the shape that it has, if that was seen before, and gives the shape.
    fn push_known(&mut self, tracepoint: u16, frame: &[u8]) -> Option<usize> {
        let known = self.of_tracepoint.get_mut(usize::from(tracepoint))?;
        let shapes = &mut self.shapes;
        let at = known.iter().position(|place| {
            let stage = shapes.get_mut(*place as usize);
            stage.is_some_and(|stage| !stage.is_open_ended() && stage.push(frame))
        })?;
        if at > 0 {
            known.swap(0, at);
        }
        known.first().map(|place| *place as usize)
    }

    /// Adds a frame with a shape of its own, and gives the shape.
    fn push_new(&mut self, tracepoint: u16, frame: &[u8]) -> usize {
        let index = usize::from(tracepoint);
        if self.of_tracepoint.len() <= index {
            self.of_tracepoint.resize_with(index + 1, Vec::new);
        }
        let place = self.shapes.len();
        let known = self.of_tracepoint.get_mut(index);
        let with_numbers = (known.as_ref()).is_some_and(|known| known.len() < SHAPES_WITH_NUMBERS);
        let mut stage = Stage::new(tracepoint, shape::items(frame, &self.sets, with_numbers));
        let is_pushed = stage.push(frame);
        debug_assert!(is_pushed, "these are its items");
        if let Some(known) = known {
            known.insert(0, place as u32);
        }
        self.shapes.push(stage);
        place
    }

    /// Puts the content of a block with all frames into `out`, and begins the next one.
    pub fn encode(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let used: Vec<usize> = (0..self.shapes.len())
            .filter(|place| (self.shapes.get(*place)).is_some_and(|stage| stage.rows() > 0))
            .collect();
        self.write_sets(&used, out);
        out.extend_from_slice(&(used.len() as u32).to_le_bytes());
        let mut numbers = vec![0; self.shapes.len()];
        for (number, place) in used.iter().enumerate() {
            if let Some(slot) = numbers.get_mut(*place) {
                *slot = number as u64;
            }
            if let Some(stage) = self.shapes.get(*place) {
                stage.write_shape(out);
            }
        }
        out.extend_from_slice(&(self.frames as u32).to_le_bytes());
        if used.len() == 1 {
            column::write_one(0, out);
        } else {
            for shape in &mut self.order {
                *shape = numbers.get(*shape as usize).copied().unwrap_or_default();
            }
            column::write(&self.order, std::iter::empty(), &mut self.scratch, out);
        }
        for place in used {
            if let Some(stage) = self.shapes.get_mut(place) {
                stage.write_columns(&mut self.scratch, out);
            }
        }
        self.order.clear();
        self.frames = 0;
        self.bytes = 0;
        if self.shapes.len() > SHAPES {
            self.shapes.clear();
            self.of_tracepoint.clear();
        }
    }

    /// Writes the register sets that the frames have.
    fn write_sets(&self, used: &[usize], out: &mut Vec<u8>) {
        let items = used.iter().filter_map(|place| self.shapes.get(*place));
        let items = items.flat_map(Stage::items);
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
