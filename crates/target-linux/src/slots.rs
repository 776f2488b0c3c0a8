//! The memory in the process from which displaced instructions run.

use std::collections::{BTreeMap, BTreeSet};

use tracewire_jump_pad::relocate::SLOT_SIZE;

use crate::ptrace::PAGE_SIZE;

/// The farthest that a slot may be from its site: the reach of 32 bits, less a margin for the operands of the
/// instruction.
pub(crate) const REACH: u64 = 0x7fff_0000;

/// The tracer's pages in the process, and the use of their slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pages: Vec<u64>,
    free: BTreeSet<u64>,
    /// The site that each used slot serves.
    used: BTreeMap<u64, u64>,
}

impl Slots {
    /// The pages, by their addresses.
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// Adds a page that has been mapped.
    pub(crate) fn add_page(&mut self, page: u64) {
        self.pages.push(page);
        self.free
            .extend((page..page + PAGE_SIZE).step_by(SLOT_SIZE));
    }

    /// A free slot within reach of the site.
    pub(crate) fn free_slot(&self, site: u64) -> Option<u64> {
        self.free
            .range(site.saturating_sub(REACH)..site.saturating_add(REACH))
            .next()
            .copied()
    }

    pub(crate) fn take(&mut self, slot: u64, site: u64) {
        self.free.remove(&slot);
        self.used.insert(slot, site);
    }

    pub(crate) fn give_back(&mut self, slot: u64) {
        self.used.remove(&slot);
        self.free.insert(slot);
    }

    /// The site whose slot contains the address, and the offset in the slot.
    pub(crate) fn site_of(&self, address: u64) -> Option<(u64, u64)> {
        let slot = address & !(SLOT_SIZE as u64 - 1);
        self.used.get(&slot).map(|site| (*site, address - slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_once_and_tell_their_site() {
        let mut slots = Slots::default();
        slots.add_page(0x1000);
        let slot = slots.free_slot(0x5000).unwrap();
        slots.take(slot, 0x5000);
        assert_ne!(slots.free_slot(0x5000), Some(slot));
        assert_eq!(slots.site_of(slot + 7), Some((0x5000, 7)));
        slots.give_back(slot);
        assert_eq!(slots.site_of(slot + 7), None);
    }
}
