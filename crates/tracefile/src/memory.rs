//! The memory that a frame holds, put in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use tracewire_model::Address;

/// The memory of a frame in the order of its addresses, for one that reads much of it. [`Frame::read_memory`](crate::Frame::read_memory) gives the
/// same bytes.
#[derive(Clone, Debug)]
pub struct CollectedMemory<'a> {
    /// Which bits of an address count.
    mask: u64,
    /// Rising and apart.
    stretches: Vec<Stretch<'a>>,
    /// The first and the last address of stretches that touch.
    ranges: Vec<(u64, u64)>,
}

/// Addresses of which the same block is the first that holds them.
#[derive(Clone, Copy, Debug)]
struct Stretch<'a> {
    first: u64,
    last: u64,
    /// The block's bytes from `first` on, those after `last` among them.
    bytes: &'a [u8],
}

impl<'a> CollectedMemory<'a> {
    pub(crate) fn new(mask: u64, blocks: impl Iterator<Item = (Address, &'a [u8])>) -> Self {
        let mut whole = Vec::new();
        for (address, bytes) in blocks {
            let first = address.0 & mask;
            let Some(behind) = (bytes.len() as u64).checked_sub(1) else {
                continue;
            };
            let number = whole.len();
            let last = first.saturating_add(behind).min(mask);
            whole.push((first, number, Stretch { first, last, bytes }));
            // What goes on at address 0.
            let skipped = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
            if let Some(bytes) = bytes.get(skipped..).filter(|bytes| !bytes.is_empty()) {
                let last = bytes.len() as u64 - 1;
                let first = 0;
                whole.push((first, number, Stretch { first, last, bytes }));
            }
        }
        whole.sort_unstable_by_key(|(first, number, _)| (*first, *number));
        let stretches = apart(&whole);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for stretch in &stretches {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(stretch.first) => {
                    *last = stretch.last
                }
                _ => ranges.push((stretch.first, stretch.last)),
            }
        }
        Self {
            mask,
            stretches,
            ranges,
        }
    }

    /// Reads memory as [`Frame::read_memory`](crate::Frame::read_memory) does.
    pub fn read(&self, address: Address, bytes: &mut [Option<u8>]) {
        bytes.fill(None);
        let mut done = 0usize;
        while done < bytes.len() {
            let at = address.0.wrapping_add(done as u64) & self.mask;
            let after = self
                .stretches
                .partition_point(|stretch| stretch.first <= at);
            let stretch = after
                .checked_sub(1)
                .and_then(|index| self.stretches.get(index))
                .filter(|stretch| at <= stretch.last);
            let passed = match stretch {
                Some(stretch) => {
                    let skipped = usize::try_from(at - stretch.first).unwrap_or(usize::MAX);
                    let found = stretch.bytes.get(skipped..).unwrap_or_default();
                    for (to, from) in bytes[done..].iter_mut().zip(found) {
                        *to = Some(*from);
                    }
                    found.len() as u64
                }
                None => {
                    let next = self.stretches.get(after).or(self.stretches.first());
                    let Some(next) = next else { return };
                    next.first.wrapping_sub(at) & self.mask
                }
            };
            done = done.saturating_add(usize::try_from(passed).unwrap_or(usize::MAX));
        }
    }

    /// The first of so many addresses, as far as they count on the machine, that is not there.
    #[must_use]
    pub fn missing(&self, address: Address, length: u64) -> Option<Address> {
        let address = address.0 & self.mask;
        let mut at = address;
        let mut left = length;
        while left > 0 {
            let after = self.ranges.partition_point(|(first, _)| *first <= at);
            let range = after
                .checked_sub(1)
                .and_then(|index| self.ranges.get(index));
            let Some((_, last)) = range.filter(|(_, last)| at <= *last) else {
                return Some(Address(at));
            };
            let there = (last - at).saturating_add(1);
            if there >= left {
                return None;
            }
            left -= there;
            at = last.wrapping_add(1) & self.mask;
            if at == address {
                return None;
            }
        }
        None
    }
}

/// The addresses of which two blocks hold different bytes. Blocks are compared in the order of their addresses, each with the
/// one before it that reaches farthest.
pub(crate) fn differing<'a>(blocks: impl Iterator<Item = (Address, &'a [u8])>) -> Vec<Range<u64>> {
    let mut blocks: Vec<(Address, &[u8])> = blocks.collect();
    blocks.sort_by_key(|(address, _)| *address);
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut farthest: Option<(Address, &[u8])> = None;
    for (address, bytes) in blocks {
        if let Some((start, before)) = farthest {
            let skipped = usize::try_from(address.0 - start.0).unwrap_or(usize::MAX);
            let shared = before.get(skipped..).unwrap_or_default();
            let differ = (0..).zip(shared.iter().zip(bytes));
            for (offset, _) in differ.filter(|(_, (one, other))| one != other) {
                let at = address.0.saturating_add(offset);
                match found.last_mut() {
                    Some(last) if last.end >= at => last.end = last.end.max(at.saturating_add(1)),
                    _ => found.push(at..at.saturating_add(1)),
                }
            }
            if bytes.len() <= shared.len() {
                continue;
            }
        }
        farthest = Some((address, bytes));
    }
    found
}

/// The stretches of blocks, which come in the order of their addresses, each with its number in the frame.
fn apart<'a>(blocks: &[(u64, usize, Stretch<'a>)]) -> Vec<Stretch<'a>> {
    let mut stretches: Vec<Stretch<'a>> = Vec::with_capacity(blocks.len());
    // Blocks that start before `at` or there, by their numbers; those that end before are dropped when they come up.
    let mut open = BinaryHeap::new();
    let mut blocks = blocks.iter().peekable();
    let mut at = 0;
    loop {
        while let Some((_, number, block)) = blocks.next_if(|(first, ..)| *first <= at) {
            open.push((Reverse(*number), block.first, block.last, block.bytes));
        }
        let next = blocks.peek().map(|(first, ..)| *first);
        let Some((_, first, last, bytes)) = open.peek().copied() else {
            match next {
                Some(next) => at = next,
                None => return stretches,
            }
            continue;
        };
        if last < at {
            open.pop();
            continue;
        }
        // Up to where the next block starts, which may have come before in the frame.
        let end = next.map_or(last, |next| last.min(next - 1));
        let skipped = usize::try_from(at - first).unwrap_or(usize::MAX);
        let bytes = bytes.get(skipped..).unwrap_or_default();
        match stretches.last_mut() {
            // The same block goes on.
            Some(stretch)
                if stretch.last.checked_add(1) == Some(at)
                    && stretch.bytes.as_ptr_range().end == bytes.as_ptr_range().end =>
            {
                stretch.last = end;
            }
            _ => stretches.push(Stretch {
                first: at,
                last: end,
                bytes,
            }),
        }
        match end.checked_add(1) {
            Some(after) => at = after,
            None => return stretches,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::CollectedMemory;
    use tracewire_model::Address;

    /// The first block that holds an address serves as far as it reaches.
    fn expected(
        blocks: &[(u64, Vec<u8>)],
        mask: u64,
        address: u64,
        length: usize,
    ) -> Vec<Option<u8>> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let at = address.wrapping_add(bytes.len() as u64);
            let found = blocks.iter().find_map(|(start, block)| {
                let skipped = at.wrapping_sub(*start) & mask;
                block
                    .get(usize::try_from(skipped).ok()?..)
                    .filter(|rest| !rest.is_empty())
            });
            match found {
                Some(found) => bytes.extend(found.iter().copied().map(Some)),
                None => bytes.push(None),
            }
        }
        bytes.truncate(length);
        bytes
    }

    fn address() -> impl Strategy<Value = u64> {
        let near = |at: u64| (0..40u64).prop_map(move |by| at.wrapping_add(by).wrapping_sub(20));
        prop_oneof![near(0), near(1 << 31), near(1 << 32), near(1 << 63)]
    }

    #[test]
    fn what_is_there_may_go_around_the_end() {
        let (low, high, end) = ([1; 10], [2; 2], [3; 1]);
        let blocks = [(u64::MAX - 1, &high[..]), (0, &low[..]), (30, &end[..])];
        let memory = CollectedMemory::new(
            u64::MAX,
            blocks.map(|(at, bytes)| (Address(at), bytes)).into_iter(),
        );
        let missing = |at, length| memory.missing(Address(at), length).map(|at| at.0);
        assert_eq!(missing(0, 10), None);
        assert_eq!(missing(12, 0), None);
        assert_eq!(missing(12, 1), Some(12));
        assert_eq!(missing(9, 10), Some(10));
        assert_eq!(missing(u64::MAX - 1, 12), None);
        assert_eq!(missing(u64::MAX - 1, u64::MAX), Some(10));
        assert_eq!(missing(30, u64::MAX), Some(31));
    }

    proptest! {
        #[test]
        fn blocks_that_overlap_and_wrap_around_are_read_in_their_order(
            blocks in prop::collection::vec((address(), prop::collection::vec(any::<u8>(), 0..16)), 0..12),
            mask in prop_oneof![Just(u64::from(u32::MAX)), Just(u64::MAX)],
            address in address(),
            length in 0..60usize,
        ) {
            let each = blocks.iter().map(|(start, bytes)| (Address(*start), &bytes[..]));
            let memory = CollectedMemory::new(mask, each);
            let mut bytes = vec![Some(1); length];
            memory.read(Address(address), &mut bytes);
            prop_assert_eq!(bytes, expected(&blocks, mask, address, length));
            let missing = expected(&blocks, mask, address, length).iter().position(Option::is_none);
            let missing = missing.map(|by| Address(address.wrapping_add(by as u64) & mask));
            prop_assert_eq!(memory.missing(Address(address), length as u64), missing);
        }
    }
}
