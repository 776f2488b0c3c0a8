#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! To a debugger a recording is a program that is stopped at one of its instants. A move to another one executes nothing: registers
//! and memory are looked up. The index finds where a breakpoint or a watchpoint stops, however far away, in either direction. So
//! [`Replay`] is a number, the next instruction, and the operations that move it.
//!
//! Cpus are threads. They stop together, as in GDB's all-stop mode: all are at the same instant. The next instruction of one cpu
//! may be far after that of another. A step of a thread includes the instructions of others in between.
//!
//! Tracepoints are applied after the fact. The experiment gets every visit to their addresses during a forward movement, each
//! exactly once. Running backward collects nothing.
//!
//! # What is unavailable
//!
//! A recording reports a register when it is written, and memory when it is accessed. Before that it is unavailable, and never
//! invented. [`RegisterBlock`] marks its known bytes, and memory is bytes or nothing. The one exception is the program counter of a
//! cpu after its last instruction: it keeps its value, because GDB shows nothing without it.
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
