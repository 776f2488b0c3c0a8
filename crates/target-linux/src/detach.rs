//! Detaches: moves threads out of code of the tracer, removes breakpoints and jumps, detaches from every thread.

use std::ops::Range;

use tracewire_fail_point::fail_point;
use tracewire_jump_pad::relocate::Place;

use crate::breakpoints::{Means, address_of, undo};
use crate::error::Error;
use crate::fast::JUMP_REACH;
use crate::maps::ThreadStatus;
use crate::ptrace::PAGE_SIZE;
use crate::ptrace::{ALL_BUT_FAULTS, bit};
use crate::ptrace::{Resume, Status, Tid};
use crate::semaphore;
use crate::stop_times;
use crate::thread::{Pending, Phase, SignalReport, State};
use crate::tracee::Tracee;
use crate::wait_limit::wait_within;
use crate::wait_queue;

impl Tracee {
    /// Detaches, as [`detach`](crate::Process::detach) describes.
    pub(crate) fn detach(&mut self) -> Result<(), Error> {
        let stopped = match self.is_cleared_out {
            // It may have run since.
            true => {
                let stopped = self.stop_all();
                self.release_unborn();
                stopped.and(self.await_vfork())
            }
            false => self.clear_out(),
        };
        self.release_threads();
        stopped
    }

    /// Stops all threads, moves them out of code of the tracer, and removes what the tracer has put in.
    pub(crate) fn clear_out(&mut self) -> Result<(), Error> {
        let stopped = self.stop_all();
        self.is_cleared_out = true;
        self.release_unborn();
        fail_point!("leave/halted");
        if self.threads.is_empty() {
            return stopped;
        }
        self.remove_everything();
        let stopped = stopped.and(self.await_vfork());
        self.settle_all();
        self.breakpoints.clear();
        fail_point!("leave/settled");
        self.disarm_all();
        // One that sleeps may be about to return to a slot.
        if !self.threads.has_sleepers() {
            let pages = self.breakpoints.slots.pages().to_vec();
            for page in pages {
                self.unmap_page(page, PAGE_SIZE);
            }
        }
        self.unmap_pads();
        fail_point!("leave/unmapped");
        self.fast.leave_attended();
        self.fast.leave_hook();
        fail_point!("leave/unattended");
        stopped
    }

    fn release_threads(&mut self) {
        let threads = self.threads.take_all();
        let mut ending: Vec<Tid> = Vec::new();
        for thread in threads {
            if thread.exiting {
                ending.push(thread.id);
            }
            let signal = match &thread.pending {
                Some(Pending::Signal(info))
                    if !thread.is_triggered() && self.debugger.lets_have(info.si_signo) =>
                {
                    if let State::Stopped(stopped) = &thread.state {
                        let _ = stopped.set_signal_info(info);
                    }
                    info.si_signo
                }
                _ => 0,
            };
            match thread.state {
                State::Stopped(stopped) => {
                    wait_queue::release(stopped, signal);
                    if let Some(since) = thread.stopped_since {
                        stop_times::note(since);
                    }
                }
                State::Running(_) if thread.asleep => wait_queue::detach(thread.id),
                State::Running(_) => {}
            }
        }
        ending.sort_by_key(|id| *id == self.threads.process());
        self.see_out(&ending);
    }

    /// Waits for the end of threads that are about to end, which cannot be detached. Until they are reaped their
    /// process does not end for its parent either.
    fn see_out(&self, ending: &[Tid]) {
        for id in ending.iter().copied() {
            // The first thread's end is reported last, and only if no other threads remain.
            if id == self.threads.process() && has_others(id) {
                continue;
            }
            while let Ok(Some(status)) = wait_within(id) {
                if matches!(status, Status::Exited(_) | Status::Killed(..)) {
                    break;
                }
            }
        }
    }

    /// Removes everything of the tracer from the memory and the threads. All threads are stopped. The table of
    /// breakpoints is kept for a thread that must still leave a slot.
    pub(crate) fn remove_everything(&mut self) {
        self.remove_everything_but(0);
    }

    /// The same, except that one thread stays stopped throughout, because it is about to get a signal.
    pub(crate) fn remove_everything_but(&mut self, kept: Tid) {
        for marker in self.program.semaphores.markers() {
            self.lower_semaphore(marker);
        }
        self.take_all_jumps_out();
        fail_point!("leave/jumps-out");
        self.run_out_of_pads(kept);
        fail_point!("leave/pads-empty");
        self.settle_all();
        let sites: Vec<u64> = self.breakpoints.sites();
        for site in &sites {
            let _ = self.memory.uncover(*site);
        }
        self.breakpoints.note_removed(sites);
    }

    /// Moves every thread out of code of the tracer, and undoes what a breakpoint has done to it. All threads are
    /// stopped.
    pub(crate) fn settle_all(&mut self) {
        for thread in self.threads.ids() {
            self.settle_one(thread);
        }
    }

    /// Moves one stopped thread out of code of the tracer.
    pub(crate) fn settle_one(&mut self, thread: Tid) {
        self.surface_trap(thread);
        self.absorb(thread);
        self.settle(thread);
        if self.leave_pad(thread).is_some() {
            // It may have reached a breakpoint.
            self.settle(thread);
        }
    }

    /// A thread may have hit a breakpoint and been stopped for something else before it reported the trap: makes it
    /// report the trap, without executing anything.
    fn surface_trap(&mut self, id: Tid) {
        self.surface(id, bit(libc::SIGTRAP));
    }

    /// The same for any fault.
    pub(crate) fn surface_fault(&mut self, id: Tid) {
        self.surface(id, !ALL_BUT_FAULTS);
    }

    fn surface(&mut self, id: Tid, signals: u64) {
        let Some(thread) = self
            .threads
            .get(id)
            .filter(|thread| thread.pending.is_none() && !thread.surfaced)
        else {
            return;
        };
        let Some(stopped) = thread.stopped() else {
            return;
        };
        if !stopped.fault_waits(signals).unwrap_or(false) {
            return;
        }
        let mut rejoin = thread.phase == Phase::GroupStop;
        loop {
            let Some(thread) = self.threads.get_mut(id) else {
                return;
            };
            thread.go_on(Resume::Continue, 0);
            let Ok((status, _)) = self.answer_of(id) else {
                return;
            };
            match status {
                Status::GroupStop(_) => rejoin = true,
                Status::Interrupted => {}
                status => {
                    self.note(id, status);
                    break;
                }
            }
            if let Some(thread) = self.threads.get_mut(id) {
                thread.has_stopped();
            }
        }
        if let Some(thread) = self.threads.get_mut(id) {
            thread.rejoin_group_stop |= rejoin;
        }
    }

    fn settle(&mut self, id: Tid) {
        let Some(thread) = self.threads.get(id) else {
            return;
        };
        let Some(stopped) = thread.stopped() else {
            return;
        };
        let Ok(mut registers) = stopped.registers() else {
            return;
        };
        let before = registers.rip;
        let mut swallow = false;
        // A thread at a breakpoint that stays inserted reaches it again, and must not be counted twice.
        let mut counted_site = thread.at;
        if let Some(site) = thread.at {
            registers.rip = site;
        } else if let Some(Pending::Signal(info)) = &thread.pending
            && info.si_signo == libc::SIGTRAP
            && info.si_code > 0
        {
            let site = registers.rip.wrapping_sub(1);
            let ours = self
                .breakpoints
                .get(site)
                .is_some_and(|breakpoint| !matches!(breakpoint.means, Means::OwnTrap));
            if info.si_code == libc::SI_KERNEL
                && (ours || self.breakpoints.was_removed(site, &self.memory))
            {
                registers.rip = site;
                swallow = true;
            } else if info.si_code != libc::SI_KERNEL
                && thread.steps()
                && thread.signal == SignalReport::New
                && !thread.is_triggered()
            {
                swallow = true;
            }
        }
        if let Some((site, place)) = self.breakpoints.in_slot(registers.rip) {
            undo(place, site, &mut registers);
            if !matches!(place, Place::At(_)) {
                counted_site = Some(site);
            }
        }
        if registers.rip != before {
            let _ = stopped.set_registers(&registers);
        }
        if let Some(thread) = self.threads.get_mut(id) {
            if swallow {
                thread.pending = None;
            }
            thread.at = None;
            if let Some(site) = counted_site {
                thread.repeated = Some((site, registers.rsp));
            }
        }
    }

    /// The program's own address for one in a slot or in a pad; `None` for any other address.
    pub(crate) fn true_address(&self, address: u64) -> Option<u64> {
        match self.breakpoints.in_slot(address) {
            Some((site, place)) => Some(address_of(place, site)),
            None => self.fast.true_address(address),
        }
    }

    /// A thread in vfork cannot be detached before its child has ended or called exec, which children by vfork do at
    /// once. Runs both until then.
    fn await_vfork(&mut self) -> Result<(), Error> {
        while let Some(waiting) = self.threads.any_waiting_in_vfork() {
            let strangers: Vec<Tid> = self
                .threads
                .iter()
                .filter(|thread| thread.process != self.threads.process() && thread.id != waiting)
                .filter(|thread| matches!(thread.state, State::Stopped(_)))
                .map(|thread| thread.id)
                .collect();
            for id in strangers {
                self.release(id);
            }
            if let Some(thread) = self.threads.get_mut(waiting) {
                thread.in_vfork = None;
            }
            self.stop_all()?;
        }
        Ok(())
    }

    /// Detaches from children whose parents ended before they reported them.
    pub(crate) fn release_unborn(&mut self) {
        for child in wait_queue::threads() {
            let own = Some(self.threads.process());
            let ours = ThreadStatus::read(child).is_ok_and(|status| {
                let process = status.number("Tgid");
                process == own
                    || status.number("PPid") == own && !process.is_some_and(wait_queue::is_owned)
            });
            if ours {
                self.release_copy(child);
            }
        }
    }

    /// Detaches from one stopped thread of another process.
    pub(crate) fn release(&mut self, id: Tid) {
        let Some(thread) = self.threads.remove(id) else {
            return;
        };
        let State::Stopped(stopped) = thread.state else {
            return;
        };
        let signal = match &thread.pending {
            Some(Pending::Signal(info)) => {
                let _ = stopped.set_signal_info(info);
                info.si_signo
            }
            _ => 0,
        };
        wait_queue::release(stopped, signal);
    }

    /// Detaches from the processes that share memory with the traced one, which has left that memory.
    pub(crate) fn release_strangers(&mut self) {
        let strangers = self.threads.strangers();
        if strangers.is_empty() {
            return;
        }
        let _ = self.stop_all();
        self.remove_everything();
        for id in strangers {
            self.release(id);
        }
    }

    /// A tracepoint was removed.
    pub(crate) fn lower_semaphore(&mut self, marker: u64) {
        if let Some(counter) = self.program.semaphores.take_raised(marker) {
            self.fast.note_lowered(marker);
            // If the library and its memory are unmapped, there is no counter to restore.
            semaphore::add(&mut self.memory, counter, -1);
        }
    }

    /// Removes every jump, lower addresses first. The pads stay.
    pub(crate) fn take_all_jumps_out(&mut self) {
        self.absorb_all();
        let sites: Vec<u64> = self.fast.sites();
        for site in sites {
            let _ = self.erase_jump(site);
        }
    }

    /// Restores the bytes under the jump at a site. Its pad stays for threads inside.
    pub(crate) fn erase_jump(&mut self, site: u64) -> std::io::Result<()> {
        self.remote.note_change(&(site..site + JUMP_REACH));
        self.fast.erase(&mut self.memory, site)
    }

    /// Frees pads, once there are enough of them, because each time all threads must be checked.
    pub(crate) fn free_some_pads(&mut self) {
        if self.fast.has_many_retired() {
            let areas = self.fast.free_pads(&self.threads);
            self.unmap_areas(areas);
        }
    }

    /// Unmaps all pads and the shared memory. They stay mapped if a jump to them could not be removed or some thread
    /// may return to them; that is harmless. The memory of the dynamic linker's hook stays as long as its jump does.
    pub(crate) fn unmap_pads(&mut self) {
        if self.fast.has_jumps() {
            return;
        }
        let areas = self.fast.free_pads_of_jumps(&self.threads);
        self.unmap_areas(areas);
        if let Some(areas) = self.fast.take_areas() {
            self.unmap_areas(areas);
            fail_point!("share/unmap");
            let shared = self.fast.take_mappings();
            self.unmap_areas(shared);
        }
    }

    fn unmap_areas(&mut self, areas: Vec<Range<u64>>) {
        for area in areas {
            self.unmap_page(area.start, area.end - area.start);
        }
    }
}

/// Whether a process has more threads than its first.
fn has_others(process: Tid) -> bool {
    std::fs::read_dir(format!("/proc/{process}/task")).is_ok_and(|tasks| tasks.count() > 1)
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.detach();
        wait_queue::disown(self.threads.process());
    }
}
