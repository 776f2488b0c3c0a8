//! Threads in the way of a jump, or in a pad.

use libc::user_regs_struct;
use tracewire_jump_pad::relocate::{Jump, Place, Spot, Way};

use super::{Inside, Pad};
use crate::inject::ALL_BUT_FAULTS;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::thread::Pending;

/// The instruction `pushfq`.
const PUSHFQ: u8 = 0x9c;
/// The trap flag.
const TRAP_FLAG: u64 = 0x100;
/// The most instructions that a thread is stepped to leave a pad: one that collects the most a frame can hold, byte by
/// byte, has done by then.
const MAX_STEPS: u32 = 1 << 20;

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
        let mask = self.stopped(id)?.signal_mask().ok()?;
        self.stopped(id)?.set_signal_mask(ALL_BUT_FAULTS).ok()?;
        let held = self.threads.get_mut(&id)?.pending.take();
        let left = self.step_through(id);
        let _ = self.stopped(id)?.set_signal_mask(mask);
        if let Some(held) = held {
            self.threads.get_mut(&id)?.pending = Some(held);
        }
        left
    }

    fn step_through(&mut self, id: Tid) -> Option<()> {
        for _ in 0..MAX_STEPS {
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
                Some(Inside::Body { .. }) => {}
            }
            let pushes = self.memory.read_array::<1>(registers.rip) == Some([PUSHFQ]);
            let stepped = self.step_to_trap(id);
            let mut after = self.stopped(id)?.registers().ok()?;
            if stepped.is_none() {
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

    /// Takes all threads out of pads, as far as can be.
    pub(crate) fn empty_pads(&mut self) {
        self.absorb_all();
        for id in self.standing() {
            self.leave_pad(id);
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
            self.surface_fault(id);
            self.absorb(id);
        }
    }
}

/// Takes what has been done of an instruction back, and leads to it, or past it if it is done.
pub(super) fn undo_spot(spot: Spot, registers: &mut user_regs_struct) {
    crate::leave::undo(spot.place, spot.address, registers);
}
