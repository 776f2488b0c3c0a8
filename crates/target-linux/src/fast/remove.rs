//! Taking jumps out, and giving the memory of pads back once nobody is in there.

use std::collections::BTreeSet;

use super::Inside;
use super::areas::Areas;
use crate::process::Process;
use crate::thread::State;

impl Process {
    /// Takes the jump at a site out, if there is one. All threads stand.
    pub(crate) fn take_jump_out(&mut self, site: u64) -> std::io::Result<()> {
        let Some(patch) = self.fast.jumps.get(&site) else {
            return Ok(());
        };
        let writes = patch.jump.writes();
        self.absorb_all();
        // The site itself is among those that read its bytes, and is not put back.
        let mut lifted = self.lift(writes);
        lifted.retain(|lifted| lifted.site() != site);
        let erased = self.erase_jump(site);
        self.put_back(lifted);
        self.free_some_pads();
        erased
    }

    /// Takes every jump out, lower ones first. The pads stay.
    pub(crate) fn take_all_jumps_out(&mut self) {
        self.absorb_all();
        let sites: Vec<u64> = self.fast.jumps.keys().copied().collect();
        for site in sites {
            let _ = self.erase_jump(site);
        }
    }

    /// Forgets the jump at a site, if there is one, whose memory is gone.
    pub(crate) fn forget_jump(&mut self, site: u64) {
        let Some(patch) = self.fast.jumps.remove(&site) else {
            return;
        };
        self.fast.strike(site);
        for address in patch.jump.writes() {
            self.memory.forget(address);
        }
        self.fast.retire(patch.pad);
    }

    /// Frees pads, once there are enough of them: each time, all threads are asked where they are.
    pub(super) fn free_some_pads(&mut self) {
        const ENOUGH: usize = 64;
        if self.fast.retired.len() >= ENOUGH {
            self.free_pads();
        }
    }

    /// Gives back the memory of pads whose jump is out and that no thread is in or may come back to.
    pub(super) fn free_pads(&mut self) {
        if self.fast.interrupted || self.fast.retired.is_empty() {
            return;
        }
        let mut occupied = BTreeSet::new();
        // One that is about to end never comes back.
        for thread in self.threads.iter().filter(|thread| !thread.exiting) {
            let State::Stopped(stopped) = &thread.state else {
                // It cannot be asked where it is.
                return;
            };
            if let Ok(registers) = stopped.registers() {
                match self.fast.inside(registers.rip) {
                    Some(Inside::Entry { site }) => {
                        occupied.extend(
                            self.fast
                                .pads
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
            .fast
            .retired
            .extract_if(.., |start| !occupied.contains(start))
            .collect();
        for start in free {
            let springboard = self
                .fast
                .pads
                .remove(&start)
                .and_then(|pad| pad.springboard);
            if let Some(springboard) = springboard {
                self.fast.springboards.remove(&springboard);
            }
            let areas = [
                self.fast.areas.give_back(start),
                springboard
                    .and_then(|springboard| self.fast.springboard_areas.give_back(springboard)),
            ];
            for area in areas.into_iter().flatten() {
                self.unmap_page(area.start, area.end - area.start);
            }
        }
    }

    /// Unmaps all pads and the shared memory, unless a jump that could not be taken out leads there or some thread may
    /// come back to them: then they stay, and do no harm. What the dynamic linker's hook has stays as long as its jump does.
    pub(crate) fn unmap_pads(&mut self) {
        if self.fast.has_jumps() {
            return;
        }
        let hook = self.fast.hook_pad();
        let active: Vec<u64> = self
            .fast
            .pads
            .iter()
            .filter(|(start, pad)| !pad.retired && Some(**start) != hook)
            .map(|(start, _)| *start)
            .collect();
        for start in active {
            self.fast.retire(start);
        }
        self.free_pads();
        if self.fast.pads.keys().any(|start| Some(*start) != hook) {
            return;
        }
        self.fast.borrowed.clear();
        if hook.is_none() {
            self.fast.give_hook_up();
            let areas = [
                std::mem::take(&mut self.fast.areas),
                std::mem::take(&mut self.fast.springboard_areas),
            ];
            for area in areas.iter().flat_map(Areas::all) {
                self.unmap_page(area.start, area.end - area.start);
            }
        }
        self.unmap_shared();
    }
}
