//! The connection to a stub: packets with limits on their length and on the time they take.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracewire_packets::frame::{ACK, Connection, NAK, Received, Side, Unreadable};

use crate::error::RemoteError;
use tracewire_packets::ConnectionAddress;

/// The longest packet that is taken, in bytes of payload.
const LONGEST: usize = 1 << 20;
/// How often a packet may come with a wrong checksum.
const MOST_REFUSED: usize = 8;
/// How much is read at once.
const READ: usize = 0x10000;

/// What a stub has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// A packet.
    Packet(Vec<u8>),
    /// A notification.
    Notification(Vec<u8>),
}

/// A connection to a stub.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    connection: Connection,
    acknowledges: bool,
    /// What is to be written, in order.
    output: Vec<u8>,
    /// How many answers are acknowledged that have not come yet.
    acknowledged: usize,
    /// How many packets have come with a wrong checksum since the last good one.
    refused: usize,
    input: Vec<u8>,
    start: usize,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Stdio(io::Stdin),
}

impl Link {
    /// Connects; `limit` is how long connecting and writing may take.
    pub(crate) fn connect(
        address: &ConnectionAddress,
        limit: Duration,
    ) -> Result<Self, RemoteError> {
        let stream = open(address, limit).map_err(|source| RemoteError::Connect {
            address: address.to_string(),
            source,
        })?;
        Ok(Self::new(stream))
    }

    /// A connection that is there.
    pub(crate) fn over(stream: UnixStream, limit: Duration) -> Result<Self, RemoteError> {
        stream.set_write_timeout(Some(limit))?;
        Ok(Self::new(Stream::Unix(stream)))
    }

    fn new(stream: Stream) -> Self {
        Self {
            stream,
            connection: Connection::new(Side::Client, LONGEST),
            acknowledges: true,
            output: Vec::new(),
            acknowledged: 0,
            refused: 0,
            input: Vec::new(),
            start: 0,
        }
    }

    /// Both sides have agreed not to acknowledge packets.
    pub(crate) fn stop_acknowledging(&mut self) {
        self.acknowledges = false;
        self.connection.stop_acknowledging();
    }

    /// Puts a packet behind what is to be written.
    pub(crate) fn queue(&mut self, payload: &[u8]) {
        self.connection.send(payload);
        self.drain();
    }

    /// Acknowledges the answer to what was queued last before it has come, so that another packet can follow at once: a stub that lets its
    /// program run stops it for any byte that comes later.
    pub(crate) fn acknowledge_ahead(&mut self) {
        if self.acknowledges {
            self.output.push(ACK);
            self.acknowledged += 1;
        }
    }

    /// Acknowledges once more what was acknowledged ahead: the stub may not have seen it.
    pub(crate) fn acknowledge_again(&mut self) -> Result<(), RemoteError> {
        if self.acknowledges {
            self.output.push(ACK);
        }
        self.flush()
    }

    /// Takes what the connection has to send.
    fn drain(&mut self) {
        self.output.extend_from_slice(self.connection.output());
        self.connection.written(usize::MAX);
    }

    /// Puts the interrupt byte there.
    pub(crate) fn queue_interrupt(&mut self) {
        self.connection.interrupt();
        self.drain();
    }

    /// Writes what is queued.
    pub(crate) fn flush(&mut self) -> Result<(), RemoteError> {
        let output = &self.output;
        if output.is_empty() {
            return Ok(());
        }
        let written = match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(output),
            Stream::Unix(stream) => stream.write_all(output),
            Stream::Stdio(_) => {
                let mut out = io::stdout().lock();
                out.write_all(output).and_then(|()| out.flush())
            }
        };
        self.output.clear();
        written.map_err(of_connection)
    }

    /// Whether something has been read that was not looked at.
    pub(crate) fn has_input(&self) -> bool {
        self.start < self.input.len()
    }

    /// The next message; none when the deadline has passed before there was one.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Option<Message>, RemoteError> {
        let mut is_last = false;
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            if is_last {
                return Ok(None);
            }
            self.flush()?;
            // What a stub sends that is no packet does not prolong the wait.
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.wait_readable(left)? {
                return Ok(None);
            }
            self.read()?;
            is_last = left.is_zero();
        }
    }

    /// The next message of what has been read. Its acknowledgement is queued.
    fn take(&mut self) -> Result<Option<Message>, RemoteError> {
        let mut rest = self.input.get(self.start..).unwrap_or_default();
        let before = rest.len();
        let mut message = Ok(None);
        while let Some(received) = self.connection.receive(&mut rest) {
            message = match received {
                Received::Packet(payload) => Ok(Some(Message::Packet(payload.to_vec()))),
                Received::Notification(payload) => {
                    Ok(Some(Message::Notification(payload.to_vec())))
                }
                Received::Interrupt => continue,
                Received::Unreadable(Unreadable::TooLong) => {
                    Err(RemoteError::Unreadable("one has more than a megabyte"))
                }
                Received::Unreadable(Unreadable::BadRun) => {
                    Err(RemoteError::Unreadable("a run of characters has no length"))
                }
                Received::Lost => Err(RemoteError::Unreadable("it refuses every packet of ours")),
            };
            break;
        }
        self.start += before - rest.len();
        if self.start >= self.input.len() {
            self.input.clear();
            self.start = 0;
        }
        // Acknowledgements, but for those that were sent ahead.
        if self.acknowledged > 0 && self.connection.output() == [ACK] {
            self.connection.written(1);
            self.acknowledged -= 1;
        }
        let refused = self.connection.output().iter();
        self.refused += refused.filter(|byte| **byte == NAK).count();
        // The acknowledgement of a packet goes with the next request. A stub is woken once then, and not twice.
        self.drain();
        if matches!(message, Ok(Some(_))) {
            self.refused = 0;
        } else if self.refused > MOST_REFUSED {
            return Err(RemoteError::Unreadable("their checksums are wrong"));
        }
        message
    }

    fn read(&mut self) -> Result<(), RemoteError> {
        let old = self.input.len();
        self.input.resize(old + READ, 0);
        let buffer = self.input.get_mut(old..).unwrap_or_default();
        let read = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
            // Not through a buffer, which would have what a poll does not see.
            Stream::Stdio(input) => nix::unistd::read(&*input, buffer).map_err(io::Error::from),
        };
        let count = match read {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.input.truncate(old);
                return Ok(());
            }
            Err(error) => {
                self.input.truncate(old);
                return Err(of_connection(error));
            }
        };
        self.input.truncate(old + count);
        if count == 0 {
            return Err(RemoteError::Closed);
        }
        Ok(())
    }

    /// Whether there is something to read within the time.
    fn wait_readable(&self, limit: Duration) -> Result<bool, RemoteError> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Rounded up, so that a wait for less than a millisecond is none for nothing.
            let left = left.as_nanos().div_ceil(1_000_000);
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut descriptors = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            match poll(&mut descriptors, timeout) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Stdio(input) => input.as_fd(),
        }
    }
}

fn open(address: &ConnectionAddress, limit: Duration) -> io::Result<Stream> {
    match address {
        ConnectionAddress::Stdio => Ok(Stream::Stdio(io::stdin())),
        ConnectionAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(limit))?;
            Ok(Stream::Unix(stream))
        }
        ConnectionAddress::Tcp { host, port } => {
            let local = Ipv4Addr::LOCALHOST.to_string();
            let host = if host.is_empty() { &local } else { host };
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, limit) {
                    Ok(stream) => {
                        // A request is one write, and its answer is waited for.
                        stream.set_nodelay(true)?;
                        stream.set_write_timeout(Some(limit))?;
                        return Ok(Stream::Tcp(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// An error of the connection, where its end is one.
fn of_connection(error: io::Error) -> RemoteError {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::BrokenPipe
        | Kind::ConnectionReset
        | Kind::ConnectionAborted
        | Kind::NotConnected
        | Kind::UnexpectedEof => RemoteError::Closed,
        _ => RemoteError::Io(error),
    }
}
