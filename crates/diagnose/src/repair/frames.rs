//! The frames of a damaged file that are still whole.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tracewire_arch::RegisterLayout;
use tracewire_model::ByteOrder;
use tracewire_tracefile::Description;
use tracewire_tracefile::raw::FRAME_HEADER;
use tracewire_tracefile::raw::{FrameShape, blocks_fit};

use super::known::Known;
use super::search::{Search, WholeFrames, kinds_of_blocks, unknown_kind};

/// How many frames are used to determine the size of their register blocks.
const FRAMES_TO_SETTLE: usize = 200;

/// The largest frames from which the size of a register block is guessed, in bytes. No machine of GDB has more registers than a
/// quarter of this.
const LARGEST_TELLING_FRAME: usize = 1 << 16;

/// Finds the whole frames, in the byte order and with the register block size that give most of them; in this byte order, where
/// one is given.
pub(super) fn salvage(
    bytes: &[u8],
    start: usize,
    description: &Description,
    layout: Option<&RegisterLayout>,
    order: Option<ByteOrder>,
) -> WholeFrames {
    let known = Known::of(description);
    let orders = match order.or_else(|| layout.and_then(RegisterLayout::byte_order)) {
        Some(order) => vec![order],
        None => vec![ByteOrder::Little, ByteOrder::Big],
    };
    let declared = description.register_block();
    let mut sizes: Vec<Option<u32>> = [
        declared.map(|line| line.hexadecimal),
        declared.and_then(|line| line.decimal),
        layout.map(RegisterLayout::size),
    ]
    .into_iter()
    // GDB refuses a file with size 0.
    .filter(|size| size.is_some_and(|size| size > 0))
    .collect();
    let mut best: Option<(Score, WholeFrames)> = None;
    let try_all = |orders: &[ByteOrder], sizes: &[Option<u32>], best: &mut Option<_>| {
        for order in orders {
            for size in sizes {
                let shape = FrameShape {
                    order: *order,
                    register_block: *size,
                };
                let found = search(bytes, start, shape, &known);
                let score = score(&found, bytes, &known);
                if best.as_ref().is_none_or(|(best, _)| score > *best) {
                    *best = Some((score, found));
                }
            }
        }
    };
    if sizes.is_empty() {
        sizes.push(None);
    }
    try_all(&orders, &sizes, &mut best);
    // Chance matches cover little of a file whose register blocks have another size.
    let length = |ranges: &[Range<usize>]| ranges.iter().map(Range::len).sum::<usize>();
    let few = best
        .as_ref()
        .is_none_or(|(_, best)| length(&best.kept) <= length(&best.lost));
    if few && bytes.len() > start {
        for order in &orders {
            let sizes: Vec<_> = guessed_sizes(bytes, start, *order)
                .into_iter()
                .map(Some)
                .collect();
            try_all(&[*order], &sizes, &mut best);
        }
    }
    best.map(|(_, best)| best).unwrap_or(WholeFrames {
        shape: FrameShape {
            order: ByteOrder::Little,
            register_block: None,
        },
        kept: Vec::new(),
        lost: Vec::new(),
        end_marker: false,
    })
}

/// How good a reading of the frames is; the greater the better.
type Score = (bool, usize, usize);

/// The best candidate is one in which everything is a good frame. Then it is the one with most bytes in frames with known blocks;
/// those of known tracepoints count twice. With a wrong size, all frames seem to have unknown blocks, and in the wrong byte order
/// unknown tracepoints.
fn score(frames: &WholeFrames, bytes: &[u8], known: &Known) -> Score {
    let mut all_good = !frames.kept.is_empty();
    let mut weight = 0;
    for frame in &frames.kept {
        let data = bytes.get(frame.start + FRAME_HEADER..frame.end);
        let fits = data.is_some_and(|data| blocks_fit(data, frames.shape));
        let is_known = known.numbers.contains(&frames.tracepoint(bytes, frame).0);
        all_good &= fits && is_known;
        weight += match (fits, is_known) {
            (true, true) => 2 * frame.len(),
            (true, false) => frame.len(),
            (false, _) => 0,
        };
    }
    let is_good = all_good && frames.lost.is_empty() && frames.end_marker;
    (is_good, weight, frames.kept.len())
}

/// Sizes of register blocks with which the first frames' blocks would fit, if frames are followed only by their sizes.
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
        let telling = data.first() == Some(&b'R') && data.len() <= LARGEST_TELLING_FRAME;
        let sizes = (1..data.len().min(1 << 14)).filter(|_| telling);
        for size in sizes.filter_map(|size| u32::try_from(size).ok()) {
            let shape = FrameShape {
                order,
                register_block: Some(size),
            };
            if blocks_fit(data, shape) {
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

/// Finds the whole frames of the tracepoints in the description, and of those with several frames, since a damaged number occurs
/// only once. If the description has no tracepoint with frames, it is damaged itself, and any number is accepted. Unknown blocks
/// belong to some stub if several frames have them, else they are damage.
fn search(bytes: &[u8], start: usize, shape: FrameShape, known: &Known) -> WholeFrames {
    let mut kinds = repeated_kinds(bytes, start, shape, &known.numbers);
    loop {
        let found = search_with(bytes, start, shape, known, &kinds);
        // A kind of block that several frames seemed to have may remain in only one, which would then not be whole the next time.
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
    known: &Known,
    kinds: &HashSet<u8>,
) -> WholeFrames {
    let frames = |numbers, empty, seen| {
        Search::new(bytes, shape, numbers, known, empty, kinds, seen).frames(start)
    };
    let of_any = frames(HashSet::new(), HashSet::new(), HashMap::new());
    let mut counts: HashMap<i32, usize> = HashMap::new();
    let mut empty = known.hit_and_bare.clone();
    let mut seen: HashMap<i32, HashSet<u8>> = HashMap::new();
    for frame in &of_any.kept {
        let number = of_any.tracepoint(bytes, frame).0;
        *counts.entry(number).or_default() += 1;
        if frame.len() == FRAME_HEADER {
            empty.insert(number);
        } else if let Some(data) = bytes.get(frame.start + FRAME_HEADER..frame.end) {
            seen.entry(number)
                .or_default()
                .extend(kinds_of_blocks(data, shape));
        }
    }
    let several = counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(number, _)| number);
    let numbers = known.numbers.iter().copied().chain(several).collect();
    let of_known = frames(numbers, empty, seen);
    let mut kept = of_known.kept.iter();
    let is_known = |frame| known.numbers.contains(&of_known.tracepoint(bytes, frame).0);
    let length = |frames: &WholeFrames| frames.kept.iter().map(Range::len).sum::<usize>();
    if kept.any(is_known) || length(&of_known) > length(&of_any) {
        of_known
    } else {
        of_any
    }
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

/// The kinds that occur more than once.
fn of_several(kinds: impl IntoIterator<Item = u8>) -> HashSet<u8> {
    let mut seen = HashSet::new();
    kinds
        .into_iter()
        .filter(|kind| !seen.insert(*kind))
        .collect()
}
