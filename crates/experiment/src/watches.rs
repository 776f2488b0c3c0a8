//! Watches: the memory that tracepoints watch, and its content before the last write.

use std::collections::BTreeMap;

use tracewire_model::{Address, ByteOrder, OLD_VALUE, WatchedObject};

use crate::experiment::Experiment;
use crate::fetched::{Coverage, Fetched};
use crate::mechanism::Served;
use crate::store::FrameStore;
use crate::target::{StoppedThread, Target, TargetError};

/// The memory that is watched, by its address and length, with its bytes as they were last seen.
#[derive(Debug, Default)]
pub(crate) struct Watches(BTreeMap<(Address, u64), Vec<u8>>);

impl Watches {
    /// The lengths that are watched from an address on.
    fn lengths(&self, address: Address) -> Vec<u64> {
        let all = (address, 0)..=(address, u64::MAX);
        self.0.range(all).map(|((_, length), _)| *length).collect()
    }

    /// The memory is unmapped, with its watches.
    pub(crate) fn forget(&mut self, gone: impl Fn(Address) -> bool) {
        self.0.retain(|(address, _), _| !gone(*address));
    }

    /// Notes a write, and returns the previous bytes. Memory that cannot be read any more keeps its last known content.
    fn replace(&mut self, address: Address, length: u64, fetched: &Fetched) -> Option<Vec<u8>> {
        let known = self.0.get_mut(&(address, length))?;
        let mut joined = Vec::new();
        match fetched.bytes(address.0, length, &mut joined) {
            (bytes, Coverage::Whole) => Some(std::mem::replace(known, bytes.to_vec())),
            _ => Some(known.clone()),
        }
    }
}

/// A number of at most 8 bytes, extended to that.
fn extended(bytes: &[u8], watched: &WatchedObject, order: ByteOrder) -> i64 {
    let number = order.unsigned(bytes);
    debug_assert!(number.is_some(), "{} bytes", bytes.len());
    let number = number.unwrap_or(0).cast_signed();
    match 64_u32.saturating_sub(8 * bytes.len() as u32) {
        unused @ 1..64 if watched.is_signed => number << unused >> unused,
        _ => number,
    }
}

impl<S: FrameStore> Experiment<S> {
    /// The lengths that the tracepoints at an address watch; empty if they are on code.
    fn watched_lengths(&self, address: Address) -> Vec<u64> {
        let here = self.tracepoints.at(address);
        let watched = here.filter_map(|tracepoint| tracepoint.watched.as_ref());
        watched.map(|watched| watched.length).collect()
    }

    /// Whether memory is watched there, and not code traced.
    pub(crate) fn is_watched(&self, address: Address) -> bool {
        let mut here = self.tracepoints.at(address);
        here.any(|tracepoint| tracepoint.watched.is_some())
    }

    /// Makes the target watch the memory of the tracepoints at an address.
    pub(crate) fn put_watch_in(
        &mut self,
        address: Address,
        target: &mut dyn Target,
    ) -> Result<(), TargetError> {
        for length in self.watched_lengths(address) {
            if let std::collections::btree_map::Entry::Vacant(vacant) =
                self.watches.0.entry((address, length))
            {
                vacant.insert(target.insert_watchpoint(address, length)?);
            }
        }
        self.installed.serve(address, Served::Watchpoint);
        Ok(())
    }

    /// Removes the watch at an address from the program.
    pub(crate) fn take_out(
        &mut self,
        address: Address,
        target: &mut dyn Target,
    ) -> Result<(), TargetError> {
        let lengths = self.watches.lengths(address);
        if lengths.is_empty() {
            return target.remove(address);
        }
        for length in lengths {
            target.remove_watchpoint(address, length);
            self.watches.0.remove(&(address, length));
        }
        Ok(())
    }

    /// A thread has written to memory that is watched.
    pub(crate) fn reach_write(
        &mut self,
        address: Address,
        length: u64,
        thread: &mut dyn StoppedThread,
    ) {
        let (_, fetched) = self.maker.evaluation();
        while fetched.ask(address.0, length) {
            fetched.read(thread);
        }
        // Another run's.
        let Some(old) = self.watches.replace(address, length, fetched) else {
            return;
        };
        let variable = (self.variables.definitions())
            .find(|variable| !variable.builtin && variable.name == OLD_VALUE)
            .map(|variable| variable.number);
        for place in 0..self.tracepoints.indices(address).len() {
            let Some(&index) = self.tracepoints.indices(address).get(place) else {
                return;
            };
            let watched = (self.tracepoints.get(index))
                .and_then(|tracepoint| tracepoint.watched.as_ref())
                .filter(|watched| watched.length == length);
            let Some(watched) = watched else {
                continue;
            };
            if let Some(number) = variable.and_then(|number| u16::try_from(number.0).ok())
                && watched.has_old_value()
            {
                let order = self.options.format.byte_order;
                self.variables.set(number, extended(&old, watched, order));
            }
            if self.reach(index, thread).is_end() {
                return;
            }
        }
    }
}
