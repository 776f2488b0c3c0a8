//! Counters by which a program sees whether a USDT probe is in use (`sys/sdt.h`, with semaphores).

use std::collections::BTreeMap;

use crate::memory::Memory;
use crate::ptrace::Tid;

/// The counters of probes, by the probe's address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Semaphores(BTreeMap<u64, Semaphore>);

#[derive(Clone, Copy, Debug)]
struct Semaphore {
    /// The address of its 16 bits.
    address: u64,
    /// Whether it was incremented by the tracer.
    raised: bool,
}

/// Adds to the counter.
pub(crate) fn add(memory: &mut Memory, address: u64, by: i16) -> bool {
    memory
        .read_array::<2>(address)
        .map(u16::from_le_bytes)
        .and_then(|count| count.checked_add_signed(by))
        .is_some_and(|count| memory.write_through(address, &count.to_le_bytes()).is_ok())
}

impl Semaphores {
    /// Sets the address of a probe's counter.
    pub(crate) fn add(&mut self, marker: u64, address: u64) {
        self.0.entry(marker).or_insert(Semaphore {
            address,
            raised: false,
        });
    }

    /// A tracepoint was inserted: increments the counter of the probe, and returns its address if that was done.
    pub(crate) fn raise(&mut self, marker: u64, memory: &mut Memory) -> Option<u64> {
        let semaphore = self.0.get_mut(&marker).filter(|known| !known.raised)?;
        semaphore.raised = add(memory, semaphore.address, 1);
        semaphore.raised.then_some(semaphore.address)
    }

    /// The address of a probe's counter that was incremented and is to be decremented.
    pub(crate) fn take_raised(&mut self, marker: u64) -> Option<u64> {
        let semaphore = self.0.get_mut(&marker)?;
        std::mem::take(&mut semaphore.raised).then_some(semaphore.address)
    }

    /// The probes that have a counter.
    pub(crate) fn markers(&self) -> Vec<u64> {
        self.0.keys().copied().collect()
    }

    /// Restores the counters in a copy of the memory.
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
