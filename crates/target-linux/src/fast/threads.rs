//! Threads in the way of a jump, or in a pad.

use std::time::Duration;

use libc::user_regs_struct;
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::relocate::{Jump, Place, Spot, Way};

use super::{Inside, Pad};
use crate::patience::Ran;
use crate::process::Process;
use crate::ptrace::{Resume, Tid};
use crate::signal::{TRAP_FLAG, is_fault};
use crate::thread::Pending;

/// The instruction `pushfq`.
const PUSHFQ: u8 = 0x9c;
/// The most instructions that a thread is stepped to leave a pad. Then it runs for a moment, again and again: a condition may
/// loop for a million instructions, and steps take a thousand times as long.
const MOST_STEPS: u32 = 1 << 12;
/// How often it may be let run, or stepped, in all.
const MOST_TRIES: u32 = 1 << 14;
/// For how long a thread runs that is to leave a pad: a pad takes less than a microsecond, once the thread has a cpu.
const MOMENT: Duration = Duration::from_micros(100);

impl Process {
    /// Takes threads that stand where a jump is about to be written to their places in the pad.
    pub(super) fn move_into(&self, jump: &Jump, start: u64, pad: &Pad) {
        if jump.way() != Way::Several {
            return;
        }
        let Some(last) = jump.block().instructions().last() else {
            return;
        };
        for id in self.standing() {
            let Some(stopped) = self.stopped(id) else {
                continue;
            };
            let Ok(registers) = stopped.registers() else {
                continue;
            };
            let rip = registers.rip;
            let offset = if (pad.displaced.start + 1..pad.displaced.end).contains(&rip) {
                pad.copy.start_of(rip)
            } else if rip == pad.displaced.end
                && last.is_system_call()
                && registers.orig_rax != u64::MAX
            {
                // Interrupted in the call: the kernel may go back to it.
                pad.copy.end_of(last.address(), rip)
            } else {
                None
            };
            if let Some(offset) = offset {
                let _ = stopped.set_instruction_pointer(start + pad.body + offset as u64);
            }
        }
    }

    /// Takes a thread out of code of ours, as far as can be: it is then in the program, with everything done that
    /// has been begun. `None` if it is gone.
    pub(crate) fn leave_pad(&mut self, id: Tid) -> Option<()> {
        self.fast.inside(self.stopped(id)?.registers().ok()?.rip)?;
        // The signal mask stays as it is: should we be killed now, it would stay otherwise.
        let mut held: Vec<Pending> = Vec::new();
        held.extend(self.threads.get_mut(&id)?.pending.take());
        let left = self.step_through(id, &mut held);
        let thread = self.threads.get_mut(&id)?;
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
            let mut registers = self.stopped(id)?.registers().ok()?;
            match self.fast.inside(registers.rip) {
                None => return Some(()),
                Some(Inside::Entry { site }) => {
                    return self.stopped(id)?.set_instruction_pointer(site).ok();
                }
                Some(Inside::Displaced { pad, spot }) => {
                    if self.back_to_program(pad, spot, &mut registers) {
                        return self.stopped(id)?.set_registers(&registers).ok();
                    }
                    let waits = self.fast.pads.get(&pad).and_then(|pad| pad.restartable);
                    if waits == Some(spot.address) && spot.place == Place::Before {
                        // It may not come to an end; it stays.
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
            let mut after = self.stopped(id)?.registers().ok()?;
            if after.eflags & !registers.eflags & TRAP_FLAG != 0 {
                // A step over an instruction that loads the flags has the kernel take the trap flag of the next for the
                // program's.
                after.eflags &= !TRAP_FLAG;
                self.stopped(id)?.set_registers(&after).ok()?;
            }
            if ran == Ran::Late {
                // Whoever could give it the memory may stand, too: the memory is taken for one that cannot be read.
                match self.fast.inside(after.rip) {
                    Some(Inside::Body { pad, offset }) => {
                        let target = self.resume_at(pad, offset)?;
                        self.stopped(id)?.set_instruction_pointer(target).ok()?;
                    }
                    // By an instruction of the program's own; it stays.
                    _ => return Some(()),
                }
            } else if ran == Ran::Otherwise {
                let pending = self.threads.get_mut(&id)?.pending.take();
                let is_fault = matches!(&pending, Some(Pending::Signal(info)) if is_fault(info));
                if !is_fault {
                    held.extend(pending);
                    continue;
                }
                self.threads.get_mut(&id)?.pending = pending;
                if !self.absorb(id) {
                    if runs {
                        return Some(());
                    }
                    // The program's own fault, by a displaced instruction: told once it is let go.
                    if let Some(Inside::Displaced { spot, .. }) = self.fast.inside(after.rip) {
                        undo_spot(spot, &mut after);
                        let _ = self.stopped(id)?.set_registers(&after);
                    }
                    self.threads.get_mut(&id)?.pending = None;
                    return Some(());
                }
            } else if pushes
                && let Some(flags) = self.memory.read_u64(after.rsp)
                && flags & TRAP_FLAG != 0
            {
                // The step's, not the program's.
                let flags = (flags & !TRAP_FLAG).to_le_bytes();
                let _ = self.memory.write(after.rsp, &flags);
            }
        }
        Some(())
    }

    /// Lets a thread run for a moment. It may leave the pad, and come to another one.
    fn run_for_a_moment(&mut self, id: Tid) -> Ran {
        let Some(thread) = self.threads.get_mut(&id) else {
            return Ran::Otherwise;
        };
        thread.go_on(Resume::Continue, 0);
        std::thread::sleep(MOMENT);
        thread.interrupt();
        let Ok((status, _)) = self.answer_of(id) else {
            return Ran::Otherwise;
        };
        self.note(id, status);
        match self.threads.get(&id) {
            Some(thread) if thread.stopped().is_some() && thread.pending.is_none() => Ran::Through,
            _ => Ran::Otherwise,
        }
    }

    /// Takes all threads out of pads that no jump leads to any more, as far as can be.
    pub(crate) fn empty_pads(&mut self) {
        self.run_out_of_pads(0);
        for id in self.standing() {
            if self.retired_pad_around(id).is_some() {
                self.leave_pad(id);
            }
        }
    }

    /// Leads a thread that is inside a pad to where it would be without us, if that is possible as it stands: it may wait in a
    /// displaced system call, or have been moved there for a start that has failed since.
    fn step_back(&self, id: Tid) -> Option<()> {
        let thread = self.threads.get(&id)?;
        let stopped = thread.stopped().filter(|_| thread.pending.is_none())?;
        let mut registers = stopped.registers().ok()?;
        match self.fast.inside(registers.rip)? {
            Inside::Displaced { pad, spot } if self.back_to_program(pad, spot, &mut registers) => {
                stopped.set_registers(&registers).ok()
            }
            _ => None,
        }
    }

    /// The pad that a stopped thread is in the middle of, if no jump leads there any more.
    fn retired_pad_around(&self, id: Tid) -> Option<u64> {
        let registers = self.stopped(id)?.registers().ok()?;
        let (Inside::Body { pad, .. } | Inside::Displaced { pad, .. }) =
            self.fast.inside(registers.rip)?
        else {
            return None;
        };
        self.fast.pads.get(&pad)?.retired.then_some(pad)
    }

    /// Lets threads that are inside pads run for a moment, until they are not. Unlike steps, that does no harm should we
    /// be killed meanwhile. Pads that a jump leads to, as to the one at the dynamic linker's hook, are left alone.
    ///
    /// Where that does not do, the other threads run as well, all but one: a thread may be inside because it waits for memory
    /// that another one provides.
    pub(crate) fn run_out_of_pads(&mut self, standing: Tid) {
        /// How often: a pad takes less than a microsecond, once the thread has a cpu.
        const TIMES: u32 = 100;
        /// How often while the others stand.
        const ALONE: u32 = 50;
        /// For how long at most.
        const LONGEST: Duration = Duration::from_millis(10);
        if self.fast.pads.is_empty() {
            return;
        }
        let mut moment = MOMENT;
        for time in 0..TIMES {
            self.absorb_all();
            let stopped = self.standing();
            for id in &stopped {
                self.step_back(*id);
            }
            let inside: Vec<Tid> = stopped
                .into_iter()
                .filter(|id| self.retired_pad_around(*id).is_some())
                .filter(|id| {
                    self.threads
                        .get(id)
                        .is_some_and(|thread| thread.pending.is_none() && !thread.group_stopped)
                })
                .collect();
            if inside.is_empty() {
                return;
            }
            for id in inside {
                if let Some(thread) = self.threads.get_mut(&id) {
                    thread.go_on(Resume::Continue, 0);
                }
            }
            self.forget_while_stopped();
            if time >= ALONE {
                moment = (moment * 2).min(LONGEST);
                if self.go_on_halted(standing).is_err() {
                    return;
                }
            }
            std::thread::sleep(moment);
            fail_point!("pads/let-run");
            if self.halt().is_err() {
                return;
            }
        }
    }

    /// Changes the registers of a thread among the displaced instructions to what they would be without us, if it can
    /// go on there.
    pub(super) fn back_to_program(
        &self,
        pad: u64,
        spot: Spot,
        registers: &mut user_regs_struct,
    ) -> bool {
        let active = self.fast.pads.get(&pad).is_some_and(|pad| !pad.retired);
        let address = match spot.place {
            Place::At(address) => address,
            Place::Before | Place::Pushed => spot.address,
        };
        let again = !matches!(spot.place, Place::At(_)) && active && self.fast.has_jump(address);
        if again || self.fast.is_within_jump(address) {
            return false;
        }
        undo_spot(spot, registers);
        true
    }

    /// Takes care of a fault or a report that a thread has stopped for and that is no matter of the program's; whether it was
    /// one.
    pub(crate) fn absorb(&mut self, id: Tid) -> bool {
        let Some(thread) = self.threads.get(&id) else {
            return false;
        };
        let Some(Pending::Signal(info)) = &thread.pending else {
            return false;
        };
        let info = *info;
        if self.is_report_to(id, &info) {
            self.loader_reported = true;
        } else if !self.is_fault_of_ours(id, &info) {
            return false;
        }
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.pending = None;
        }
        true
    }

    /// Takes care of such faults of all threads, before jumps or pads change.
    pub(super) fn absorb_all(&mut self) {
        if self.fast.pads.is_empty() {
            return;
        }
        for id in self.standing() {
            if self.threads.get(&id).is_some_and(|thread| thread.surfaced) {
                continue;
            }
            self.surface_fault(id);
            self.absorb(id);
            if let Some(thread) = self.threads.get_mut(&id) {
                thread.surfaced = true;
            }
        }
    }
}

/// Takes what has been done of an instruction back, and leads to it, or past it if it is done.
pub(super) fn undo_spot(spot: Spot, registers: &mut user_regs_struct) {
    crate::leave::undo(spot.place, spot.address, registers);
}
