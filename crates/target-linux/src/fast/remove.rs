//! Removing jumps, and freeing the memory of pads once no thread is inside.

use std::collections::BTreeSet;
use std::ops::Range;

use tracewire_fail_point::fail_point;

use super::code_arena::CodeArena;
use super::{Fast, Inside};
use crate::memory::Memory;
use crate::thread::State;
use crate::threads::Threads;

impl Fast {
    /// The sites of all jumps.
    pub(crate) fn sites(&self) -> Vec<u64> {
        self.jumps.keys().copied().collect()
    }

    /// Restores the bytes at a site. Its pad stays for threads inside.
    pub(crate) fn erase(&mut self, memory: &mut Memory, site: u64) -> std::io::Result<()> {
        let Some(patch) = self.jumps.get(&site) else {
            return Ok(());
        };
        memory.uncover_all(patch.jump.writes())?;
        fail_point!("jump/erased");
        self.strike(site);
        if let Some(patch) = self.jumps.remove(&site) {
            self.retire(patch.pad);
        }
        Ok(())
    }

    /// Forgets the jump at a site, if there is one, whose memory is unmapped.
    pub(crate) fn forget_jump(&mut self, memory: &mut Memory, site: u64) {
        let Some(patch) = self.jumps.remove(&site) else {
            return;
        };
        self.strike(site);
        for address in patch.jump.writes() {
            memory.forget(address);
        }
        self.retire(patch.pad);
    }

    /// Whether there are enough pads to be freed.
    pub(crate) fn has_many_retired(&self) -> bool {
        const MANY: usize = 64;
        self.retired.len() >= MANY
    }

    /// Frees pads without a jump that no thread is in or may return to. Returns the areas that are now unused.
    pub(crate) fn free_pads(&mut self, threads: &Threads) -> Vec<Range<u64>> {
        if self.interrupted || self.retired.is_empty() {
            return Vec::new();
        }
        let mut occupied = BTreeSet::new();
        // One that is about to end does not return.
        for thread in threads.iter().filter(|thread| !thread.exiting) {
            let State::Stopped(stopped) = &thread.state else {
                // Its position is unknown.
                return Vec::new();
            };
            if let Ok(registers) = stopped.registers() {
                match self.inside(registers.rip) {
                    Some(Inside::Entry { site }) => {
                        occupied.extend(
                            self.pads
                                .iter()
                                .filter(|(_, pad)| pad.site == site)
                                .map(|(start, _)| *start),
                        );
                    }
                    Some(Inside::Body { pad, .. } | Inside::Displaced { pad, .. }) => {
                        _ = occupied.insert(pad);
                    }
                    None => {}
                }
            }
        }
        let free: Vec<u64> = self
            .retired
            .extract_if(.., |start| !occupied.contains(start))
            .collect();
        let mut unused = Vec::new();
        for start in free {
            let springboard = self.pads.remove(&start).and_then(|pad| pad.springboard);
            if let Some(springboard) = springboard {
                self.springboards.remove(&springboard);
            }
            let areas = [
                self.areas.give_back(start),
                springboard.and_then(|springboard| self.springboard_areas.give_back(springboard)),
            ];
            unused.extend(areas.into_iter().flatten());
        }
        unused
    }

    /// Frees all pads but the hook's that no thread is in or may return to. Returns the areas that are now unused.
    /// There are no jumps of tracepoints any more.
    pub(crate) fn free_pads_of_jumps(&mut self, threads: &Threads) -> Vec<Range<u64>> {
        let hook = self.hook_pad();
        let active: Vec<u64> = self
            .pads
            .iter()
            .filter(|(start, pad)| !pad.retired && Some(**start) != hook)
            .map(|(start, _)| *start)
            .collect();
        for start in active {
            self.retire(start);
        }
        self.free_pads(threads)
    }

    /// Removes and returns all areas except the one of the dynamic linker's hook; `None` while other pads remain.
    pub(crate) fn take_areas(&mut self) -> Option<Vec<Range<u64>>> {
        let hook = self.hook_pad();
        if self.pads.keys().any(|start| Some(*start) != hook) {
            return None;
        }
        self.borrowed.clear();
        if hook.is_some() {
            return Some(Vec::new());
        }
        self.give_hook_up();
        let areas = [
            std::mem::take(&mut self.areas),
            std::mem::take(&mut self.springboard_areas),
        ];
        Some(areas.iter().flat_map(CodeArena::all).collect())
    }
}
