//! The breakpoints in a process, and the copies of the instructions that they displace.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use libc::user_regs_struct;
use tracewire_jump_pad::relocate::{Copy, Displaced, Place};

use crate::memory::Memory;
use crate::slots::Slots;

/// The instruction of a breakpoint.
pub(crate) const INT3: u8 = 0xcc;

/// A breakpoint that the tracer has inserted.
#[derive(Debug)]
pub(crate) struct Breakpoint {
    /// Whether hits are reported to the experiment.
    pub(crate) tracepoint: bool,
    /// Whether hits are reported to a debugger.
    pub(crate) debugger: bool,
    /// Whether the dynamic linker executes this after each change of its list.
    pub(crate) dynamic_linker: bool,
    /// Whether it is at a resolver of an indirect function, or where one returns to.
    pub(crate) resolver: bool,
    pub(crate) displaced: Displaced,
    pub(crate) means: Means,
}

/// How a thread gets past a breakpoint.
#[derive(Debug)]
pub(crate) enum Means {
    /// Through a copy of the instruction.
    Slot(u64, Copy),
    /// With the original instruction restored, while all other threads are held.
    InPlace,
    /// Not inserted: the instruction is the program's own breakpoint, whose signal the program gets.
    OwnTrap,
}

/// The purpose of a breakpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    Tracepoint,
    Debugger,
    DynamicLinker,
    Resolver,
}

impl Breakpoint {
    pub(crate) fn serve(&mut self, purpose: Purpose, wanted: bool) {
        match purpose {
            Purpose::Tracepoint => self.tracepoint = wanted,
            Purpose::Debugger => self.debugger = wanted,
            Purpose::DynamicLinker => self.dynamic_linker = wanted,
            Purpose::Resolver => self.resolver = wanted,
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.tracepoint || self.debugger || self.dynamic_linker || self.resolver
    }
}

/// The breakpoints by their sites.
#[derive(Debug, Default)]
pub(crate) struct Breakpoints {
    all: BTreeMap<u64, Breakpoint>,
    /// Where breakpoints have been: traps at these may not have been reported yet.
    removed: BTreeSet<u64>,
    pub(crate) slots: Slots,
}

impl Breakpoints {
    pub(crate) fn get(&self, site: u64) -> Option<&Breakpoint> {
        self.all.get(&site)
    }

    pub(crate) fn get_mut(&mut self, site: u64) -> Option<&mut Breakpoint> {
        self.all.get_mut(&site)
    }

    pub(crate) fn has(&self, site: u64) -> bool {
        self.all.contains_key(&site)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn sites(&self) -> Vec<u64> {
        self.all.keys().copied().collect()
    }

    /// The first site in a range.
    pub(crate) fn first_in(&self, range: Range<u64>) -> Option<u64> {
        self.all.range(range).next().map(|(site, _)| *site)
    }

    /// The sites of a debugger's breakpoints.
    pub(crate) fn of_debugger(&self) -> impl Iterator<Item = u64> + '_ {
        self.all
            .iter()
            .filter(|(_, breakpoint)| breakpoint.debugger)
            .map(|(site, _)| *site)
    }

    /// Whether there are tracepoints.
    pub(crate) fn has_tracepoints(&self) -> bool {
        self.all.values().any(|breakpoint| breakpoint.tracepoint)
    }

    pub(crate) fn add(&mut self, site: u64, breakpoint: Breakpoint) {
        self.removed.remove(&site);
        self.all.insert(site, breakpoint);
    }

    /// Removes a breakpoint from the table. Its byte has been restored, or its memory is unmapped.
    pub(crate) fn take(&mut self, site: u64) -> Option<Breakpoint> {
        self.all.remove(&site)
    }

    /// Notes removed breakpoints whose traps may not have been reported yet.
    pub(crate) fn note_removed(&mut self, sites: impl IntoIterator<Item = u64>) {
        self.removed.extend(sites);
    }

    /// Forgets all of them. The use of slots is kept.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    /// Whether the thread's trap is from a breakpoint of the tracer that has been removed since. The byte there now may
    /// be the program's own `int3`.
    pub(crate) fn was_removed(&self, site: u64, memory: &Memory) -> bool {
        self.removed.contains(&site) && memory.read_array(site) != Some([INT3])
    }

    /// The site whose slot an address is in, and where in the instruction that is.
    pub(crate) fn in_slot(&self, address: u64) -> Option<(u64, Place)> {
        let (site, offset) = self.slots.site_of(address)?;
        match &self.all.get(&site)?.means {
            Means::Slot(_, copy) => Some((site, copy.spots.place(offset).place)),
            Means::InPlace | Means::OwnTrap => None,
        }
    }

    /// Whether the instruction at a site, by its copy, can wait in the kernel or repeat itself.
    pub(crate) fn is_restartable(&self, site: u64) -> bool {
        self.get(site)
            .is_some_and(|breakpoint| breakpoint.displaced.restartable)
    }
}

/// Moves a thread out of a slot: back to the site if the instruction has not been executed.
pub(crate) fn undo(place: Place, site: u64, registers: &mut user_regs_struct) {
    match place {
        Place::Before => registers.rip = site,
        Place::Pushed => {
            registers.rip = site;
            registers.rsp = registers.rsp.wrapping_add(8);
        }
        Place::At(address) => registers.rip = address,
    }
}

/// The program's own address of a thread that is in the middle of the instruction at a site.
pub(crate) const fn address_of(place: Place, site: u64) -> u64 {
    match place {
        Place::At(address) => address,
        Place::Before | Place::Pushed => site,
    }
}
