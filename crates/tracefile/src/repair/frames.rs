//! The frames of a damaged file that are still whole.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::architecture::ByteOrder;
use crate::description::Description;
use crate::encode::FRAME_HEADER;
use crate::frame::{Block, Blocks, FrameShape, blocks_fit};
use crate::number::{Address, TracepointNumber};
use crate::registers::RegisterLayout;

/// How many frames are looked at to find out the size of their register blocks.
const FRAMES_TO_SETTLE: usize = 200;

/// How many frames without blocks may follow each other where the place of a frame is in doubt.
const MOST_EMPTY_FRAMES: usize = 64;

/// What is left of the frames.
pub(super) struct WholeFrames {
    pub(super) shape: FrameShape,
    /// Whole frames, headers included.
    pub(super) kept: Vec<Range<usize>>,
    /// What stands between them, and is no frame.
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

/// Finds the whole frames, in the byte order and with the register block size that give most of them.
pub(super) fn salvage(
    bytes: &[u8],
    start: usize,
    description: &Description,
    layout: Option<&RegisterLayout>,
) -> WholeFrames {
    let tracepoints = description.tracepoints().iter();
    let mut known: HashSet<i32> = tracepoints.map(|one| one.definition.number.0).collect();
    // A definition may be lost while its other lines are not.
    let pieces = description
        .lines()
        .filter_map(|line| crate::piece::Piece::parse(line.text.strip_prefix(b"tp ")?).ok());
    known.extend(pieces.map(|piece| piece.number.0));
    let orders = match layout.and_then(RegisterLayout::byte_order) {
        Some(order) => vec![order],
        None => vec![ByteOrder::Little, ByteOrder::Big],
    };
    let told = description.register_block();
    let mut sizes: Vec<Option<u32>> = [
        told.map(|line| line.hexadecimal),
        told.and_then(|line| line.decimal),
        layout.map(RegisterLayout::size),
    ]
    .into_iter()
    // GDB refuses a file that says 0.
    .filter(|size| size.is_some_and(|size| size > 0))
    .collect();
    let mut best: Option<WholeFrames> = None;
    let try_all = |orders: &[ByteOrder], sizes: &[Option<u32>], best: &mut Option<WholeFrames>| {
        for order in orders {
            for size in sizes {
                let shape = FrameShape {
                    order: *order,
                    register_block: *size,
                };
                let found = search(bytes, start, shape, &known);
                // First one of which everything is a good frame: the file is good. Of two that find as many frames, the
                // one whose frames are of known tracepoints. With a wrong size, all frames seem to have blocks of an
                // unknown kind.
                let score = |frames: &WholeFrames| {
                    let shape = frames.shape;
                    let of_known =
                        |frame: &&Range<usize>| known.contains(&frames.tracepoint(bytes, frame).0);
                    let fits = |frame: &&Range<usize>| {
                        let data = bytes.get(frame.start + FRAME_HEADER..frame.end);
                        data.is_some_and(|data| blocks_fit(data, shape))
                    };
                    let fitting = frames.kept.iter().filter(fits).count();
                    let found = frames.kept.len();
                    let of_known = frames.kept.iter().filter(of_known).count();
                    let is_good = frames.lost.is_empty() && frames.end_marker;
                    (
                        is_good && found > 0 && fitting == found && of_known == found,
                        fitting,
                        found,
                        of_known,
                    )
                };
                if best.as_ref().is_none_or(|best| score(&found) > score(best)) {
                    *best = Some(found);
                }
            }
        }
    };
    if sizes.is_empty() {
        sizes.push(None);
    }
    try_all(&orders, &sizes, &mut best);
    // What looks like frames by chance is little of a file whose register blocks have another size.
    let length = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
    let few = best
        .as_ref()
        .is_none_or(|best| length(&best.kept) <= length(&best.lost));
    if few && bytes.len() > start {
        for order in &orders {
            let sizes: Vec<_> = guessed_sizes(bytes, start, *order)
                .into_iter()
                .map(Some)
                .collect();
            try_all(&[*order], &sizes, &mut best);
        }
    }
    best.unwrap_or(WholeFrames {
        shape: FrameShape {
            order: ByteOrder::Little,
            register_block: None,
        },
        kept: Vec::new(),
        lost: Vec::new(),
        end_marker: false,
    })
}

/// Sizes of register blocks with which the first frames' blocks would fit, when frames are followed by their
/// sizes alone.
fn guessed_sizes(bytes: &[u8], start: usize, order: ByteOrder) -> Vec<u32> {
    let mut votes: HashMap<u32, usize> = HashMap::new();
    let mut at = start;
    for _ in 0..FRAMES_TO_SETTLE {
        let Some(data) = order.u32_at(bytes, at + 2).and_then(|size| {
            bytes
                .get(at + FRAME_HEADER..)?
                .get(..usize::try_from(size).ok()?)
        }) else {
            break;
        };
        // No machine that GDB knows has more registers than this.
        for size in (1..data.len().min(1 << 14)).filter_map(|size| u32::try_from(size).ok()) {
            let shape = FrameShape {
                order,
                register_block: Some(size),
            };
            if data.first() == Some(&b'R') && blocks_fit(data, shape) {
                *votes.entry(size).or_default() += 1;
            }
        }
        at += FRAME_HEADER + data.len();
        if votes.len() == 1 && votes.values().any(|count| *count > 4) {
            break;
        }
    }
    let mut sizes: Vec<_> = votes.into_iter().collect();
    sizes.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
    sizes.into_iter().take(4).map(|(size, _)| size).collect()
}

/// Finds the whole frames of the tracepoints that the description knows, and of those that have several frames:
/// a number that is damaged stands once. Where the description knows none that has frames, it is itself damaged,
/// and any number will do. Blocks of an unknown kind are some stub's own where several frames have them, else damage.
fn search(bytes: &[u8], start: usize, shape: FrameShape, known: &HashSet<i32>) -> WholeFrames {
    let mut kinds = repeated_kinds(bytes, start, shape, known);
    loop {
        let found = search_with(bytes, start, shape, known, &kinds);
        // What several frames seemed to have may be left in one, which would then not be whole the next time.
        let kept = found.kept.iter();
        let data = kept.filter_map(|frame| bytes.get(frame.start + FRAME_HEADER..frame.end));
        let mut several = of_several(data.filter_map(|data| unknown_kind(data, shape)));
        several.retain(|kind| kinds.contains(kind));
        if several.len() == kinds.len() {
            return found;
        }
        kinds = several;
    }
}

/// As `search`, where frames may have blocks of these unknown kinds.
fn search_with(
    bytes: &[u8],
    start: usize,
    shape: FrameShape,
    known: &HashSet<i32>,
    kinds: &HashSet<u8>,
) -> WholeFrames {
    let zeros = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let of_any = Search {
        bytes,
        shape,
        known: HashSet::new(),
        kinds,
        zeros,
    }
    .frames(start);
    let mut counts: HashMap<i32, usize> = HashMap::new();
    for frame in &of_any.kept {
        *counts.entry(of_any.tracepoint(bytes, frame).0).or_default() += 1;
    }
    if !counts.keys().any(|number| known.contains(number)) {
        return of_any;
    }
    let several = counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(number, _)| number);
    let known = known.iter().copied().chain(several).collect();
    Search {
        bytes,
        shape,
        known,
        kinds,
        zeros,
    }
    .frames(start)
}

/// The kinds of blocks that are not known and that several frames have, as far as frames of known tracepoints follow
/// each other by their sizes.
fn repeated_kinds(
    bytes: &[u8],
    start: usize,
    shape: FrameShape,
    known: &HashSet<i32>,
) -> HashSet<u8> {
    let mut kinds = Vec::new();
    let mut at = start;
    while let Some(size) = shape.order.u32_at(bytes, at + 2) {
        let number = shape.order.u16_at(bytes, at).unwrap_or_default();
        if !known.contains(&i32::from(number)) {
            break;
        }
        let frame = bytes.get(at + FRAME_HEADER..);
        let Some(data) = frame.and_then(|rest| rest.get(..usize::try_from(size).ok()?)) else {
            break;
        };
        kinds.extend(unknown_kind(data, shape));
        at += FRAME_HEADER + data.len();
    }
    of_several(kinds)
}

/// What occurs more than once.
fn of_several(kinds: impl IntoIterator<Item = u8>) -> HashSet<u8> {
    let mut seen = HashSet::new();
    kinds
        .into_iter()
        .filter(|kind| !seen.insert(*kind))
        .collect()
}

/// The kind of the block at which a frame cannot be taken apart any more, where it is a letter and not a known one.
fn unknown_kind(data: &[u8], shape: FrameShape) -> Option<u8> {
    match Blocks::new(data, shape).last()? {
        Block::Unknown(bytes) => bytes.first().copied().filter(|kind| {
            kind.is_ascii_alphabetic() && !matches!(kind, b'R' | b'M' | b'V' | b'S')
        }),
        _ => None,
    }
}

struct Search<'a> {
    bytes: &'a [u8],
    shape: FrameShape,
    /// The tracepoints that frames may be of; empty for any.
    known: HashSet<i32>,
    /// Kinds of blocks that are not known and that frames may have.
    kinds: &'a HashSet<u8>,
    /// From here on there is nothing but zeros.
    zeros: usize,
}

impl Search<'_> {
    fn frames(&self, start: usize) -> WholeFrames {
        let mut salvage = WholeFrames {
            shape: self.shape,
            kept: Vec::new(),
            lost: Vec::new(),
            end_marker: false,
        };
        let mut at = start;
        while at < self.bytes.len() {
            if self.is_end(at) {
                salvage.end_marker = self.bytes.len() - at >= 2;
                break;
            }
            if let Some(end) = self.whole_frame(at) {
                salvage.kept.push(at..end);
                at = end;
                continue;
            }
            let next = self.resume(at);
            match salvage.lost.last_mut() {
                Some(lost) if lost.end == at => lost.end = next,
                _ => salvage.lost.push(at..next),
            }
            at = next;
        }
        salvage
    }

    /// Whether nothing but zeros follows.
    fn is_end(&self, at: usize) -> bool {
        (self.zeros..=self.bytes.len()).contains(&at)
    }

    /// Where the frame that starts here ends, by its own size.
    fn end_by_size(&self, at: usize) -> Option<usize> {
        let number = self.shape.order.u16_at(self.bytes, at)?;
        let size = usize::try_from(self.shape.order.u32_at(self.bytes, at + 2)?).ok()?;
        let end = (at + FRAME_HEADER).checked_add(size)?;
        ((1..=0x7fff).contains(&number) && end <= self.bytes.len()).then_some(end)
    }

    /// Whether the frame that starts here is of a tracepoint that frames may be of.
    fn may_be_of(&self, at: usize) -> bool {
        let number = self.shape.order.u16_at(self.bytes, at).unwrap_or_default();
        self.known.is_empty() || self.known.contains(&i32::from(number))
    }

    /// Whether another frame, the end marker or the end of the file stands here. Frames without blocks look
    /// like many things: behind them, one with blocks or the end must come.
    fn goes_on(&self, mut at: usize) -> bool {
        for _ in 0..MOST_EMPTY_FRAMES {
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
        false
    }

    fn fits(&self, at: usize, end: usize) -> bool {
        let data = self.bytes.get(at + FRAME_HEADER..end).unwrap_or_default();
        blocks_fit(data, self.shape) || self.has_own_block(data)
    }

    fn has_own_block(&self, data: &[u8]) -> bool {
        !self.kinds.is_empty()
            && unknown_kind(data, self.shape).is_some_and(|kind| self.kinds.contains(&kind))
    }

    /// The end of the frame that starts here, when it is whole: its tracepoint is known, or the description
    /// knows none; its blocks end where its size says, or there is one of a stub's own kind among them and another
    /// frame stands where its size says.
    fn whole_frame(&self, at: usize) -> Option<usize> {
        let end = self.end_by_size(at).filter(|_| self.may_be_of(at))?;
        let data = self.bytes.get(at + FRAME_HEADER..end)?;
        let whole = if blocks_fit(data, self.shape) {
            // A frame without blocks looks like many things.
            !data.is_empty() || self.goes_on(end)
        } else {
            // Where the next frame is damaged, its tracepoint's number is enough.
            let number = || !self.known.is_empty() && self.may_be_of(end);
            self.has_own_block(data) && (self.goes_on(end) || number())
        };
        whole.then_some(end)
    }

    /// The next place after a broken frame at which one stands.
    fn resume(&self, at: usize) -> usize {
        // Where only the contents are damaged, the size still leads on.
        if let Some(end) = self
            .end_by_size(at)
            .filter(|end| *end > at && self.goes_on(*end))
        {
            return end;
        }
        let found = (at + 1..self.bytes.len()).find(|place| {
            let letter = self.bytes.get(place + FRAME_HEADER);
            let looks = matches!(letter, Some(b'R' | b'M' | b'V' | b'S'));
            (looks
                && self
                    .whole_frame(*place)
                    .is_some_and(|end| self.goes_on(end)))
                || self.is_marker_alone(*place)
        });
        found.unwrap_or(self.bytes.len())
    }

    /// Whether the file's last bytes, from here on, are an end marker of GDB's size.
    fn is_marker_alone(&self, at: usize) -> bool {
        at + 4 == self.bytes.len() && self.is_end(at)
    }
}
