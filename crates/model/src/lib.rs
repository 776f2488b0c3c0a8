#![doc = include_str!("../README.md")]
//!
//! Numbers in these texts are hexadecimal, times are microseconds. What was read is printed byte for byte as it was.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod action;
mod byte_order;
mod definition;
mod definition_record;
pub mod hex;
mod kgtp;
mod number;
mod span;
mod status;
mod table;
pub mod text;

pub use byte_order::ByteOrder;
pub use definition::{
    Action, RegisterMask, SourceStrings, TracepointDefinition, TracepointKind, TracepointUsage,
    VariableDefinition,
};
pub use definition_record::{DefinitionContent, DefinitionRecord, SourceKind};
pub use kgtp::kgtp_warning;
pub use number::{
    Address, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber,
};
pub use span::{SpanPoint, SpanPointError, SpanRole, SpanStatement};
pub use status::{Status, StatusFields, StopReason};
pub use table::{MergeError, Served, Tracepoint, TracepointTable};
pub use text::TextError;
