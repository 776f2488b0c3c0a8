//! A recorded execution as a target that runs both ways.
//!
//! # The idea
//!
//! To a debugger a recording is a program that stands at one of its instants. Nothing has to be executed to go to
//! another: what registers and memory held there is looked up, and where a breakpoint or a watchpoint stops is found in
//! the index, however far away it is and on whichever side. So [`Replay`] is a number, the instruction that comes next,
//! and all that moves it.
//!
//! Cpus are threads. They stop together, as in GDB's all-stop mode: all are at the same instant. What comes next of the
//! one may lie far behind what comes next of the other; a step of a thread takes along what others did meanwhile.
//!
//! Tracepoints are applied after the fact: an experiment is told of every visit to their addresses on the way of a
//! forward movement, each exactly once. Running backward collects nothing.
//!
//! # What is not known
//!
//! A recording tells of a register when it is written, and of memory when it is accessed. Before that it is not known,
//! and never made up: [`RegisterBlock`] says which bytes it knows, memory is bytes or nothing. The one exception is the
//! program counter of a cpu behind its last instruction, without which GDB shows nothing at all: it stays there.
#![deny(missing_docs)]

mod collect;
mod execution;
mod moment;
mod movement;
mod played;
mod player;
mod recorded;
mod replay;

pub use collect::{CollectError, Collected, FrameRegisters, Request, collect};
pub use execution::{Executed, Execution, RegisterBlock, Watch, canonical, extends_addresses};
pub use moment::Moment;
pub use movement::{Stop, StopCause};
pub use player::{Player, Seeker};
pub use recorded::{Recorded, UnknownMachine};
pub use replay::{Direction, Replay, thread_of};
