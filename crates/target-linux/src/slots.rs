//! The memory in the process that displaced instructions run from.

use std::collections::{BTreeMap, BTreeSet};

use tracewire_jump_pad::relocate::SLOT_SIZE;

use crate::maps::Mapping;

/// The size of a page of slots, in bytes: one page of the machine.
pub(crate) const PAGE_SIZE: u64 = 4096;

/// How far a slot may be from its site: what 32 bits reach, less the room for what an instruction refers to.
const REACH: u64 = 0x7fff_0000;

/// The lowest address that programs may usually map (`vm.mmap_min_addr`).
const LOWEST: u64 = 0x1_0000;
/// What is left free below the main stack.
pub(crate) const STACK_ROOM: u64 = 1 << 30;
/// The first address that no program has.
const HIGHEST: u64 = 0x7fff_ffff_f000;

/// The pages that we have in the process, and what their slots are used for.
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

    /// The site whose slot holds the address, and the offset into the slot.
    pub(crate) fn site_of(&self, address: u64) -> Option<(u64, u64)> {
        let slot = address & !(SLOT_SIZE as u64 - 1);
        self.used.get(&slot).map(|site| (*site, address - slot))
    }
}

/// An unmapped page that slots for the site can be on and that is in nobody's way.
///
/// The nearest one below the site, but not below the main stack, which grows down. Only where there is none
/// it is one above, and then as far off as can be, since the heap grows up.
pub(crate) fn free_page(mappings: &[Mapping], site: u64) -> Option<u64> {
    let ends = std::iter::once(LOWEST).chain(mappings.iter().map(|mapping| mapping.end));
    let starts = mappings
        .iter()
        .map(|mapping| {
            if mapping.path.as_os_str() == "[stack]" {
                mapping.start - STACK_ROOM
            } else {
                mapping.start
            }
        })
        .chain([HIGHEST]);
    let gaps: Vec<(u64, u64)> = ends
        .zip(starts)
        .filter_map(|(start, end)| {
            let start = start
                .max(LOWEST)
                .max(site.saturating_sub(REACH))
                .next_multiple_of(PAGE_SIZE);
            let last = end
                .min(HIGHEST)
                .min(site.saturating_add(REACH))
                .checked_sub(PAGE_SIZE)?;
            (start <= last).then_some((start, last & !(PAGE_SIZE - 1)))
        })
        .collect();
    let below = gaps
        .iter()
        .map(|(_, last)| *last)
        .filter(|page| *page < site)
        .max();
    below.or_else(|| gaps.iter().map(|(_, last)| *last).max())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn mapping(start: u64, end: u64, path: &str) -> Mapping {
        Mapping {
            start,
            end,
            readable: true,
            executable: true,
            offset: 0,
            path: PathBuf::from(path),
        }
    }

    #[test]
    fn a_page_is_found_below_the_program_and_above_only_if_it_must() {
        let program = [
            mapping(0x40_0000, 0x50_0000, "/p"),
            mapping(0x60_0000, 0x70_0000, "[heap]"),
        ];
        assert_eq!(free_page(&program, 0x40_1000), Some(0x3f_f000));
        let low = [
            mapping(LOWEST, 0x50_0000, "/p"),
            mapping(0x50_0000, 0x70_0000, "[heap]"),
        ];
        let page = free_page(&low, 0x40_1000).unwrap();
        assert!(page > 0x7000_0000 && page - 0x40_1000 < REACH);
    }

    #[test]
    fn no_page_is_put_where_the_stack_grows() {
        let stack = 0x7fff_f000_0000;
        let program = [
            mapping(stack, stack + 0x2_0000, "[stack]"),
            mapping(stack + 0x2_0000, stack + 0x3_0000, "[vdso]"),
        ];
        let page = free_page(&program, stack + 0x2_0000).unwrap();
        assert!(page + STACK_ROOM <= stack || page > stack);
    }

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
