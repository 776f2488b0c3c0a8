//! Live x86-64 Linux processes as a target for tracepoints.
//!
//! A [`Process`] is started or attached to, and stands still. Tracepoints go in and out of it
//! ([`Target`](tracewire_experiment::Target)), [`modules`](Process::modules) tells what is where in its memory, and
//! [`run`](Process::run) lets it go until something happens. While it runs, a
//! [`HitHandler`](tracewire_experiment::HitHandler) is told of each hit.
//!
//! ```
//! use tracewire_experiment::{Hit, HitHandler, Outcome, StoppedThread, Target};
//! use tracewire_target_linux::{Event, Process, Settings};
//! use tracewire_model::{Address, RegisterNumber};
//!
//! struct Show;
//!
//! impl HitHandler for Show {
//!     fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
//!         const RSP: RegisterNumber = RegisterNumber(7);
//!         println!("{hit:?} by {} on cpu {}: {:x?}", thread.id(), thread.cpu(), thread.register(RSP));
//!         Outcome { step: false, run_ended: false }
//!     }
//! }
//!
//! let mut process = Process::spawn("true", &[], Settings::default())?;
//! // The entry point of the program, from its ELF header.
//! let program = &process.modules()?[0];
//! let header = std::fs::read(&program.file)?;
//! let entry = u64::from_le_bytes(header[24..32].try_into()?);
//! process.insert(Address(entry + program.load_bias))?;
//! while process.run(&mut Show)? == Event::LibrariesChanged {
//!     // Here tracepoints in what has just been loaded would go in.
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One stop a hit
//!
//! A tracepoint is a breakpoint instruction (`int3`) over the first byte of an instruction. Putting the byte back,
//! stepping and covering it again would take two stops a hit, and all other threads would have to be held. Instead a
//! copy of the instruction is made in memory that we have the process map near by, followed by a jump back. After the
//! hit the thread goes on at the copy. What depends on its place is rewritten, down to the return address that a call
//! pushes, so that neither registers nor stack nor flags nor the red zone tell. Where no copy will do (an instruction
//! that cannot be moved, a process whose system calls are filtered by seccomp, a shadow stack) the instruction is
//! stepped in its place, with all threads held.
//!
//! Nobody gets to see a thread in such a copy. Before a signal is delivered, the thread is taken out: past the
//! instruction, or back before it if it is one that waits or repeats itself. A fault of the instruction is delivered as
//! if it had happened in its own place, in `siginfo_t` too. While-stepping reports the program's addresses only. When a
//! thread is found in a copy as we leave, it is put where it would be without us, and the memory is unmapped.
//!
//! Everything about a thread at a hit is read when it is asked for and not before: the cheapest condition costs no more
//! than the stop. See also [`Settings::follow_cpu`] for what makes the stop itself cheap. `examples/hit_cost.rs`
//! measures.
//!
//! # No stop at all
//!
//! A tracepoint that can be compiled is a jump into a *pad*: code of ours, near by in memory that we have the process map,
//! which collects into memory that is shared with us, runs the displaced instructions, and jumps back
//! ([`Target::insert_pad`](tracewire_experiment::Target::insert_pad)). `docs/decisions` records what was decided about signals,
//! forks, bad pointers and our own death; `fast` has the code. While pads run, [`run`](Process::run) looks around 50 times a
//! second ([`HitHandler::look_around`](tracewire_experiment::HitHandler::look_around)) and takes what they have collected.
//!
//! # For a debugger
//!
//! [`resume`](Process::resume) lets threads go on one by one, to breakpoints that stop ([`insert_stop`](Process::insert_stop)),
//! for a step or until they leave a range, with or without a signal, and tells why one has stopped. Tracepoints are served
//! meanwhile, at the same addresses too: both share a breakpoint, and a thread gets past it in the same way. After each stop
//! no thread is in code of ours, so that registers and stacks are the program's.
//!
//! The machine itself looks out for code and memory in its debug registers ([`insert_watch`](Process::insert_watch)), of every
//! thread, and what they tell is kept when another thread stops first, or the instruction runs as a copy. System calls
//! stop where they are wanted ([`catch_system_calls`](Process::catch_system_calls)); one that is interrupted only because we
//! stop the thread, and made again at once, is told of once.
//!
//! Programs for i386 run here as well, with registers, auxiliary vector, lists of libraries, signals and system call
//! numbers in their own form ([`architecture`](Process::architecture)). Copies of instructions and pads are 64-bit code: in a
//! 32-bit program each instruction is stepped in its place, with all threads held.
//!
//! # As if we were not there
//!
//! - Children by `fork` have the breakpoints taken out of their copy of the memory and go their own way. Children that
//!   share the memory (`vfork`, `clone`) are followed until they exit or exec, and their hits count.
//! - Signals, stops and continuations, `exec` and exits pass; a core dump shows no breakpoint of ours.
//! - A thread that waits in a system call when we attach, stop or leave goes on waiting, even where Linux would have
//!   the call fail with `EINTR` for a mere stop (`epoll_wait` and its like, which begin their time anew).
//! - [`Process::detach`], dropping the `Process` and every error path leave the process running, with the very bytes in
//!   its memory that were there. `PTRACE_O_EXITKILL` is not set unless it is asked for ([`Launch::ends_with_tracer`]).
//!
//! What cannot be hidden:
//!
//! - If this process is killed by `SIGKILL`, nobody takes the breakpoints out, and **the program dies by `SIGTRAP` at
//!   the next hit**. Any other end of the thread that owns the `Process` (a return, a panic) takes them out; a program
//!   that may be ended by `SIGTERM` or `SIGINT` should handle these with an [`Interrupter`].
//! - Debug registers are left behind in the same way, with the same end.
//! - The program sees breakpoints where it reads its own code.
//! - A thread that blocks or ignores `SIGTRAP` finds it unblocked after a hit, and a handler that the program has for it
//!   gone: the kernel forces the signal. Steps avoid this, breakpoints cannot.
//! - Within a restartable sequence (rseq) an instruction would be executed outside of it. Tracepoints are refused there; a
//!   debugger's breakpoints are not.
//! - A child made with `CLONE_UNTRACED` keeps the breakpoints.
//! - The program sees us in the `TracerPid` of `/proc/self/status`; a set-user-ID program that a `vfork` child executes
//!   while it is followed gets no rights unless we are privileged.
//! - Memory that is mapped for copies shows in `/proc/PID/maps` until we leave, and stays if the program has denied
//!   itself system calls meanwhile.
#![deny(missing_docs)]

mod address_space;
mod affinity;
mod attach;
mod breakpoint;
mod calls;
mod clock;
mod control;
mod debug;
mod error;
mod event;
mod fast;
mod foreground;
mod halt;
mod indirect;
mod inject;
mod interrupt;
mod launch;
mod leave;
mod leftover;
mod linked;
mod loader;
mod maps;
mod memory;
mod modules;
mod process;
mod ptrace;
mod pulse;
mod registers;
mod reports;
mod rseq;
mod run;
mod semaphore;
mod signal;
mod signal_info;
mod slots;
mod spawn;
mod standing;
mod step;
mod thread;
mod thread_local;
mod together;
mod unclaimed;
mod watch;
mod width;
mod xstate;

pub use calls::CaughtCalls;
pub use debug::{Resumption, Stop, StopCause};
pub use error::Error;
pub use event::Event;
pub use fast::{FramesFile, Mechanism, Ownership, SharedMemory};
pub use foreground::Foreground;
pub use interrupt::Interrupter;
pub use launch::Launch;
pub use leftover::{Leftover, Tally};
pub use linked::{LinkedObject, LinkedObjects};
pub use modules::{Module, ModuleKind};
pub use process::{Process, Settings, await_end};
pub use reports::Reports;
pub use spawn::Surroundings;
pub use thread_local::ThreadLocalError;
pub use together::{Happened, Tracees};
pub use watch::Watch;
