//! Frames followed from one to the next, and looked for after damage.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tracewire_arch::RegisterLayout;
use tracewire_model::{Address, TracepointNumber};
use tracewire_tracefile::raw::FRAME_HEADER;
use tracewire_tracefile::raw::FrameShape;
use tracewire_tracefile::{Block, Blocks};

use super::known::Known;

/// This many frames without blocks in a row are frames, with anything after them; fewer may be a chance match.
const CERTAIN_EMPTY_FRAMES: usize = 16;

/// How many blocks are looked at in the smallest file to find a frame after damage.
const LEAST_PATIENCE: usize = 1 << 20;

/// The remaining frames.
pub(super) struct WholeFrames {
    pub(super) shape: FrameShape,
    /// Whole frames, headers included.
    pub(super) kept: Vec<Range<usize>>,
    /// The data between them.
    pub(super) lost: Vec<Range<usize>>,
    pub(super) end_marker: bool,
}

impl WholeFrames {
    pub(super) fn tracepoint(&self, bytes: &[u8], frame: &Range<usize>) -> TracepointNumber {
        let number = self
            .shape
            .order
            .u16_at(bytes, frame.start)
            .unwrap_or_default();
        TracepointNumber(i32::from(number))
    }

    pub(super) fn program_counter(
        &self,
        bytes: &[u8],
        frame: &Range<usize>,
        layout: Option<&RegisterLayout>,
    ) -> Option<Address> {
        let register = layout?.program_counter()?;
        let data = bytes.get(frame.start + FRAME_HEADER..frame.end)?;
        let block = Blocks::new(data, self.shape).find_map(|block| match block {
            Block::Registers(block) => Some(block),
            _ => None,
        })?;
        let start = usize::try_from(register.offset).ok()?;
        let value = block
            .get(start..)?
            .get(..usize::try_from(register.size()).ok()?)?;
        self.shape.order.unsigned(value).map(Address)
    }
}

/// The kind of the block at which a frame cannot be taken apart any more, where it is a letter and not a known one.
pub(super) fn unknown_kind(data: &[u8], shape: FrameShape) -> Option<u8> {
    match Blocks::new(data, shape).last()? {
        Block::Unknown(bytes) => bytes.first().copied().filter(|kind| {
            kind.is_ascii_alphabetic() && !matches!(kind, b'R' | b'M' | b'V' | b'S')
        }),
        _ => None,
    }
}

/// The kinds of a frame's blocks.
pub(super) fn kinds_of_blocks(data: &[u8], shape: FrameShape) -> HashSet<u8> {
    let mut blocks = Blocks::new(data, shape);
    let mut kinds = HashSet::new();
    let mut at = 0;
    while blocks.next().is_some() {
        kinds.extend(data.get(at));
        at = blocks.position();
    }
    kinds
}

/// The contents at an offset.
enum Place {
    /// A whole frame that ends there.
    Frame(usize),
    /// None.
    Broken,
    /// None, and the next frame is there.
    BrokenUntil(usize),
}

/// Frames of one shape, in one file.
pub(super) struct Search<'a> {
    bytes: &'a [u8],
    shape: FrameShape,
    /// The tracepoints that frames may be of; none for any.
    numbers: HashSet<i32>,
    /// The description's facts about them.
    known: &'a Known,
    /// Those with frames that have no blocks.
    empty: HashSet<i32>,
    /// Kinds of blocks that are not known and that frames may have.
    kinds: &'a HashSet<u8>,
    /// The kinds of blocks that frames of each tracepoint have, as far as is known.
    seen: HashMap<i32, HashSet<u8>>,
    /// From here on there are only zeros.
    zeros: usize,
    /// How many more blocks may be examined to find a frame after damage. If each byte could start a frame that reaches to the
    /// file's end, the search would take too long otherwise.
    patience: Cell<usize>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        bytes: &'a [u8],
        shape: FrameShape,
        numbers: HashSet<i32>,
        known: &'a Known,
        empty: HashSet<i32>,
        kinds: &'a HashSet<u8>,
        seen: HashMap<i32, HashSet<u8>>,
    ) -> Self {
        let last = bytes.iter().rposition(|byte| *byte != 0);
        Self {
            bytes,
            shape,
            numbers,
            known,
            empty,
            kinds,
            seen,
            zeros: last.map_or(0, |last| last + 1),
            patience: Cell::new(bytes.len().saturating_mul(2).max(LEAST_PATIENCE)),
        }
    }

    /// Frames, from `start` on.
    pub(super) fn frames(&self, start: usize) -> WholeFrames {
        let mut salvage = WholeFrames {
            shape: self.shape,
            kept: Vec::new(),
            lost: Vec::new(),
            end_marker: false,
        };
        // Where the description's end is damaged, too, the first frame may start later.
        let mut at = self.in_step(start);
        if at > start {
            salvage.lost.push(start..at);
        }
        let mut follows = true;
        while at < self.bytes.len() {
            if self.is_end(at) {
                salvage.end_marker = self.bytes.len() - at >= 2;
                break;
            }
            let place = if follows && self.is_empty_frame_in_order(at) {
                Place::Frame(at + FRAME_HEADER)
            } else {
                self.place(at)
            };
            if let Place::Frame(end) = place {
                salvage.kept.push(at..end);
                at = end;
                follows = true;
                continue;
            }
            follows = false;
            let next = match place {
                Place::BrokenUntil(next) => next,
                _ => self.resume(at),
            };
            match salvage.lost.last_mut() {
                Some(lost) if lost.end == at => lost.end = next,
                _ => salvage.lost.push(at..next),
            }
            at = next;
        }
        salvage
    }

    /// Whether only zeros follow.
    fn is_end(&self, at: usize) -> bool {
        (self.zeros..=self.bytes.len()).contains(&at)
    }

    /// The end of the frame that starts here, by its own size.
    fn end_by_size(&self, at: usize) -> Option<usize> {
        let number = self.shape.order.u16_at(self.bytes, at)?;
        let size = usize::try_from(self.shape.order.u32_at(self.bytes, at + 2)?).ok()?;
        let end = (at + FRAME_HEADER).checked_add(size)?;
        ((1..=0x7fff).contains(&number) && end <= self.bytes.len()).then_some(end)
    }

    /// Whether the frame that starts here is of a tracepoint that frames may be of.
    fn may_be_of(&self, at: usize) -> bool {
        self.numbers.is_empty() || self.is_of(&self.numbers, at)
    }

    /// Whether the data here, after another frame, is a frame without blocks. A frame whose size has become zero looks like one,
    /// but it is followed by blocks of kinds that frames of its tracepoint have elsewhere.
    fn is_empty_frame_in_order(&self, at: usize) -> bool {
        let end = at + FRAME_HEADER;
        self.end_by_size(at) == Some(end)
            && self.is_of(&self.numbers, at)
            && (self.is_of(&self.known.bare, at) || !self.blocks_lead_on(at))
    }

    /// Whether blocks follow the head of a frame, and another frame or the end after them.
    fn blocks_lead_on(&self, frame: usize) -> bool {
        let start = frame + FRAME_HEADER;
        if !self.blocks_may_start(start) {
            return false;
        }
        let number = self.shape.order.u16_at(self.bytes, frame);
        let seen = number.and_then(|number| self.seen.get(&i32::from(number)));
        let mut blocks = Blocks::new(self.bytes.get(start..).unwrap_or_default(), self.shape);
        let mut at = start;
        while let Some(block) = blocks.next() {
            let patience = self.patience.get();
            if matches!(block, Block::Unknown(_)) || patience == 0 {
                return false;
            }
            let kind = self.bytes.get(at);
            if seen.is_some_and(|seen| kind.is_none_or(|kind| !seen.contains(kind))) {
                return false;
            }
            self.patience.set(patience - 1);
            let next = start + blocks.position();
            at = next;
            if self.is_end(next) || self.is_of(&self.numbers, next) && self.goes_on(next) {
                return true;
            }
        }
        false
    }

    fn blocks_may_start(&self, at: usize) -> bool {
        self.bytes.get(at).is_some_and(|kind| {
            matches!(kind, b'R' | b'M' | b'V' | b'S') || self.kinds.contains(kind)
        })
    }

    /// Whether so many frames without blocks start here that it is no chance.
    fn begins_run(&self, at: usize) -> bool {
        let mut starts = (0..CERTAIN_EMPTY_FRAMES).map(|count| at + count * FRAME_HEADER);
        starts.all(|start| self.end_by_size(start) == Some(start + FRAME_HEADER))
    }

    fn is_of(&self, numbers: &HashSet<i32>, at: usize) -> bool {
        let number = self.shape.order.u16_at(self.bytes, at).unwrap_or_default();
        numbers.contains(&i32::from(number))
    }

    /// Whether another frame, the end marker or the end of the file is here. Chance data can look like frames without blocks: after
    /// them, one with blocks or the end must come, or enough more of them.
    fn goes_on(&self, mut at: usize) -> bool {
        for _ in 0..CERTAIN_EMPTY_FRAMES {
            if at == self.bytes.len() || self.is_end(at) {
                return true;
            }
            match self.end_by_size(at) {
                Some(end) if !self.may_be_of(at) || !self.fits(at, end) => return false,
                Some(end) if end > at + FRAME_HEADER => return true,
                Some(end) => at = end,
                None => return false,
            }
        }
        true
    }

    fn fits(&self, at: usize, end: usize) -> bool {
        let data = self.bytes.get(at + FRAME_HEADER..end).unwrap_or_default();
        self.has_known_blocks(data) || self.has_own_block(data)
    }

    fn has_known_blocks(&self, data: &[u8]) -> bool {
        let mut seen = 0;
        let fit = Blocks::new(data, self.shape).all(|block| {
            seen += 1;
            !matches!(block, Block::Unknown(_))
        });
        self.patience.set(self.patience.get().saturating_sub(seen));
        fit
    }

    fn has_own_block(&self, data: &[u8]) -> bool {
        !self.kinds.is_empty()
            && unknown_kind(data, self.shape).is_some_and(|kind| self.kinds.contains(&kind))
    }

    /// The end of the frame that starts here, if it is whole. Its tracepoint is known, or the description has none. Its blocks end
    /// where its size says, or one of them is a stub's own kind and another frame is where its size says.
    fn whole_frame(&self, at: usize) -> Option<usize> {
        let end = self.end_by_size(at).filter(|_| self.may_be_of(at))?;
        let data = self.bytes.get(at + FRAME_HEADER..end)?;
        let whole = if self.has_known_blocks(data) {
            // Chance data can look like a frame without blocks.
            !data.is_empty() || self.goes_on(end)
        } else {
            // Where the next frame is damaged, its tracepoint's number is enough.
            let number = || !self.numbers.is_empty() && self.may_be_of(end);
            self.has_own_block(data) && (self.goes_on(end) || number())
        };
        whole.then_some(end)
    }

    /// The contents here.
    fn place(&self, at: usize) -> Place {
        let Some(end) = self.whole_frame(at) else {
            return Place::Broken;
        };
        // A frame that has lost bytes ends in the next one.
        if !self.numbers.is_empty() && end < self.bytes.len() && !self.goes_on(end) {
            let in_next = |place: &usize| {
                let found = self.whole_frame(*place);
                found.is_some_and(|found| found > end && self.goes_on(found))
            };
            let mut places = (at + FRAME_HEADER + 1..end).take_while(|_| self.patience.get() > 0);
            if let Some(next) = places.find(in_next) {
                return Place::BrokenUntil(next);
            }
        }
        Place::Frame(end)
    }

    /// The next place after a broken frame at which one is.
    fn resume(&self, at: usize) -> usize {
        // If only the contents are damaged, the size still leads on: to another frame, or to the end. Many sizes lead there if it
        // ends with zeros, or if frames without blocks are close together.
        let by_size = self
            .end_by_size(at)
            .filter(|end| *end > at && self.goes_on(*end));
        let sure = |end: &usize| !self.is_end(*end) && self.empty.is_empty();
        if let Some(end) = by_size.filter(sure) {
            return end;
        }
        let mut places = (at + 1..self.bytes.len()).take_while(|_| self.patience.get() > 0);
        let found = places.find(|place| self.may_resume(*place) || self.is_marker_alone(*place));
        // Consecutive frames without blocks, read one byte early, look like frames of another tracepoint.
        let known = found.and_then(|found| {
            let mut near = found..found + FRAME_HEADER;
            near.find(|place| self.is_of(&self.known.numbers, *place) && self.may_resume(*place))
        });
        let found = known.or(found.map(|found| self.in_step(found)));
        found.or(by_size).unwrap_or(self.bytes.len())
    }

    /// The start of a row of frames without blocks: here, or less than a frame later. Data that is read a few bytes too early or
    /// too late looks like such a row of other tracepoints, too. But that row ends in the middle of the first frame with blocks.
    fn in_step(&self, at: usize) -> usize {
        let is_empty = self.end_by_size(at) == Some(at + FRAME_HEADER);
        if !is_empty || self.is_of(&self.known.numbers, at) || self.row_leads_on(at) {
            return at;
        }
        let mut near = at + 1..at + FRAME_HEADER;
        near.find(|place| self.may_resume(*place) && self.row_leads_on(*place))
            .unwrap_or(at)
    }

    /// Whether a frame with blocks, or the end, follows the frames without blocks here.
    fn row_leads_on(&self, mut at: usize) -> bool {
        loop {
            match self.end_by_size(at) {
                _ if self.is_end(at) => return true,
                Some(end) if !self.may_be_of(at) || !self.fits(at, end) => return false,
                Some(end) if end > at + FRAME_HEADER => return true,
                Some(end) => at = end,
                None => return false,
            }
        }
    }

    /// Whether a whole frame is here, and another after it.
    fn may_resume(&self, at: usize) -> bool {
        let first = at + FRAME_HEADER;
        let is_empty = || match self.numbers.is_empty() {
            true => self.begins_run(at),
            false => self.is_of(&self.empty, at) && self.end_by_size(at) == Some(first),
        };
        (self.blocks_may_start(first) || is_empty())
            && self.whole_frame(at).is_some_and(|end| self.goes_on(end))
    }

    /// Whether the file's last bytes, from here on, are an end marker of GDB's size.
    fn is_marker_alone(&self, at: usize) -> bool {
        at + 4 == self.bytes.len() && self.is_end(at)
    }
}
