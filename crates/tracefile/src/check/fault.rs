//! What can be wrong with a trace file, and how bad it is.

use std::fmt;

use super::Severity;
use crate::checksum::Checksum;
use crate::description::{MAX_LINE, ProblemKind};
use crate::encode::MAX_TRACEPOINT_NUMBER;
use tracewire_arch::LayoutError;
use tracewire_model::{Address, TracepointNumber};

/// What can be wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A line that cannot be understood.
    #[error(transparent)]
    Line(ProblemKind),
    /// A line that GDB refuses the whole file for.
    #[error("a line of {0} bytes: GDB reads lines of at most {MAX_LINE}, and refuses the file")]
    LongLine(usize),
    /// No `R` line, or one that says 0.
    #[error("no `R` line tells the size of a register block: GDB refuses the file")]
    NoRegisterBlockSize,
    /// The `R` line is decimal.
    #[error("the size of a register block is decimal: GDB takes {decimal} for {hexadecimal}")]
    DecimalSize {
        /// What it is.
        decimal: u32,
        /// What GDB takes it for.
        hexadecimal: u32,
    },
    /// No `status` line.
    #[error("no `status` line tells how the run stood")]
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
    /// A line tells what served a tracepoint that no line defines.
    #[error("tells what served tracepoint {number} at {address}, which is not defined")]
    ServedUndefined {
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
    /// The status line tells another number of frames.
    #[error("the status line tells {told} frames; there are {found}")]
    FrameCount {
        /// What it tells.
        told: u64,
        /// How many there are.
        found: u64,
    },
    /// More frames are there than were made.
    #[error("the status line tells {frames} frames, of {created} made")]
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
    /// There is no end marker.
    #[error("no end marker after the last frame: GDB fails when it looks for one frame more")]
    NoEndMarker,
    /// The file is cut inside a frame.
    #[error("the file ends inside a frame: {present} bytes of {} are there",
        .expected.map_or("it".to_owned(), |expected| expected.to_string()))]
    Cut {
        /// How many bytes of the frame there are.
        present: u64,
        /// How many there should be, where that can be told.
        expected: Option<u64>,
    },
    /// Something stands behind the end marker.
    #[error("{0} bytes behind the end marker are not all zero: the marker may be damage")]
    Trailing(u64),
    /// Zeros stand behind the end marker: what a file system leaves of bytes that did not get to the disk, and what a
    /// recording that was killed has reserved.
    #[error(
        "{0} zero bytes behind the end marker, where GDB writes 2: frames may have stood there, or were to"
    )]
    Zeros(u64),
    /// The checksum is that of other bytes.
    #[error(
        "the file was written with `{told}` and has `{found}` now: something in it is damaged, or was edited (`repair` writes it anew)"
    )]
    Checksum {
        /// What the file tells.
        told: Checksum,
        /// What its bytes have.
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
    /// Memory collected twice, with different contents.
    #[error("memory at {0} was collected twice and differs")]
    Disagreement(Address),
    /// Something its actions ask for is not there.
    #[error("{0} should have been collected, and is not there")]
    NotCollected(Wanted),
    /// So many actions were held against frames that no more are.
    #[error(
        "holding all actions against all frames takes too long: from here on nobody has looked for what they should have collected"
    )]
    NotLookedFor,
    /// Time runs backwards.
    #[error("made {0} microseconds before the frame before it")]
    TimeBackwards(u64),
}

/// What an action asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A register block.
    Registers,
    /// A piece of memory.
    Memory(Address, u64),
    /// Data of a static tracepoint.
    StaticData,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registers => f.write_str("the registers"),
            Self::Memory(address, length) => write!(f, "memory of {length} bytes at {address}"),
            Self::StaticData => f.write_str("static tracepoint data"),
        }
    }
}

impl Fault {
    /// How bad it is.
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
            | Self::Cut { .. }
            | Self::Trailing(_)
            | Self::Checksum { .. }
            | Self::Undefined(_)
            | Self::BlockSize(_) => Severity::Error,
            _ => Severity::Warning,
        }
    }
}
