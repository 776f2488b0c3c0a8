//! GDB's remote protocol without I/O: framing, and every packet as a type that parses and prints, for both ends of
//! the line.
//!
//! ```
//! use tracewire_packets::family::memory::MemoryRequest;
//! use tracewire_packets::frame::{Connection, Received, Side};
//! use tracewire_packets::{Reply, Request};
//! use tracewire_model::Address;
//!
//! // A stub that answers one request.
//! let mut stub = Connection::new(Side::Server, 0x4000);
//! let mut bytes: &[u8] = b"$m401000,4#f2";
//! let Some(Received::Packet(payload)) = stub.receive(&mut bytes) else { panic!() };
//! let request = Request::parse(payload)?;
//! assert_eq!(
//!     request,
//!     Request::Memory(MemoryRequest::Read { address: Address(0x401000), length: 4 })
//! );
//! assert_eq!(request.explain(), "read 4 bytes of memory at 0x401000");
//! stub.send(&Reply::Memory(vec![0x55, 0x48, 0x89, 0xe5]).to_bytes());
//! assert_eq!(stub.output(), b"+$554889e5#e1");
//!
//! // The client's end: a reply is read as an answer to its request.
//! let reply = Reply::parse(request.reply_kind(), b"554889e5")?;
//! assert_eq!(reply, Reply::Memory(vec![0x55, 0x48, 0x89, 0xe5]));
//! # Ok::<(), tracewire_packets::PacketError>(())
//! ```
//!
//! # How a session goes
//!
//! The client sends a [`Request`], the server a [`Reply`]; a packet is `$payload#checksum`, and each is acknowledged
//! until both sides agree not to ([`frame`]). A reply does not say what it is: `1` may be a number, a yes, or nothing at
//! all, so that it can only be read knowing the request ([`Request::reply_kind`]). Three things break the alternation:
//! output for the user ([`Reply::Output`]) comes before the reply proper; a question of the server's
//! ([`Reply::Relocate`], [`Reply::FileIo`]) stands in place of a reply, and GDB asks on its own account, `m` and `X` for
//! instance, before it answers with a request; and in non-stop mode a [`Notification`] comes at any time.
//!
//! A packet that the server does not know is answered with nothing ([`Reply::Unsupported`]), which is how GDB finds out
//! what is supported, beside `qSupported`. So an unknown packet is a value here ([`Request::Unknown`]); an error is a
//! known one that is malformed, with its name and the place in it.
//!
//! # How packets are declared
//!
//! There is one file for each family of packets, and in it one line of grammar for each packet, from which its parser,
//! its printer and its explanation in plain words are made; [`Request::prefixes`] lists them all. Numbers are
//! hexadecimal. What is printed is what GDB 13.1 and gdbserver 13.1 print, leading zeros included; what is parsed may be
//! spelt otherwise. The tracepoint packets are listed in `TRACEPOINT_PACKETS.md`, with a test for each.
//!
//! Whatever arrives is hostile: no parser panics, none allocates more than a small multiple of the packet's length, and
//! a [`frame::Decoder`] holds no more than the length it was made with, however long a run a peer announces.

#![forbid(unsafe_code)]
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
