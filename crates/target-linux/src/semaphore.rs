//! Counters that a program looks at to see whether anybody wants to know of a marker (`sys/sdt.h`, with semaphores).

use std::collections::BTreeMap;

use crate::memory::Memory;
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

impl Semaphores {
    /// Says where the counter of a marker is.
    pub(crate) fn add(&mut self, marker: u64, address: u64) {
        self.0.entry(marker).or_insert(Semaphore {
            address,
            raised: false,
        });
    }

    /// A tracepoint has been put in: the address of the marker's counter, if it is higher for that.
    pub(crate) fn raise(&mut self, marker: u64, memory: &mut Memory) -> Option<u64> {
        let semaphore = self.0.get_mut(&marker).filter(|known| !known.raised)?;
        semaphore.raised = add(memory, semaphore.address, 1);
        semaphore.raised.then_some(semaphore.address)
    }

    /// The address of a marker's counter that was raised and is to be lowered.
    pub(crate) fn take_raised(&mut self, marker: u64) -> Option<u64> {
        let semaphore = self.0.get_mut(&marker)?;
        std::mem::take(&mut semaphore.raised).then_some(semaphore.address)
    }

    /// The markers that have a counter.
    pub(crate) fn markers(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }

    /// Leaves those of a copy of the memory as they would be without us.
    pub(crate) fn lower_in_copy(&self, copy: Tid) {
        let mut raised = self.0.values().filter(|known| known.raised).peekable();
        if raised.peek().is_some()
            && let Ok(mut memory) = Memory::open(copy)
        {
            for semaphore in raised {
                add(&mut memory, semaphore.address, -1);
            }
        }
    }
}
