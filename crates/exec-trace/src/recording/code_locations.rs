//! Code at some addresses, and where it is executed.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tracewire_model::Address;

use super::{ReadError, Recording};
use crate::compact::template::Template;
use crate::index::Segments;
use crate::record::CpuNumber;

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

impl FromIterator<Address> for Addresses {
    fn from_iter<T: IntoIterator<Item = Address>>(addresses: T) -> Self {
        let each = addresses.into_iter().map(|Address(of)| of..=of);
        Self::new(each.collect())
    }
}

/// Code at some addresses of a recording, and where in it that is executed. Made by [`Recording::locate`]; a copy is cheap.
#[derive(Clone, Debug)]
pub struct CodeLocations(Arc<Located>);

#[derive(Debug)]
struct Located {
    addresses: Addresses,
    /// The segments in which it is executed, where that is less than all.
    segments: Option<Segments>,
}

impl CodeLocations {
    /// No code.
    #[must_use]
    pub fn none() -> Self {
        let (addresses, segments) = (Addresses::new(Vec::new()), Some(Segments::default()));
        Self(Arc::new(Located {
            addresses,
            segments,
        }))
    }
}

impl Recording {
    /// Looks up where code is executed. No instruction is read for that.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn locate(&self, addresses: Addresses) -> Result<CodeLocations, ReadError> {
        let segments = self.ask(|store| store.segments_with(addresses.ranges()))?;
        Ok(CodeLocations(Arc::new(Located {
            addresses,
            segments,
        })))
    }
}

/// Instructions that are looked for: those of some code, and all of some cpus.
#[derive(Debug)]
pub(super) struct Meant {
    code: CodeLocations,
    cpus: BTreeSet<CpuNumber>,
}

impl Meant {
    pub(super) const fn new(code: CodeLocations, cpus: BTreeSet<CpuNumber>) -> Self {
        Self { code, cpus }
    }

    /// Whether the instruction of a template is meant.
    pub(super) fn has(&self, template: &Template) -> bool {
        let of = template.instruction.as_ref();
        of.is_some_and(|of| {
            self.code.0.addresses.has(of.address) || self.cpus.contains(&CpuNumber(of.cpu))
        })
    }

    /// The segments in which they are, where that is less than all.
    pub(super) fn segments(&self) -> Option<&Segments> {
        let code = self.code.0.segments.as_ref();
        code.filter(|_| self.cpus.is_empty())
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
