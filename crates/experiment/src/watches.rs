//! Watches: the memory that tracepoints watch, and its content before the last write.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tracewire_model::{Address, ByteOrder, WatchedObject};

use crate::error::TargetError;
use crate::fetched::{Coverage, Fetched};
use crate::target::Target;

/// The memory that is watched, by its address and length, with its bytes as they were last seen.
#[derive(Debug, Default)]
pub(crate) struct Watches(BTreeMap<(Address, u64), Vec<u8>>);

impl Watches {
    /// The lengths that are watched from an address on.
    fn lengths(&self, address: Address) -> Vec<u64> {
        let all = (address, 0)..=(address, u64::MAX);
        self.0.range(all).map(|((_, length), _)| *length).collect()
    }

    /// Makes the target watch pieces of memory at an address.
    pub(crate) fn put_in(
        &mut self,
        address: Address,
        lengths: impl IntoIterator<Item = u64>,
        target: &mut dyn Target,
    ) -> Result<(), TargetError> {
        for length in lengths {
            if let Entry::Vacant(vacant) = self.0.entry((address, length)) {
                vacant.insert(target.insert_watchpoint(address, length)?);
            }
        }
        Ok(())
    }

    /// Removes the watches at an address from the program. Returns whether there were any.
    pub(crate) fn take_out(&mut self, address: Address, target: &mut dyn Target) -> bool {
        let lengths = self.lengths(address);
        for length in &lengths {
            target.remove_watchpoint(address, *length);
            self.0.remove(&(address, *length));
        }
        !lengths.is_empty()
    }

    /// The memory is unmapped, with its watches.
    pub(crate) fn forget(&mut self, gone: impl Fn(Address) -> bool) {
        self.0.retain(|(address, _), _| !gone(*address));
    }

    /// Notes a write, and returns the previous bytes. Memory that cannot be read any more keeps its last known content.
    pub(crate) fn replace(
        &mut self,
        address: Address,
        length: u64,
        fetched: &Fetched,
    ) -> Option<Vec<u8>> {
        let known = self.0.get_mut(&(address, length))?;
        let mut joined = Vec::new();
        match fetched.bytes(address.0, length, &mut joined) {
            (bytes, Coverage::Whole) => Some(std::mem::replace(known, bytes.to_vec())),
            _ => Some(known.clone()),
        }
    }
}

/// A number of at most 8 bytes, extended to that.
pub(crate) fn extended(bytes: &[u8], watched: &WatchedObject, order: ByteOrder) -> i64 {
    let number = order.unsigned(bytes);
    debug_assert!(number.is_some(), "{} bytes", bytes.len());
    let number = number.unwrap_or(0).cast_signed();
    match 64_u32.saturating_sub(8 * bytes.len() as u32) {
        unused @ 1..64 if watched.is_signed => number << unused >> unused,
        _ => number,
    }
}
