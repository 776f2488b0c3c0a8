//! The memory that the program has mapped and shares with this process: journals with their rings, and the rings of call events.

use std::ops::Range;

use super::journal::Journal;
use super::shared::{PreparedPads, SharedMemory};

/// The shared mappings of a process.
#[derive(Debug, Default)]
pub(crate) struct SharedMappings {
    /// The address and size of each.
    places: Vec<(u64, u64)>,
    /// The one for the pads that are set up next.
    prepared: Option<PreparedPads>,
}

impl SharedMappings {
    /// Notes one.
    pub fn note(&mut self, address: u64, size: u64) {
        self.places.push((address, size));
    }

    /// Forgets one. It is unmapped, or has another owner: the jump at the dynamic linker's hook keeps its own.
    pub fn forget(&mut self, address: u64, size: u64) {
        self.places.retain(|place| *place != (address, size));
    }

    /// Keeps one for the pads that are set up next.
    pub fn prepare(&mut self, memory: SharedMemory, busy: Vec<Range<u64>>) {
        Journal::note_unused(&memory);
        self.prepared = Some(PreparedPads::new(memory, busy));
    }

    /// The one for the pads that are set up next.
    pub const fn prepared(&self) -> Option<&PreparedPads> {
        self.prepared.as_ref()
    }

    /// Takes the prepared one, if it is large enough.
    pub fn take_prepared(&mut self, size: u64) -> Option<SharedMemory> {
        let prepared = self.prepared.take_if(|prepared| prepared.size() >= size);
        prepared.map(PreparedPads::into_memory)
    }

    /// Gives the prepared one up: where it is in the program, which is to unmap it.
    pub fn give_prepared_up(&mut self) -> Option<Range<u64>> {
        let memory = self.prepared.take()?.into_memory();
        let (address, size) = (memory.address().0, memory.size() as u64);
        self.forget(address, size);
        Some(address..address + size)
    }

    /// Forgets all, and returns where they are in the program, which is to unmap them.
    pub fn take_all(&mut self) -> Vec<Range<u64>> {
        let Self {
            places,
            prepared: _,
        } = std::mem::take(self);
        let ranges = places.into_iter();
        ranges
            .map(|(address, size)| address..address + size)
            .collect()
    }
}
