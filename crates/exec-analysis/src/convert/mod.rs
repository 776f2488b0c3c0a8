//! Execution traces in other forms: the text forms, JSON lines, wave forms, time lines, GDB's trace file.

pub mod chrome;
pub mod lines;
pub mod trace_file;
pub mod vcd;

use std::fmt;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::str::FromStr;

use tracewire_exec_trace::recording::{Executed, ReadError, Recording};

pub use lines::{Lines, TextForm};

/// A form that execution traces are converted to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// The text, byte for byte as it was.
    Text,
    /// The compact form, which has an index in it.
    Compact,
    /// QEMU4V, MicroTESK or Tarmac text.
    Lines(TextForm),
    /// A JSON object a line for each instruction.
    JsonLines,
    /// Value change dump (IEEE 1364), for wave form viewers such as GTKWave.
    Vcd,
    /// The JSON trace event format of Chrome and Perfetto: calls on a time line.
    Chrome,
    /// GDB's trace file, a frame for each instruction.
    TraceFile,
}

/// What a name ends with; the first that fits counts.
const ENDINGS: [(&str, Format); 16] = [
    (".trace.json", Format::Chrome),
    (".chrome.json", Format::Chrome),
    (".perfetto.json", Format::Chrome),
    (".jsonl", Format::JsonLines),
    (".ndjson", Format::JsonLines),
    (".json", Format::JsonLines),
    (".vcd", Format::Vcd),
    (".tf", Format::TraceFile),
    (".tfile", Format::TraceFile),
    (".gdbtrace", Format::TraceFile),
    (".twx", Format::Compact),
    (".qemu4v", Format::Lines(TextForm::Qemu4v)),
    (".microtesk", Format::Lines(TextForm::Microtesk)),
    (".tarmac", Format::Lines(TextForm::Tarmac)),
    (".trace", Format::Text),
    (".txt", Format::Text),
];

impl Format {
    /// Every form, in the order in which help lists them.
    pub const ALL: [Self; 9] = [
        Self::Compact,
        Self::Text,
        Self::Lines(TextForm::Qemu4v),
        Self::Lines(TextForm::Microtesk),
        Self::Lines(TextForm::Tarmac),
        Self::JsonLines,
        Self::Vcd,
        Self::Chrome,
        Self::TraceFile,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Compact => "twx",
            Self::Lines(TextForm::Qemu4v) => "qemu4v",
            Self::Lines(TextForm::Microtesk) => "microtesk",
            Self::Lines(TextForm::Tarmac) => "tarmac",
            Self::JsonLines => "jsonl",
            Self::Vcd => "vcd",
            Self::Chrome => "chrome",
            Self::TraceFile => "tf",
        }
    }

    /// The form that a name asks for, upper or lower case.
    #[must_use]
    pub fn from_name(name: &Path) -> Option<Self> {
        let name = name.as_os_str().to_string_lossy().to_ascii_lowercase();
        ENDINGS
            .iter()
            .find(|(ending, _)| name.ends_with(ending))
            .map(|(_, format)| *format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
            format!("expected one of {}", names.join(" "))
        })
    }
}

/// Why a trace could not be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What was made cannot be written.
    #[error("cannot write the result")]
    Write(#[from] io::Error),
    /// A trace file cannot be made.
    #[error(transparent)]
    TraceFile(#[from] tracewire_tracefile::WriteError),
    /// A line of a trace file cannot be made.
    #[error(transparent)]
    Line(#[from] tracewire_tracefile::LineError),
    /// A frame of a trace file cannot be made.
    #[error("instruction {instruction}")]
    Frame {
        /// Which.
        instruction: u64,
        /// Why.
        source: tracewire_tracefile::EncodeError,
    },
    /// A register block is needed, and the machine is not known.
    #[error("the trace does not tell which machine it is of")]
    NoMachine,
}

/// Goes over instructions in order, until one cannot be written.
fn each(
    recording: &Recording,
    range: Range<u64>,
    mut visit: impl FnMut(&Executed) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let mut result = Ok(());
    recording.instructions(range, &mut |executed| match visit(&executed) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            result = Err(error);
            ControlFlow::Break(())
        }
    })?;
    result
}
