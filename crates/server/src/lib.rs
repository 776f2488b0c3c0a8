#![doc = include_str!("../README.md")]
//!
//! A session with a client at the other end of a socket:
//!
//! ```
//! use std::io::{Read, Write};
//! use tracewire_server::saved::{SavedSession, SavedTrace};
//! use tracewire_server::{Ended, SessionLog, run};
//! # use tracewire_tracefile::TraceFile;
//! # let path = tracewire_test_support::sample("sample.tf");
//!
//! // A saved trace, and a debugger at the other end of a socket.
//! let trace = SavedTrace::new(TraceFile::open(path)?);
//! let (mut here, mut debugger) = std::os::unix::net::UnixStream::pair()?;
//! debugger.write_all(b"$QTFrame:tdp:3#7f+$D#44+")?;
//!
//! let ended = run(&mut here, &mut SavedSession::new(&trace), &SessionLog::none())?;
//! assert_eq!(ended, Ended::Left);
//! drop(here);
//! let mut replies = String::new();
//! debugger.read_to_string(&mut replies)?;
//! assert_eq!(replies, "+$F6T3#03+$OK#9a");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Principles
//!
//! A session ([`run`]) is a loop over one stream: bytes become requests, a [`Responder`] answers each, replies become
//! bytes. The session does what all stubs have to do: framing, acknowledgements, `PacketSize`, and the log. It sends the empty reply to an unknown
//! packet, and an error with a text to a malformed one. The responder differs: a saved trace ([`saved`]), a live
//! program ([`live`]), a recorded execution ([`replay`]), a machine of your own ([`Stub`]), or a test's program ([`fake`]).
//! They share the answers about memory, registers, threads and objects.
//!
//! Streams come from a [`Listener`]: TCP, a Unix socket, or standard input and output. Without a host name it accepts connections from this machine only, and any user
//! of the machine can connect. A Unix socket accepts its owner and root; a [`Token`] protects TCP.
//!
//! A client may be slow, malicious or gone. The session holds one packet and one reply. Its wait for a client
//! that reads nothing has a limit. It closes a connection whose first bytes are not those of the protocol.
#![deny(missing_docs)]

mod acceptor;
mod access;
mod answers;
pub mod fake;
mod handshake;
pub mod live;
mod log;
pub mod proxy;

pub mod replay;
pub mod saved;
mod serve;
mod session;
mod shutdown;
mod startup;
mod stub;
mod trace;
mod transport;

pub use access::{Token, TokenError};
pub use log::SessionLog;
pub use serve::{Clients, serve_saved};
pub use session::{Answer, Ended, PACKET_SIZE, Responder, Unsolicited, run};
pub use shutdown::ShutdownHandle;
pub use stub::{NoTracepoints, Stepped, Stub, StubTarget};
pub use trace::SaveFolder;
pub use transport::{Listener, Transport};
