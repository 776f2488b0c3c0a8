//! Who is let in of those that connect: clients that speak the protocol.
//!
//! A session with a program has one client, and a program that runs is stopped for it. So a client that connects and says
//! nothing, or nothing that is a packet, waits outside: a port scanner, a browser, a debugger whose machine has died on
//! the way. Those that wait cost a little memory each; there are limits to how many they may be and to what they may say.
//! Where a token is asked for, they wait until they have given it.

use std::io::{self, Read};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::access::is_protocol;
use crate::handshake::{Admission, Handshake, Opening, Progress};
use crate::session::PACKET_SIZE;
use crate::transport::{Listener, Transport};

/// How many may wait. When one more comes, the one that has waited longest has to go.
const MOST_WAITING: usize = 256;
/// How much one may say that is no packet.
const MOST_BYTES: usize = PACKET_SIZE + 64;

/// Where clients are received.
pub(crate) struct Reception<'l> {
    listener: &'l Listener,
    /// What clients on TCP are asked for.
    admission: Option<Admission<'l>>,
    waiting: Vec<Visitor>,
}

/// Somebody who has connected.
struct Visitor {
    transport: Transport,
    said: Vec<u8>,
    /// How far it has come to be let in, where a token is asked for.
    handshake: Option<Handshake>,
}

/// What is to become of a visitor.
enum Heard {
    Waits,
    Goes,
    Enters(Opening),
}

/// A client, and what has been read of it.
pub(crate) struct Received {
    pub(crate) transport: Transport,
    pub(crate) said: Vec<u8>,
    pub(crate) opening: Opening,
}

impl<'l> Reception<'l> {
    pub(crate) const fn new(listener: &'l Listener, admission: Option<Admission<'l>>) -> Self {
        Self {
            listener,
            admission,
            waiting: Vec::new(),
        }
    }

    /// What those who have given the token are to do then.
    pub(crate) fn hint(&mut self, hint: impl FnOnce() -> String) {
        if let Some(admission) = &mut self.admission {
            admission.hint = hint();
        }
    }

    /// Waits for a client that has sent a whole packet, and the token where one is asked for. On standard input and output
    /// there is one client, who is not asked.
    ///
    /// # Errors
    /// When the system cannot give clients.
    pub(crate) fn receive(&mut self) -> io::Result<Received> {
        if self.listener.is_stdio() {
            return Ok(Received {
                transport: self.listener.accept()?,
                said: Vec::new(),
                opening: Opening::new(),
            });
        }
        loop {
            let (knocks, heard) = self.wait()?;
            let mut next = 0;
            for readable in heard {
                let Some(visitor) = self.waiting.get_mut(next) else {
                    break;
                };
                let heard = if readable {
                    visitor.listen(self.admission.as_ref())
                } else {
                    Heard::Waits
                };
                match heard {
                    Heard::Waits => next += 1,
                    Heard::Goes => drop(self.waiting.remove(next)),
                    Heard::Enters(opening) => {
                        let visitor = self.waiting.remove(next);
                        return Ok(Received {
                            transport: visitor.transport,
                            said: visitor.said,
                            opening,
                        });
                    }
                }
            }
            if knocks {
                let transport = self.listener.accept()?;
                if self.waiting.len() >= MOST_WAITING {
                    self.waiting.remove(0);
                }
                let asked = self.admission.is_some() && transport.is_open_to_others();
                self.waiting.push(Visitor {
                    transport,
                    said: Vec::new(),
                    handshake: asked.then(Handshake::new),
                });
            }
        }
    }

    /// Waits until somebody connects or says something.
    fn wait(&self) -> io::Result<(bool, Vec<bool>)> {
        let listener = self.listener.descriptor();
        let mut descriptors: Vec<PollFd<'_>> = listener
            .into_iter()
            .chain(
                self.waiting
                    .iter()
                    .map(|visitor| visitor.transport.descriptor()),
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

impl Visitor {
    /// Reads what there is.
    fn listen(&mut self, admission: Option<&Admission<'_>>) -> Heard {
        let mut buffer = [0; 0x4000];
        let count = match self.transport.read(&mut buffer) {
            Ok(0) => return Heard::Goes,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Heard::Waits,
            Err(_) => return Heard::Goes,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        if let (Some(handshake), Some(admission)) = (&mut self.handshake, admission) {
            return match handshake.take(bytes, admission, &mut self.transport) {
                Progress::Waits => Heard::Waits,
                Progress::Admitted(opening) => Heard::Enters(*opening),
                Progress::Refused => Heard::Goes,
            };
        }
        self.said.extend_from_slice(bytes);
        if !self.said.first().copied().is_some_and(is_protocol) {
            Heard::Goes
        } else if self.has_said_a_packet() {
            Heard::Enters(Opening::new())
        } else if self.said.len() <= MOST_BYTES {
            Heard::Waits
        } else {
            Heard::Goes
        }
    }

    /// Whether there is a packet in what has been said, with the right checksum.
    fn has_said_a_packet(&self) -> bool {
        self.said.split(|byte| *byte == b'$').skip(1).any(|packet| {
            let Some(end) = packet.iter().position(|byte| *byte == b'#') else {
                return false;
            };
            let (payload, sum) = packet.split_at(end);
            let told = sum
                .get(1..3)
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let sum = payload
                .iter()
                .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            told == Some(sum)
        })
    }
}
