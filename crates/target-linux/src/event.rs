//! Why a run has ended, and why a thread has stopped.

use std::ops::Range;

use tracewire_model::{Address, ThreadId};

use crate::error::thread_id;
use crate::ptrace::Tid;

/// Why [`run`](crate::Process::run) has returned. The process is stopped, unless it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The dynamic linker has loaded or unloaded something. No code of a new object has run yet.
    LibrariesChanged,
    /// The process has become another program, stopped before its first instruction. All tracepoints and pads are gone
    /// with the old memory.
    Exec,
    /// The process has ended with this exit code.
    Exited(i32),
    /// The process was killed.
    Killed {
        /// The number of the signal.
        signal: i32,
        /// Whether it left a core dump.
        core_dumped: bool,
    },
    /// A thread is at a resolver that is followed, or where one has returned to
    /// ([`resolver_reached`](crate::Process::resolver_reached)).
    Resolver(ThreadId),
    /// It has made processes that are followed ([`take_children`](crate::Process::take_children)), which are stopped.
    /// The process itself runs on.
    Children,
    /// The handler has ended the run.
    RunEnded,
    /// The handler asks to change the tracepoints ([`LookAround::Change`](tracewire_experiment::LookAround::Change)).
    ChangeWanted,
    /// An [`Interrupter`](crate::Interrupter) has requested it.
    Interrupted,
    /// A thread has ended with this exit code, and others of its process have not ([`Reports`](crate::Reports)).
    ThreadExited(ThreadId, i32),
    /// A thread has stopped for something that is reported to a debugger ([`resume`](crate::Process::resume)).
    Stopped(Stop),
}

/// The access that triggers a debug register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Watch {
    /// An instruction is about to be executed.
    Execution,
    /// Memory is written.
    Write,
    /// Memory is read or written. x86 has no watchpoint for reads only.
    Access,
}

/// How a thread is resumed, and the signal that it gets (0 for none).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resumption {
    /// Run.
    Continue(i32),
    /// Execute instructions as long as it is within the range; an empty range is one instruction.
    Step(i32, Range<u64>),
}

/// A stop of a thread that is reported to a debugger.
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
    /// It is about to execute an instruction with a hardware breakpoint ([`Watch::Execution`]).
    HardwareBreakpoint,
    /// It has accessed watched memory. The address is in the watched range, or its start.
    Watchpoint(Watch, Address),
    /// It enters the system call of this number ([`catch_system_calls`](crate::Process::catch_system_calls)).
    CallEntry(u32),
    /// It leaves the system call of this number.
    CallReturn(u32),
    /// It was asked to stop ([`Process::stop_thread`](crate::Process::stop_thread)).
    Asked,
    /// It has made a process with a copy of its memory, which is stopped.
    Forked(ThreadId),
    /// It has made a process that shares its memory, which is stopped. It waits, once resumed, until that has left the memory.
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
