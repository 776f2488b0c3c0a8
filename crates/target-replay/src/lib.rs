#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! To a debugger a recording is a program that is stopped at one of its instants. To go to another one, nothing is executed: registers
//! and memory are looked up. The index finds where a breakpoint or a watchpoint stops, however far away, in either direction. So
//! [`Replay`] is a number, the instruction that comes next, and the operations that move it.
//!
//! Cpus are threads. They stop together, as in GDB's all-stop mode: all are at the same instant. The next instruction of one cpu may be
//! far after that of another. A step of a thread includes what others did meanwhile.
//!
//! Tracepoints are applied after the fact. The experiment gets every visit to their addresses on the way of a forward movement, each
//! exactly once. Running backward collects nothing.
//!
//! # What is unavailable
//!
//! A recording reports a register when it is written, and memory when it is accessed. Before that it is unavailable, and never
//! invented. [`RegisterBlock`] says which bytes it knows, and memory is bytes or nothing. The one exception is the program
//! counter of a cpu after its last instruction: it stays there, because GDB shows nothing without it.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod collect;
mod execution;
mod moment;
mod movement;
mod played;
mod player;
mod recorded;
mod replay;

pub use collect::{CollectError, Collected, FrameRegisters, FrameSink, Request, collect};
pub use execution::{
    Direction, Executed, Execution, RegisterBlock, Watch, address_form, canonical,
};
pub use moment::Moment;
pub use movement::{Stop, StopCause};
pub use player::{Player, Seeker};
pub use recorded::{Recorded, UnknownMachine};
pub use replay::{Replay, thread_of};
