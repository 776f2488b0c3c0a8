//! A client: packets in, packets out, and the interrupt between them.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use tracewire_packets::frame::{Connection, Received as Message};
use tracewire_packets::{Failure, Reply, Request};

use crate::acceptor::AcceptedClient;
use crate::transport::Transport;

/// How much is read at once.
const READ: usize = 0x10000;
/// How many packets are kept while an answer is waited for. A client that sends more is not read meanwhile.
const MOST_KEPT: usize = 64;

/// A client.
pub(super) struct Client {
    transport: Transport,
    connection: Connection,
    packets: VecDeque<Vec<u8>>,
    /// It has asked for what runs to be stopped.
    interrupts: bool,
    /// It is gone.
    gone: bool,
    /// What it asked for before its session, and was answered.
    pub(super) earlier: Vec<Request>,
}

impl Client {
    pub(super) fn new(received: AcceptedClient) -> Self {
        let mut client = Self {
            transport: received.transport,
            connection: received.opening.connection,
            packets: VecDeque::new(),
            interrupts: false,
            gone: false,
            earlier: received.opening.requests,
        };
        client.take(&received.input);
        client.take(&received.opening.input);
        client
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.transport.descriptor()
    }

    /// Whether it may be read now.
    pub(super) fn has_room(&self) -> bool {
        !self.gone && self.packets.len() < MOST_KEPT
    }

    pub(super) const fn is_gone(&self) -> bool {
        self.gone
    }

    /// Reads what it has sent.
    pub(super) fn read(&mut self) {
        let mut buffer = vec![0; READ];
        match self.transport.read(&mut buffer) {
            Ok(0) => self.gone = true,
            Ok(count) => self.take(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.gone = true,
        }
    }

    fn take(&mut self, mut input: &[u8]) {
        while let Some(message) = self.connection.receive(&mut input) {
            match message {
                Message::Packet(payload) => self.packets.push_back(payload.to_vec()),
                Message::Interrupt => self.interrupts = true,
                Message::Unreadable(_) => {
                    let failure = Failure::text("the packet cannot be read");
                    self.connection.send(&Reply::Error(failure).to_bytes());
                }
                Message::Notification(_) => {}
                Message::Lost => self.gone = true,
            }
        }
        self.write();
    }

    /// The next packet.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }

    /// The next packet, where it is the answer to a system call of the program.
    pub(super) fn next_file_answer(&mut self) -> Option<Vec<u8>> {
        let is_answer = self.packets.front()?.starts_with(b"F");
        is_answer.then(|| self.packets.pop_front()).flatten()
    }

    /// Whether it has asked for what runs to be stopped; the wish is granted by this.
    pub(super) fn take_interrupt(&mut self) -> bool {
        std::mem::take(&mut self.interrupts)
    }

    /// Whether it wants what runs to be stopped, or is gone, which is looked for now.
    pub(super) fn wants_stop(&mut self) -> bool {
        if self.has_room() && matches!(self.transport.wait_readable(false), Ok(true)) {
            self.read();
        }
        self.interrupts || self.gone
    }

    pub(super) fn send(&mut self, payload: &[u8]) {
        self.connection.send(payload);
        self.write();
    }

    pub(super) fn stop_acknowledging(&mut self) {
        self.connection.stop_acknowledging();
    }

    fn write(&mut self) {
        let output = self.connection.output();
        if output.is_empty() {
            return;
        }
        let written = self
            .transport
            .write_all(output)
            .and_then(|()| self.transport.flush());
        self.connection.written(usize::MAX);
        self.gone |= written.is_err();
    }
}
