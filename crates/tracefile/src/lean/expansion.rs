//! The trace file that a lean recording stands for, without its frames: where each block's frames are in it, so that they can be read when they
//! are looked at. It is fifty times as long as the recording.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crc32fast::Hasher;
use tracewire_demand_paging::Pager;

use super::LeanError;
use super::read::{FrameBlock, FrameReader, LeanDamage, LeanFile};
use crate::checksum::Checksum;
use crate::description::HEADER;
use crate::encode::FRAME_HEADER;
use crate::write::END_MARKER;
use tracewire_model::ByteOrder;

/// How many blocks are kept that were read last. A page at the end of one has the begin of the next one.
const BLOCKS_KEPT: usize = 4;

/// A thread is started for so many blocks.
const BLOCKS_A_THREAD: usize = 4;

/// The most threads that read a recording.
const MOST_THREADS: usize = 16;

/// The bytes of a recording.
pub(crate) type Recording = Arc<dyn Deref<Target = [u8]> + Send + Sync>;

/// Where everything is in the trace file.
pub(crate) struct Outline {
    /// What is before the frames.
    head: Vec<u8>,
    blocks: Vec<PlacedBlock>,
    /// What is after the frames.
    tail: Vec<u8>,
    /// Where the tail begins.
    frames_end: usize,
    reader: FrameReader,
    /// The whole trace file, if it is not longer than was asked for.
    whole: Option<Vec<u8>>,
    /// Of each frame, where it is (the upper 48 bits) and its tracepoint.
    index: Vec<u64>,
    damage: Vec<LeanDamage>,
}

/// A block of frames, and where they are in the trace file.
struct PlacedBlock {
    start: usize,
    block: FrameBlock,
}

impl Outline {
    /// Reads a recording once, by several threads. A trace file of at most `most` bytes is kept.
    ///
    /// # Errors
    /// As [`LeanFile::parse`].
    pub(crate) fn of(recording: &[u8], most: usize) -> Result<Self, LeanError> {
        let lean = LeanFile::parse(recording)?;
        let head = [HEADER, lean.description().as_bytes(), b"\n"].concat();
        let mut sum = Hasher::new();
        sum.update(&head);
        let blocks: Vec<FrameBlock> = lean.frame_blocks().collect();
        let reader = lean.frame_reader();
        let read = read_blocks(recording, &reader, &blocks, most);
        let mut outline = Self {
            frames_end: head.len(),
            whole: Some(head.clone()),
            head,
            blocks: Vec::with_capacity(blocks.len()),
            tail: Vec::new(),
            reader,
            index: Vec::new(),
            damage: Vec::new(),
        };
        let mut lost = Vec::new();
        for (block, read) in blocks.into_iter().zip(read) {
            match read {
                Some(read) => {
                    sum.combine(&read.sum);
                    outline.add(block, read);
                }
                None => lost.push(block),
            }
        }
        outline.damage = lean.damage_with(&lost);
        sum.update(&END_MARKER);
        outline.tail = END_MARKER.to_vec();
        let checksum = format!("{}\n", Checksum(sum.finalize()));
        outline.tail.extend_from_slice(checksum.as_bytes());
        if let Some(whole) = &mut outline.whole {
            whole.extend_from_slice(&outline.tail);
        }
        Ok(outline)
    }

    fn add(&mut self, block: FrameBlock, read: ReadBlock) {
        let start = self.frames_end;
        let entries = read.index.into_iter();
        self.index
            .extend(entries.map(|entry| ((start as u64) << 16).wrapping_add(entry)));
        self.blocks.push(PlacedBlock { start, block });
        self.frames_end += read.length;
        match (&mut self.whole, read.frames) {
            (Some(whole), Some(frames)) => whole.extend_from_slice(&frames),
            (whole, _) => *whole = None,
        }
    }

    /// What is wrong with the recording.
    pub(crate) fn take_damage(&mut self) -> Vec<LeanDamage> {
        std::mem::take(&mut self.damage)
    }

    /// The trace file, if it was kept.
    pub(crate) fn take_whole(&mut self) -> Option<Vec<u8>> {
        self.whole.take()
    }

    /// Of each frame, where its header is (the upper 48 bits) and its tracepoint; and where the frames end.
    pub(crate) fn take_index(&mut self) -> (Vec<u64>, u64) {
        (std::mem::take(&mut self.index), self.frames_end as u64)
    }

    /// The length of the trace file in bytes.
    pub(crate) fn length(&self) -> usize {
        self.frames_end + self.tail.len()
    }
}

/// What is known of a block that was read.
struct ReadBlock {
    /// The length of its frames.
    length: usize,
    /// Their checksum.
    sum: Hasher,
    /// Of each frame, where it is in the block (the upper 48 bits) and its tracepoint.
    index: Vec<u64>,
    /// They, where all frames are to be kept.
    frames: Option<Vec<u8>>,
}

impl ReadBlock {
    fn of(frames: &[u8]) -> Self {
        let mut sum = Hasher::new();
        sum.update(frames);
        let (mut index, mut at) = (Vec::new(), 0);
        while let (Some(tracepoint), Some(size)) = (
            ByteOrder::Little.u16_at(frames, at),
            ByteOrder::Little.u32_at(frames, at + 2),
        ) {
            index.push((at as u64) << 16 | u64::from(tracepoint));
            at += FRAME_HEADER + size as usize;
        }
        Self {
            length: frames.len(),
            sum,
            index,
            frames: None,
        }
    }
}

/// Reads blocks, each as it is in the trace file; none for those without frames. Their frames are kept if they have at most `most` bytes
/// together.
fn read_blocks(
    recording: &[u8],
    reader: &FrameReader,
    blocks: &[FrameBlock],
    most: usize,
) -> Vec<Option<ReadBlock>> {
    let (next, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let read_some = || {
        let (mut read, mut frames) = (Vec::new(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = blocks.get(number) else {
                return read;
            };
            frames.clear();
            let known = reader.read(recording, block, &mut frames).map(|()| {
                let mut known = ReadBlock::of(&frames);
                let before = all.fetch_add(known.length, Ordering::Relaxed);
                if before + known.length <= most {
                    known.frames = Some(std::mem::take(&mut frames));
                }
                known
            });
            read.push((number, known));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads
        .min(MOST_THREADS)
        .min(blocks.len() / BLOCKS_A_THREAD);
    let mut read = std::thread::scope(|scope| {
        // A thread that cannot be started is one less.
        let others = (1..threads).map_while(|_| {
            std::thread::Builder::new()
                .spawn_scoped(scope, read_some)
                .ok()
        });
        let others: Vec<_> = others.collect();
        let mut read = read_some();
        for other in others {
            match other.join() {
                Ok(more) => read.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        read
    });
    read.sort_unstable_by_key(|(number, _)| *number);
    read.into_iter().map(|(_, known)| known).collect()
}

/// The trace file as its parts are asked for.
pub(crate) struct Expansion {
    recording: Recording,
    outline: Outline,
    /// The blocks that were read last, by their places in the outline.
    read: VecDeque<(usize, Vec<u8>)>,
}

impl Expansion {
    pub(crate) const fn new(recording: Recording, outline: Outline) -> Self {
        Self {
            recording,
            outline,
            read: VecDeque::new(),
        }
    }

    /// Which block the frame bytes at a place are of.
    fn block_at(&self, place: usize) -> Option<usize> {
        let blocks = &self.outline.blocks;
        blocks
            .partition_point(|block| block.start <= place)
            .checked_sub(1)
    }

    fn range_of(&self, number: usize) -> Range<usize> {
        let start = |number: usize| self.outline.blocks.get(number).map(|block| block.start);
        let end = self.outline.frames_end;
        start(number).unwrap_or(end)..start(number + 1).unwrap_or(end)
    }

    /// The frames of a block; none if the recording was cut meanwhile.
    fn frames(&mut self, number: usize) -> Option<&[u8]> {
        let known = self.read.iter().position(|(known, _)| *known == number);
        if known.is_none() {
            let mut frames = match self.read.len() {
                BLOCKS_KEPT.. => self.read.pop_front()?.1,
                _ => Vec::new(),
            };
            frames.clear();
            let block = &self.outline.blocks.get(number)?.block;
            let read = (self.outline.reader).read(&self.recording, block, &mut frames);
            if read.is_none() || frames.len() != self.range_of(number).len() {
                frames.clear();
            }
            self.read.push_back((number, frames));
        }
        let (_, frames) = self.read.get(known.unwrap_or(self.read.len() - 1))?;
        Some(frames)
            .filter(|frames| !frames.is_empty())
            .map(Vec::as_slice)
    }
}

impl Pager for Expansion {
    fn extent(&mut self, place: usize) -> Range<usize> {
        let (head, frames_end) = (self.outline.head.len(), self.outline.frames_end);
        if place >= frames_end {
            return frames_end..self.outline.length();
        }
        match self.block_at(place) {
            Some(number) => self.range_of(number),
            None => 0..head,
        }
    }

    fn read(&mut self, mut place: usize, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let range = self.extent(place);
            let within = place.saturating_sub(range.start);
            let content = if range.end <= self.outline.head.len() {
                Some(self.outline.head.as_slice())
            } else if range.start >= self.outline.frames_end {
                Some(self.outline.tail.as_slice())
            } else {
                self.block_at(place).and_then(|number| self.frames(number))
            };
            let length = range.end.saturating_sub(place).min(bytes.len());
            if length == 0 {
                debug_assert!(false, "nothing is asked for beyond the end");
                return;
            }
            let (into, rest) = bytes.split_at_mut(length);
            // What the recording has lost is zeros, as in a mapped file.
            if let Some(content) = content.and_then(|content| content.get(within..within + length))
            {
                into.copy_from_slice(content);
            }
            bytes = rest;
            place += length;
        }
    }
}
