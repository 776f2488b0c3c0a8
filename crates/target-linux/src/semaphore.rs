//! Counters that a program looks at to see whether anybody wants to know of a marker (`sys/sdt.h`, with semaphores).

use std::collections::BTreeMap;

use tracewire_model::Address;

use crate::memory::Memory;
use crate::process::Process;
use crate::ptrace::Tid;

/// The counters of the markers that tracepoints are wanted on, by the marker's address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Semaphores(BTreeMap<u64, Semaphore>);

#[derive(Clone, Copy, Debug)]
struct Semaphore {
    /// Where its 16 bits are.
    address: u64,
    /// Whether it has been counted up for us.
    raised: bool,
}

/// Counts up or down.
pub(crate) fn add(memory: &mut Memory, address: u64, by: i16) -> bool {
    memory
        .read_array::<2>(address)
        .map(u16::from_le_bytes)
        .and_then(|count| count.checked_add_signed(by))
        .is_some_and(|count| memory.write_through(address, &count.to_le_bytes()).is_ok())
}

impl Process {
    /// Says where the counter of a marker is: as long as a tracepoint is at the marker, it is one higher. To be said
    /// before the tracepoint is put in.
    pub fn set_semaphore(&mut self, marker: Address, semaphore: Address) {
        self.semaphores.0.entry(marker.0).or_insert(Semaphore {
            address: semaphore.0,
            raised: false,
        });
    }

    /// A tracepoint has been put in.
    pub(crate) fn raise_semaphore(&mut self, marker: u64) {
        if let Some(semaphore) = self.semaphores.0.get_mut(&marker)
            && !semaphore.raised
        {
            semaphore.raised = add(&mut self.memory, semaphore.address, 1);
            if semaphore.raised {
                self.fast.note_raised(marker, semaphore.address, self.id);
            }
        }
    }

    /// A tracepoint has been taken out.
    pub(crate) fn lower_semaphore(&mut self, marker: u64) {
        if let Some(semaphore) = self.semaphores.0.get_mut(&marker)
            && std::mem::take(&mut semaphore.raised)
        {
            self.fast.note_lowered(marker);
            // Memory that is gone, with its library, needs no counting.
            add(&mut self.memory, semaphore.address, -1);
        }
    }

    /// Leaves all of them as they would be without us.
    pub(crate) fn lower_all_semaphores(&mut self) {
        let markers: Vec<u64> = self.semaphores.0.keys().copied().collect();
        for marker in markers {
            self.lower_semaphore(marker);
        }
    }

    /// Leaves those of a copy of the memory as they would be without us.
    pub(crate) fn lower_semaphores_of_copy(&self, copy: Tid) {
        let raised: Vec<u64> = self
            .semaphores
            .0
            .values()
            .filter(|semaphore| semaphore.raised)
            .map(|semaphore| semaphore.address)
            .collect();
        if !raised.is_empty()
            && let Ok(mut memory) = Memory::open(copy)
        {
            for address in raised {
                add(&mut memory, address, -1);
            }
        }
    }
}
