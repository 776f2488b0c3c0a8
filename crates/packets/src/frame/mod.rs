//! Framing: `$payload#cc`, acknowledgements, notifications, the interrupt byte, run-length encoding.

mod connection;
mod decoder;
mod encoder;

pub use connection::{Connection, Received};
pub use decoder::{Decoder, Event, Unreadable};
pub use encoder::{ACK, Encoder, INTERRUPT, NAK};

/// The side of the connection, which decides what it may receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The debugger, GDB. Receives replies, which may be run-length encoded, and notifications.
    Client,
    /// The stub. Receives requests, in which `*` is an ordinary character: GDB never encodes runs, and gdbserver
    /// does not expand them.
    Server,
}

#[cfg(test)]
mod tests;
