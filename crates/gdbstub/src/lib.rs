#![doc = include_str!("../README.md")]
//!
//! `gdbstub` has a trait for tracepoints, without conditions, variables, expressions and saved traces, and the emulator must
//! collect itself. Here the emulator only needs the operations for a debugger: breakpoints, a single step, registers, memory.
//!
//! ```no_run
//! use tracewire_gdbstub::Tracepoints;
//!
//! # fn debug(connection: std::os::unix::net::UnixStream) {}
//! let tracepoints = Tracepoints::listen(&"127.0.0.1:9001".parse()?)?;
//! let (connection, debugger) = tracepoints.connection()?;
//! debug(connection); // GdbStub::new(connection).run_blocking::<EventLoop>(&mut emulator)
//! debugger.wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Principles
//!
//! The connection leads to a thread of this process that is a debugger to the emulator, and a stub to GDB
//! ([`tracewire_server::proxy`]). All packets are passed on unchanged, except those of tracepoints. So the emulator's other
//! features of `gdbstub` still work: watchpoints, reverse execution, monitor commands, host I/O.
//!
//! A tracepoint is a software breakpoint of the emulator, which must support these and a single step. A hit is a few packets
//! through a socket of this process. Conditions and expressions are evaluated outside of the emulator, which needs no code for
//! them.
//!
//! `examples/emulator` is an emulator of RISC-V with all of this.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use tracewire_arch::Architecture;
use tracewire_server::proxy::{self, Proxy};
use tracewire_server::{Clients, Listener, SaveFolder, SessionLog};
use tracewire_target_remote::{Options, RemoteError, Stub};

pub use tracewire_packets::ConnectionAddress;

/// Why tracepoints have ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The emulator's stub does not follow the protocol.
    #[error("the emulator's stub cannot have tracepoints")]
    Stub(#[from] RemoteError),
    /// GDB cannot connect.
    #[error("debuggers cannot connect")]
    Listen(#[source] io::Error),
    /// The thread between GDB and the emulator has panicked.
    #[error("the thread of tracepoints has panicked")]
    Panicked,
}

/// A place where GDB connects to an emulator, and has tracepoints.
#[derive(Debug)]
pub struct Tracepoints {
    listener: Listener,
    options: Options,
    save: Option<SaveFolder>,
}

impl Tracepoints {
    /// Listens at an address: a host and a port, or a Unix socket.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(address: &ConnectionAddress) -> io::Result<Self> {
        Ok(Self {
            listener: Listener::bind(address)?,
            options: Options::default(),
            save: None,
        })
    }

    /// The TCP address, with the port that was found.
    #[must_use]
    pub fn local(&self) -> Option<SocketAddr> {
        self.listener.local()
    }

    /// Names the machine, where the emulator's target description names no registers, or has another byte order than usual.
    #[must_use]
    pub const fn architecture(mut self, architecture: Architecture) -> Self {
        self.options.architecture = Some(architecture);
        self
    }

    /// Lets GDB save traces on this side (`tsave -r`), in a directory.
    #[must_use]
    pub fn save_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.save = Some(SaveFolder(directory.into()));
        self
    }

    /// The connection that the emulator passes to `gdbstub`, and GDB's end of it. GDB may connect at once, and again after it has
    /// disconnected; the program begins when the emulator's stub is there.
    ///
    /// # Errors
    /// When there is no socket, or no thread.
    pub fn connection(self) -> io::Result<(UnixStream, Debugger)> {
        let (emulators, upstream) = UnixStream::pair()?;
        let thread = thread::Builder::new()
            .name("tracepoints".into())
            .spawn(move || self.serve(upstream))?;
        Ok((emulators, Debugger { thread }))
    }

    fn serve(self, upstream: UnixStream) -> Result<(), Error> {
        let stub = Stub::over(upstream, &self.options)?;
        let mut proxy = Proxy::new(stub, proxy::Tracepoints::Own, self.save)?;
        let clients = Clients {
            once: false,
            token: None,
        };
        proxy::serve(&self.listener, &mut proxy, &SessionLog::none(), clients)
            .map_err(Error::Listen)
    }
}

/// The debugger's end of a connection.
#[derive(Debug)]
pub struct Debugger {
    thread: JoinHandle<Result<(), Error>>,
}

impl Debugger {
    /// Waits until GDB has detached, or the emulator has closed its end.
    ///
    /// # Errors
    /// When tracepoints could not be had.
    pub fn wait(self) -> Result<(), Error> {
        self.thread.join().map_err(|_| Error::Panicked)?
    }
}
