//! Which rows of an execution are wanted.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

/// Addresses: ranges with both ends, rising and apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses(Vec<RangeInclusive<u64>>);

impl Addresses {
    /// Those of some ranges.
    #[must_use]
    pub fn new(mut ranges: Vec<RangeInclusive<u64>>) -> Self {
        ranges.sort_unstable_by_key(|range| *range.start());
        let mut apart: Vec<RangeInclusive<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            match apart.last_mut() {
                Some(before) if *range.start() <= before.end().saturating_add(1) => {
                    *before = *before.start()..=*range.end().max(before.end());
                }
                _ => apart.push(range),
            }
        }
        Self(apart)
    }

    /// Whether an address is one of them.
    #[must_use]
    pub fn has(&self, address: u64) -> bool {
        let at = self.0.partition_point(|range| *range.end() < address);
        self.0.get(at).is_some_and(|range| range.contains(&address))
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[RangeInclusive<u64>] {
        &self.0
    }

    /// The addresses, one by one; none where there are more than so many.
    #[must_use]
    pub fn list(&self, most: usize) -> Option<Vec<u64>> {
        let mut list = Vec::new();
        for range in &self.0 {
            let count = range.end().checked_sub(*range.start())?;
            if count >= (most - list.len()) as u64 {
                return None;
            }
            list.extend(range.clone());
        }
        Some(list)
    }
}

/// Which rows are wanted. A reader may give more rows, and never fewer. Of `register_values` it gives only those of the code and of the
/// registers, and of `memory_values` only those of the code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The instructions, by their numbers.
    pub instructions: Range<u64>,
    /// The addresses of their code.
    pub code: Option<Addresses>,
    /// The first bytes of what was accessed.
    pub memory: Option<Addresses>,
    /// How many bytes of memory are asked for at once.
    pub sizes: Option<Vec<u8>>,
    /// The names of the registers.
    pub registers: Option<BTreeSet<String>>,
}

impl Selection {
    /// All rows.
    pub const ALL: Self = Self {
        instructions: 0..u64::MAX,
        code: None,
        memory: None,
        sizes: None,
        registers: None,
    };

    /// Whether rows of a register are wanted.
    pub(super) fn has_register(&self, name: &str) -> bool {
        (self.registers.as_ref()).is_none_or(|wanted| wanted.contains(name))
    }

    /// Whether the code at an address is wanted.
    pub(super) fn has_code(&self, address: u64) -> bool {
        self.code.as_ref().is_none_or(|wanted| wanted.has(address))
    }

    /// Whether an access at an address is wanted.
    pub(super) fn has_memory(&self, address: u64) -> bool {
        (self.memory.as_ref()).is_none_or(|wanted| wanted.has(address))
    }
}

#[cfg(test)]
mod tests {
    use super::Addresses;

    #[test]
    fn addresses_are_joined_and_found() {
        let addresses = Addresses::new(vec![9..=12, 1..=2, 3..=4, 12..=20]);
        assert_eq!(addresses.ranges(), [1..=4, 9..=20]);
        for (address, is_there) in [(0, false), (1, true), (4, true), (5, false), (20, true)] {
            assert_eq!(addresses.has(address), is_there);
        }
        assert_eq!(addresses.list(15), None);
        assert_eq!(addresses.list(17).map(|list| list.len()), Some(16));
        assert_eq!(Addresses::new(vec![0..=u64::MAX]).list(5), None);
        assert_eq!(Addresses::new(Vec::new()).list(5), Some(Vec::new()));
    }
}
