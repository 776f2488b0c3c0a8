//! Listening for clients, and their streams.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::KeepAlive;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, setsockopt, socket};
use nix::sys::stat::{Mode, fchmod};

use crate::access::{is_own, own_socket, remove_stale_socket};
use tracewire_packets::ConnectionAddress;

/// How long a client may leave its replies unread before it counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How many clients of a Unix socket may wait to be accepted.
const BACKLOG: i32 = 128;

/// Standard input.
const STDIN: RawFd = 0;

/// An address where debuggers connect.
#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    /// Clients that were accepted before the server was ready.
    pub(crate) early: Mutex<VecDeque<Transport>>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
    Stdio,
}

impl Listener {
    /// Starts to listen. Port 0 is any free one; [`Self::local`] returns it. Only its owner and root can connect to a
    /// Unix socket; where its path is empty, one is chosen.
    ///
    /// # Errors
    /// When the address cannot be bound, such as a Unix socket whose path exists.
    pub fn bind(address: &ConnectionAddress) -> io::Result<Self> {
        let kind = match address {
            ConnectionAddress::Stdio => Kind::Stdio,
            ConnectionAddress::Unix(path) if path.as_os_str().is_empty() => {
                let path = own_socket();
                Kind::Unix(bind_unix(&path)?, path)
            }
            ConnectionAddress::Unix(path) => Kind::Unix(bind_unix(path)?, path.clone()),
            ConnectionAddress::Tcp { host, port } => Kind::Tcp(bind(host, *port)?),
        };
        Ok(Self {
            kind,
            early: Mutex::default(),
        })
    }

    /// The TCP address, with the port that was found.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp(listener) => listener.local_addr().ok(),
            Kind::Unix(..) | Kind::Stdio => None,
        }
    }

    /// Whether this is standard input and output, on which there is one client only.
    #[must_use]
    pub const fn is_stdio(&self) -> bool {
        matches!(self.kind, Kind::Stdio)
    }

    /// Another handle of the socket; none for standard input and output.
    pub(crate) fn duplicate(&self) -> io::Result<Option<OwnedFd>> {
        Ok(match &self.kind {
            Kind::Tcp(listener) => Some(listener.try_clone()?.into()),
            Kind::Unix(listener, _) => Some(listener.try_clone()?.into()),
            Kind::Stdio => None,
        })
    }

    /// The descriptor that is readable when there is a connection; `None` on standard input and output.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Tcp(listener) => Some(listener.as_fd()),
            Kind::Unix(listener, _) => Some(listener.as_fd()),
            Kind::Stdio => None,
        }
    }

    /// Waits for a client.
    ///
    /// # Errors
    /// When the system cannot accept one; the error of a client that has already disconnected is not reported.
    pub fn accept(&self) -> io::Result<Transport> {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = early.pop_front() {
            return Ok(transport);
        }
        drop(early);
        loop {
            if let Some(transport) = self.accept_one()? {
                return Ok(transport);
            }
        }
    }

    /// A client; `None` if it has already disconnected, or may not connect.
    pub(crate) fn accept_one(&self) -> io::Result<Option<Transport>> {
        let accepted = match &self.kind {
            Kind::Stdio => return Ok(Some(Transport::Stdio)),
            Kind::Tcp(listener) => listener
                .accept()
                .and_then(|(stream, _)| Transport::tcp(stream)),
            Kind::Unix(listener, _) => match listener.accept() {
                Ok((stream, _)) if !is_own(&stream).unwrap_or(false) => return Ok(None),
                accepted => accepted.and_then(|(stream, _)| Transport::unix(stream)),
            },
        };
        match accepted {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                ) =>
            {
                Ok(None)
            }
            accepted => accepted.map(Some),
        }
    }

    /// Whether accepting waits for a client.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match &self.kind {
            Kind::Tcp(listener) => listener.set_nonblocking(nonblocking),
            Kind::Unix(listener, _) => listener.set_nonblocking(nonblocking),
            Kind::Stdio => Ok(()),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, self.local()) {
            (Kind::Unix(_, path), _) => write!(f, "{}", path.display()),
            (_, Some(address)) => address.fmt(f),
            _ => f.write_str("standard input and output"),
        }
    }
}

/// The socket's file goes with the listener.
impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path) = &self.kind {
            // It may be removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    match host {
        "" => TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .or_else(|_| TcpListener::bind((Ipv6Addr::LOCALHOST, port))),
        // Linux accepts IPv4 clients on the same socket.
        "*" => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
        host => {
            // The wording is gdbserver's, for scripts that wait for it.
            let unknown = |error| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("cannot resolve name: {error}"),
                )
            };
            let addresses: Vec<SocketAddr> =
                (host, port).to_socket_addrs().map_err(unknown)?.collect();
            TcpListener::bind(addresses.as_slice())
        }
    }
}

/// A Unix socket that only its owner can connect to, from the moment it exists.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    remove_stale_socket(path);
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // The file that the bind makes has the mode of the socket.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    nix::sys::socket::bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    nix::sys::socket::listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(socket.into())
}

/// A connection with a debugger.
#[derive(Debug)]
pub enum Transport {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// Standard input and output.
    Stdio,
}

impl Transport {
    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // A reply is one write, and GDB waits for it.
        stream.set_nodelay(true)?;
        // A client whose machine has died is given up after some hours, as gdbserver does.
        setsockopt(&stream, KeepAlive, &true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self::Tcp(stream))
    }

    fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self::Unix(stream))
    }

    /// Whether any user of the machine, or of another, may be at the other end.
    pub(crate) const fn is_open_to_others(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// The client's address, in gdbserver's wording.
    pub(crate) fn introduction(&self) -> String {
        match self {
            Self::Tcp(stream) => match stream.peer_addr() {
                Ok(peer) => format!(
                    "Remote debugging from host {}, port {}",
                    peer.ip().to_canonical(),
                    peer.port()
                ),
                Err(error) => format!("Could not obtain remote address: {error}"),
            },
            Self::Unix(_) => "Remote debugging using a Unix socket".to_owned(),
            Self::Stdio => "Remote debugging using stdio".to_owned(),
        }
    }

    /// Another handle of the same connection.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Stdio => Self::Stdio,
        })
    }

    /// The descriptor that is read.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            // SAFETY: standard input is never closed here.
            Self::Stdio => unsafe { BorrowedFd::borrow_raw(STDIN) },
        }
    }

    /// Whether there is input, or the end of the connection; with `wait`, waits until there is.
    ///
    /// # Errors
    /// When the system call fails.
    pub(crate) fn wait_readable(&self, wait: bool) -> io::Result<bool> {
        let descriptor = self.descriptor();
        let timeout = if wait {
            PollTimeout::NONE
        } else {
            PollTimeout::ZERO
        };
        loop {
            let mut descriptors = [PollFd::new(descriptor, PollFlags::POLLIN)];
            match poll(&mut descriptors, timeout) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the connection for all its handles. Standard input and output end with the program.
    pub(crate) fn close(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Stdio => Ok(()),
        };
    }
}

impl Read for Transport {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
            // Not through a buffer, which would hold input that a poll does not see.
            Self::Stdio => Ok(nix::unistd::read(io::stdin(), bytes)?),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Stdio => io::stdout().lock().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Stdio => io::stdout().lock().flush(),
        }
    }
}
