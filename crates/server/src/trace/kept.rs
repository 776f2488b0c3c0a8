//! The frames in a session's buffer, as they are read.
//!
//! A frame in the buffer keeps only the registers that were requested ([`RegisterSets`]). A frame that is read is
//! expanded to the frame that a file would have; the others stay as they are.

use std::borrow::Cow;
use std::collections::VecDeque;

use tracewire_experiment::{Experiment, FrameStore};
use tracewire_model::{ByteOrder, FrameNumber, TracepointNumber};
use tracewire_tracefile::{Frame, RegisterSet, RegisterSets, Search, TraceFile, WriteError};

use super::buffer::Buffer;

/// A frame's tracepoint number and size, before its blocks.
const FRAME_HEADER: usize = 6;

/// The frames of a buffer.
#[derive(Clone, Copy)]
pub(super) struct KeptFrames<'b> {
    parts: (&'b [u8], &'b [u8]),
    /// The total number of appended frames.
    appended: u64,
    /// How many of these are present.
    present: u64,
    sets: Option<&'b RegisterSets>,
    order: ByteOrder,
    /// The size of the register blocks of expanded frames.
    block_size: usize,
}

impl<'b> KeptFrames<'b> {
    pub(super) fn new(
        experiment: &'b Experiment<Buffer>,
        order: ByteOrder,
        block_size: usize,
    ) -> Self {
        let buffer = experiment.buffer();
        Self {
            parts: buffer.bytes(),
            appended: buffer.appended(),
            present: buffer.frames(),
            sets: experiment.register_sets(),
            order,
            block_size,
        }
    }

    /// Bytes of the buffer, which may begin in one part and end in the other.
    fn bytes(&self, start: usize, length: usize) -> Option<Cow<'b, [u8]>> {
        let (first, second) = self.parts;
        let end = start.checked_add(length)?;
        Some(match start.checked_sub(first.len()) {
            Some(start) => second.get(start..end - first.len())?.into(),
            None if end <= first.len() => first.get(start..end)?.into(),
            None => [first.get(start..)?, second.get(..end - first.len())?]
                .concat()
                .into(),
        })
    }

    /// The frame at this offset.
    fn frame(&self, start: usize) -> Option<Cow<'b, [u8]>> {
        let header = self.bytes(start, FRAME_HEADER)?;
        let [_, _, size @ ..] = *header.first_chunk::<FRAME_HEADER>()?;
        let size = match self.order {
            ByteOrder::Little => u32::from_le_bytes(size),
            ByteOrder::Big => u32::from_be_bytes(size),
        };
        self.bytes(
            start,
            usize::try_from(size).ok()?.checked_add(FRAME_HEADER)?,
        )
    }

    fn tracepoint(&self, start: usize) -> Option<TracepointNumber> {
        let field = *self.bytes(start, 2)?.first_chunk::<2>()?;
        let number = match self.order {
            ByteOrder::Little => i16::from_le_bytes(field),
            ByteOrder::Big => i16::from_be_bytes(field),
        };
        Some(TracepointNumber(i32::from(number)))
    }

    fn expanded_size(&self, frame: &[u8]) -> usize {
        self.sets.map_or(frame.len(), |sets| {
            sets.expanded_size(frame, self.order, self.block_size)
        })
    }

    fn expand(&self, frame: &[u8], into: &mut Vec<u8>) {
        match self.sets {
            Some(sets) => sets.expand(frame, self.order, self.block_size, into),
            None => into.extend_from_slice(frame),
        }
    }

    /// Calls the function for all frames from the first to the last, expanded.
    pub(super) fn for_each(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut expanded = Vec::new();
        let mut at = 0;
        while let Some(frame) = self.frame(at) {
            expanded.clear();
            self.expand(&frame, &mut expanded);
            take(&expanded)?;
            at += frame.len();
        }
        Ok(())
    }
}

/// The start of a frame, in bytes from a fixed origin that does not change when frames are added or removed.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    kept: u64,
    /// The same with all frames expanded, as GDB reads the buffer.
    expanded: u64,
}

/// The places of a buffer's frames, and the frame that was read last.
#[derive(Debug, Default)]
pub(super) struct FramePlaces {
    places: VecDeque<Place>,
    /// How many were there before the first of these.
    gone: u64,
    /// The place of the next frame.
    next: Place,
    expanded: Vec<u8>,
}

impl FramePlaces {
    /// Updates the places after frames were added or removed.
    pub(super) fn follow(&mut self, frames: KeptFrames<'_>) {
        let gone = frames.appended - frames.present;
        let leaving = usize::try_from(gone - self.gone).unwrap_or(usize::MAX);
        self.places.drain(..leaving.min(self.places.len()));
        self.gone = gone;
        let first = self.first();
        while let Some(frame) = frames.frame((self.next.kept - first.kept) as usize) {
            self.places.push_back(self.next);
            self.next.kept += frame.len() as u64;
            self.next.expanded += frames.expanded_size(&frame) as u64;
        }
    }

    fn first(&self) -> Place {
        self.places.front().copied().unwrap_or(self.next)
    }

    /// The start of a frame in the buffer.
    fn start(&self, number: FrameNumber) -> Option<usize> {
        let place = self.places.get(usize::try_from(number.0).ok()?)?;
        usize::try_from(place.kept - self.first().kept).ok()
    }

    /// A frame of the buffer, which `file` describes.
    pub(super) fn frame<'f>(
        &'f mut self,
        number: FrameNumber,
        frames: KeptFrames<'_>,
        file: &'f TraceFile,
    ) -> Option<Frame<'f>> {
        let start = self.start(number)?;
        self.expanded.clear();
        frames.expand(&frames.frame(start)?, &mut self.expanded);
        file.frame_elsewhere(number, start as u64, &self.expanded)
    }

    /// The registers that a frame keeps; `None` if it keeps all, or none.
    pub(super) fn set_of<'b>(
        &self,
        number: FrameNumber,
        frames: KeptFrames<'b>,
    ) -> Option<&'b RegisterSet> {
        let frame = frames.frame(self.start(number)?)?;
        frames.sets?.of_frame(&frame, frames.order)
    }

    /// The first matching frame after `after`.
    pub(super) fn find(
        &mut self,
        search: Search,
        after: Option<FrameNumber>,
        frames: KeptFrames<'_>,
        file: &TraceFile,
    ) -> Option<(FrameNumber, TracepointNumber)> {
        let start = match (search, after) {
            (Search::Number(number), _) => number.0,
            (_, Some(after)) => after.0.saturating_add(1),
            (_, None) => 0,
        };
        (start..self.places.len() as u64)
            .map(FrameNumber)
            .find_map(|number| {
                let tracepoint = frames.tracepoint(self.start(number)?)?;
                let found = match search {
                    Search::Number(wanted) => number == wanted,
                    Search::Tracepoint(wanted) => tracepoint == wanted,
                    _ => search.matches(&self.frame(number, frames, file)?),
                };
                found.then_some((number, tracepoint))
            })
    }

    /// How many bytes all frames have, expanded.
    pub(super) fn expanded_length(&self) -> u64 {
        self.next.expanded - self.first().expanded
    }

    /// A part of the expanded frames, of at most `most` bytes. Less only at their end.
    pub(super) fn part(&self, offset: u64, most: usize, frames: KeptFrames<'_>) -> Vec<u8> {
        let offset = self.first().expanded + offset;
        let after = self
            .places
            .partition_point(|place| place.expanded <= offset);
        let mut part = Vec::new();
        let Some(first) = after.checked_sub(1) else {
            return part;
        };
        let mut skipped = 0;
        for place in self.places.range(first..) {
            if part.is_empty() {
                skipped = usize::try_from(offset - place.expanded).unwrap_or(usize::MAX);
            }
            if part.len() - skipped.min(part.len()) >= most {
                break;
            }
            let start = place.kept - self.first().kept;
            if let Some(frame) = frames.frame(start as usize) {
                frames.expand(&frame, &mut part);
            }
        }
        part.drain(..skipped.min(part.len()));
        part.truncate(most);
        part
    }
}
