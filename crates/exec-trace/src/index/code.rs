//! In which segments the code at each address is executed.
//!
//! A program executes code again soon, or not for long: a list has runs of segments that follow one another. A run takes two bytes
//! or three. Addresses that follow one another are in one piece of the file with their lists.

use std::ops::RangeInclusive;

use super::store::Store;
use super::write::Table;
use crate::compact::bytes::{Damaged, Reader, put, put_slice};
use crate::compact::frame::unpack;
use crate::compact::map::Map;

/// How many addresses a piece has.
const ADDRESSES_A_PIECE: usize = 128;

/// Where code is in more pieces than these, their lists are not read.
const MOST_PIECES: usize = 512;

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

    /// The pieces, rising, each with its first address.
    pub(super) fn finish(self) -> Vec<(u64, Vec<u8>)> {
        let ended = self.0.into_iter().map(|(address, mut list)| {
            list.end_run();
            (address, list.runs)
        });
        let mut lists: Vec<(u64, Vec<u8>)> = ended.collect();
        lists.sort_unstable_by_key(|(address, _)| *address);
        let pieces = lists.chunks(ADDRESSES_A_PIECE).filter_map(|lists| {
            let (first, _) = lists.first()?;
            let mut piece = Vec::new();
            let mut before = *first;
            for (address, list) in lists {
                put(&mut piece, address - before);
                put_slice(&mut piece, list);
                before = *address;
            }
            Some((*first, piece))
        });
        pieces.collect()
    }
}

/// Gives each address of a piece, with its list.
fn each_of<'a>(
    piece: &'a [u8],
    first: u64,
    mut each: impl FnMut(u64, &'a [u8]) -> Result<(), Damaged>,
) -> Result<(), Damaged> {
    let mut reader = Reader::new(piece);
    let mut address = first;
    while !reader.is_empty() {
        address = address.checked_add(reader.number()?).ok_or(Damaged)?;
        each(address, reader.slice()?)?;
    }
    Ok(())
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
    /// The segments in which code at some addresses is executed, both ends included; none where that is in so many
    /// pieces that all segments may as well be looked at.
    pub(crate) fn segments_with(
        &self,
        addresses: &[RangeInclusive<u64>],
    ) -> Result<Option<Segments>, Damaged> {
        let mut pieces = 0;
        let mut runs = Vec::new();
        for range in addresses {
            // The pieces that begin at an address or before it.
            let up_to = |address: u64| {
                self.partition(Table::Code, |row| {
                    Ok(self.number(Table::Code, row, 0)? <= address)
                })
            };
            let rows = up_to(*range.start())?.saturating_sub(1)..up_to(*range.end())?;
            pieces += rows.len();
            if pieces > MOST_PIECES {
                return Ok(None);
            }
            for row in rows {
                self.each_list(row, |address, list| match range.contains(&address) {
                    true => runs_of(list, &mut runs),
                    false => Ok(()),
                })?;
            }
        }
        Ok(Some(Segments::new(runs)))
    }

    /// The addresses of all code, rising.
    pub(crate) fn code_addresses(&self) -> Result<Vec<u64>, Damaged> {
        let mut addresses = Vec::new();
        for row in 0..self.rows(Table::Code) {
            self.each_list(row, |address, _| {
                addresses.push(address);
                Ok(())
            })?;
        }
        Ok(addresses)
    }

    /// Gives each address of a piece, with its list.
    fn each_list(
        &self,
        row: usize,
        each: impl FnMut(u64, &[u8]) -> Result<(), Damaged>,
    ) -> Result<(), Damaged> {
        let [first, start, length] = self.row(Table::Code, row)?;
        each_of(&unpack(self.extent(start, length)?)?, first, each)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_have_each_segment_once(code in proptest::collection::vec(proptest::collection::btree_set(0..300u64, 0..60), 0..40)) {
            let mut lists = CodeLists::default();
            for (segment, code) in (0..).zip(&code) {
                let code: Vec<u64> = code.iter().copied().collect();
                lists.put(segment, &code);
            }
            let mut lists_of = Vec::new();
            for (first, piece) in &lists.finish() {
                each_of(piece, *first, |address, list| {
                    lists_of.push((address, list.to_vec()));
                    Ok(())
                }).unwrap();
            }
            let all: std::collections::BTreeSet<u64> = code.iter().flatten().copied().collect();
            prop_assert!(lists_of.iter().map(|(address, _)| *address).eq(all));
            for (address, list) in lists_of {
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
