//! Moves a thread past the instruction under a breakpoint, when a jump into a slot is not enough.

use libc::{siginfo_t, user_regs_struct};

use tracewire_jump_pad::relocate::Place;

use crate::breakpoints::{INT3, Means, undo};
use crate::error::Error;
use crate::ptrace::{ALL_BUT_FAULTS, bit};
use crate::ptrace::{Resume, Status, Tid};
use crate::signal_info::is_fault;
use crate::thread::{Pending, Phase, State};
use crate::tracee::Tracee;
use crate::wait_limit::Ran;

/// Whether a thread has stopped because it has executed one instruction.
fn is_step(pending: &Pending) -> bool {
    const TRAP_TRACE: i32 = 2;
    matches!(pending, Pending::Signal(info) if info.si_signo == libc::SIGTRAP && info.si_code == TRAP_TRACE)
}

/// The offset of the saved `rip` from the third argument of a signal handler, a `ucontext_t`:
/// flags, link, stack (24 bytes), then the registers, of which it is the 17th.
const SAVED_RIP: u64 = 8 + 8 + 24 + 16 * 8;

impl Tracee {
    /// How a thread is to be stepped.
    ///
    /// When a step ends while the thread blocks `SIGTRAP`, the kernel removes the program's handler for it. So the
    /// signal is unblocked for the step. A system call might read or set the mask, so it is passed in a way that needs
    /// no signal.
    pub(crate) fn way_to_step(&mut self, id: Tid) -> Resume {
        const CALLS: [[u8; 2]; 2] = [[0x0f, 0x05], [0xcd, 0x80]];
        let Some(thread) = self.threads.get_mut(id) else {
            return Resume::Step;
        };
        let Some(stopped) = thread.stopped() else {
            return Resume::Step;
        };
        if thread.steps_call {
            return Resume::ToSystemCall;
        }
        let Ok(mask) = stopped.signal_mask() else {
            return Resume::Step;
        };
        if mask & bit(libc::SIGTRAP) == 0 {
            return Resume::Step;
        }
        let calls = stopped
            .registers()
            .ok()
            .and_then(|registers| self.memory.read_array::<2>(registers.rip))
            .is_some_and(|bytes| CALLS.contains(&bytes));
        if calls {
            thread.steps_call = true;
            return Resume::ToSystemCall;
        }
        if stopped.set_signal_mask(mask & !bit(libc::SIGTRAP)).is_ok() {
            thread.lent_mask = Some(mask);
        }
        Resume::Step
    }

    /// Executes the instruction in place, while no other thread can reach it.
    pub(crate) fn step_in_place(&mut self, id: Tid, site: u64) -> Result<(), Error> {
        self.stop_all()?;
        let Some(stopped) = self.threads.stopped(id) else {
            return Ok(());
        };
        let mask = stopped.signal_mask();
        let _ = stopped.set_instruction_pointer(site);
        let _ = stopped.set_signal_mask(ALL_BUT_FAULTS);
        let uncovered = self.memory.uncover(site);
        let ran = self.go_to_trap(id, Resume::Step);
        if ran == Ran::Late {
            // It may wait for one of the other threads: they run as well, with the breakpoint removed.
            let mask = mask.ok();
            if let Some(thread) = self.threads.get_mut(id) {
                thread.in_place = Some(site);
                thread.lent_mask = mask;
                thread.go_on(Resume::Step, 0);
            }
            return self.go_on_stopped(id);
        }
        if uncovered.is_ok() && self.breakpoints.has(site) {
            let _ = self.memory.cover(site, INT3);
        }
        let stepping = self.threads.steps(id);
        let triggered = self
            .threads
            .get(id)
            .is_some_and(|thread| thread.is_triggered());
        let mut own_trap = None;
        if let (Some(stopped), Ok(mask)) = (self.threads.stopped(id), mask) {
            let _ = stopped.set_signal_mask(mask);
            // A trap that the instruction makes itself is the program's.
            own_trap = stopped.signal_info().ok().filter(|info| {
                ran == Ran::Through && (stepping || triggered || info.si_code == libc::SI_KERNEL)
            });
        }
        if let Some(thread) = self.threads.get_mut(id) {
            if let Some(info) = own_trap {
                thread.pending = Some(Pending::Signal(info));
            }
            if thread.pending.is_some() {
                self.threads.make_ready(id);
            } else if thread.stopped().is_some() {
                self.go_on(id, 0)?;
            }
        }
        self.go_on_stopped(id)
    }

    /// A thread that took long to execute an instruction in place has stopped: inserts the breakpoint again.
    pub(crate) fn leave_place(&mut self, id: Tid, site: u64) {
        if self.breakpoints.has(site) && !self.threads.any_in_place(site) {
            let _ = self.memory.cover_once(site, INT3);
        }
        let Some(thread) = self.threads.get_mut(id) else {
            return;
        };
        if !thread.steps()
            && !thread.is_triggered()
            && thread.pending.take_if(|pending| is_step(pending)).is_some()
        {
            return;
        }
        let executed = thread
            .registers()
            .is_none_or(|registers| registers.rip != site);
        if !executed {
            // It has been reported, and has not been executed yet.
            thread.at = Some(site);
        }
    }

    /// Steps a thread out of a slot, so that it can get a signal. Returns its registers afterwards. A fault of the
    /// instruction is undone: it happens again after the signal. `None` if the thread has ended.
    pub(crate) fn step_out(
        &mut self,
        id: Tid,
        site: u64,
        registers: user_regs_struct,
    ) -> Option<user_regs_struct> {
        let mask = self.threads.stopped(id)?.signal_mask().ok()?;
        self.threads
            .stopped(id)?
            .set_signal_mask(ALL_BUT_FAULTS)
            .ok()?;
        let mut after = registers;
        let mut stop = None;
        loop {
            let ran = self.go_to_trap(id, Resume::Step);
            let Some(stopped) = self.threads.stopped(id) else {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.lent_mask = Some(mask);
                }
                return None;
            };
            after = stopped.registers().unwrap_or(after);
            let place = self
                .breakpoints
                .in_slot(after.rip)
                .filter(|(found, _)| *found == site)
                .map(|(_, place)| place);
            if ran == Ran::Late {
                // It reaches the breakpoint once more, after its signal.
                undo(place.unwrap_or(Place::At(after.rip)), site, &mut after);
                self.threads.get_mut(id)?.repeated = Some((site, after.rsp));
                break;
            }
            if ran == Ran::Otherwise {
                let pending = self.threads.get_mut(id)?.pending.take();
                if let Some(Pending::Signal(info)) = pending
                    && !is_fault(&info)
                {
                    // `SIGSTOP`, which cannot be blocked.
                    stop = Some(info);
                    continue;
                }
                // A fault.
                undo(place.unwrap_or(Place::At(after.rip)), site, &mut after);
                break;
            }
            match place {
                Some(Place::Before | Place::Pushed) => {}
                Some(Place::At(address)) => {
                    after.rip = address;
                    break;
                }
                None => break,
            }
        }
        let stopped = self.threads.stopped(id)?;
        let _ = stopped.set_registers(&after);
        let _ = stopped.set_signal_mask(mask);
        if let Some(stop) = stop {
            self.send_again(id, &stop);
        }
        Some(after)
    }

    /// A system call made from a slot is interrupted by a signal. The kernel decides whether the call is made again,
    /// and so reaches its breakpoint again. The address to which the handler will return shows it.
    pub(crate) fn interrupt_system_call(
        &mut self,
        id: Tid,
        info: siginfo_t,
        site: u64,
        registers: user_regs_struct,
    ) -> Result<(), Error> {
        /// The range of results with which the kernel requests a restart.
        const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
        if let Some(stopped) = self.threads.stopped(id) {
            let _ = stopped.set_signal_info(&info);
        }
        if registers.orig_rax as i64 == -1 || !RESTARTS.contains(&(registers.rax as i64)) {
            return self.go_on(id, info.si_signo);
        }
        let Some(thread) = self.threads.get_mut(id) else {
            return Ok(());
        };
        thread.go_on(Resume::Step, info.si_signo);
        let Ok((status, _)) = self.answer_of(id) else {
            // It has ended, or reports later.
            return Ok(());
        };
        self.note(id, status);
        let Some(thread) = self.threads.get_mut(id) else {
            return Ok(());
        };
        if matches!(status, Status::GroupStop(_) | Status::Interrupted) {
            // No handler: once it goes on, the call is made again.
            thread.repeated = Some((site, registers.rsp));
        }
        let Some(after) = thread.registers() else {
            return Ok(());
        };
        if status == Status::Signal(libc::SIGTRAP) {
            let restarts = if after.rip == site.wrapping_add(1) {
                // No handler: it has already reached the breakpoint again.
                true
            } else {
                self.memory.read_u64(after.rdx.wrapping_add(SAVED_RIP)) == Some(site)
            };
            let thread = self.threads.get_mut(id);
            if let Some(thread) = thread {
                if restarts {
                    thread.repeated = Some((site, registers.rsp));
                }
                if after.rip != site.wrapping_add(1) && !thread.steps() {
                    thread.pending = None;
                }
            }
        }
        if self
            .threads
            .get(id)
            .is_some_and(|thread| thread.pending.is_some())
        {
            self.threads.make_ready(id);
            return Ok(());
        }
        self.go_on(id, 0)
    }

    /// Resumes a stopped thread with a signal or 0, past the breakpoint that it is at.
    pub(crate) fn go_on(&mut self, id: Tid, signal: i32) -> Result<(), Error> {
        if self.threads.get(id).is_none_or(|thread| thread.held) {
            return Ok(());
        }
        self.forget_while_stopped();
        self.fast.introduce(&self.threads, &self.memory, id);
        self.arm(id)
            .map_err(|error| Error::system("ptrace(PTRACE_POKEUSER)", id, error))?;
        let catches_calls = self.catches_calls(id) || self.may_ask_to_be_traced(id);
        let Some(thread) = self.threads.get_mut(id) else {
            return Ok(());
        };
        let State::Stopped(stopped) = &thread.state else {
            return Ok(());
        };
        if let Some(site) = thread.at.take() {
            let target = match self
                .breakpoints
                .get(site)
                .map(|breakpoint| &breakpoint.means)
            {
                Some(Means::Slot(slot, _)) => *slot,
                Some(Means::InPlace) => return self.step_in_place(id, site),
                Some(Means::OwnTrap) => {
                    thread.repeated = stopped
                        .registers()
                        .ok()
                        .map(|registers| (site, registers.rsp));
                    site
                }
                None => self.fast.past(site).unwrap_or(site),
            };
            // A thread that has ended is reported by its exit.
            let _ = stopped.set_instruction_pointer(target);
        }
        // If there is no breakpoint any more, it passes now. A later arrival at a new breakpoint is a hit.
        if signal == 0
            && let Some((site, _)) = thread.repeated
            && !self.breakpoints.has(site)
            && !self.fast.has_jump(site)
            && stopped
                .registers()
                .is_ok_and(|registers| registers.rip == site)
        {
            thread.repeated = None;
        }
        if std::mem::take(&mut thread.rejoin_group_stop) {
            // It stops before it executes anything, and then reports whether the group stop is still on.
            thread.interrupt_next();
            thread.go_on(Resume::Continue, signal);
            return Ok(());
        }
        let how = if thread.phase == Phase::GroupStop && signal == 0 {
            Resume::Listen
        } else if thread.steps() {
            if signal == 0 {
                self.way_to_step(id)
            } else {
                Resume::Step
            }
        } else if catches_calls {
            Resume::ToSystemCall
        } else {
            Resume::Continue
        };
        if let Some(thread) = self.threads.get_mut(id) {
            if thread.stop_wanted {
                // Its stop, for any reason, has answered the request.
                thread.interrupt_next();
            }
            self.follower.wake(id, || thread.go_on(how, signal));
        }
        Ok(())
    }

    /// After threads were stopped during a run: resumes those with nothing to report.
    pub(crate) fn go_on_stopped(&mut self, but: Tid) -> Result<(), Error> {
        let stopped: Vec<Tid> = self
            .threads
            .iter()
            .filter(|thread| thread.id != but && thread.stopped().is_some())
            .map(|thread| thread.id)
            .collect();
        for id in stopped {
            if self.threads.has_something_to_tell(id) {
                self.threads.make_ready_once(id);
            } else {
                self.go_on(id, 0)?;
            }
        }
        Ok(())
    }
}
