//! Signals: the traps of the tracer, and all others, which the program gets as it would without a tracer.

use libc::{siginfo_t, user_regs_struct};
use tracewire_experiment::{Hit, HitHandler};
use tracewire_jump_pad::relocate::Place;
use tracewire_model::Address;

use crate::error::Error;
use crate::event::Event;
use crate::event::{StopCause, stopped};
use crate::fast::Inside;

use crate::breakpoints::undo;
use crate::job_control::is_continued;
use crate::maps::ThreadStatus;
use crate::process::Process;
use crate::ptrace::{Tid, bit};
use crate::signal_info::{TRAP_FLAG, is_fault, name_site};
use crate::thread::{Pending, SignalReport};
use crate::watch::TRAP_HARDWARE;

/// `si_code` of a trap after one instruction.
const TRAP_TRACE: i32 = 2;
/// `si_code` of a trap after a system call that was stepped over.
const TRAP_BRKPT: i32 = 1;
/// `si_code` of a stop before the first instruction of a signal handler that a step has entered.
const HANDLER_ENTERED: i32 = libc::SIGTRAP;

/// The signals whose default is to dump core.
const DUMPS_CORE: u64 = bit(libc::SIGQUIT)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGABRT)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGSEGV)
    | bit(libc::SIGXCPU)
    | bit(libc::SIGXFSZ)
    | bit(libc::SIGSYS);

/// The signals that are ignored by default. A stopped process goes on when SIGCONT is sent, not when a thread gets it.
const IGNORED_BY_DEFAULT: u64 =
    bit(libc::SIGCHLD) | bit(libc::SIGCONT) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// Whether a signal has no effect on a thread. A traced thread still stops for it.
fn is_ignored(id: Tid, signal: i32) -> bool {
    ThreadStatus::read(id).is_ok_and(|status| {
        let ignored = status.set("SigIgn") | IGNORED_BY_DEFAULT & !status.set("SigCgt");
        ignored & bit(signal) != 0
    })
}

/// The result of a step in code of the tracer.
enum PadStep {
    /// The thread is in the program.
    Outside,
    /// It has been resumed for the next step.
    GoesOn,
    /// It has arrived at a site, and the arrival has been reported.
    Arrived(Option<Event>),
}

impl Process {
    /// A thread has stopped to get a signal.
    pub(crate) fn signal(
        &mut self,
        id: Tid,
        info: siginfo_t,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        let Some(registers) = self.tracee.threads.registers(id) else {
            // It has ended; its exit will be reported.
            return Ok(None);
        };
        if self.tracee.passes_fault(id, &info) {
            self.tracee.go_on(id, 0)?;
            return Ok(None);
        }
        if self.tracee.is_report(&info, registers.rip) {
            if self
                .tracee
                .program
                .dynamic_linker
                .has_changed(&self.tracee.memory)
            {
                return Ok(Some(Event::LibrariesChanged));
            }
            self.tracee.go_on(id, 0)?;
            return Ok(None);
        }
        let approved = self
            .tracee
            .threads
            .get(id)
            .is_some_and(|thread| thread.signal != SignalReport::New);
        if info.si_signo == libc::SIGTRAP && info.si_code > 0 && !approved {
            let stepping = self.tracee.threads.steps(id);
            match info.si_code {
                libc::SI_KERNEL => {
                    let site = registers.rip.wrapping_sub(1);
                    if self.tracee.breakpoints.has(site) {
                        return self.breakpoint_hit(id, site, info, registers, handler);
                    }
                    if self
                        .tracee
                        .breakpoints
                        .was_removed(site, &self.tracee.memory)
                    {
                        // The breakpoint was hit before it was removed.
                        if let Some(stopped) = self.tracee.threads.stopped(id) {
                            let _ = stopped.set_instruction_pointer(site);
                        }
                        self.tracee.go_on(id, 0)?;
                        return Ok(None);
                    }
                }
                TRAP_TRACE | TRAP_BRKPT | HANDLER_ENTERED if stepping => {
                    return self.stepped(id, registers, handler, true);
                }
                TRAP_HARDWARE => return self.watched(id, registers, handler),
                // A step past a breakpoint of the tracer.
                TRAP_TRACE
                    if self
                        .tracee
                        .threads
                        .get(id)
                        .is_some_and(|thread| thread.is_triggered()) =>
                {
                    return self.watched(id, registers, handler);
                }
                _ => {}
            }
        }
        self.pass_on(id, info, registers, handler)
    }

    fn breakpoint_hit(
        &mut self,
        id: Tid,
        site: u64,
        info: siginfo_t,
        registers: user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        // If a debugger does not skip it, it is executed.
        let executed = self
            .tracee
            .threads
            .get(id)
            .is_some_and(|thread| thread.repeated == Some((site, registers.rsp)));
        let event = self.arrive(id, site, registers, handler);
        let own =
            self.tracee.breakpoints.get(site).filter(|breakpoint| {
                matches!(breakpoint.means, crate::breakpoints::Means::OwnTrap)
            });
        if let Some(breakpoint) = own {
            let debugged = breakpoint.debugger && !executed;
            // The pending signal is the one that the program's own breakpoint causes.
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.at = None;
            }
            if event.is_none() {
                // If a debugger has a breakpoint whose conditions are false, the program's own is ignored.
                return if debugged {
                    self.tracee.go_on(id, 0).map(|()| None)
                } else {
                    self.pass_on(id, info, registers, handler)
                };
            }
            let is_reported = matches!(event, Some(Event::Stopped(_)));
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.repeated = Some((site, registers.rsp));
                if !is_reported {
                    thread.pending = Some(Pending::Signal(info));
                }
            }
            // A debugger stops before it as before any other breakpoint, and skips it if it knows that it is the
            // program's.
            if is_reported && let Some(stopped) = self.tracee.threads.stopped(id) {
                let _ = stopped.set_instruction_pointer(site);
            }
        }
        if event.is_none() {
            self.tracee.go_on(id, 0)?;
        }
        Ok(event)
    }

    /// A thread has stopped only for a debug register.
    fn watched(
        &mut self,
        id: Tid,
        registers: user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        if let Some((site, place)) = self.tracee.breakpoints.in_slot(registers.rip) {
            match place {
                Place::At(address) => {
                    if let Some(stopped) = self.tracee.threads.stopped(id) {
                        let _ = stopped.set_instruction_pointer(address);
                    }
                }
                // The instruction is not complete.
                Place::Before | Place::Pushed => {
                    self.tracee.step_out(id, site, registers);
                }
            }
        }
        let cause = self.tracee.take_trigger(id).filter(|cause| {
            *cause != StopCause::HardwareBreakpoint || self.stops_at(id, registers, handler)
        });
        match cause {
            Some(cause) => Ok(Some(stopped(id, cause))),
            None => {
                self.tracee.go_on(id, 0)?;
                Ok(None)
            }
        }
    }

    /// A step over a system call is complete.
    pub(crate) fn step_done(
        &mut self,
        id: Tid,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        match self.tracee.threads.registers(id) {
            Some(registers) => self.stepped(id, registers, handler, true),
            None => Ok(None),
        }
    }

    /// A thread has executed one instruction, or the part of one that its copy consists of.
    fn stepped(
        &mut self,
        id: Tid,
        mut registers: user_regs_struct,
        handler: &mut dyn HitHandler,
        arrives: bool,
    ) -> Result<Option<Event>, Error> {
        if let Some((_, place)) = self.tracee.breakpoints.in_slot(registers.rip) {
            let Place::At(address) = place else {
                self.tracee.go_on(id, 0)?;
                return Ok(None);
            };
            registers.rip = address;
            if let Some(stopped) = self.tracee.threads.stopped(id) {
                let _ = stopped.set_instruction_pointer(address);
            }
        }
        match self.step_in_pad(id, &mut registers, handler)? {
            PadStep::Outside => {}
            PadStep::GoesOn => return Ok(None),
            PadStep::Arrived(event) => return Ok(event),
        }
        self.clear_leaked_trap_flag(id, &mut registers);
        self.clear_pushed_trap_flag(id, &registers);
        let mut event = None;
        if self
            .tracee
            .threads
            .get(id)
            .is_some_and(|thread| thread.stepping)
        {
            let Some(outcome) =
                self.tell(id, Hit::Step(Address(registers.rip)), registers, handler)
            else {
                return Ok(None);
            };
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.stepping = outcome.step && !outcome.run_ended;
            }
            event = outcome.run_ended.then_some(Event::RunEnded);
        }
        let step = self.tracee.debug_stepped(id, registers.rip);
        if !arrives || step.is_none() && event.is_some() {
            return Ok(step.or(event));
        }
        if self.tracee.breakpoints.has(registers.rip) || self.tracee.fast.has_jump(registers.rip) {
            event = self.arrive(id, registers.rip, registers, handler);
        }
        // A debugger finds out by itself what is at the address that its step has reached.
        event = step.or(event);
        if event.is_none() {
            self.tracee.go_on(id, 0)?;
        }
        Ok(event)
    }

    /// After a step over an instruction that loads the flags, the kernel takes the trap flag of all further steps for
    /// the program's own, and would leave it set.
    fn clear_leaked_trap_flag(&self, id: Tid, registers: &mut user_regs_struct) {
        if registers.eflags & TRAP_FLAG == 0 {
            return;
        }
        let Some(thread) = self.tracee.threads.get(id) else {
            return;
        };
        let loads = match self.tracee.memory.read_array::<2>(thread.stepped_from) {
            Some([0x9d | 0xcf, _] | [0x48 | 0x66, 0x9d | 0xcf]) => true,
            Some(_) | None => false,
        };
        if !loads && let Some(stopped) = thread.stopped() {
            registers.eflags &= !TRAP_FLAG;
            let _ = stopped.set_registers(registers);
        }
    }

    /// The instruction that stores the flags also stores the trap flag of a step, which is not the program's.
    fn clear_pushed_trap_flag(&self, id: Tid, registers: &user_regs_struct) {
        let Some(thread) = self.tracee.threads.get(id) else {
            return;
        };
        let pushes = match self.tracee.breakpoints.get(thread.stepped_from) {
            Some(breakpoint) => breakpoint.displaced.pushes_flags,
            None => match self.tracee.memory.read_array::<2>(thread.stepped_from) {
                Some([0x9c, _] | [0x66, 0x9c]) => true,
                Some(_) | None => false,
            },
        };
        if pushes
            && registers.eflags & TRAP_FLAG == 0
            && let Some(flags) = self.tracee.memory.read_array::<2>(registers.rsp)
        {
            let flags = u16::from_le_bytes(flags) & !(TRAP_FLAG as u16);
            let _ = self
                .tracee
                .memory
                .write(registers.rsp, &flags.to_le_bytes());
        }
    }

    /// Delivers a signal to the program. Its handler must not see a thread in code of the tracer.
    fn pass_on(
        &mut self,
        id: Tid,
        mut info: siginfo_t,
        mut registers: user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        let mut event = None;
        if let Some((site, place)) = self.tracee.breakpoints.in_slot(registers.rip) {
            let restartable = self.tracee.breakpoints.is_restartable(site);
            let done = matches!(place, Place::At(_));
            if done || is_fault(&info) || restartable {
                let in_slot = registers.rip;
                undo(place, site, &mut registers);
                if is_fault(&info) {
                    name_site(&mut info, in_slot, site);
                } else if let Some(thread) = self.tracee.threads.get_mut(id)
                    && !done
                {
                    thread.repeated = Some((site, registers.rsp));
                }
                if let Some(stopped) = self.tracee.threads.stopped(id) {
                    let _ = stopped.set_registers(&registers);
                }
                if done && restartable && !self.tracee.is_reported(id, &info) {
                    return self
                        .tracee
                        .interrupt_system_call(id, info, site, registers)
                        .map(|()| None);
                }
            } else {
                match self.tracee.step_out(id, site, registers) {
                    Some(after) => {
                        registers = after;
                        if self.tracee.threads.steps(id) {
                            event = self.stepped(id, registers, handler, false)?;
                        }
                    }
                    None if self.tracee.threads.stopped(id).is_none() => return Ok(None),
                    None => {}
                }
            }
        }
        // The step out of the tracer's code may have had a further effect.
        let event = event.or_else(|| self.tracee.take_trigger(id).map(|cause| stopped(id, cause)));
        if event.is_some() {
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.pending = Some(Pending::Signal(info));
            }
            return Ok(event);
        }
        if self.tracee.fast.inside(registers.rip).is_some()
            && !self.tracee.is_reported(id, &info)
            && is_ignored(id, info.si_signo)
        {
            // Where a handler may return to code of the tracer, the code must stay mapped; here there is none.
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.signal = SignalReport::New;
            }
            self.tracee.go_on(id, 0)?;
            return Ok(None);
        }
        if self
            .tracee
            .ready_for_signal(id, &mut info, registers)
            .is_none()
        {
            return Ok(None);
        }
        if self.tracee.is_reported(id, &info)
            && let Some(thread) = self.tracee.threads.get_mut(id)
        {
            thread.pending = Some(Pending::Signal(info));
            thread.signal = SignalReport::Reported;
            return Ok(Some(stopped(id, StopCause::Signal(info.si_signo))));
        }
        if bit(info.si_signo) & DUMPS_CORE != 0 && self.would_dump_core(id, &info) {
            self.tracee.stop_all()?;
            self.tracee.remove_everything_but(id);
            self.deliver(id, &info)?;
            self.tracee.go_on_stopped(id)?;
            return Ok(None);
        }
        self.deliver(id, &info)?;
        Ok(None)
    }

    fn deliver(&mut self, id: Tid, info: &siginfo_t) -> Result<(), Error> {
        if let Some(thread) = self.tracee.threads.get_mut(id) {
            thread.signal = SignalReport::New;
        }
        // It may have run for the tracer since the kernel gave it the signal.
        if is_continued(id, info.si_signo) {
            return self.tracee.go_on(id, 0);
        }
        if let Some(stopped) = self.tracee.threads.stopped(id) {
            let _ = stopped.set_signal_info(info);
        }
        self.tracee.go_on(id, info.si_signo)
    }

    /// Whether the signal will end the process with a core dump, which should have the program's own code.
    fn would_dump_core(&self, id: Tid, info: &siginfo_t) -> bool {
        if self.tracee.breakpoints.is_empty() && !self.tracee.fast.is_in_use() {
            return false;
        }
        ThreadStatus::read(id).is_ok_and(|status| {
            let handled = status.set("SigCgt") | status.set("SigIgn");
            handled & bit(info.si_signo) == 0
        })
    }

    /// A thread that is being stepped has entered code of the tracer.
    fn step_in_pad(
        &mut self,
        id: Tid,
        registers: &mut user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Result<PadStep, Error> {
        match self.tracee.fast.inside(registers.rip) {
            None => return Ok(PadStep::Outside),
            Some(Inside::Entry { site }) => {
                // The step was the jump. The site is reported as for a trap.
                registers.rip = site;
                if let Some(stopped) = self.tracee.threads.stopped(id) {
                    let _ = stopped.set_instruction_pointer(site);
                }
                let event = self.arrive(id, site, *registers, handler);
                if event.is_none() {
                    self.tracee.go_on(id, 0)?;
                }
                return Ok(PadStep::Arrived(event));
            }
            Some(Inside::Displaced { pad, spot })
                if matches!(spot.place, Place::At(_))
                    && self.tracee.fast.back_to_program(pad, spot, registers) =>
            {
                if let Some(stopped) = self.tracee.threads.stopped(id) {
                    let _ = stopped.set_registers(registers);
                }
                return Ok(PadStep::Outside);
            }
            Some(Inside::Displaced { .. }) => {}
            Some(Inside::Body { .. }) => {
                self.tracee.leave_pad(id);
            }
        }
        self.tracee.go_on(id, 0)?;
        Ok(PadStep::GoesOn)
    }
}
