//! The GDB trace file. (Front page to be written with a running example.)
#![deny(missing_docs)]

mod architecture;
mod definition;
mod number;

pub use architecture::{Architecture, ByteOrder};
pub use definition::{
    Action, RegisterMask, SourceStrings, TracepointDefinition, TracepointKind, VariableDefinition,
};
pub use number::{Address, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber};
