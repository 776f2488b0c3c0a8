#![doc = include_str!("../README.md")]
//!
//! Numbers in these texts are hexadecimal, times are microseconds. What was read is printed byte for byte as it was.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod action;
mod aggregate;
mod aggregate_table;
mod byte_order;
mod counting;
mod definition;
mod definition_record;
pub mod hex;
mod kgtp;
mod number;
mod redaction;
mod span;
mod status;
mod table;
pub mod text;
mod watch;
mod wildcard;

pub use aggregate::{
    Aggregate, AggregateError, AggregateFunction, Buckets, KEY_TEXT, KeyKind, MAX_BUCKETS, MAX_KEYS,
};
pub use aggregate_table::{
    AggregateCell, AggregateKey, AggregateLine, AggregateTable, CellParts, Key,
};
pub use byte_order::ByteOrder;
pub use counting::{CAPTURED_WORDS, CallPart, Counted, Counting, DURATION_VARIABLE, Operand};
pub use definition::{
    Action, RegisterMask, SourceStrings, TracepointDefinition, TracepointKind, TracepointUsage,
    VariableDefinition,
};
pub use definition_record::{DefinitionContent, DefinitionRecord, SourceKind};
pub use kgtp::kgtp_warning;
pub use number::{
    Address, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber,
};
pub use redaction::{RedactionError, Redactions};
pub use span::{GoroutinePoint, SpanPoint, SpanPointError, SpanRole, SpanStatement};
pub use status::{Status, StatusFields, StopReason};
pub use table::{MergeError, Pause, Served, Tracepoint, TracepointTable};
pub use text::TextError;
pub use watch::{OLD_VALUE, OLD_VALUE_SIZE, WatchedObject, WatchedObjectError};
pub use wildcard::fits;
