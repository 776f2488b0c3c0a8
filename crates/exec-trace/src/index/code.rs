//! In which segments the code at each address is executed.
//!
//! A program executes code again soon, or not for long: a list has runs of segments that follow one another. In memory, and in the
//! file, a run takes two bytes or three.

use std::ops::RangeInclusive;

use super::store::Store;
use super::write::Table;
use crate::compact::bytes::{Damaged, Reader, put};
use crate::compact::frame::unpack;
use crate::compact::map::Map;

/// Of more addresses than these the lists are not read.
const MOST_ADDRESSES: usize = 1 << 12;

/// The lists, as they grow.
#[derive(Default)]
pub(super) struct CodeLists(Map<u64, CodeList>);

/// The segments with one address.
struct CodeList {
    /// The runs before the last: the distance to the one before, and how many segments follow the first.
    runs: Vec<u8>,
    /// The segment after the last of these.
    end: u32,
    /// The last run, both ends included.
    first: u32,
    last: u32,
}

impl CodeList {
    const fn new(segment: u32) -> Self {
        Self {
            runs: Vec::new(),
            end: 0,
            first: segment,
            last: segment,
        }
    }

    fn end_run(&mut self) {
        put(&mut self.runs, u64::from(self.first - self.end));
        put(&mut self.runs, u64::from(self.last - self.first));
        self.end = self.last + 1;
    }
}

impl CodeLists {
    /// Adds a segment that comes after all that were added, with the addresses of its code.
    pub(super) fn put(&mut self, segment: u32, code: &[u64]) {
        for address in code {
            let list = self.0.entry(*address);
            let list = list.or_insert_with(|| CodeList::new(segment));
            debug_assert!(list.last <= segment, "segments come in order");
            if list.last + 1 < segment {
                list.end_run();
                list.first = segment;
            }
            list.last = segment;
        }
    }

    /// The addresses, rising, each with its list.
    pub(super) fn finish(self) -> Vec<(u64, Vec<u8>)> {
        let ended = self.0.into_iter().map(|(address, mut list)| {
            list.end_run();
            (address, list.runs)
        });
        let mut lists: Vec<(u64, Vec<u8>)> = ended.collect();
        lists.sort_unstable_by_key(|(address, _)| *address);
        lists
    }
}

/// Adds the runs of a list, both ends included.
fn runs_of(list: &[u8], runs: &mut Vec<(u32, u32)>) -> Result<(), Damaged> {
    let mut reader = Reader::new(list);
    let mut end = 0u32;
    while !reader.is_empty() {
        let first = end.checked_add(reader.small()?).ok_or(Damaged)?;
        let last = first.checked_add(reader.small()?).ok_or(Damaged)?;
        end = last.checked_add(1).ok_or(Damaged)?;
        runs.push((first, last));
    }
    Ok(())
}

/// Some segments: runs of them, both ends included, rising and apart.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Segments(Vec<(u32, u32)>);

impl Segments {
    fn new(mut runs: Vec<(u32, u32)>) -> Self {
        runs.sort_unstable();
        let mut apart: Vec<(u32, u32)> = Vec::with_capacity(runs.len());
        for (first, last) in runs {
            match apart.last_mut() {
                Some((_, before)) if first <= before.saturating_add(1) => {
                    *before = last.max(*before);
                }
                _ => apart.push((first, last)),
            }
        }
        Self(apart)
    }

    /// The first of them from a segment on, that one included.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let at = self.0.partition_point(|(_, last)| *last < from);
        self.0.get(at).map(|(first, _)| from.max(*first))
    }

    /// The last of them up to a segment, that one included.
    pub(crate) fn last(&self, upto: u32) -> Option<u32> {
        let count = self.0.partition_point(|(first, _)| *first <= upto);
        let at = count.checked_sub(1)?;
        self.0.get(at).map(|(_, last)| upto.min(*last))
    }
}

impl Store {
    /// The segments in which code at some addresses is executed, both ends included; none where there are so many
    /// addresses that all segments may as well be looked at.
    pub(crate) fn segments_with(
        &self,
        addresses: &[RangeInclusive<u64>],
    ) -> Result<Option<Segments>, Damaged> {
        let mut rows = Vec::new();
        for range in addresses {
            let before = |address: u64, is_included: bool| {
                self.partition(Table::Code, |row| {
                    let this = self.number(Table::Code, row, 0)?;
                    Ok(this < address || is_included && this == address)
                })
            };
            let (start, end) = (before(*range.start(), false)?, before(*range.end(), true)?);
            if end.saturating_sub(start) > MOST_ADDRESSES - rows.len() {
                return Ok(None);
            }
            rows.extend(start..end);
        }
        let mut runs = Vec::new();
        for row in rows {
            let [_, start, length] = self.row(Table::Code, row)?;
            runs_of(&unpack(self.extent(start, length)?)?, &mut runs)?;
        }
        Ok(Some(Segments::new(runs)))
    }

    /// The addresses of all code, rising.
    pub(crate) fn code_addresses(&self) -> Result<Vec<u64>, Damaged> {
        let rows = 0..self.rows(Table::Code);
        rows.map(|row| self.number(Table::Code, row, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_have_each_segment_once(code in proptest::collection::vec(proptest::collection::btree_set(0..6u64, 0..4), 0..40)) {
            let mut lists = CodeLists::default();
            for (segment, code) in (0..).zip(&code) {
                let code: Vec<u64> = code.iter().copied().collect();
                lists.put(segment, &code);
            }
            let lists = lists.finish();
            prop_assert!(lists.is_sorted_by_key(|(address, _)| *address));
            for (address, list) in lists {
                let mut runs = Vec::new();
                runs_of(&list, &mut runs).unwrap();
                let segments = Segments::new(runs);
                let has = |segment: usize| code.get(segment).is_some_and(|code| code.contains(&address));
                for from in 0..45 {
                    let next = (from..45).find(|segment| has(*segment));
                    prop_assert_eq!(segments.next(from as u32), next.map(|of| of as u32));
                    let last = (0..=from).rev().find(|segment| has(*segment));
                    prop_assert_eq!(segments.last(from as u32), last.map(|of| of as u32));
                }
            }
        }
    }
}
