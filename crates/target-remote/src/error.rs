//! What goes wrong with a stub.

use std::io;

use tracewire_arch::LayoutError;
use tracewire_model::Address;

/// What went wrong with a stub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Nobody accepts connections there.
    #[error("cannot connect to the stub at {address}")]
    Connect {
        /// Where.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// The connection failed.
    #[error("the connection to the stub failed: {0}")]
    Io(#[from] io::Error),
    /// The stub closed it.
    #[error("the stub closed the connection")]
    Closed,
    /// No answer came.
    #[error("the stub did not answer `{request}` within {seconds} s")]
    Silent {
        /// The request.
        request: String,
        /// The limit.
        seconds: u64,
    },
    /// What came is no packet, or one that is too long, or one that never has the right checksum.
    #[error("the stub sends packets that cannot be read: {0}")]
    Unreadable(&'static str),
    /// The stub refused a request that it must be able to do.
    #[error("the stub answered `{request}` with `{reply}`")]
    Refused {
        /// The request.
        request: String,
        /// The answer.
        reply: String,
    },
    /// It has no program.
    #[error("the stub has no program that is stopped")]
    NoProgram,
    /// It cannot step.
    #[error("the stub cannot execute a single instruction, which going over a breakpoint takes")]
    NoStep,
    /// A breakpoint that the stub had and has dropped cannot be inserted again. In words.
    #[error("the breakpoint at {0} cannot be inserted again: {1}")]
    NotAgain(Address, String),
    /// A thread was to execute one instruction, and did not.
    #[error("a thread does not get past the instruction at {0}: its step did not end")]
    Stuck(Address),
    /// The description of its registers cannot be used.
    #[error("the stub's target description cannot be used: {0}")]
    Description(#[from] LayoutError),
    /// It describes no registers, and the machine was not named.
    #[error("the stub does not describe its registers: name the machine with --architecture")]
    NoDescription,
    /// Its register block is none of the machine's.
    #[error("the stub's register block has {size} bytes, and no registers of {machine} take that")]
    NoLayout {
        /// The size of the block, in bytes.
        size: usize,
        /// The machine.
        machine: &'static str,
    },
    /// There is no program counter among the registers.
    #[error("the stub has no program counter among its registers")]
    NoProgramCounter,
}
