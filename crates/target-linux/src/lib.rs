#![doc = include_str!("../README.md")]
//!
//! # One stop a hit
//!
//! A tracepoint is a breakpoint instruction (`int3`) over the first byte of an instruction. Restoring the byte, stepping and inserting the
//! breakpoint again takes two stops a hit, and all other threads must be held. Instead a copy of the instruction is in memory nearby,
//! followed by a jump back. After the hit the thread continues at the copy. Everything in it that depends on the address is
//! rewritten, including the return address that a call pushes. So registers, stack, flags and red zone are as they would be.
//!
//! Some instructions have no copy: one that cannot be moved, or one in a process with a seccomp filter or a shadow stack. They are
//! stepped in place, with all threads held.
//!
//! No observer sees a thread in such a copy. Before a signal is delivered, the thread is moved out: past the instruction, or back before
//! one that waits or repeats itself. A fault of the instruction is delivered as if it had happened in its own place, in
//! `siginfo_t` too. While-stepping reports the program's addresses only. When a thread is in a copy as the tracer leaves, it is moved to
//! where it would be without one, and the memory is unmapped.
//!
//! A thread's registers and memory are read at a hit when they are asked for, not before: the cheapest condition costs no more than
//! the stop. [`Settings::follow_cpu`] makes the stop itself cheap. `examples/hit_cost.rs` measures it.
//!
//! # No stop at all
//!
//! A tracepoint that can be compiled is a jump into a *pad*: code near by, in memory that the process maps. It collects into
//! shared memory, runs the displaced instructions, and jumps back
//! ([`PadTarget::insert_pad`](tracewire_experiment::PadTarget::insert_pad)). `docs/decisions` records what was decided about signals,
//! forks, bad pointers and the tracer's death; `fast` has the code. While pads run, [`run`](Process::run) calls
//! [`HitHandler::look_around`](tracewire_experiment::HitHandler::look_around) 50 times a second, which takes the collected frames.
//!
//! # For a debugger
//!
//! [`resume`](Process::resume) lets single threads run: to breakpoints that stop ([`insert_stop`](Process::insert_stop)),
//! for a step, or until they leave a range, with or without a signal. It reports why one has stopped. Tracepoints are served
//! meanwhile, at the same addresses too: both share a breakpoint, and a thread passes it in the same way. After each stop
//! no thread is in code of the tracer, so registers and stacks are the program's.
//!
//! Watchpoints are in the debug registers of every thread ([`insert_watch`](Process::insert_watch)). Their report is kept when another
//! thread stops first, or when the instruction runs as a copy. System calls stop where they are wanted
//! ([`catch_system_calls`](Process::catch_system_calls)). One that is interrupted only because the tracer stops the thread, and made again
//! at once, is reported once.
//!
//! Programs for i386 run here as well, with registers, auxiliary vector, lists of libraries, signals and system call
//! numbers in their own form ([`architecture`](Process::architecture)). Copies of instructions and pads are 64-bit code. In a
//! 32-bit program each instruction is stepped in its place, with all threads held.
//!
//! # What stays as it was
//!
//! - Children by `fork` have the breakpoints removed from their copy of the memory, and are not followed unless it is asked for
//!   ([`follow_children`](Process::follow_children)). Processes that
//!   share the memory (`vfork`, `clone`) are followed until they exit or exec, and their hits count. Those that are there at
//!   attaching are looked for (`kcmp`); where one may not be traced, attaching is refused. One that asks to be
//!   traced by its parent is let go, as a debugger's child: the other threads are held until it has left the memory.
//! - Signals, stops and continuations, `exec` and exits pass; a core dump shows no breakpoint of the tracer.
//! - A thread that waits in a system call goes on waiting when the tracer attaches, stops or leaves. That holds even where Linux would
//!   have the call fail with `EINTR` for a mere stop (`epoll_wait` and its like, which restart their timeout).
//! - [`Process::detach`], dropping the `Process` and every error path leave the process running, with the same bytes in
//!   its memory that were there. `PTRACE_O_EXITKILL` is not set unless it is asked for ([`Launch::ends_with_tracer`]).
//!
//! A thread can sleep in the kernel where no request to stop reaches it. It waits for a file, a network, or another thread of
//! the program that the tracer holds (userfaultfd). Each wait for a thread that sleeps has a limit. Such a thread then
//! counts as stopped: it stops before it executes anything. One that waits in a pad is moved past what it waits for.
//!
//! # What cannot be hidden
//!
//! - If this process is killed by `SIGKILL`, the breakpoints stay, and **the program dies by `SIGTRAP` at
//!   the next hit**. Any other end of the thread that owns the `Process` (a return, a panic) removes them. A program
//!   that may be ended by `SIGTERM` or `SIGINT` should handle these with an [`Interrupter`].
//! - A jump at the dynamic linker's hook notices changes of the libraries. Where no jump can be it is a breakpoint: then
//!   the program dies when it loads a library after the tracer was killed. A program that handles `SIGURG` can get one
//!   if the tracer is killed while a thread changes the libraries.
//! - Watchpoints in debug registers stay in the same case, and end the program in the same way.
//! - A waiting call that Linux fails with `EINTR` for a mere stop is started again as soon as the stop is reported. If this process is
//!   killed by `SIGKILL` between the two, the call fails with `EINTR`: at most one call of a thread for each such kill.
//! - The program sees breakpoints where it reads its own code.
//! - A thread that blocks or ignores `SIGTRAP` finds it unblocked after a hit, and its handler for it
//!   gone: the kernel forces the signal. Steps avoid this, breakpoints cannot.
//! - Within a restartable sequence (rseq) an instruction would be executed outside of it. Tracepoints are refused there; a
//!   debugger's breakpoints are not.
//! - An instruction that is stepped in its place can sleep, for a page that another thread provides. Then its
//!   breakpoint is taken out and the other threads run: they pass it without a hit meanwhile.
//! - A child made with `CLONE_UNTRACED` keeps the breakpoints.
//! - The program sees the tracer in the `TracerPid` of `/proc/self/status`. A set-user-ID program that a `vfork` child executes
//!   while it is followed gets no rights unless the tracer is privileged.
//! - Memory that is mapped for copies is in `/proc/PID/maps` until the tracer leaves. It stays if the program has denied
//!   itself system calls meanwhile.
#![deny(missing_docs)]

mod abi;
mod address_space;
mod affinity;
mod attach;
mod breakpoints;
mod children;
mod clock;
mod debug;
mod debugger;
mod detach;
mod dynamic_linker;
mod error;
mod event;
mod fast;
mod foreground;
mod indirect;
mod insert;
mod interrupt;
mod job_control;
mod launch;
mod link_map;
mod maps;
mod memory;
mod modules;
mod orphan;
mod page_reader;
mod patcher;
mod poll_timer;
mod priority;
mod process;
mod program;
mod ptrace;
mod refuge;
mod registers;
mod remote;
mod remote_syscall;
mod ring_memory;
mod rseq;
mod run;
mod run_control;
mod semaphore;
mod signal;
mod signal_info;
mod slots;
mod spawn;
mod staged_page;
mod step;
mod stop_all;
mod stop_times;
mod stopped_thread;
mod syscall_catch;
mod target;
mod thread;
mod thread_local;
mod threads;
mod trace_me;
mod tracee;
mod tracees;
mod wait_limit;
mod wait_queue;
mod watch;
mod xstate;

pub use debugger::{CaughtCalls, Reports};
pub use error::Error;
pub use event::{Event, Resumption, Stop, StopCause, Watch};
pub use fast::{
    CallEvents, FramesFile, FramesFileNote, Mechanism, Ownership, PreparedPads, SharedMemory,
    SiteRefused, ThreadsInPads,
};
pub use foreground::Foreground;
pub use interrupt::Interrupter;
pub use launch::Launch;
pub use link_map::{LinkMap, LinkMapEntry};
pub use modules::{MappedFile, Module, ModuleKind, mapped_files};
pub use orphan::{Orphan, Tally};
pub use priority::{Priority, UsualPriority};
pub use process::{Approach, Process, await_end};
pub use spawn::Surroundings;
pub use stop_times::{StopTimes, take_stop_times};
pub use stopped_thread::Settings;
pub use thread_local::ThreadLocalError;
pub use tracee::Birth;
pub use tracees::{Member, Tracees, TraceesEvent, run_all};
