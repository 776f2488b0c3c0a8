#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! - **Checked once.** Expressions are verified when they are defined. A definition that cannot be evaluated or
//!   written is refused with a reason then, not at a hit.
//! - **A false condition costs what it names.** It reads its registers and its memory, and nothing else: no register
//!   block, no frame, no allocation.
//! - **Expressions run in lockstep.** All actions of a hit run until each needs memory. One [`StoppedThread::read_memory`] reads what
//!   they all need; then they go on. A hit costs as many calls as its pointers are deep, and no byte is read twice. Expressions
//!   that share a variable which one of them sets run one after the other.
//! - **Frames are made in trace-file form**, in a buffer that is used again. A [`FrameStore`] keeps each frame whole or not at all.
//!   [`LinearStore`] keeps frames until it is full, and [`CircularStore`] the newest ones. `SpoolStore` keeps them in a growing file, `LeanStore` in a file of compressed columns. Saving copies them.
//!
//! A frame holds the register block first, then the stamps (`$trace_timestamp`, `$trace_thread`, `$trace_cpu`) if
//! [`Options::stamp`] says so, then memory and variables in the order of the actions.
//!
//! Where the target can run code in the program ([`PadTarget`]), a tracepoint is compiled and served there ([`Mechanism`]). The
//! target's [`Pads`] compile it, and return its frames in the order of their times, with those of traps among them. What cannot be
//! compiled or inserted is a trap, and [`Experiment::served`] says why. Trace state variables are then shared with the pads, so that
//! jumps and traps see one value.
//!
//! # What GDB's manual leaves open
//!
//! - *Unreadable memory.* gdbserver stores whatever was in its buffer. Here a value ends at its first unreadable byte, and a
//!   reader shows the rest as unavailable. It is counted for the summary ([`Tracepoint::missing`]). With [`Unreadable::Stop`] the run
//!   ends. In a condition it always ends the run.
//! - *Pass counts* count as gdbserver's do: hits with a true condition, each location for itself. The n-th hit is
//!   collected and, with `while-stepping`, the steps of all n. Then the run ends. Hits of other threads during
//!   those last steps are not collected.
//! - *Errors* (a division by zero, a missing register) end the run with `terror`. The frame keeps what the other actions
//!   collected. A thread that is killed while it is stopped is not an error.
//! - *Rates* ([`Experiment::limit_rates`]) are no part of GDB's tracepoints. A hit that comes too soon after others makes no frame and no steps,
//!   and is counted ([`Tracepoint::skipped`]). It counts as a hit, for the pass count and for aggregates too.
//! - *A budget* ([`Experiment::limit_cost`]) is not part of GDB's tracepoints either. The time of hits is charged to their cpu. A hit that exceeds the
//!   budget makes no frame, and is counted as with a rate. Tracepoints that still cost too much are paused ([`Experiment::pauses`]).
//! - *Watches* are not part of them either. Such a tracepoint is on memory ([`Target::insert_watchpoint`]), and a write is a hit. The value from before
//!   the write is in the variable `$old`, where there is one.
//! - *`while-stepping`* follows a hit with a true condition only, where gdbserver also steps after a false one.
//! - *Limits*: [`FRAME_LIMIT`] bytes and 4096 pieces a hit.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod breakpoint;
mod budget;
mod builtin;
mod collect;
mod counting_plan;
mod counts;
mod definitions;
mod error;
mod experiment;
pub mod fake;
mod fetched;
pub mod handover;
mod hit;
mod in_file;
mod installed;
mod kept;
mod known_registers;
mod limits;
mod maker;
mod marker;
mod mechanism;
mod missing;
mod options;
mod pads;
mod pieces;
mod plan;
mod printf;
mod rate;
mod run;
mod run_end;
mod stepping;
mod store;
mod target;
mod tracepoints;
mod variables;
mod watches;
mod withheld;

pub use budget::{Budget, BudgetError, HitCost, SLACK as BUDGET_SLACK};
pub use builtin::Builtin;
pub use definitions::{Definitions, DefinitionsError};
pub use error::{DefineError, InstallError, Part, StartError, TargetError, UnknownTracepoint};
pub use experiment::Experiment;
pub use in_file::tell_as_gdb_takes;
pub use limits::FRAME_LIMIT;
pub use marker::{Marked, MarkedHandler, MarkerValue};
pub use mechanism::{Mechanism, Served};
pub use missing::Missing;
pub use options::{Options, Registers, Unreadable};
pub use pads::{
    CallKey, Fault, FaultKind, FrameContents, FrameSink, KeptSet, LocationCost, Losses, PadCode,
    PadNeeds, PadTarget, PadTask, PadUpdate, Pads, SharedVariable, Writers,
};
pub use pieces::AddressForm;
pub use rate::{FrameRate, FrameRateError, FrameRates, Pace};
pub use run_end::RunEnd;
pub use stepping::TracepointKey;
pub use store::{CircularStore, FrameStore, LinearStore, StoreError};
#[cfg(target_os = "linux")]
pub use store::{LeanStore, SpoolStore};
pub use target::{Hit, HitHandler, LookAround, MemoryRead, Outcome, StoppedThread, Target};
pub use tracepoints::Tracepoint;
pub use withheld::Withheld;
