//! Notifications.

use crate::PacketError;
use crate::family::stop::StopReply;
use crate::field::Field;
use tracewire_model::text::Scanner;

/// A notification: a message of the server without a request, in non-stop mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// `Stop`: a thread has stopped; `vStopped` requests more.
    Stop(StopReply),
    /// One that GDB 13 does not have.
    Other(Vec<u8>),
}

impl Notification {
    /// Reads a notification.
    ///
    /// # Errors
    /// When `Stop:` is followed by no stop reply.
    pub fn parse(payload: &[u8]) -> Result<Self, PacketError> {
        let mut scanner = Scanner::new(payload);
        if !scanner.take("Stop:") {
            return Ok(Self::Other(payload.to_vec()));
        }
        StopReply::scan(&mut scanner)
            .and_then(|stop| {
                scanner
                    .end("the end of the packet")
                    .map(|()| Self::Stop(stop))
            })
            .map_err(|error| PacketError::new(error, "Stop notification", payload))
    }

    /// Appends the notification.
    pub fn print(&self, out: &mut Vec<u8>) {
        match self {
            Self::Stop(stop) => {
                out.extend_from_slice(b"Stop:");
                stop.print(out);
            }
            Self::Other(payload) => out.extend_from_slice(payload),
        }
    }
}
