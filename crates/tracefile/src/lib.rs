//! The GDB trace file. (Front page to be written with a running example.)
#![deny(missing_docs)]

mod action;
mod architecture;
mod definition;
mod description;
mod encode;
mod file;
mod find;
mod frame;
mod index;
mod module;
mod number;
mod piece;
pub mod registers;
#[cfg(target_os = "linux")]
mod spool;
mod status;
mod table;
mod text;
mod write;

pub use architecture::{Architecture, ByteOrder, UnknownArchitecture};
pub use definition::{
    Action, RegisterMask, SourceStrings, TracepointDefinition, TracepointKind, TracepointUsage,
    VariableDefinition,
};
pub use description::{
    Description, DescriptionParts, Line, LineError, MAX_LINE, Problem, ProblemKind,
    RegisterBlockLine,
};
pub use encode::{EncodeError, FrameEncoder, FrameFormat, MAX_TRACEPOINT_NUMBER};
pub use file::{OpenError, TraceFile};
pub use find::Search;
pub use frame::{Block, Blocks, Frame};
pub use index::Ending;
pub use module::Module;
pub use number::{
    Address, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber,
};
pub use piece::{Piece, PieceContent, SourceKind};
pub use registers::{LayoutError, Register, RegisterLayout, X86Registers};
#[cfg(target_os = "linux")]
pub use spool::Spool;
pub use status::{Status, StatusFields, StopReason};
pub use table::{MergeError, Tracepoint, TracepointTable};
pub use text::TextError;
pub use write::{TraceFileWriter, WriteError};
