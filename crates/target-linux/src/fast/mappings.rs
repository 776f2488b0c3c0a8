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

    /// Those of a process that is made by fork now: it has the same, and that of the jump at the dynamic linker's hook, which it does
    /// not keep.
    pub fn of_copy(&self, hook: Option<(u64, u64)>) -> Self {
        Self {
            places: self.places.iter().copied().chain(hook).collect(),
            prepared: None,
        }
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

    /// Forgets all, and returns where they are in the program, which is to unmap them. One that has the memory of the jump at the dynamic
    /// linker's hook stays.
    pub fn take_all(&mut self, hook: Option<(u64, u64)>) -> Vec<Range<u64>> {
        self.prepared = None;
        let has_hook = |start: u64, size: u64| {
            hook.is_some_and(|(hook, _)| (start..start.saturating_add(size)).contains(&hook))
        };
        let taken = self
            .places
            .extract_if(.., |(start, size)| !has_hook(*start, *size));
        taken
            .map(|(address, size)| address..address + size)
            .collect()
    }
}
