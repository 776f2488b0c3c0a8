//! Threads in pads, and their signals.
//!
//! After a fault in the body of a pad, by a pointer that the program would not follow, the thread continues where the
//! pad says. A fault within a jump is from a thread that branched there; it continues in the copy. Any other signal is
//! the program's. A thread in the displaced instructions is moved out first. A thread in the body gets the signal
//! there, and its handler runs above the pad on the stack. The handler may return or leave by a jump: a pad holds no
//! lock.

use std::num::NonZero;
use std::time::{Duration, Instant};

use libc::{siginfo_t, user_regs_struct};
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::REPORT_SIGNAL;
use tracewire_jump_pad::relocate::Place;

use super::Inside;
use crate::signal_info::name_site;

use crate::breakpoints::undo;
use crate::error::Error;
use crate::ptrace::{Resume, Tid};
use crate::signal_info::{TRAP_FLAG, is_fault};
use crate::thread::{Pending, Phase};
use crate::tracee::Tracee;
use crate::wait_limit::Ran;

/// The instruction `pushfq`.
const PUSHFQ: u8 = 0x9c;
/// The most instructions that a thread is stepped to leave a pad. After that it runs for moments: a condition may loop
/// for a million instructions, and steps take a thousand times as long.
const MOST_STEPS: u32 = 1 << 12;
/// The limit of short runs and steps in all.
const MOST_TRIES: u32 = 1 << 14;
/// How long a thread runs to leave a pad: a pad takes less than a microsecond, once the thread has a cpu.
const MOMENT: Duration = Duration::from_micros(100);

/// The range of results with which the kernel requests a restart.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

/// Threads that were inside pads without a jump, where they stay only until they get a processor.
#[derive(Clone, Debug, Default)]
pub struct ThreadsInPads(Vec<(Tid, Duration)>);

impl ThreadsInPads {
    /// Whether each of them has run for longer than a pad takes, or has ended.
    #[must_use]
    pub fn have_run(&self) -> bool {
        (self.0.iter()).all(|(id, before)| {
            run_time(*id).is_none_or(|now| now.saturating_sub(*before) >= MOMENT)
        })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds others.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

/// How long a thread has run; `None` if it has ended, or where the kernel does not say.
fn run_time(thread: Tid) -> Option<Duration> {
    let line = std::fs::read_to_string(format!("/proc/{thread}/task/{thread}/schedstat")).ok()?;
    let run = line.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(run))
}

impl Tracee {
    /// Moves a thread out of code of the tracer, as far as possible. The thread is then in the program, and what the
    /// pad began is complete. `None` if the thread has ended.
    pub(crate) fn leave_pad(&mut self, id: Tid) -> Option<()> {
        self.fast.inside(self.threads.registers(id)?.rip)?;
        // The signal mask is not changed: the change would remain if the tracer were killed now.
        let mut held: Vec<Pending> = Vec::new();
        held.extend(self.threads.get_mut(id)?.pending.take());
        let left = self.step_through(id, &mut held);
        let thread = self.threads.get_mut(id)?;
        let mut held = thread.pending.take().into_iter().chain(held);
        thread.pending = held.next();
        for more in held {
            if let Pending::Signal(info) = more {
                self.send_again(id, &info);
            }
        }
        left
    }

    fn step_through(&mut self, id: Tid, held: &mut Vec<Pending>) -> Option<()> {
        for tries in 0..MOST_TRIES {
            let mut runs = false;
            let mut registers = self.threads.registers(id)?;
            match self.fast.inside(registers.rip) {
                None => return Some(()),
                Some(Inside::Entry { site }) => {
                    return self.threads.stopped(id)?.set_instruction_pointer(site).ok();
                }
                Some(Inside::Displaced { pad, spot }) => {
                    if self.fast.back_to_program(pad, spot, &mut registers) {
                        return self.threads.stopped(id)?.set_registers(&registers).ok();
                    }
                    let waits = self.fast.pads.get(&pad).and_then(|pad| pad.restartable);
                    if waits == Some(spot.address) && spot.place == Place::Before {
                        // It may not complete; it stays.
                        return Some(());
                    }
                }
                Some(Inside::Body { .. }) => runs = tries >= MOST_STEPS,
            }
            let pushes = !runs && self.memory.read_array::<1>(registers.rip) == Some([PUSHFQ]);
            let ran = if runs {
                self.run_for_a_moment(id)
            } else {
                self.go_to_trap(id, Resume::Step)
            };
            let mut after = self.threads.registers(id)?;
            if after.eflags & !registers.eflags & TRAP_FLAG != 0 {
                // After a step over an instruction that loads the flags, the kernel takes the next instruction's trap
                // flag for the program's.
                after.eflags &= !TRAP_FLAG;
                self.threads.stopped(id)?.set_registers(&after).ok()?;
            }
            if ran == Ran::Late {
                // The thread that could provide the memory may be stopped too: the memory counts as unreadable.
                match self.fast.inside(after.rip) {
                    Some(Inside::Body { pad, offset }) => {
                        let target = self.fast.resume_at(pad, offset)?;
                        self.threads
                            .stopped(id)?
                            .set_instruction_pointer(target)
                            .ok()?;
                    }
                    // By an instruction of the program; it stays.
                    _ => return Some(()),
                }
            } else if ran == Ran::Otherwise {
                let pending = self.threads.get_mut(id)?.pending.take();
                let is_fault = matches!(&pending, Some(Pending::Signal(info)) if is_fault(info));
                if !is_fault {
                    held.extend(pending);
                    continue;
                }
                self.threads.get_mut(id)?.pending = pending;
                if !self.absorb(id) {
                    if runs {
                        return Some(());
                    }
                    // A fault of the program, by a displaced instruction: it is reported once the thread goes on.
                    if let Some(Inside::Displaced { spot, .. }) = self.fast.inside(after.rip) {
                        undo(spot.place, spot.address, &mut after);
                        let _ = self.threads.stopped(id)?.set_registers(&after);
                    }
                    self.threads.get_mut(id)?.pending = None;
                    return Some(());
                }
            } else if pushes
                && let Some(flags) = self.memory.read_u64(after.rsp)
                && flags & TRAP_FLAG != 0
            {
                // The trap flag is the step's, not the program's.
                let flags = (flags & !TRAP_FLAG).to_le_bytes();
                let _ = self.memory.write(after.rsp, &flags);
            }
        }
        Some(())
    }

    /// Lets a thread run for a moment. It may leave the pad and enter another one.
    fn run_for_a_moment(&mut self, id: Tid) -> Ran {
        let Some(thread) = self.threads.get_mut(id) else {
            return Ran::Otherwise;
        };
        thread.go_on(Resume::Continue, 0);
        std::thread::sleep(MOMENT);
        thread.interrupt();
        let Ok((status, _)) = self.answer_of(id) else {
            return Ran::Otherwise;
        };
        self.note(id, status);
        match self.threads.get(id) {
            Some(thread) if thread.stopped().is_some() && thread.pending.is_none() => Ran::Through,
            _ => Ran::Otherwise,
        }
    }

    /// Moves all threads out of pads without a jump, as far as possible.
    pub(crate) fn empty_pads(&mut self) {
        self.run_out_of_pads(0);
        for id in self.threads.all_stopped() {
            if self.is_in_retired_pad(id) {
                self.leave_pad(id);
            }
        }
    }

    /// Whether a stopped thread is inside a pad that no jump leads to.
    fn is_in_retired_pad(&self, id: Tid) -> bool {
        self.threads
            .get(id)
            .is_some_and(|thread| self.fast.retired_pad_around(thread).is_some())
    }

    /// The threads that are inside pads without a jump, and how long each has run.
    pub(crate) fn threads_in_pads(&self) -> ThreadsInPads {
        if !self.fast.has_pads() {
            return ThreadsInPads::default();
        }
        let inside =
            (self.threads.all_stopped().into_iter()).filter(|id| self.is_in_retired_pad(*id));
        ThreadsInPads(inside.filter_map(|id| Some((id, run_time(id)?))).collect())
    }

    /// Runs threads that are inside such pads for a moment, until they have left them. Unlike steps, this is safe if
    /// the tracer is killed meanwhile. Pads with a jump, such as the one at the dynamic linker's hook, are left alone.
    ///
    /// If that is not enough, all threads but one run: a thread may be inside because it waits for memory that another
    /// thread provides.
    pub(crate) fn run_out_of_pads(&mut self, kept: Tid) {
        /// How many attempts: a pad takes less than a microsecond, once the thread has a cpu.
        const TIMES: u32 = 100;
        /// How many attempts are made while the other threads are stopped.
        const ALONE: u32 = 20;
        /// The time limit.
        const LONGEST: Duration = Duration::from_millis(10);
        let mut moment = MOMENT;
        for time in 0..TIMES {
            let inside = self.step_back_to_pads();
            if inside.is_empty() {
                return;
            }
            if time < ALONE {
                if self.run_by_turns(&inside, None).is_err() {
                    return;
                }
                continue;
            }
            moment = (moment * 2).min(LONGEST);
            self.forget_while_stopped();
            if self.go_on_stopped(kept).is_err() {
                return;
            }
            std::thread::sleep(moment);
            fail_point!("pads/let-run");
            if self.stop_all().is_err() {
                return;
            }
        }
    }

    /// Runs threads out of such pads while the others are stopped, for so long at most. Some may be left inside.
    pub(crate) fn run_out_of_pads_within(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            let inside = self.step_back_to_pads();
            if inside.is_empty() || self.run_by_turns(&inside, Some(end)).is_err() {
                return;
            }
        }
    }

    /// Moves threads back that have executed nothing of a pad, and gives the others that are to run out of such pads.
    fn step_back_to_pads(&mut self) -> Vec<Tid> {
        if !self.fast.has_pads() {
            return Vec::new();
        }
        self.absorb_all();
        let stopped = self.threads.all_stopped();
        for id in &stopped {
            if let Some(thread) = self.threads.get(*id) {
                self.fast.step_back(thread);
            }
        }
        stopped
            .into_iter()
            .filter(|id| self.is_in_retired_pad(*id))
            .filter(|id| {
                self.threads.get(*id).is_some_and(|thread| {
                    thread.pending.is_none() && thread.phase != Phase::GroupStop
                })
            })
            .collect()
    }

    /// Runs stopped threads for a moment each, no more of them at a time than there are processors: of more threads, most would
    /// wait for those that have left their pads already and go on in the program.
    fn run_by_turns(&mut self, threads: &[Tid], end: Option<Instant>) -> Result<(), Error> {
        let at_once = std::thread::available_parallelism().map_or(1, NonZero::get);
        self.forget_while_stopped();
        for group in threads.chunks(at_once) {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            for id in group {
                if let Some(thread) = self.threads.get_mut(*id) {
                    thread.go_on(Resume::Continue, 0);
                }
            }
            std::thread::sleep(MOMENT);
            fail_point!("pads/run-by-turns");
            self.stop_all()?;
        }
        Ok(())
    }

    /// Handles a fault or report that a thread has stopped for and that is not the program's. Returns whether it was
    /// one.
    pub(crate) fn absorb(&mut self, id: Tid) -> bool {
        let Some(thread) = self.threads.get(id) else {
            return false;
        };
        let Some(Pending::Signal(info)) = &thread.pending else {
            return false;
        };
        let info = *info;
        if self.is_report_to(id, &info) {
            self.program.dynamic_linker.note_report();
        } else if !self.passes_fault(id, &info) {
            return false;
        }
        if let Some(thread) = self.threads.get_mut(id) {
            thread.pending = None;
        }
        true
    }

    /// Whether a signal is a fault in code of the tracer that is now dealt with, so that the thread can go on.
    pub(crate) fn passes_fault(&self, id: Tid, info: &siginfo_t) -> bool {
        self.threads
            .get(id)
            .is_some_and(|thread| self.fast.passes_fault(thread, info))
    }

    /// Handles such faults of all threads, before jumps or pads change.
    pub(crate) fn absorb_all(&mut self) {
        if !self.fast.has_pads() {
            return;
        }
        for id in self.threads.all_stopped() {
            if self.threads.get(id).is_some_and(|thread| thread.surfaced) {
                continue;
            }
            self.surface_fault(id);
            self.absorb(id);
            if let Some(thread) = self.threads.get_mut(id) {
                thread.surfaced = true;
            }
        }
    }

    /// Returns the registers that the handler of a signal is to see, for a thread in code of the tracer that is about
    /// to get it. `None` if the thread has ended.
    pub(crate) fn ready_for_signal(
        &mut self,
        id: Tid,
        info: &mut siginfo_t,
        mut registers: user_regs_struct,
    ) -> Option<user_regs_struct> {
        let Some(inside) = self.fast.inside(registers.rip) else {
            return Some(registers);
        };
        let in_pad = registers.rip;
        match inside {
            Inside::Entry { site } => registers.rip = site,
            Inside::Body { .. } => {
                // No program has a handler for it.
                if info.si_signo != libc::SIGSTOP {
                    self.fast.note_interrupted();
                }
                return Some(registers);
            }
            Inside::Displaced { spot, .. } if is_fault(info) => {
                undo(spot.place, spot.address, &mut registers);
                name_site(info, in_pad, spot.address);
            }
            Inside::Displaced { pad, spot } => {
                let restarts = matches!(spot.place, Place::At(_))
                    && registers.orig_rax as i64 != -1
                    && RESTARTS.contains(&(registers.rax as i64));
                if restarts || !self.fast.back_to_program(pad, spot, &mut registers) {
                    if !restarts {
                        self.leave_pad(id);
                        registers = self.threads.registers(id)?;
                    }
                    if self.fast.inside(registers.rip).is_some() {
                        self.fast.note_interrupted();
                    }
                    return Some(registers);
                }
            }
        }
        self.threads.stopped(id)?.set_registers(&registers).ok()?;
        Some(registers)
    }

    /// Whether the jump of the dynamic linker's hook is at an address.
    pub(crate) fn is_hook_jump(&self, address: u64) -> bool {
        self.program.dynamic_linker.hook() == Some(address) && self.fast.has_jump(address)
    }

    /// Whether a signal that a thread is about to get is the one that the pad has sent it.
    pub(crate) fn is_report_to(&self, id: Tid, info: &siginfo_t) -> bool {
        self.threads
            .registers(id)
            .is_some_and(|registers| self.is_report(info, registers.rip))
    }

    /// Whether a signal that a thread is about to get at an address is the one that the pad has sent it.
    pub(crate) fn is_report(&self, info: &siginfo_t, address: u64) -> bool {
        info.si_signo == REPORT_SIGNAL
            && info.si_code == libc::SI_TKILL
            && match self.fast.inside(address) {
                Some(Inside::Body { pad, .. }) => {
                    self.fast.site_of(pad) == self.program.dynamic_linker.hook()
                }
                _ => false,
            }
    }
}
