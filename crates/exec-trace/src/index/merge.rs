//! The runs of all segments merged into pages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use super::page::{ENTRIES, Follower, Item, Kind, PageWriter, State, byte_bits, spread};
use super::run::Runs;
use crate::compact::bytes::put;

/// How much of the pages is handed on at once.
const PIECE: usize = 1 << 20;

/// How many contradictions are given one by one.
const MOST_CONTRADICTIONS: usize = 1 << 20;

/// A read that differs from what was known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Contradiction {
    /// From which instruction on the read is seen.
    pub(crate) slot: u64,
    pub(crate) address: u64,
    pub(crate) length: u8,
    /// Which of the bytes were known.
    pub(crate) known: u8,
    pub(crate) was: u64,
    pub(crate) read: u64,
}

/// What the merge leaves beside the pages.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// First granule, first slot, offset of each page; at the end a row that only has the end's offset.
    pub(crate) directory: Vec<[u64; 3]>,
    /// Granule, bytes known, value before any access, of each granule that has entries in more than one page.
    pub(crate) spanning: Vec<[u64; 3]>,
    pub(crate) contradictions: Vec<Contradiction>,
    pub(crate) contradiction_count: u64,
}

/// Merges the runs. The pages go to `out`, piece by piece; offsets are counted from the first.
pub(crate) fn merge(
    runs: &Runs,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Merged> {
    let mut cursors = runs.cursors()?;
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> = cursors
        .iter()
        .enumerate()
        .filter_map(|(at, cursor)| Some(Reverse((cursor.granule()?, at))))
        .collect();
    let mut merged = Merged::default();
    let mut page = PageWriter::default();
    let mut pages = Vec::with_capacity(PIECE + (1 << 14));
    let mut done = 0u64;
    let mut current: Option<u64> = None;
    let mut state = State::default();
    let mut first = Follower::default();
    // Whether the granule has entries already, and whether some are in an earlier page.
    let (mut is_open, mut spans) = (false, false);
    while let Some(Reverse((granule, at))) = heap.pop() {
        if current != Some(granule) {
            if let Some(before) = current.filter(|_| spans) {
                merged.spanning.push(first_row(before, &first));
            }
            current = Some(granule);
            state = State::default();
            first = Follower::default();
            (is_open, spans) = (false, false);
        }
        cursors[at].entries(|entry| {
            if page.count == ENTRIES {
                flush(&mut page, &mut pages, done, &mut merged);
                spans |= is_open;
            }
            is_open = true;
            let before = state;
            let kind = state.apply(&entry);
            page.push(granule, before, kind, &entry);
            let item = Item {
                granule,
                slot: entry.slot,
                kind,
                offset: entry.offset,
                length: entry.length,
                data: entry.data.unwrap_or(0),
            };
            first.note_first(&item);
            if kind == Kind::Contradicts {
                merged.contradiction_count += 1;
                if merged.contradictions.len() < MOST_CONTRADICTIONS {
                    merged.contradictions.push(contradiction(&item, before));
                }
            }
        })?;
        if pages.len() >= PIECE {
            out(&pages)?;
            done += pages.len() as u64;
            pages.clear();
        }
        if let Some(granule) = cursors[at].granule() {
            heap.push(Reverse((granule, at)));
        }
    }
    if let Some(before) = current.filter(|_| spans) {
        merged.spanning.push(first_row(before, &first));
    }
    if page.count > 0 {
        flush(&mut page, &mut pages, done, &mut merged);
    }
    out(&pages)?;
    done += pages.len() as u64;
    merged.directory.push([u64::MAX, u64::MAX, done]);
    merged.contradictions.sort_unstable();
    Ok(merged)
}

fn flush(page: &mut PageWriter, pages: &mut Vec<u8>, done: u64, merged: &mut Merged) {
    merged
        .directory
        .push([page.granule, page.slot, done + pages.len() as u64]);
    page.finish(pages);
}

fn first_row(granule: u64, first: &Follower) -> [u64; 3] {
    [granule, u64::from(first.first.known), first.first.value]
}

fn contradiction(item: &Item, before: State) -> Contradiction {
    let shift = item.offset * 8;
    let known = before.known & byte_bits(item.offset, item.length);
    Contradiction {
        slot: item.slot,
        address: item.granule * 8 + u64::from(item.offset),
        length: item.length,
        known: known >> item.offset,
        was: (before.value & spread(known)) >> shift,
        read: item.data,
    }
}

/// The contradictions as they are kept.
pub(crate) fn put_contradictions(out: &mut Vec<u8>, merged: &Merged) {
    put(out, merged.contradiction_count);
    put(out, merged.contradictions.len() as u64);
    let mut last = 0;
    for found in &merged.contradictions {
        put(out, found.slot - last);
        last = found.slot;
        put(out, found.address);
        out.extend_from_slice(&[found.length, found.known]);
        put(out, found.was);
        put(out, found.read);
    }
}

pub(crate) fn read_contradictions(
    reader: &mut crate::compact::bytes::Reader<'_>,
) -> Result<(u64, Vec<Contradiction>), crate::compact::bytes::Damaged> {
    let all = reader.number()?;
    let mut slot = 0u64;
    let mut found = Vec::new();
    for _ in 0..reader.count()? {
        slot = slot.wrapping_add(reader.number()?);
        found.push(Contradiction {
            slot,
            address: reader.number()?,
            length: reader.byte()?,
            known: reader.byte()?,
            was: reader.number()?,
            read: reader.number()?,
        });
    }
    Ok((all, found))
}
