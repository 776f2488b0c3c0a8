//! The position of a thread in pads, and the corresponding one in the program.

use libc::{siginfo_t, user_regs_struct};
use tracewire_experiment::FaultKind;
use tracewire_jump_pad::relocate::{Block, Jump, Place, Spot, Way};

use super::{Fast, Inside, Pad};
use crate::breakpoints::{address_of, undo};
use crate::signal_info::is_fault;
use crate::thread::Thread;
use crate::threads::Threads;

impl Fast {
    /// Whether a signal is a fault in code of the tracer that is now dealt with, so that the thread can go on.
    pub(crate) fn passes_fault(&self, thread: &Thread, info: &siginfo_t) -> bool {
        if self.pads.is_empty() || !is_fault(info) {
            return false;
        }
        let Some(stopped) = thread.stopped() else {
            return false;
        };
        let Ok(registers) = stopped.registers() else {
            return false;
        };
        let target = match info.si_signo {
            libc::SIGSEGV | libc::SIGBUS => match self.inside(registers.rip) {
                Some(Inside::Body { pad, offset }) => self.resume_at(pad, offset),
                _ => None,
            },
            libc::SIGILL => self.place_in_pad(registers.rip),
            _ => None,
        };
        target.is_some_and(|target| stopped.set_instruction_pointer(target).is_ok())
    }

    /// Where a pad continues if the instruction at this offset cannot read or write memory.
    pub(crate) fn resume_at(&self, start: u64, offset: u64) -> Option<u64> {
        let faults = self.pads.get(&start)?.body.faults();
        let offset = u32::try_from(offset).ok()?;
        let index = faults
            .binary_search_by_key(&offset, |fault| fault.at)
            .ok()?;
        let fault = faults.get(index)?;
        match fault.kind {
            FaultKind::Stack => self.count_without_stack(),
            FaultKind::ThreadPointer => self.note_foreign_base(),
            FaultKind::Memory => {}
        }
        Some(start + u64::from(fault.resume))
    }

    /// Where in a pad the copy of the instruction at an address within a jump is.
    fn place_in_pad(&self, address: u64) -> Option<u64> {
        let start = self.jump_around(address)?;
        let pad = self.pads.get(&start)?;
        let offset = pad.spots.start_of(address)?;
        Some(start + pad.past() + offset as u64)
    }

    /// Moves a thread inside a pad to the program's address, if that needs no execution. The thread may wait in a
    /// displaced system call, or have been moved there for a start that has failed since.
    pub(crate) fn step_back(&self, thread: &Thread) -> Option<()> {
        let stopped = thread.stopped().filter(|_| thread.pending.is_none())?;
        let mut registers = stopped.registers().ok()?;
        match self.inside(registers.rip)? {
            Inside::Displaced { pad, spot } if self.back_to_program(pad, spot, &mut registers) => {
                stopped.set_registers(&registers).ok()
            }
            _ => None,
        }
    }

    /// The pad that a stopped thread is inside of, if no jump to it is left.
    pub(crate) fn retired_pad_around(&self, thread: &Thread) -> Option<u64> {
        let registers = thread.registers()?;
        let (Inside::Body { pad, .. } | Inside::Displaced { pad, .. }) =
            self.inside(registers.rip)?
        else {
            return None;
        };
        self.pads.get(&pad)?.retired.then_some(pad)
    }

    /// Changes the registers of a thread in the displaced instructions to the program's, if it can continue there.
    pub(crate) fn back_to_program(
        &self,
        pad: u64,
        spot: Spot,
        registers: &mut user_regs_struct,
    ) -> bool {
        let active = self.pads.get(&pad).is_some_and(|pad| !pad.retired);
        let address = address_of(spot.place, spot.address);
        let again = !matches!(spot.place, Place::At(_)) && active && self.has_jump(address);
        if again || self.is_within_jump(address) {
            return false;
        }
        undo(spot.place, spot.address, registers);
        true
    }

    /// The program's own address for one in a pad, for a thread in another process that has a copy of the memory without
    /// the jumps; `None` for any other address.
    pub(crate) fn true_address(&self, address: u64) -> Option<u64> {
        match self.inside(address)? {
            Inside::Entry { site } => Some(site),
            Inside::Body { .. } => None,
            Inside::Displaced { spot, .. } => Some(address_of(spot.place, spot.address)),
        }
    }
}

/// Moves threads that are stopped where a jump is about to be written to the same instruction in the pad.
pub(super) fn move_into(threads: &Threads, jump: &Jump, block: &Block, start: u64, pad: &Pad) {
    if jump.way() != Way::Several {
        return;
    }
    let Some(last) = block.instructions().last() else {
        return;
    };
    for stopped in threads.iter().filter_map(Thread::stopped) {
        let Ok(registers) = stopped.registers() else {
            continue;
        };
        let rip = registers.rip;
        let offset = if (pad.displaced.start + 1..pad.displaced.end).contains(&rip) {
            pad.spots.start_of(rip)
        } else if rip == pad.displaced.end
            && last.is_system_call()
            && registers.orig_rax != u64::MAX
        {
            // Interrupted in the call: the kernel may return to it.
            pad.spots.end_of(last.address(), rip)
        } else {
            None
        };
        if let Some(offset) = offset {
            let _ = stopped.set_instruction_pointer(start + pad.past() + offset as u64);
        }
    }
}
