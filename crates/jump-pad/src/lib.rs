//! Machine code for tracepoints.
#![deny(missing_docs)]

mod clock;
mod compile;
mod features;
mod layout;
mod pad;
pub mod relocate;
mod ring;
#[cfg(test)]
mod ring_model;
mod shared;

pub use clock::counter;
pub use compile::compile;
pub use layout::{LayoutError, SharedLayout, SharedSizes, WhenFull};
pub use pad::{
    CannotCompile, Fault, FaultKind, Features, Pad, PadOptions, PadTracepoint, PadVariable,
};
pub use ring::{Drained, PadFrame, RingReader};
pub use shared::{Losses, Orphaned, PadCounts, PadError, PadStop, Shared};
