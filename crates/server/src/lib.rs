//! Sessions with GDB: packets in, a trace or a program driven, packets out.
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
//! # The idea
//!
//! A session ([`run`]) is a loop over one stream: bytes become requests, a [`Responder`] answers each, replies become
//! bytes. What every stub does alike, the session does: framing, acknowledgements, `PacketSize`, the empty reply to what
//! is not known, an error with a text to what is malformed, the log. What differs is the responder: a saved trace
//! ([`saved`]), a program that runs ([`live`]), a recorded execution ([`replay`]), or a program that a test has made up
//! ([`fake`]).
//!
//! Streams come from a [`Listener`]: TCP, a Unix socket, or standard input and output. Without a host it listens to this
//! machine alone, of which any user can then connect; a Unix socket is for its owner and root, and a [`Token`] makes TCP so.
//! A client may be slow, malicious or gone: the session holds one packet and one reply, and gives up a client that reads
//! nothing for a minute, and one that does not begin as the protocol does.
#![deny(missing_docs)]

mod access;
mod address;
pub mod fake;
mod handshake;
pub mod live;
mod log;
mod reception;
pub mod replay;
pub mod saved;
mod serve;
mod session;
mod startup;
mod trace;
mod transport;

pub use access::{Token, TokenError};
pub use address::{AddressError, ListenAddress};
pub use log::SessionLog;
pub use serve::{Clients, serve_saved};
pub use session::{Answer, Ended, PACKET_SIZE, Responder, Unasked, run};
pub use trace::SaveFolder;
pub use transport::{Listener, Transport};
