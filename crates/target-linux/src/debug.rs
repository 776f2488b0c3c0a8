//! What a debugger needs beside tracing: threads let go and held one by one, breakpoints that stop, registers and
//! memory that are read and written.

use std::io;
use std::ops::Range;

use libc::siginfo_t;
use tracewire_arch::X86Registers;
use tracewire_experiment::TargetError;
use tracewire_model::{Address, RegisterNumber, ThreadId};

use crate::breakpoint::Purpose;
use crate::error::thread_id;
use crate::event::Event;
use crate::inject::bit;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::registers::RegisterPlan;
use crate::thread::Thread;
use crate::watch::Watch;

/// What a thread is to do, and the signal that it gets as it goes on (0 for none).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resumption {
    /// Run.
    Continue(i32),
    /// Execute instructions as long as it is within the range; an empty range is one instruction.
    Step(i32, Range<u64>),
}

/// A thread that has stopped for something that a debugger wants to know of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// Which thread.
    pub thread: ThreadId,
    /// Why.
    pub cause: StopCause,
}

/// Why a thread has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopCause {
    /// It is at a breakpoint of the debugger's.
    Breakpoint,
    /// Its steps are done.
    Step,
    /// It is about to get this signal. It gets it only if it is resumed with it.
    Signal(i32),
    /// It is about to execute an instruction that the machine looks out for ([`Watch::Execution`]).
    HardwareBreakpoint,
    /// It has used memory that the machine looks out for. The address is in what is watched, or its start.
    Watchpoint(Watch, Address),
    /// It enters the system call of this number ([`catch_system_calls`](Process::catch_system_calls)).
    CallEntry(u32),
    /// It leaves the system call of this number.
    CallReturn(u32),
    /// It was asked to ([`Process::stop_thread`]).
    Asked,
    /// It has made a process with a copy of its memory, which stands.
    Forked(ThreadId),
    /// It has made a process that shares its memory, which stands. It waits, once resumed, until that has left the memory.
    Vforked(ThreadId),
    /// The process that shared its memory has left it.
    VforkDone,
    /// It has just been made.
    Created,
}

pub(crate) fn stopped(thread: Tid, cause: StopCause) -> Event {
    Event::Stopped(Stop {
        thread: thread_id(thread),
        cause,
    })
}

impl Process {
    /// Whether a debugger is told of what the thread does.
    pub(crate) fn is_debugged(&self, id: Tid) -> bool {
        self.passed_signals.is_some()
            && self
                .threads
                .get(&id)
                .is_some_and(|thread| self.is_known(thread.process))
    }

    /// Whether a debugger is to be told of a signal before the program gets it.
    pub(crate) fn is_reported(&self, id: Tid, info: &siginfo_t) -> bool {
        self.is_debugged(id)
            && (self.passed_signals.unwrap_or(0) & bit(info.si_signo) == 0
                // It may have to let a handler run to its end before the step goes on.
                || self
                    .threads
                    .get(&id)
                    .is_some_and(|thread| thread.debug_step.is_some())
                || self.is_fault_at_breakpoint(id, info))
            && self.threads.get(&id).is_some_and(|thread| !thread.approved)
    }

    /// Whether a fault is how a thread has met a debugger's breakpoint: in memory that is not executable, such as the
    /// stack, to which a debugger lets the functions return that it calls.
    fn is_fault_at_breakpoint(&self, id: Tid, info: &siginfo_t) -> bool {
        [libc::SIGSEGV, libc::SIGILL].contains(&info.si_signo)
            && self
                .stopped(id)
                .and_then(|stopped| stopped.registers().ok())
                .and_then(|registers| self.breakpoints.get(&registers.rip))
                .is_some_and(|breakpoint| breakpoint.debugger)
    }

    /// A thread has made a step and is now here: what the debugger is to be told.
    pub(crate) fn debug_stepped(&mut self, id: Tid, at: u64) -> Option<Event> {
        let trigger = self.take_trigger(id);
        let thread = self.threads.get_mut(&id)?;
        thread.stepped_from = at;
        if let Some(cause) = trigger {
            return Some(stopped(id, cause));
        }
        let range = thread.debug_step.as_ref()?;
        thread.repeated = None;
        (!range.contains(&at)).then(|| stopped(id, StopCause::Step))
    }

    /// Names the signals that the program gets without the debugger's being told, by their numbers here.
    pub fn pass_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        let valid = signals
            .into_iter()
            .filter(|signal| (1..=64).contains(signal));
        self.passed_signals = Some(valid.fold(0, |set, signal| set | bit(signal)));
    }

    /// Names the signals that a debugger wants the program to have at all, by their numbers here. It matters when the
    /// process is let go: a thread that stands with another signal goes on without it. Where nothing is said, these are all
    /// but `SIGTRAP` and `SIGINT`.
    pub fn program_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        let valid = signals
            .into_iter()
            .filter(|signal| (1..=64).contains(signal));
        self.program_signals = Some(valid.fold(0, |set, signal| set | bit(signal)));
    }

    /// Whether a thread that is let go with a signal gets it.
    pub(crate) fn is_wanted(&self, thread: &Thread, signal: i32) -> bool {
        thread.triggered.is_none()
            && (self.passed_signals.is_none()
                || match self.program_signals {
                    Some(signals) => signals & bit(signal) != 0,
                    None => ![libc::SIGTRAP, libc::SIGINT].contains(&signal),
                })
    }

    /// Whether the process has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The threads of the process itself, without those that share its memory after a vfork.
    pub fn own_threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.threads
            .values()
            .filter(|thread| thread.process == self.id && !thread.exiting)
            .map(|thread| thread_id(thread.id))
    }

    /// Puts a breakpoint in that stops the thread that comes by.
    ///
    /// # Errors
    /// When there is no code that can be written to.
    pub fn insert_stop(&mut self, address: Address) -> Result<(), TargetError> {
        self.insert_breakpoint(address.0, Purpose::Debugger)
    }

    /// Takes it out. One that is not there is no error.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub fn remove_stop(&mut self, address: Address) -> Result<(), TargetError> {
        self.remove_breakpoint(address.0, Purpose::Debugger)
    }

    /// Writes memory, even where the program itself may not. Breakpoints stay.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn write_memory(&mut self, address: Address, bytes: &[u8]) -> io::Result<()> {
        let range = address.0..address.0.saturating_add(bytes.len() as u64);
        if self.fast.is_read(&range) {
            return self
                .at_rest(|process| process.write_under_jumps(range, bytes))
                .map_err(io::Error::other)?;
        }
        self.memory.write_through(address.0, bytes)
    }

    /// The largest register set that the machine has.
    #[must_use]
    pub fn machine_registers() -> X86Registers {
        if std::arch::is_x86_feature_detected!("avx512f") {
            X86Registers::Avx512
        } else if std::arch::is_x86_feature_detected!("avx") {
            X86Registers::Avx
        } else {
            X86Registers::Sse
        }
    }

    /// The register block of a thread; `None` if there is no such thread, or it does not stand.
    pub fn register_block(&mut self, thread: ThreadId) -> Option<Vec<u8>> {
        let stopped = self.stopped(thread.0.cast_signed())?;
        let registers = stopped.registers().ok()?;
        let mut state = Vec::new();
        stopped.extended_state(&mut state).ok()?;
        let mut block = Vec::new();
        self.collecting.block.block(&registers, &state, &mut block);
        Some(block)
    }

    /// Where a register stands in the block: offset and size, in bytes.
    #[must_use]
    pub fn register_place(&self, register: RegisterNumber) -> Option<(usize, usize)> {
        self.collecting.block.place(register)
    }

    /// Sets the registers that differ from those of the thread. Those behind the end of the block stay.
    /// `None` if there is no such thread, or the kernel refuses the values.
    pub fn set_register_block(&mut self, thread: ThreadId, block: &[u8]) -> Option<()> {
        let before = self.register_block(thread)?;
        let id = thread.0.cast_signed();
        let plan: &RegisterPlan = &self.collecting.block;
        let stopped = self.stopped(id)?;
        let mut registers = stopped.registers().ok()?;
        let place = registers.rip;
        let mut state = Vec::new();
        stopped.extended_state(&mut state).ok()?;
        if plan.apply(&before, block, &mut registers, &mut state) {
            stopped.set_extended_state(&state).ok()?;
        }
        stopped.set_registers(&registers).ok()?;
        if registers.rip != place {
            let thread = self.threads.get_mut(&id)?;
            thread.at = None;
            thread.repeated = None;
        }
        Some(())
    }

    /// The cpu that a thread ran on last.
    pub fn cpu_of(&mut self, thread: ThreadId) -> u32 {
        let id = thread.0.cast_signed();
        self.threads
            .get_mut(&id)
            .map_or(0, |thread| thread.cpu.recorded(id))
    }
}
