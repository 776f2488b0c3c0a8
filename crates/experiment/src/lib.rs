//! The state machine behind GDB's tracepoint packets, and what a target must offer it.
#![deny(missing_docs)]

mod collect;
mod error;
mod experiment;
pub mod fake;
mod fetched;
mod hit;
mod pieces;
mod plan;
mod stepping;
mod store;
mod target;
mod variables;

pub use error::{DefineError, InstallError, Part, StartError, UnknownTracepoint};
pub use experiment::{Experiment, Options, Registers, Tracepoint, Unreadable};
pub use pieces::{FRAME_LIMIT, Missing};
#[cfg(target_os = "linux")]
pub use store::SpoolStore;
pub use store::{CircularStore, FrameStore, LinearStore, StoreError};
pub use target::{Hit, HitHandler, MemoryRead, Outcome, StoppedThread, Target, TargetError};
