//! Faults of a trace file, with their place and severity.

use std::fmt;
use std::ops::Range;

use crate::redefinition::Defined;
use tracewire_agent_expr::VerifyError;
use tracewire_arch::LayoutError;
use tracewire_model::{Address, FrameNumber, RegisterNumber, TracepointNumber, VariableNumber};
use tracewire_tracefile::{Checksum, MAX_LINE, MAX_TRACEPOINT_NUMBER, ProblemKind};

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The file can be read, but its reader should know this.
    Warning,
    /// Something is damaged or contradicts itself.
    Error,
}

/// Where a [`Finding`] is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line of the description, from 1; the header is line 1.
    Line(usize),
    /// A byte of the file.
    Offset(u64),
    /// A frame, and where in the file the matter is.
    Frame(FrameNumber, u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Frame(frame, offset) => write!(f, "frame {frame}, offset {offset}"),
        }
    }
}

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

/// The fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A line that cannot be understood.
    #[error(transparent)]
    Line(ProblemKind),
    /// A line that GDB refuses the whole file for.
    #[error("a line of {0} bytes: GDB reads lines of at most {MAX_LINE}, and refuses the file")]
    LongLine(usize),
    /// No `R` line, or one with size 0.
    #[error("no `R` line says the size of a register block: GDB refuses the file")]
    NoRegisterBlockSize,
    /// The `R` line is decimal.
    #[error("the size of a register block is decimal: GDB takes {decimal} for {hexadecimal}")]
    DecimalSize {
        /// The size.
        decimal: u32,
        /// The size that GDB reads.
        hexadecimal: u32,
    },
    /// No `status` line.
    #[error("no `status` line says how the run ended")]
    NoStatus,
    /// A field of the status line without a value.
    #[error("the field `{0}` of the status line has no value: GDB refuses the file")]
    StatusField(String),
    /// A field of the status line that GDB gives up at.
    #[error(
        "the value of the field `{0}` of the status line is none that GDB reads: it refuses the file"
    )]
    StatusRefused(String),
    /// A status line that is a whole qTStatus reply, as GDB's documentation has it.
    #[error("the status line begins with the reply's T: GDB passes over its first field, `{0}`")]
    StatusReply(String),
    /// A field of the status line that has no known name.
    #[error("the status line has the field `{0}`, which is not known")]
    UnknownStatusField(String),
    /// A field of the status line whose value cannot be understood.
    #[error("the value of the field `{0}` of the status line cannot be understood")]
    StatusValue(String),
    /// A line names the mechanism of a tracepoint that no line defines.
    #[error("says what served tracepoint {number} at {address}, which is not defined")]
    ServedUndefined {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Which of its addresses.
        address: Address,
    },
    /// A line has the skipped hits of a tracepoint that no line defines.
    #[error(
        "says how many hits of tracepoint {number} at {address} were skipped, which is not defined"
    )]
    SkippedUndefined {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Which of its addresses.
        address: Address,
    },
    /// A line has the pauses of a tracepoint that no line defines.
    #[error(
        "says when tracepoint {number} at {address} was out of the program, which is not defined"
    )]
    PausedUndefined {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Which of its addresses.
        address: Address,
    },
    /// A module that ends before it starts.
    #[error("the module starts at {start} and ends at {end}, before that")]
    ModuleEnd {
        /// The first address of its mappings.
        start: Address,
        /// The first address after them.
        end: Address,
    },
    /// A line of no known kind.
    #[error("a line of the unknown kind `{0}`: GDB skips it")]
    UnknownLine(String),
    /// The target description cannot be used.
    #[error(transparent)]
    Layout(LayoutError),
    /// The target description does not fit the register blocks.
    #[error(
        "the target description has registers of {layout} bytes, the register blocks have {block}"
    )]
    LayoutSize {
        /// The size of all registers of the target description.
        layout: u32,
        /// The size of the register blocks.
        block: u32,
    },
    /// The status line gives another number of frames.
    #[error("the status line says {declared} frames; there are {found}")]
    FrameCount {
        /// The number in the file.
        declared: u64,
        /// How many there are.
        found: u64,
    },
    /// More frames are there than were made.
    #[error("the status line says {frames} frames, of {created} made")]
    FramesCreated {
        /// Frames there.
        frames: u64,
        /// Frames made.
        created: u64,
    },
    /// A tracepoint that no frame can name.
    #[error(
        "tracepoint {0} can have no frames: the format's numbers go to {MAX_TRACEPOINT_NUMBER}"
    )]
    TracepointNumber(TracepointNumber),
    /// The file is cut inside its description.
    #[error("the file ends inside the description: expected an empty line, then frames")]
    CutInDescription,
    /// A lean recording that was not finished.
    #[error(
        "the lean recording was not finished: frames that were in no block are lost, and {} bytes after the last whole one are left out",
        .0.end - .0.start
    )]
    LeanUnfinished(Range<u64>),
    /// A block of a lean recording is damaged.
    #[error("bytes {} to {} of the lean recording are no whole block: their frames are left out", .0.start, .0.end)]
    LeanLost(Range<u64>),
    /// Bytes after the end of a lean recording.
    #[error("{} bytes follow the end of the lean recording", .0.end - .0.start)]
    LeanBehind(Range<u64>),
    /// There is no end marker.
    #[error("no end marker after the last frame: GDB fails when it looks for one frame more")]
    NoEndMarker,
    /// The file is cut inside a frame.
    #[error("the file ends inside a frame: {present} bytes of {} are there",
        .expected.map_or("it".to_owned(), |expected| expected.to_string()))]
    Cut {
        /// How many bytes of the frame there are.
        present: u64,
        /// How many there should be, where that can be known.
        expected: Option<u64>,
    },
    /// Something is after the end marker.
    #[error("{0} bytes after the end marker are not all zero: the marker may be damage")]
    Trailing(u64),
    /// Zeros after the end marker: a file system may leave them instead of bytes that did not reach the disk, and a killed
    /// recording leaves its reserve.
    #[error(
        "{0} zero bytes after the end marker, where GDB writes 2: frames may have been there, or were to"
    )]
    Zeros(u64),
    /// The checksum is that of other bytes.
    #[error(
        "the file was written with `{declared}` and has `{found}` now: something in it is damaged, or was edited (`repair` writes it again)"
    )]
    Checksum {
        /// The checksum in the file.
        declared: Checksum,
        /// The checksum of its bytes.
        found: Checksum,
    },
    /// The status line promises a checksum that is not there.
    #[error(
        "the checksum that should end the file is missing: it was not finished, or what ends it is damaged"
    )]
    NoChecksum,
    /// A frame of no tracepoint.
    #[error("tracepoint {0} is not defined")]
    Undefined(TracepointNumber),
    /// A block that does not fit into its frame.
    #[error("block `{}` does not fit into its frame", .0.escape_ascii())]
    BlockSize(u8),
    /// A block of a kind that is not known.
    #[error("a block of the unknown kind {0:#04x}: {1} bytes to the frame's end are skipped")]
    UnknownBlock(u8, usize),
    /// A block that GDB's reader of files stops at.
    #[error("static tracepoint data: GDB's reader of files stops at it")]
    StaticData,
    /// Two register blocks in one frame.
    #[error("more than one register block: only the first is read")]
    RegistersTwice,
    /// Memory collected twice, with different contents: the running program writes memory while it is collected.
    #[error(
        "memory at {0} was collected twice and differs: it was written in between, or the file is damaged"
    )]
    Disagreement(Address),
    /// Data that its actions request is missing.
    #[error("{0} should have been collected, and is not there")]
    NotCollected(Wanted),
    /// So many actions were held against frames that no more are.
    #[error(
        "holding all actions against all frames takes too long: what they should have collected is not checked from here on"
    )]
    NotLookedFor,
    /// Time runs backwards.
    #[error("made {0} microseconds before the frame before it")]
    TimeBackwards(u64),
    /// An invalid agent expression.
    #[error("{what} of tracepoint {number} cannot be evaluated: {reason}")]
    Expression {
        /// Which tracepoint.
        number: TracepointNumber,
        /// The condition, or an action's expression.
        what: ExpressionRole,
        /// The reason.
        reason: VerifyError,
    },
    /// A condition that leaves nothing on the stack.
    #[error("the condition of tracepoint {0} has no result")]
    NoResult(TracepointNumber),
    /// An action requests a register that does not exist.
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
    /// A line repeats a definition.
    #[error("{what} is defined again, after line {first}: the last line counts")]
    DefinedAgain {
        /// The kind of the definition.
        what: Defined,
        /// The line before.
        first: usize,
    },
    /// A source string is longer or shorter than its lines announce.
    #[error("{what} has {found} bytes; its line says {declared}")]
    StringLength {
        /// Which string, in words.
        what: String,
        /// The length in its first line.
        declared: u64,
        /// How many there are.
        found: u64,
    },
    /// The tracepoint that ended the run is not there.
    #[error("the status line says that tracepoint {0} ended the run, which is not defined")]
    StoppedByUndefined(TracepointNumber),
    /// The tracepoint that ended the run by its pass count has none.
    #[error("the status line says that tracepoint {0} reached its pass count, and it has none")]
    NoPassCount(TracepointNumber),
    /// More of the buffer is free than it has.
    #[error("the status line says {free} bytes free of a buffer of {size}")]
    BufferFree {
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        size: u64,
    },
    /// The frames do not fit in the used part of the buffer.
    #[error("the status line says {used} bytes of the buffer used; the frames take {frames}")]
    BufferUsed {
        /// Bytes used.
        used: u64,
        /// The size of the frames.
        frames: u64,
    },
    /// The run stopped before it started.
    #[error("the status line says a stop {0} microseconds before the start")]
    StopBeforeStart(u64),
    /// More frames than hits.
    #[error("tracepoint {number} at {address} has {declared} hits; {found} frames are of hits")]
    Hits {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Which of its addresses.
        address: Address,
        /// The number of hits in its `V` line.
        declared: u64,
        /// How many frames there are.
        found: u64,
    },
    /// More steps than `while-stepping` requests.
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
    /// A frame that is where its tracepoint is not.
    #[error("the program counter {at} is none of tracepoint {number}'s addresses")]
    Elsewhere {
        /// Which tracepoint.
        number: TracepointNumber,
        /// The program counter.
        at: Address,
    },
    /// The frame's tracepoint has a condition that is false on the frame.
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
    NotCollectedByExpression(Wanted),
    /// The limit of steps is reached: the remaining frames are checked less closely.
    #[error(
        "running the expressions on all frames takes too long: what they should have collected is not checked from here on"
    )]
    NotRun,
}

/// The purpose of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExpressionRole {
    /// It decides whether a hit counts.
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

/// The data to collect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A register block.
    Registers,
    /// Data of a static tracepoint.
    StaticData,
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
            Self::Registers => f.write_str("the registers"),
            Self::StaticData => f.write_str("static tracepoint data"),
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
    /// Its severity. An error is damage or a contradiction; a warning is something that a reader should know.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Line(_)
            | Self::NoRegisterBlockSize
            | Self::StatusField(_)
            | Self::StatusRefused(_)
            | Self::Layout(_)
            | Self::FrameCount { .. }
            | Self::CutInDescription
            | Self::NoEndMarker
            | Self::LeanUnfinished(_)
            | Self::LeanLost(_)
            | Self::LeanBehind(_)
            | Self::Cut { .. }
            | Self::Trailing(_)
            | Self::Checksum { .. }
            | Self::Undefined(_)
            | Self::BlockSize(_)
            | Self::Expression { .. }
            | Self::NoResult(_)
            | Self::BufferFree { .. } => Severity::Error,
            _ => Severity::Warning,
        }
    }
}
