//! Signals of threads in pads.
//!
//! A fault in the body of a pad, by a pointer that the program would not follow, goes on where the pad says. A fault in
//! the middle of a jump is that of a thread which was led there, and goes on in the copy. Any other signal is the
//! program's: a thread among the displaced instructions is taken out before; one in the body gets it there, so that the
//! handler runs on top of the pad, below it on the stack. Whether that returns or is left by a jump, nothing of ours is
//! locked.

use libc::{siginfo_t, user_regs_struct};
use tracewire_experiment::{FaultKind, HitHandler};
use tracewire_jump_pad::relocate::Place;

use super::threads::undo_spot;
use super::{Inside, PadStep};
use crate::error::Error;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::signal::{is_fault, name_site};

/// The range of the kernel's results that ask for a restart.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl Process {
    /// Whether a signal is a fault in code of ours, which is then no longer in the way: the thread can go on.
    pub(crate) fn is_fault_of_ours(&self, id: Tid, info: &siginfo_t) -> bool {
        if self.fast.pads.is_empty() || !is_fault(info) {
            return false;
        }
        let Some(stopped) = self.stopped(id) else {
            return false;
        };
        let Ok(registers) = stopped.registers() else {
            return false;
        };
        let target = match info.si_signo {
            libc::SIGSEGV | libc::SIGBUS => match self.fast.inside(registers.rip) {
                Some(Inside::Body { pad, offset }) => self.resume_at(pad, offset),
                _ => None,
            },
            libc::SIGILL => self.place_in_pad(registers.rip),
            _ => None,
        };
        target.is_some_and(|target| stopped.set_instruction_pointer(target).is_ok())
    }

    /// Where a pad goes on that cannot read or write memory at this offset.
    pub(super) fn resume_at(&self, start: u64, offset: u64) -> Option<u64> {
        let faults = &self.fast.pads.get(&start)?.faults;
        let offset = u32::try_from(offset).ok()?;
        let index = faults
            .binary_search_by_key(&offset, |fault| fault.at)
            .ok()?;
        let fault = faults.get(index)?;
        if fault.kind == FaultKind::Stack {
            self.fast.count_without_stack();
        }
        Some(start + u64::from(fault.resume))
    }

    /// Where in a pad the instruction is that stood at an address within a jump.
    fn place_in_pad(&self, address: u64) -> Option<u64> {
        let start = self.fast.jump_around(address)?;
        let pad = self.fast.pads.get(&start)?;
        let offset = pad.copy.start_of(address)?;
        Some(start + pad.body + offset as u64)
    }

    /// A thread in code of ours is about to get a signal of the program's: its registers as the handler is to see them.
    /// `None` if the thread is gone.
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
                self.fast.interrupted = true;
                return Some(registers);
            }
            Inside::Displaced { spot, .. } if is_fault(info) => {
                undo_spot(spot, &mut registers);
                name_site(info, in_pad, spot.address);
            }
            Inside::Displaced { pad, spot } => {
                let restarts = matches!(spot.place, Place::At(_))
                    && registers.orig_rax as i64 != -1
                    && RESTARTS.contains(&(registers.rax as i64));
                if restarts || !self.back_to_program(pad, spot, &mut registers) {
                    if !restarts {
                        self.leave_pad(id);
                        registers = self.stopped(id)?.registers().ok()?;
                    }
                    if self.fast.inside(registers.rip).is_some() {
                        self.fast.interrupted = true;
                    }
                    return Some(registers);
                }
            }
        }
        self.stopped(id)?.set_registers(&registers).ok()?;
        Some(registers)
    }

    /// A thread that is being stepped has come to be in code of ours.
    pub(crate) fn step_in_pad(
        &mut self,
        id: Tid,
        registers: &mut user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Result<PadStep, Error> {
        match self.fast.inside(registers.rip) {
            None => return Ok(PadStep::Outside),
            Some(Inside::Entry { site }) => {
                // The step was the jump. What it leads to is told as at a trap.
                registers.rip = site;
                if let Some(stopped) = self.stopped(id) {
                    let _ = stopped.set_instruction_pointer(site);
                }
                let event = self.arrive(id, site, *registers, handler);
                if event.is_none() {
                    self.go_on(id, 0)?;
                }
                return Ok(PadStep::Arrived(event));
            }
            Some(Inside::Displaced { pad, spot })
                if matches!(spot.place, Place::At(_))
                    && self.back_to_program(pad, spot, registers) =>
            {
                if let Some(stopped) = self.stopped(id) {
                    let _ = stopped.set_registers(registers);
                }
                return Ok(PadStep::Outside);
            }
            Some(Inside::Displaced { .. }) => {}
            Some(Inside::Body { .. }) => {
                self.leave_pad(id);
            }
        }
        self.go_on(id, 0)?;
        Ok(PadStep::GoesOn)
    }

    /// The program's own address for one in a pad, for a thread in another process that has a copy of the memory without
    /// the jumps; `None` for any other address.
    pub(crate) fn true_pad_address(&self, address: u64) -> Option<u64> {
        match self.fast.inside(address)? {
            Inside::Entry { site } => Some(site),
            Inside::Body { .. } => None,
            Inside::Displaced { spot, .. } => Some(match spot.place {
                Place::At(address) => address,
                Place::Before | Place::Pushed => spot.address,
            }),
        }
    }
}
