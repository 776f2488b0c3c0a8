//! Where each frame starts, found in one pass over the file.

mod cache;

use std::collections::{HashMap, HashSet};

use crate::checksum::Checksum;
use crate::write::END_MARKER;
use tracewire_arch::{bfd_byte_order, likely_byte_order};
use tracewire_model::{Address, ByteOrder, FrameNumber, TracepointNumber};

pub(crate) use cache::{CachedIndex, Key, Unindexed};
pub use cache::{IndexCache, user_cache};

/// How the frames of a file end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// With the end marker: a tracepoint number of 0. GDB writes 4 zero bytes.
    Marker {
        /// Where the marker is.
        offset: u64,
        /// How many bytes are after its first two, without the checksum line of our own.
        trailing: u64,
        /// Whether all of them are zero.
        zero: bool,
    },
    /// Without an end marker, right after the last frame. GDB cannot look for a frame that is not there.
    Missing {
        /// Where the marker should be, which is the size of the file.
        offset: u64,
    },
    /// Inside a frame, which is not among the frames.
    Cut {
        /// Where that frame starts.
        offset: u64,
        /// How many bytes of it there are.
        present: u64,
        /// How many there should be; none when the cut is in the frame's own header.
        expected: Option<u64>,
    },
    /// Inside the description: no empty line ends it, and there are no frames.
    CutInDescription,
}

/// Which frames are wanted, by what an index knows of them. A frame for which one of these is false is not wanted.
pub trait Selection {
    /// Whether frames of this tracepoint may be wanted.
    fn tracepoint(&self, number: TracepointNumber) -> bool;

    /// Whether frames with this program counter may be wanted.
    fn address(&self, address: Address) -> bool;

    /// Whether frames may be wanted whose times are from `first` to `last`, in microseconds ([`crate::Frame::timestamp`]), or which
    /// have none. Where none of them has one, `first` is after `last`.
    fn times(&self, first: u64, last: u64) -> bool;
}

/// Where each frame starts, and of which tracepoint it is.
#[derive(Debug)]
pub(crate) enum FrameIndex {
    /// Found in this run: the offset of each frame's header in the upper 48 bits, the tracepoint number in the
    /// lower 16, 8 bytes a frame.
    Built(Vec<u64>),
    /// Found in an earlier run.
    Cached(CachedIndex),
}

pub(crate) struct WalkedFrames {
    pub(crate) order: ByteOrder,
    pub(crate) index: FrameIndex,
    pub(crate) ending: Ending,
}

impl WalkedFrames {
    /// The frames of the trace file that a lean recording stands for.
    pub(crate) const fn of_recording(index: Vec<u64>, frames_end: u64) -> Self {
        Self {
            order: ByteOrder::Little,
            index: FrameIndex::Built(index),
            ending: Ending::Marker {
                offset: frames_end,
                trailing: END_MARKER.len() as u64 - 2,
                zero: true,
            },
        }
    }

    pub(crate) fn none(architecture: Option<&str>) -> Self {
        Self {
            order: likely_order(architecture),
            index: FrameIndex::Built(Vec::new()),
            ending: Ending::CutInDescription,
        }
    }
}

fn likely_order(architecture: Option<&str>) -> ByteOrder {
    architecture.map_or(ByteOrder::Little, likely_byte_order)
}

impl FrameIndex {
    /// Finds the frames in this byte order.
    pub(crate) fn build_in(bytes: &[u8], start: usize, order: ByteOrder) -> WalkedFrames {
        walk(bytes, start, order)
    }

    /// Finds the frames, in the byte order that the target description settles by its `architecture`, else in the one with which
    /// the chain of frames ends at an end marker, else in the one whose first frame is of a tracepoint that
    /// the description defines (the first whose number is another one in the other order), else in the one in which
    /// more of the first frames are of such tracepoints, else in the one that gives more frames.
    pub(crate) fn build(
        bytes: &[u8],
        start: usize,
        architecture: Option<&str>,
        known: &HashMap<TracepointNumber, Option<Address>>,
    ) -> WalkedFrames {
        let settled = architecture.and_then(bfd_byte_order);
        let first = walk(
            bytes,
            start,
            settled.unwrap_or_else(|| likely_order(architecture)),
        );
        let is_known = |number: &TracepointNumber| known.is_empty() || known.contains_key(number);
        let score = |frames: &WalkedFrames| {
            let unknown = frames.first_numbers().filter(|one| !is_known(one)).count();
            (
                frames.ends_well(),
                frames.telling_number().as_ref().is_none_or(is_known),
                std::cmp::Reverse(unknown),
                frames.index.len(),
            )
        };
        let is_good = (true, true, std::cmp::Reverse(0), first.index.len());
        if settled.is_some() || score(&first) == is_good {
            return first;
        }
        let second = walk(bytes, start, first.order.other());
        if score(&second) > score(&first) {
            second
        } else {
            first
        }
    }

    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Built(entries) => entries.len(),
            Self::Cached(index) => index.len(),
        }
    }

    /// The frame's offset in the file and its tracepoint.
    pub(crate) fn get(&self, number: FrameNumber) -> Option<(u64, TracepointNumber)> {
        let entry = match self {
            Self::Built(entries) => *entries.get(usize::try_from(number.0).ok()?)?,
            Self::Cached(index) => return index.get(number),
        };
        let tracepoint = TracepointNumber(i32::from(entry as u16 as i16));
        Some((entry >> 16, tracepoint))
    }

    /// Forgets what the frames' program counters and times are, because they are to be read otherwise.
    pub(crate) const fn forget_contents(&mut self) {
        if let Self::Cached(index) = self {
            index.forget_contents();
        }
    }

    /// Frames from `start` to before `end` that may be selected: what the index does not know of a frame may be anything.
    pub(crate) fn selected(
        &self,
        start: u64,
        end: u64,
        selection: &impl Selection,
    ) -> Vec<FrameNumber> {
        let end = end.min(self.len() as u64);
        let index = match self {
            Self::Cached(index) => index,
            Self::Built(_) => {
                let is_wanted = |number: &FrameNumber| {
                    self.get(*number)
                        .is_some_and(|(_, tracepoint)| selection.tracepoint(tracepoint))
                };
                return (start..end).map(FrameNumber).filter(is_wanted).collect();
            }
        };
        let (times, addresses, tracepoints) =
            (index.times(), index.addresses(), index.tracepoints());
        let mut selected = Vec::new();
        let mut next = start;
        while next < end {
            let group = next / cache::GROUP as u64;
            let group_end = ((group + 1) * cache::GROUP as u64).min(end);
            let is_in_time = times.as_ref().is_none_or(|times| {
                let times = usize::try_from(group).ok().and_then(times);
                times.is_none_or(|(first, last)| selection.times(first, last))
            });
            if is_in_time {
                for number in next..group_end {
                    let at = usize::try_from(number).unwrap_or(usize::MAX);
                    let tracepoint = tracepoints.get(at).is_none_or(|entry| {
                        let number = i16::from_le_bytes(*entry);
                        selection.tracepoint(TracepointNumber(i32::from(number)))
                    });
                    let address = addresses
                        .and_then(|addresses| cache::address(*addresses.get(at)?))
                        .is_none_or(|address| selection.address(Address(address)));
                    if tracepoint && address {
                        selected.push(FrameNumber(number));
                    }
                }
            }
            next = group_end;
        }
        selected
    }

    /// One frame of each tracepoint at each program counter, and every frame whose program counter the index does not know;
    /// none where the index knows no program counters.
    pub(crate) fn representatives(&self) -> Option<Vec<FrameNumber>> {
        let Self::Cached(index) = self else {
            return None;
        };
        let mut seen = HashSet::new();
        let mut last = None;
        let entries = index.addresses()?.iter().zip(index.tracepoints());
        let mut found = Vec::new();
        for (number, entry) in (0..).zip(entries) {
            if last == Some(entry) {
                continue;
            }
            let is_known = cache::address(*entry.0).is_some();
            last = is_known.then_some(entry);
            if !is_known || seen.insert(entry) {
                found.push(FrameNumber(number));
            }
        }
        Some(found)
    }

    /// Frames from `start` on whose program counter may be one that is looked for: all that the index does not
    /// know the program counter of.
    pub(crate) fn candidates(
        &self,
        start: u64,
        wanted: impl Fn(Address) -> bool,
    ) -> impl Iterator<Item = FrameNumber> {
        let addresses = match self {
            Self::Built(_) => None,
            Self::Cached(index) => index.addresses(),
        };
        let mut next = start;
        let count = self.len() as u64;
        std::iter::from_fn(move || {
            let found = match addresses {
                None => next,
                Some(addresses) => {
                    let rest = addresses.get(usize::try_from(next).ok()?..)?;
                    let skipped = rest.iter().position(|entry| {
                        cache::address(*entry).is_none_or(|address| wanted(Address(address)))
                    })?;
                    next.checked_add(skipped as u64)?
                }
            };
            next = found.saturating_add(1);
            (found < count).then_some(FrameNumber(found))
        })
    }
}

/// How many frames are asked for their tracepoints to find out the byte order.
const FRAMES_ASKED: usize = 100;

impl WalkedFrames {
    /// The tracepoints of the first frames.
    fn first_numbers(&self) -> impl Iterator<Item = TracepointNumber> {
        let entries = match &self.index {
            FrameIndex::Built(entries) => entries.as_slice(),
            FrameIndex::Cached(_) => &[],
        };
        let first = entries.iter().take(FRAMES_ASKED);
        first.map(|entry| TracepointNumber(i32::from(*entry as u16 as i16)))
    }

    /// The tracepoint of the first frame that is of another one in the other byte order; where there is none, of the
    /// first frame.
    fn telling_number(&self) -> Option<TracepointNumber> {
        let FrameIndex::Built(entries) = &self.index else {
            return None;
        };
        let mut numbers = entries.iter().map(|entry| *entry as u16);
        let first = numbers.clone().next();
        let telling = numbers.find(|number| *number != number.swap_bytes());
        Some(TracepointNumber(i32::from(telling.or(first)? as i16)))
    }

    fn ends_well(&self) -> bool {
        ends_well(self.ending, self.index.len())
    }
}

/// Whether so many frames that end so are frames, and nothing but them.
pub(crate) const fn are_whole(ending: Ending, count: usize) -> bool {
    count > 0 && ends_well(ending, count)
}

const fn ends_well(ending: Ending, count: usize) -> bool {
    match ending {
        Ending::Marker { zero, .. } => zero,
        Ending::Missing { .. } => count > 0,
        Ending::Cut { .. } | Ending::CutInDescription => false,
    }
}

/// How many frames ahead the memory of a file is asked for. Frames are often as long as the one before, and the length of each
/// says where the next one is: without this, the walk waits for each header.
const FRAMES_AHEAD: usize = 16;

/// Memory after a longer frame is not asked for: that may be a page of the file that is read for nothing.
const LONGEST_TO_ASK_AFTER: usize = 4096;

fn walk(bytes: &[u8], start: usize, order: ByteOrder) -> WalkedFrames {
    let mut index = Vec::new();
    let mut at = start;
    let ending = loop {
        let offset = at as u64;
        let present = (bytes.len() - at) as u64;
        let Some(tracepoint) = order.u16_at(bytes, at) else {
            break match present {
                0 => Ending::Missing { offset },
                _ => Ending::Cut {
                    offset,
                    present,
                    expected: None,
                },
            };
        };
        if tracepoint == 0 {
            let trailing = &bytes[at + 2..];
            let trailing = Checksum::split(trailing).map_or(trailing, |(before, _)| before);
            let zero = trailing.iter().all(|byte| *byte == 0);
            break Ending::Marker {
                offset,
                trailing: trailing.len() as u64,
                zero,
            };
        }
        let Some(size) = order.u32_at(bytes, at + 2) else {
            break Ending::Cut {
                offset,
                present,
                expected: None,
            };
        };
        let whole = 6 + u64::from(size);
        if whole > present {
            break Ending::Cut {
                offset,
                present,
                expected: Some(whole),
            };
        }
        index.push(offset << 16 | u64::from(tracepoint));
        let whole = whole as usize;
        if whole <= LONGEST_TO_ASK_AFTER {
            std::hint::black_box(bytes.get(at + whole * FRAMES_AHEAD).copied());
        }
        at += whole;
    };
    WalkedFrames {
        order,
        index: FrameIndex::Built(index),
        ending,
    }
}
