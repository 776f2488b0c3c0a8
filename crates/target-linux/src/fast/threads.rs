//! Threads in the way of a jump, or in a pad.

use std::time::Duration;

use libc::user_regs_struct;
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::relocate::{Jump, Place, Spot, Way};

use super::{Inside, Pad};
use crate::process::Process;
use crate::ptrace::{Resume, Tid};
use crate::signal::is_fault;
use crate::thread::Pending;

/// The instruction `pushfq`.
const PUSHFQ: u8 = 0x9c;
/// The trap flag.
const TRAP_FLAG: u64 = 0x100;
/// The most instructions that a thread is stepped to leave a pad. Then it runs to the pad's end instead: a condition may
/// loop for a million instructions, and steps take a thousand times as long. But a trap stands there for that time, which
/// would end the program should we be killed; a step does no harm.
const MOST_STEPS: u32 = 1 << 12;
/// How often it may be let run, or stepped, in all.
const MOST_TRIES: u32 = 1 << 20;
const TRAP: u8 = 0xcc;

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
        let mut held = held.into_iter();
        self.threads.get_mut(&id)?.pending = held.next();
        for more in held {
            if let Pending::Signal(info) = more {
                self.send_again(id, &info);
            }
        }
        left
    }

    fn step_through(&mut self, id: Tid, held: &mut Vec<Pending>) -> Option<()> {
        for tries in 0..MOST_TRIES {
            let mut end = None;
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
                Some(Inside::Body { pad, .. }) if tries >= MOST_STEPS => {
                    end = self.fast.pads.get(&pad).map(|found| pad + found.body);
                }
                Some(Inside::Body { .. }) => {}
            }
            let pushes =
                end.is_none() && self.memory.read_array::<1>(registers.rip) == Some([PUSHFQ]);
            let stepped = match end {
                Some(end) => self.run_to(id, end),
                None => self.step_to_trap(id),
            };
            let mut after = self.stopped(id)?.registers().ok()?;
            if stepped.is_none() {
                let pending = self.threads.get_mut(&id)?.pending.take();
                let is_fault = matches!(&pending, Some(Pending::Signal(info)) if is_fault(info));
                if !is_fault {
                    held.extend(pending);
                    continue;
                }
                self.threads.get_mut(&id)?.pending = pending;
                if !self.absorb(id) {
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

    /// Lets a thread run to a place in code of ours, where no other thread can come by meanwhile; `None` as for a step.
    fn run_to(&mut self, id: Tid, place: u64) -> Option<()> {
        let Some(covered) = self.memory.read_array::<1>(place) else {
            return self.step_to_trap(id);
        };
        if self.memory.write(place, &[TRAP]).is_err() {
            return self.step_to_trap(id);
        }
        let ran = self.go_to_trap(id, Resume::Continue);
        let _ = self.memory.write(place, &covered);
        let stopped = self.stopped(id)?;
        if ran.is_some() && stopped.registers().ok()?.rip == place + 1 {
            stopped.set_instruction_pointer(place).ok()?;
        }
        ran
    }

    /// Takes all threads out of pads, as far as can be.
    pub(crate) fn empty_pads(&mut self) {
        self.run_out_of_pads();
        for id in self.standing() {
            self.leave_pad(id);
        }
    }

    /// Lets threads that are inside pads run for a moment, until they are not. Unlike steps, that does no harm should we
    /// be killed meanwhile. No jump leads to a pad any more.
    pub(crate) fn run_out_of_pads(&mut self) {
        /// How often, and for how long: a pad takes less than a microsecond, once the thread has a cpu.
        const TIMES: u32 = 100;
        const MOMENT: Duration = Duration::from_micros(100);
        if self.fast.pads.is_empty() {
            return;
        }
        for _ in 0..TIMES {
            self.absorb_all();
            let inside: Vec<Tid> = self
                .standing()
                .into_iter()
                .filter(|id| {
                    let registers = self
                        .stopped(*id)
                        .and_then(|stopped| stopped.registers().ok());
                    registers.is_some_and(|registers| {
                        matches!(
                            self.fast.inside(registers.rip),
                            Some(Inside::Body { .. } | Inside::Displaced { .. })
                        )
                    })
                })
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
            std::thread::sleep(MOMENT);
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

    /// Takes care of a fault that a thread has stopped for and that is no matter of the program's; whether it was one.
    pub(crate) fn absorb(&mut self, id: Tid) -> bool {
        let Some(thread) = self.threads.get(&id) else {
            return false;
        };
        let Some(Pending::Signal(info)) = &thread.pending else {
            return false;
        };
        let info = *info;
        if !self.is_fault_of_ours(id, &info) {
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
