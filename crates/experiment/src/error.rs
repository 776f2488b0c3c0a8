//! Errors of definitions, and errors at a hit.

use std::fmt;

use tracewire_agent_expr::{EvaluationError, VerifyError};
use tracewire_model::{Address, RegisterNumber, ThreadId, TracepointNumber};
use tracewire_tracefile::EncodeError;

use crate::limits::FRAME_LIMIT;
use crate::store::StoreError;

/// A part of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The condition.
    Condition,
    /// The action with this place in the list, from 1.
    Action(usize),
    /// The `while-stepping` action with this place in the list, from 1.
    StepAction(usize),
    /// A key, a value or the condition of an aggregate.
    Aggregate,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition => f.write_str("the condition"),
            Self::Action(place) => write!(f, "action {place}"),
            Self::Aggregate => f.write_str("an aggregate"),
            Self::StepAction(place) => write!(f, "while-stepping action {place}"),
        }
    }
}

/// Why a definition is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefineError {
    /// A frame has 16 bits for the number.
    #[error("tracepoint number {0} cannot be in a trace frame: 1 to 32767 can")]
    Number(TracepointNumber),
    /// An agent expression that cannot be evaluated.
    #[error("the agent expression of {part} cannot be evaluated: {error}")]
    Program {
        /// Where it is.
        part: Part,
        /// The reason.
        error: VerifyError,
    },
    /// A condition that ends without a value.
    #[error("the agent expression of the condition leaves no result")]
    NoResult,
    /// `printf` belongs to a breakpoint's commands.
    #[error("the agent expression of {part} prints, which a tracepoint cannot")]
    Prints {
        /// Where it is.
        part: Part,
    },
    /// No frame can hold this many bytes.
    #[error("{part} collects {length} bytes, {FRAME_LIMIT} are allowed in a frame")]
    TooLong {
        /// Which action.
        part: Part,
        /// The requested number of bytes.
        length: u64,
    },
}

/// No tracepoint has this number, or none at this address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownTracepoint {
    /// Not at any address.
    #[error("there is no tracepoint {0}")]
    Number(TracepointNumber),
    /// Not at this one.
    #[error("tracepoint {0} is not at {1}")]
    Location(TracepointNumber, Address),
}

/// An error of a target.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The address has no code for a tracepoint.
    #[error("no tracepoint can be put at {address}: {reason}")]
    CannotInsert {
        /// The address.
        address: Address,
        /// Why not.
        reason: String,
    },
    /// No memory is mapped at the address: a library was unmapped, for example.
    #[error("no tracepoint can be put at {0}: no memory is mapped there")]
    NotMapped(Address),
    /// The thread or the process has ended.
    #[error("thread {0} is gone")]
    Gone(ThreadId),
    /// The kernel refused.
    #[error("{call} failed for thread {thread}: {reason}")]
    System {
        /// The system call.
        call: &'static str,
        /// The thread that the call was for.
        thread: ThreadId,
        /// The kernel's reason.
        reason: String,
    },
}

/// An address that the target could not serve, and its tracepoints.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tracepoint {}: {error}", numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
pub struct InstallError {
    /// Where.
    pub address: Address,
    /// The tracepoints there.
    pub numbers: Vec<TracepointNumber>,
    /// The target's reason.
    pub error: TargetError,
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It is running.
    #[error("the trace run has started already")]
    Running,
    /// No tracepoint is defined.
    #[error("there is no tracepoint")]
    NoTracepoints,
    /// The target could not serve some addresses; it has no tracepoint then.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    CannotInstall(Vec<InstallError>),
    /// The buffer could not be emptied.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error that ends a run with `terror`. The text is for the user, who sees the tracepoint's number beside it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HitError {
    #[error("condition: {0}")]
    Condition(EvaluationError),
    #[error("{0}")]
    Action(EvaluationError),
    #[error("register {0} has no value")]
    BadRegister(RegisterNumber),
    #[error("cannot access memory at {0}")]
    BadMemory(Address),
    #[error("a frame would hold more than {FRAME_LIMIT} bytes")]
    FrameTooLong,
    #[error("a hit collects more than {} pieces", crate::limits::PIECE_LIMIT)]
    TooManyPieces,
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
