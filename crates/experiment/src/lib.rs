//! The state machine behind GDB's tracepoint packets, and what a target must offer it.
#![deny(missing_docs)]

mod target;

pub use target::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread, Target, TargetError};
