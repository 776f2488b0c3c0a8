//! Who is let in of those that connect: clients that speak the protocol.
//!
//! A session with a program has one client, and a program that runs is stopped for it. So whoever connects and says
//! nothing, or nothing that is a packet, waits outside: a port scanner, a browser, a debugger whose machine has died on
//! the way. Those that wait cost a little memory each; there are limits to how many they may be and to what they may say.

use std::io::{self, Read};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::session::PACKET_SIZE;
use crate::transport::{Listener, Transport};

/// How many may wait. When one more comes, the one that has waited longest has to go.
const MOST_WAITING: usize = 256;
/// How much one may say that is no packet.
const MOST_BYTES: usize = PACKET_SIZE + 64;

/// Where clients are received.
pub(crate) struct Reception<'l> {
    listener: &'l Listener,
    waiting: Vec<Visitor>,
}

/// Somebody who has connected.
struct Visitor {
    transport: Transport,
    said: Vec<u8>,
}

/// A client, and what has been read of it.
pub(crate) struct Received {
    pub(crate) transport: Transport,
    pub(crate) said: Vec<u8>,
}

impl<'l> Reception<'l> {
    pub(crate) const fn new(listener: &'l Listener) -> Self {
        Self {
            listener,
            waiting: Vec::new(),
        }
    }

    /// Waits for a client that has sent a whole packet. On standard input and output there is one client, who is not
    /// asked.
    ///
    /// # Errors
    /// When the system cannot give clients.
    pub(crate) fn receive(&mut self) -> io::Result<Received> {
        if self.listener.is_stdio() {
            return Ok(Received {
                transport: self.listener.accept()?,
                said: Vec::new(),
            });
        }
        loop {
            let (knocks, heard) = self.wait()?;
            let mut next = 0;
            for readable in heard {
                let Some(visitor) = self.waiting.get_mut(next) else {
                    break;
                };
                if !readable || visitor.listen() && !visitor.has_said_a_packet() {
                    next += 1;
                    continue;
                }
                let visitor = self.waiting.remove(next);
                if visitor.has_said_a_packet() {
                    return Ok(Received {
                        transport: visitor.transport,
                        said: visitor.said,
                    });
                }
            }
            if knocks {
                let transport = self.listener.accept()?;
                if self.waiting.len() >= MOST_WAITING {
                    self.waiting.remove(0);
                }
                self.waiting.push(Visitor {
                    transport,
                    said: Vec::new(),
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
    /// Reads what there is; false when this is no client any more.
    fn listen(&mut self) -> bool {
        let mut buffer = [0; 0x4000];
        match self.transport.read(&mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                let bytes = buffer.get(..count).unwrap_or_default();
                self.said.extend_from_slice(bytes);
                self.said.len() <= MOST_BYTES || self.has_said_a_packet()
            }
            Err(error) => error.kind() == io::ErrorKind::Interrupted,
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
