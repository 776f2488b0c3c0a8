//! Why a run came to its end.

use tracewire_model::ThreadId;

use crate::debug::Stop;

/// Why [`run`](crate::Process::run) has returned. The process stands still, unless it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The dynamic linker has loaded or unloaded something. What is new has not run yet.
    LibrariesChanged,
    /// The process has become another program, which stands before its first instruction. Nothing of ours is
    /// in it: all tracepoints are gone.
    Exec,
    /// The process has ended with this exit code.
    Exited(i32),
    /// The process was killed.
    Killed {
        /// By which signal.
        signal: i32,
        /// Whether it left a core dump.
        core_dumped: bool,
    },
    /// A thread is at a resolver that is followed, or where one has returned to
    /// ([`resolver_reached`](crate::Process::resolver_reached)).
    Resolver(ThreadId),
    /// The handler has said that the run has ended.
    RunEnded,
    /// An [`Interrupter`](crate::Interrupter) has asked.
    Interrupted,
    /// A thread has ended with this exit code, and others of its process have not ([`Reports`](crate::Reports)).
    ThreadExited(ThreadId, i32),
    /// A thread has stopped for something that a debugger wants to know of ([`resume`](crate::Process::resume)).
    Stopped(Stop),
}
