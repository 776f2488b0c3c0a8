//! GDB's remote protocol without I/O.
#![deny(missing_docs)]

mod error;
mod escape;
mod explain;
pub mod family;
mod field;
pub mod frame;
pub mod hex;
pub mod log;
mod packets;
mod reply;
mod request;
mod scan;
mod thread_id;
pub mod tracepoint;

pub use error::PacketError;
pub use escape::{escape, escaped_prefix, unescape};
pub use explain::{explain_notification, explain_reply, explain_request};
pub use field::{
    Binary, CountedBinary, CountedHex, HexBytes, Numbers, Signal, SignedHex, WideAddress, Word,
};
pub use reply::{Failure, Notification, Reply, ReplyKind};
pub use request::Request;
pub use thread_id::{ThreadList, ThreadSelector, Which};

#[cfg(test)]
mod tests;
