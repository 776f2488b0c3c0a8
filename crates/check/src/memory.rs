//! Which memory a frame holds.

use tracewire_tracefile::{Address, Frame};

/// The addresses of a frame's memory blocks, joined where they touch. Kept from frame to frame for its room.
#[derive(Default)]
pub(crate) struct Coverage {
    /// First and last address, rising, neither touching.
    ranges: Vec<(u64, u64)>,
    mask: u64,
}

impl Coverage {
    /// Addresses count as far as `mask` goes: what a machine of 32 bits computes may have more.
    pub(crate) fn fill(&mut self, frame: &Frame<'_>, mask: u64) {
        self.mask = mask;
        self.ranges.clear();
        for (address, bytes) in frame.memory_blocks() {
            let first = address.0 & mask;
            let Some(after_first) = (bytes.len() as u64).checked_sub(1) else {
                continue;
            };
            match first.checked_add(after_first).filter(|last| *last <= mask) {
                Some(last) => self.ranges.push((first, last)),
                None => {
                    self.ranges.push((first, mask));
                    self.ranges
                        .push((0, first.wrapping_add(after_first) & mask));
                }
            }
        }
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, last| {
            let touches = next.0 <= last.1.saturating_add(1);
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
    }

    /// The first address of a range that no block holds.
    pub(crate) fn missing(&self, address: u64, length: u64) -> Option<u64> {
        let (address, mut left) = (address & self.mask, length);
        let mut at = address;
        while left > 0 {
            let after = self.ranges.partition_point(|(first, _)| *first <= at);
            let range = after
                .checked_sub(1)
                .and_then(|index| self.ranges.get(index));
            let Some((_, last)) = range.filter(|(_, last)| at <= *last) else {
                return Some(at);
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

/// A number from a frame's memory.
pub(crate) fn read(frame: &Frame<'_>, address: u64, size: u8, mask: u64) -> Option<u64> {
    let mut found = [None; 8];
    let found = found.get_mut(..usize::from(size))?;
    read_bytes(frame, address, found, mask);
    let mut bytes = [0; 8];
    for (byte, found) in bytes.iter_mut().zip(found.iter()) {
        *byte = (*found)?;
    }
    frame.byte_order().unsigned(bytes.get(..usize::from(size))?)
}

/// Bytes of a frame's memory, those that it holds.
pub(crate) fn read_bytes(frame: &Frame<'_>, address: u64, found: &mut [Option<u8>], mask: u64) {
    for candidate in [address & mask, extended(address, mask)] {
        frame.read_memory(Address(candidate), found);
        if candidate == extended(address, mask) || found.first().is_some_and(Option::is_some) {
            break;
        }
    }
}

/// The address as a machine of 32 bits shows it that takes its addresses for signed numbers (MIPS).
const fn extended(address: u64, mask: u64) -> u64 {
    let address = address & mask;
    if address > mask / 2 {
        address | !mask
    } else {
        address
    }
}

#[cfg(test)]
mod tests {
    use super::Coverage;

    #[test]
    fn gaps_are_found() {
        let coverage = |ranges: &[(u64, u64)]| Coverage {
            ranges: ranges.to_vec(),
            mask: u64::MAX,
        };
        let two = coverage(&[(10, 19), (30, 39)]);
        assert_eq!(two.missing(10, 10), None);
        assert_eq!(two.missing(12, 0), None);
        assert_eq!(two.missing(9, 2), Some(9));
        assert_eq!(two.missing(15, 10), Some(20));
        assert_eq!(two.missing(39, 1), None);
        assert_eq!(two.missing(39, u64::MAX), Some(40));
        let all = coverage(&[(0, u64::MAX)]);
        assert_eq!(all.missing(5, u64::MAX), None);
        let ends = coverage(&[(0, 9), (u64::MAX - 1, u64::MAX)]);
        assert_eq!(ends.missing(u64::MAX - 1, 12), None);
        assert_eq!(ends.missing(u64::MAX - 1, 13), Some(10));
    }
}
