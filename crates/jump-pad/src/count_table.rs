//! The tables of aggregates in the shared memory, and the slots of calls that have begun.
//!
//! A table has as many shards as there are cpus, up to [`MOST_SHARDS`], so that cpus do not contend; that of a pick has one. A shard is open addressing:
//! an entry is one of [`PROBES`] places from the one that the hash of its keys gives. An entry's first word is 0 while it is free
//! and 1 while a pad writes the keys. Then it is the hash and never changes. An entry that is being written is skipped, by a pick after a moment: its
//! writer may be the same thread, interrupted by a signal handler. So the same keys can have several entries, within a shard and
//! across shards, and a reader adds them. A hit changes one word, or two at once, so a reader sees it wholly or not at all.
//!
//! A measured call has a slot from its beginning to its end. No two threads have the same stack pointer, so a slot belongs to one
//! thread. Its key is the tracepoint and the stack pointer, or what takes its place for a goroutine
//! ([`GoroutinePoint::call`](tracewire_model::GoroutinePoint::call)). A call that was left by an exception leaves its slot, and the next
//! call at the same stack pointer takes it.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};

use tracewire_model::{
    Aggregate, AggregateCell, AggregateFunction, AggregateTable, KEY_TEXT, Key, KeyKind,
    TracepointNumber,
};

use crate::clock::counter;
use crate::layout::{calls, counts, threads};
use crate::ring::RingMemory;
use crate::shared::Shared;

/// The most shards of a table.
const MOST_SHARDS: u32 = 8;

/// How many places are searched for an entry.
pub(crate) const PROBES: u64 = 16;

/// The most bytes of a shard.
const SHARD_BYTES: u64 = 1 << 20;

/// The most entries of a shard, as a power of two.
const ENTRY_BITS: u32 = 12;

/// How often a pad looks at an entry that is being written before it takes another one. A pick of a key in two entries picks more hits
/// than it should, so it waits for the few instructions of the writer, and no longer: the writer may be the thread itself.
pub(crate) const PICK_WAITS: u32 = 1000;

/// How far the hash of some keys is turned before the next one goes in.
pub(crate) const TURN: u32 = 23;

/// The bit of an entry's tag that distinguishes it from a free entry and from one that is being written.
pub(crate) const TAG: u64 = 2;

/// The place and layout of an aggregate's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CountTable {
    /// Its offset in the shared memory.
    pub(crate) start: u64,
    pub(crate) shards: u32,
    /// How many bytes a shard has.
    pub(crate) shard: u64,
    /// This many bits of the hash select where the search for an entry begins.
    pub(crate) bits: u32,
    pub(crate) key_words: u32,
    /// The offset of the number in an entry.
    pub(crate) cell: u64,
    /// How many bytes an entry has.
    pub(crate) stride: u64,
}

impl CountTable {
    /// The layout of a table with keys of so many words of 64 bits, which begins at `start`.
    #[must_use]
    pub fn new(function: AggregateFunction, key_words: u64, cpus: u32, start: u64) -> Self {
        let cell_words = match function {
            AggregateFunction::Average => 2,
            AggregateFunction::Histogram(buckets) => buckets.count(),
            _ => 1,
        };
        // Two words that change together are aligned to their size.
        let cell = (8 + key_words * 8).next_multiple_of(16);
        let stride = (cell + cell_words * 8).next_multiple_of(16);
        let bits = match key_words {
            0 => 0,
            _ => (SHARD_BYTES / stride).max(1).ilog2().min(ENTRY_BITS),
        };
        // A pick is exact over all cpus.
        let shards = match function.is_pick() {
            true => 1,
            false => cpus.next_power_of_two().min(MOST_SHARDS),
        };
        let shard = (((1 << bits) + PROBES) * stride).next_multiple_of(64);
        Self {
            start,
            shards,
            shard,
            bits,
            key_words: key_words as u32,
            cell,
            stride,
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        counts::HEADER + u64::from(self.shards) * self.shard
    }

    /// Where the first shard begins.
    pub(crate) const fn entries(&self) -> u64 {
        self.start + counts::HEADER
    }
}

/// The key of a call's slot: the tracepoint above the stack pointer, which has 47 bits.
pub(crate) const fn call_key(number: TracepointNumber, stack: u64) -> u64 {
    (number.0 as u64) << 47 | (stack & ((1 << 47) - 1))
}

impl Shared {
    /// The content of a table at this moment.
    #[must_use]
    pub fn aggregate(&self, aggregate: &Aggregate, table: &CountTable) -> AggregateTable {
        let mut found = AggregateTable {
            without_room: self.load(table.start + counts::WITHOUT_ROOM),
            unreadable: self.load(table.start + counts::UNREADABLE),
            cells: BTreeMap::new(),
        };
        for shard in 0..u64::from(table.shards) {
            let start = table.entries() + shard * table.shard;
            for place in 0..(1 << table.bits) + PROBES {
                let entry = start + place * table.stride;
                // Pads write it last.
                let tag = self.atomic(entry).load(Ordering::Acquire);
                if tag <= 1 {
                    continue;
                }
                let keys = self.keys(aggregate, entry + 8);
                let cell = self.cell(aggregate, entry + table.cell);
                found.merge_cell(aggregate, keys, cell);
            }
        }
        found
    }

    fn keys(&self, aggregate: &Aggregate, mut at: u64) -> Vec<Key> {
        let keys = aggregate.keys.iter().map(|kind| {
            let words = match kind {
                KeyKind::Text => KEY_TEXT as u64 / 8,
                _ => 1,
            };
            let list: Vec<u64> = (0..words).map(|word| self.load(at + word * 8)).collect();
            at += words * 8;
            match kind {
                KeyKind::Text => Key::from_words(&list),
                _ => Key::Number(list.first().copied().unwrap_or(0)),
            }
        });
        keys.collect()
    }

    fn cell(&self, aggregate: &Aggregate, at: u64) -> AggregateCell {
        match aggregate.function {
            AggregateFunction::Count
            | AggregateFunction::Sum
            | AggregateFunction::Top(_)
            | AggregateFunction::Sample(_)
            | AggregateFunction::First(_) => AggregateCell::Number(self.load(at)),
            AggregateFunction::Minimum | AggregateFunction::Maximum => {
                AggregateCell::Extreme(self.load(at))
            }
            AggregateFunction::Average => {
                let (sum, count) = self.sum_and_count(at);
                AggregateCell::Average(sum, count)
            }
            AggregateFunction::Histogram(buckets) => {
                let counts =
                    (0..buckets.count()).map(|bucket| (bucket, self.load(at + bucket * 8)));
                AggregateCell::Histogram(counts.filter(|(_, count)| *count > 0).collect())
            }
        }
    }

    /// Counts a hit in the table of a pick as a pad does, by the words of its keys, and returns whether it makes a frame.
    pub(crate) fn pick(
        &self,
        function: AggregateFunction,
        table: &CountTable,
        keys: &[u64],
    ) -> bool {
        let hash = keys.iter().fold(0_u64, |hash, word| {
            (hash.rotate_left(TURN) ^ word).wrapping_mul(threads::FACTOR)
        });
        let first = match table.bits {
            0 => 0,
            bits => hash >> (64 - bits),
        };
        let tag = (hash | TAG) & !1;
        let words = || (8..).step_by(8).zip(keys);
        let mut waits = PICK_WAITS;
        for place in first..first + PROBES {
            let entry = table.entries() + place * table.stride;
            let word = self.atomic(entry);
            loop {
                match word.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => {
                        for (at, key) in words() {
                            self.atomic(entry + at).store(*key, Ordering::Relaxed);
                        }
                        self.atomic(entry + table.cell).store(1, Ordering::Relaxed);
                        word.store(tag, Ordering::Release);
                        return function.picks(0);
                    }
                    Err(1) if waits > 0 => {
                        waits -= 1;
                        std::hint::spin_loop();
                    }
                    Err(known) => {
                        if known == tag && words().all(|(at, key)| self.load(entry + at) == *key) {
                            let cell = self.atomic(entry + table.cell);
                            return function.picks(cell.fetch_add(1, Ordering::Relaxed));
                        }
                        break;
                    }
                }
            }
        }
        let without_room = self.atomic(table.start + counts::WITHOUT_ROOM);
        without_room.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// The possible slots of a call.
    fn call_slots(&self, key: u64) -> impl Iterator<Item = u64> + use<> {
        let first = key.wrapping_mul(threads::FACTOR) >> (64 - calls::BITS);
        let table = self.layout().calls();
        let slots = table.map(|table| {
            (0..calls::PROBES).map(move |probe| table + (first + probe) * calls::SLOT)
        });
        slots.into_iter().flatten()
    }

    /// Begins a call as a pad does. Returns false if there is no slot for it.
    pub(crate) fn begin_call(&self, key: u64, is_loop: bool, kept: Option<&[u64]>) -> bool {
        for slot in self.call_slots(key) {
            let word = self.atomic(slot + calls::KEY);
            let known = word.load(Ordering::Acquire);
            match kept {
                None if known == key => {
                    word.store(0, Ordering::Release);
                    return true;
                }
                None => continue,
                Some(_) if is_loop && known == key => return true,
                Some(_) if known == key => {}
                Some(_) if known == 0 => {
                    let taken = word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
                    if taken.is_err() {
                        continue;
                    }
                }
                Some(_) => continue,
            }
            for (word, place) in kept.unwrap_or_default().iter().zip(0..calls::KEPT_WORDS) {
                self.atomic(slot + calls::KEPT + place * 8)
                    .store(*word, Ordering::Relaxed);
            }
            self.atomic(slot + calls::BEGUN)
                .store(counter(), Ordering::Relaxed);
            fence(Ordering::Release);
            return true;
        }
        kept.is_none()
    }

    /// Whether a call has begun and not ended.
    pub(crate) fn has_call(&self, key: u64) -> bool {
        let mut slots = self.call_slots(key);
        slots.any(|slot| self.atomic(slot + calls::KEY).load(Ordering::Acquire) == key)
    }

    /// Ends a call at this counter as a pad does. Returns its duration in nanoseconds, and the kept values.
    pub(crate) fn end_call(&self, key: u64, now: u64) -> Option<(u64, Vec<u64>)> {
        let is_it = |slot: &u64| self.atomic(*slot + calls::KEY).load(Ordering::Acquire) == key;
        let slot = self.call_slots(key).find(is_it)?;
        let begun = self.load(slot + calls::BEGUN);
        let kept = (0..calls::KEPT_WORDS).map(|word| self.load(slot + calls::KEPT + word * 8));
        let kept = kept.collect();
        self.atomic(slot + calls::KEY).store(0, Ordering::Release);
        Some((self.rate().nanoseconds(now.saturating_sub(begun)), kept))
    }
}
