//! What a trace run is: tracepoints, actions, variables and status, in the texts that GDB's packets and trace files share.
//!
//! The lines `tp`, `tsv` and `status` of a trace file are the replies of qTfP, qTfV and qTStatus. Their types are here, with
//! the numbers and addresses that everything else speaks of. There is no file and no socket.
//!
//! ```
//! use tracewire_model::{Piece, PieceContent, Status, TracepointTable};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Tracepoint 1, as qTfP replies it and as a `tp` line has it: its definition, and its actions.
//! let mut table = TracepointTable::default();
//! for text in ["T1:401136:E:0:5", "A1:401136:R10000"] {
//!     table.add(Piece::parse(text.as_bytes())?)?;
//! }
//! let tracepoints = table.into_tracepoints();
//! assert_eq!(tracepoints[0].definition.pass_count, 5);
//! assert_eq!(tracepoints[0].definition.actions.len(), 1);
//!
//! // The body of a qTStatus reply.
//! let status = Status::parse(b"0;tstop::0;tframes:2")?;
//! assert_eq!(status.fields.frames, Some(2));
//! # Ok(())
//! # }
//! ```
//!
//! Numbers in these texts are hexadecimal, times are microseconds. What was read is printed byte for byte as it was.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod action;
mod byte_order;
mod definition;
mod kgtp;
mod number;
mod piece;
mod status;
mod table;
pub mod text;

pub use byte_order::ByteOrder;
pub use definition::{
    Action, RegisterMask, SourceStrings, TracepointDefinition, TracepointKind, TracepointUsage,
    VariableDefinition,
};
pub use kgtp::kgtp_meaning;
pub use number::{
    Address, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber,
};
pub use piece::{Piece, PieceContent, SourceKind};
pub use status::{Status, StatusFields, StopReason};
pub use table::{MergeError, Served, Tracepoint, TracepointTable};
pub use text::TextError;
