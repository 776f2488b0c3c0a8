//! Accepts clients that speak the protocol.
//!
//! A session with a program has one client, and a running program is stopped for it. So a client that connects and sends
//! nothing, or nothing that is a packet, stays pending: a port scanner, a browser, a debugger whose machine crashed. Each pending
//! client costs a little memory; their number and their input are limited. Where a token is required, a client is pending until it
//! has given the token.

use std::io::{self, Read};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::access::is_protocol;
use crate::handshake::{Admission, Handshake, Opening, Progress};
use crate::session::PACKET_SIZE;
use crate::transport::{Listener, Transport};

/// The most pending clients. One more replaces the oldest.
const MOST_PENDING: usize = 256;
/// The most bytes a client may send before its first packet.
const MOST_BYTES: usize = PACKET_SIZE + 64;

/// Accepts clients of a listener.
pub(crate) struct Acceptor<'l> {
    listener: &'l Listener,
    /// What clients on TCP must give.
    admission: Option<Admission<'l>>,
    pending: Vec<PendingClient>,
}

/// A client that has connected and has sent no packet yet.
struct PendingClient {
    transport: Transport,
    input: Vec<u8>,
    /// The exchange of the token, where one is required.
    handshake: Option<Handshake>,
}

/// Whether a client is accepted.
enum Verdict {
    Pending,
    Rejected,
    Accepted(Opening),
}

/// A client that is accepted, and its input so far.
pub(crate) struct AcceptedClient {
    pub(crate) transport: Transport,
    pub(crate) input: Vec<u8>,
    pub(crate) opening: Opening,
}

impl<'l> Acceptor<'l> {
    pub(crate) const fn new(listener: &'l Listener, admission: Option<Admission<'l>>) -> Self {
        Self {
            listener,
            admission,
            pending: Vec::new(),
        }
    }

    /// Sets the hint for clients that have given the token.
    pub(crate) fn hint(&mut self, hint: impl FnOnce() -> String) {
        if let Some(admission) = &mut self.admission {
            admission.hint = hint();
        }
    }

    /// Waits for a client that has sent a whole packet, and the token where one is required. Standard input and output are one client,
    /// which needs neither.
    ///
    /// # Errors
    /// When the listener cannot be polled or cannot accept.
    pub(crate) fn accept(&mut self) -> io::Result<AcceptedClient> {
        if self.listener.is_stdio() {
            return Ok(AcceptedClient {
                transport: self.listener.accept()?,
                input: Vec::new(),
                opening: Opening::new(),
            });
        }
        loop {
            let (connects, has_input) = self.wait()?;
            let mut next = 0;
            for readable in has_input {
                let Some(client) = self.pending.get_mut(next) else {
                    break;
                };
                let verdict = if readable {
                    client.read(self.admission.as_ref())
                } else {
                    Verdict::Pending
                };
                match verdict {
                    Verdict::Pending => next += 1,
                    Verdict::Rejected => drop(self.pending.remove(next)),
                    Verdict::Accepted(opening) => {
                        let client = self.pending.remove(next);
                        return Ok(AcceptedClient {
                            transport: client.transport,
                            input: client.input,
                            opening,
                        });
                    }
                }
            }
            if connects {
                let transport = self.listener.accept()?;
                if self.pending.len() >= MOST_PENDING {
                    self.pending.remove(0);
                }
                let asked = self.admission.is_some() && transport.is_open_to_others();
                self.pending.push(PendingClient {
                    transport,
                    input: Vec::new(),
                    handshake: asked.then(Handshake::new),
                });
            }
        }
    }

    /// Waits for a connection or input: whether there is a connection, and which pending clients have input.
    fn wait(&self) -> io::Result<(bool, Vec<bool>)> {
        let listener = self.listener.descriptor();
        let mut descriptors: Vec<PollFd<'_>> = listener
            .into_iter()
            .chain(
                self.pending
                    .iter()
                    .map(|client| client.transport.descriptor()),
            )
            .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
            .collect();
        loop {
            match poll(&mut descriptors, PollTimeout::NONE) {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut ready = descriptors
            .iter()
            .map(|descriptor| descriptor.any().unwrap_or(true));
        Ok((ready.next().unwrap_or(false), ready.collect()))
    }
}

impl PendingClient {
    /// Reads the input that is there, and decides.
    fn read(&mut self, admission: Option<&Admission<'_>>) -> Verdict {
        let mut buffer = [0; 0x4000];
        let count = match self.transport.read(&mut buffer) {
            Ok(0) => return Verdict::Rejected,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Verdict::Pending,
            Err(_) => return Verdict::Rejected,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        if let (Some(handshake), Some(admission)) = (&mut self.handshake, admission) {
            return match handshake.take(bytes, admission, &mut self.transport) {
                Progress::Waits => Verdict::Pending,
                Progress::Admitted(opening) => Verdict::Accepted(*opening),
                Progress::Refused => Verdict::Rejected,
            };
        }
        self.input.extend_from_slice(bytes);
        if !self.input.first().copied().is_some_and(is_protocol) {
            Verdict::Rejected
        } else if self.has_packet() {
            Verdict::Accepted(Opening::new())
        } else if self.input.len() <= MOST_BYTES {
            Verdict::Pending
        } else {
            Verdict::Rejected
        }
    }

    /// Whether the input has a packet with the right checksum.
    fn has_packet(&self) -> bool {
        self.input
            .split(|byte| *byte == b'$')
            .skip(1)
            .any(|packet| {
                let Some(end) = packet.iter().position(|byte| *byte == b'#') else {
                    return false;
                };
                let (payload, sum) = packet.split_at(end);
                let expected = sum
                    .get(1..3)
                    .and_then(|digits| std::str::from_utf8(digits).ok())
                    .and_then(|digits| u8::from_str_radix(digits, 16).ok());
                let sum = payload
                    .iter()
                    .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
                expected == Some(sum)
            })
    }
}
