//! The state machine behind GDB's tracepoint packets, and what a target must offer it.
//!
//! An [`Experiment`] knows what is to be collected where; a [`Target`] knows how to stop a program there and what its
//! threads hold. They meet at a hit: the target calls [`HitHandler::hit`] with a [`StoppedThread`], and all the time
//! that the thread stands still is spent here. So the crate's idea is to do before, in `define`, whatever can be done
//! before, and to ask the target as little as can be asked:
//!
//! - **Checked once.** Expressions are verified when they are defined. A definition that could not be evaluated or
//!   written down is refused with a reason, not found out at a hit.
//! - **A false condition costs what it names.** It reads its registers and its memory, and nothing else: no register
//!   block, no frame, no allocation.
//! - **Expressions go in lockstep.** All actions of a hit run until each needs memory; what all of them need, and what is to
//!   be collected by then, is read in one [`StoppedThread::read_memory`]; they go on. A hit costs as many calls as its
//!   pointers are deep, however many values it collects, and no byte is read twice. Expressions that share a variable which one
//!   of them sets still go one after the other, so that the frame is the one that plain order would have made.
//! - **Frames are made in trace-file form**, in a buffer that is used again, and kept whole or not at all by a
//!   [`FrameStore`]: in memory until it is full ([`LinearStore`]), in memory with the newest kept ([`CircularStore`]), in
//!   a growing file (`SpoolStore`). Saving is a copy.
//!
//! A frame holds the register block first, then the stamps (`$trace_timestamp`, `$trace_thread`, `$trace_cpu`) if
//! [`Options::stamp`] says so, then memory and variables in the order of the actions.
//!
//! Where the target can run code of ours in the program, a tracepoint is compiled and served there ([`Mechanism`]): the
//! [`Target`] provides shared memory and puts the code in, and the experiment takes the frames from the rings in the order of
//! their times, whenever it is asked to look. What cannot be compiled or put in is a trap, and [`Experiment::served`] says why.
//! Trace state variables then live in the shared memory, so that a tracepoint served by a pad and one served by a trap see
//! one value.
//!
//! # What GDB's manual leaves open
//! - *Unreadable memory.* gdbserver stores whatever was in its buffer. Here a value is there up to its first unreadable
//!   byte and no further, which a reader shows as unavailable; it is counted for the summary ([`Tracepoint::missing`]),
//!   and with [`Unreadable::Stop`] the run ends. In a condition it always ends the run.
//! - *Pass counts* count as gdbserver's do: hits with a true condition, each location for itself; the n-th hit is
//!   collected and, with `while-stepping`, the steps of all n too, and then the run ends. Hits of other threads during
//!   those last steps are not collected.
//! - *Errors* (a division by zero, a register that is not there) end the run with `terror`, the frame kept with what
//!   the other actions collected. That a thread is killed while it stands there is not an error.
//! - *`while-stepping`* follows a hit with a true condition only, where gdbserver also steps after a false one.
//! - *Limits*: [`FRAME_LIMIT`] bytes and 4096 pieces a hit.
//!
//! The module [`fake`] is a target without a process; its front page has an example of a whole run.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod breakpoint;
mod collect;
mod error;
mod experiment;
pub mod fake;
mod fetched;
mod hit;
mod in_file;
mod install;
mod kept;
mod marker;
mod mechanism;
mod pads;
mod pieces;
mod plan;
mod printf;
mod recorded;
mod stepping;
mod store;
mod target;
mod variables;

pub use error::{DefineError, InstallError, Part, StartError, UnknownTracepoint};
pub use experiment::{Experiment, Options, Registers, Tracepoint, Unreadable};
pub use in_file::tell_as_gdb_takes;
pub use marker::{Marked, MarkedHandler, MarkerValue};
pub use mechanism::{Mechanism, PadCode, PadMaker, PadMemory, PadNews, Served};
pub use pads::Losses;
pub use pieces::{FRAME_LIMIT, Missing};
#[cfg(target_os = "linux")]
pub use store::SpoolStore;
pub use store::{CircularStore, FrameStore, LinearStore, StoreError};
pub use target::{
    Hit, HitHandler, LookAround, MemoryRead, Outcome, StoppedThread, Target, TargetError,
};
pub use tracewire_jump_pad::Fault;
