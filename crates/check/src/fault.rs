//! What can be wrong, beyond what `tracewire_tracefile` finds by itself.

use std::fmt;

use crate::again::Defined;
use tracewire_agent_expr::VerifyError;
use tracewire_model::{Address, RegisterNumber, TracepointNumber, VariableNumber};
use tracewire_tracefile::check::{self, Place, Severity};

/// Something that is wrong with a trace file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Where: a line of the description, an offset in the file, a frame and an offset.
    pub place: Place,
    /// What.
    pub fault: Fault,
}

impl Finding {
    /// How bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.fault.severity()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// What the trace file's own crate finds.
    #[error(transparent)]
    File(check::Fault),
    /// An agent expression that must not be evaluated.
    #[error("{what} of tracepoint {number} cannot be evaluated: {reason}")]
    Expression {
        /// Which tracepoint.
        number: TracepointNumber,
        /// The condition, or an action's expression.
        what: ExpressionRole,
        /// What is wrong with it.
        reason: VerifyError,
    },
    /// A condition that leaves nothing on the stack.
    #[error("the condition of tracepoint {0} has no result")]
    NoResult(TracepointNumber),
    /// An action asks for a register that is not there.
    #[error(
        "tracepoint {number} asks for register {register}, which the target description does not have"
    )]
    UnknownRegister {
        /// Which tracepoint.
        number: TracepointNumber,
        /// The register's number.
        register: RegisterNumber,
    },
    /// An expression names a variable that no line defines.
    #[error("tracepoint {number} uses variable {variable}, which no `tsv` line defines")]
    UnknownVariable {
        /// Which tracepoint.
        number: TracepointNumber,
        /// The variable's number.
        variable: VariableNumber,
    },
    /// Two variables of one name.
    #[error("variables {first} and {second} have the same name `{name}`")]
    SameName {
        /// The one number.
        first: VariableNumber,
        /// The other.
        second: VariableNumber,
        /// Their name.
        name: String,
    },
    /// What a line defines has been defined before.
    #[error("{what} is defined again, after line {first}: the last line counts")]
    DefinedAgain {
        /// What is.
        what: Defined,
        /// The line before.
        first: usize,
    },
    /// A string of the user's is longer or shorter than its lines tell.
    #[error("{what} has {found} bytes; its line tells {told}")]
    StringLength {
        /// Which string, in words.
        what: String,
        /// How many bytes its first line tells.
        told: u64,
        /// How many there are.
        found: u64,
    },
    /// The tracepoint that ended the run is not there.
    #[error("the status line tells that tracepoint {0} ended the run, which is not defined")]
    StoppedByUndefined(TracepointNumber),
    /// The tracepoint that ended the run by its pass count has none.
    #[error("the status line tells that tracepoint {0} reached its pass count, and it has none")]
    NoPassCount(TracepointNumber),
    /// More of the buffer is free than it has.
    #[error("the status line tells {free} bytes free of a buffer of {size}")]
    BufferFree {
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        size: u64,
    },
    /// The frames have no room in what is used of the buffer.
    #[error("the status line tells {used} bytes of the buffer used; the frames take {frames}")]
    BufferUsed {
        /// Bytes used.
        used: u64,
        /// What the frames take.
        frames: u64,
    },
    /// The run stopped before it started.
    #[error("the status line tells a stop {0} microseconds before the start")]
    StopBeforeStart(u64),
    /// More frames than hits.
    #[error("tracepoint {number} at {address} tells {told} hits; {found} frames are of hits")]
    Hits {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Which of its addresses.
        address: Address,
        /// How many hits its `V` line tells.
        told: u64,
        /// How many frames there are.
        found: u64,
    },
    /// More steps than `while-stepping` asks for.
    #[error(
        "tracepoint {number} has {steps} frames of steps for {hits} hits, at {count} steps a hit at most"
    )]
    Steps {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Frames of steps.
        steps: u64,
        /// Frames of hits.
        hits: u64,
        /// The step count.
        count: u64,
    },
    /// A value of a variable that no line defines.
    #[error("variable {0} is collected, and no `tsv` line defines it")]
    UndefinedVariable(VariableNumber),
    /// A frame that stands where its tracepoint is not.
    #[error("the program counter {at} is none of tracepoint {number}'s addresses")]
    Elsewhere {
        /// Which tracepoint.
        number: TracepointNumber,
        /// The program counter.
        at: Address,
    },
    /// A frame that its tracepoint's condition would not have let be made.
    #[error(
        "the condition of tracepoint {0} is false of what the frame holds: a value changed during the hit, or is damaged"
    )]
    ConditionFalse(TracepointNumber),
    /// A frame made outside of the run.
    #[error("made {0} microseconds before the run started")]
    BeforeStart(u64),
    /// A frame made outside of the run.
    #[error("made {0} microseconds after the run stopped")]
    AfterStop(u64),
    /// An expression of the tracepoint's actions collects something that is not there.
    #[error("{0} should have been collected by an expression, and could not be read or is lost")]
    NotCollected(Wanted),
    /// So much was run that what is left of the frames is not looked at so closely.
    #[error(
        "running the expressions on all frames takes too long: from here on nobody has looked for what they should have collected"
    )]
    NotRun,
}

/// What an expression is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpressionRole {
    /// It says whether a hit counts.
    Condition,
    /// It collects at a hit.
    Action,
    /// It collects at a step.
    StepAction,
}

impl fmt::Display for ExpressionRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Condition => "the condition",
            Self::Action => "an action",
            Self::StepAction => "a step's action",
        })
    }
}

/// What an expression collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A piece of memory: where it starts, how many bytes, and the first of them that is not there.
    Memory {
        /// Where it starts.
        address: Address,
        /// How many bytes.
        length: u64,
        /// The first byte that is not there.
        missing: Address,
    },
    /// A string to its NUL.
    String {
        /// Where it starts.
        address: Address,
        /// The first byte that is not there.
        missing: Address,
    },
    /// A variable.
    Variable(VariableNumber),
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory {
                address,
                length,
                missing,
            } => {
                write!(f, "memory of {length} bytes at {address}")?;
                if missing != address {
                    write!(f, " (from {missing} on)")?;
                }
                Ok(())
            }
            Self::String { address, missing } => {
                write!(f, "the string at {address}")?;
                if missing != address {
                    write!(f, " (from {missing} on)")?;
                }
                Ok(())
            }
            Self::Variable(number) => write!(f, "variable {number}"),
        }
    }
}

impl Fault {
    /// How bad it is. An error is damage or a contradiction; a warning is what a reader should know.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::File(fault) => fault.severity(),
            Self::Expression { .. } | Self::NoResult(_) | Self::BufferFree { .. } => {
                Severity::Error
            }
            _ => Severity::Warning,
        }
    }
}
