#![doc = include_str!("../README.md")]
//!
//! # How a session goes
//!
//! The client sends a [`Request`], the server a [`Reply`]. A packet is `$payload#checksum`, and each is acknowledged until both
//! sides agree not to ([`frame`]). A reply does not show its kind: `1` may be a number, a yes, or an error. So it is parsed as the
//! kind that its request expects ([`Request::reply_kind`]). Three things break the alternation:
//!
//! - Output for the user ([`Reply::Output`]) comes before the reply.
//! - A question of the server ([`Reply::Relocate`], [`Reply::FileIo`]) takes the place of a reply. GDB may send further requests,
//!   such as `m` and `X`, before it answers.
//! - In non-stop mode a [`Notification`] comes at any time.
//!
//! An unknown packet gets an empty reply ([`Reply::Unsupported`]), by which GDB finds out what is supported, besides `qSupported`.
//! So an unknown packet is a value ([`Request::Unknown`]). A known one that is malformed is an error, with its name and the place
//! in it.
//!
//! # How packets are declared
//!
//! Each family of packets has one file, and each packet one line of grammar in it. The parser, the printer and the explanation are
//! generated from that line. [`Request::prefixes`] lists them all. Numbers are hexadecimal. The output is what GDB 13.1 and
//! gdbserver 13.1 print, leading zeros included; the parser accepts other spellings. `TRACEPOINT_PACKETS.md` lists the tracepoint
//! packets, with a test for each.
//!
//! Input is hostile: no parser panics, and none allocates more than a small multiple of the packet's length. A [`frame::Decoder`]
//! never holds more than its limit, for any run length that a peer sends.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod error;
mod escape;
mod explain;
pub mod family;
mod field;
pub mod frame;
pub mod log;
mod packets;
mod reply;
mod request;
mod thread_id;
pub mod tracepoint;

pub use address::{AddressError, ConnectionAddress};
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
