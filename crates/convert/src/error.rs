//! Errors of conversions.

use std::io;

use tracewire_exec_trace::recording::ReadError;
use tracewire_model::{TracepointNumber, VariableNumber};
use tracewire_tracefile::{EncodeError, LineError, WriteError};

/// Why a trace could not be converted, merged, split or cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The sink refused what was written.
    #[error("cannot write the result")]
    Write(#[from] io::Error),
    /// The source could not be read.
    #[error("cannot read the source")]
    Read(#[source] io::Error),
    /// The recorded execution could not be read.
    #[error(transparent)]
    Recording(#[from] ReadError),
    /// A trace file could not be written.
    #[error(transparent)]
    TraceFile(#[from] WriteError),
    /// An instruction that does not fit into a frame.
    #[error("instruction {instruction}")]
    Instruction {
        /// Which.
        instruction: u64,
        /// Why.
        source: EncodeError,
    },
    /// A JSON line in another form.
    #[error("line {line}: {problem}")]
    Json {
        /// Which line, from 1.
        line: u64,
        /// The error, and what was expected.
        problem: String,
    },
    /// A frame that a JSON line cannot hold.
    #[error("frame {frame} has {size} bytes: at most {limit} go into a JSON line")]
    FrameTooLarge {
        /// Which frame.
        frame: u64,
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Something that does not fit into a line that GDB reads.
    #[error(transparent)]
    Line(#[from] LineError),
    /// Frames of more kinds than an event stream should declare.
    #[error(
        "the frames are too different to be declared as events: at most {shapes} different shapes, of at most {fields} \
         register blocks and variables each and {all_fields} together, are"
    )]
    TooManyShapes {
        /// How many shapes there may be.
        shapes: usize,
        /// How many fields one may have.
        fields: usize,
        /// How many fields all may have together.
        all_fields: usize,
    },
    /// A column that is none.
    #[error("`{text}` is no column: {problem}")]
    Column {
        /// The requested number of parts.
        text: String,
        /// The expected form.
        problem: &'static str,
    },
    /// More parts than the limit.
    #[error("the file would be split into more than {limit} parts")]
    TooManyParts {
        /// The limit.
        limit: usize,
    },
    /// Parts of no frames.
    #[error("a part must have at least one frame")]
    EmptyParts,
    /// No files to merge.
    #[error("there is nothing to merge")]
    NothingToMerge,
    /// Files of different machines.
    #[error("file {file} cannot be merged with the first one: {difference}")]
    DifferentMachine {
        /// Which of the files, from 1.
        file: usize,
        /// How it differs.
        difference: String,
    },
    /// There is no free number for a tracepoint.
    #[error("tracepoint {0} needs another number, and none up to 32767 is free")]
    NoTracepointNumber(TracepointNumber),
    /// There is no free number for a variable.
    #[error("variable {0} needs another number, and none up to 65535 is free")]
    NoVariableNumber(VariableNumber),
}
