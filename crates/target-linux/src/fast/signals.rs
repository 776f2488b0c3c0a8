//! Signals of threads in pads.
//!
//! A fault in the body of a pad, by a pointer that the program would not follow, goes on where the pad says. A fault in
//! the middle of a jump is that of a thread which was led there, and goes on in the copy. Any other signal is the
//! program's: a thread among the displaced instructions is taken out before; one in the body gets it there, so that the
//! handler runs on top of the pad, below it on the stack. Whether that returns or is left by a jump, nothing of ours is
//! locked.

use libc::{siginfo_t, user_regs_struct};
use tracewire_experiment::HitHandler;
use tracewire_jump_pad::relocate::Place;

use super::{Inside, PadStep};
use crate::breakpoints::undo;
use crate::error::Error;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::signal_info::{is_fault, name_site};

/// The range of the kernel's results that ask for a restart.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;

impl Process {
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
                        self.fast.interrupted = true;
                    }
                    return Some(registers);
                }
            }
        }
        self.threads.stopped(id)?.set_registers(&registers).ok()?;
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
                if let Some(stopped) = self.threads.stopped(id) {
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
                    && self.fast.back_to_program(pad, spot, registers) =>
            {
                if let Some(stopped) = self.threads.stopped(id) {
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
}
