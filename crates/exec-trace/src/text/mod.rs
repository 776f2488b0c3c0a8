//! The readers of the text forms, and the writer of QEMU4V.
//!
//! [`read`] goes through a piece of text and gives a [`Sink`] of each record. Text of any size is cut into
//! [`Piece`]s that are read independently, in parallel, and give the same records as one reading from start to
//! end ([`Format::pieces`]).
//!
//! ```
//! use tracewire_exec_trace::record::{Instruction, Line, Owner, RegisterWrite};
//! use tracewire_exec_trace::text::{Format, Piece, Sink, read};
//!
//! let text = b"1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1\n1 clk R r8 00010000\n";
//!
//! #[derive(Default)]
//! struct Count(u64, u64);
//!
//! impl Sink for Count {
//!     fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
//!         assert_eq!(instruction.disassembly, b"lui t0,0x1");
//!         self.0 += 1;
//!     }
//!     fn register(&mut self, _: Line, owner: Owner, write: &RegisterWrite<'_>) {
//!         assert_eq!((owner, write.value.known()), (Owner::Latest, Some(0x10000)));
//!         self.1 += 1;
//!     }
//! }
//!
//! let mut count = Count::default();
//! let format = Format::detect(text).expect("QEMU4V");
//! read(format, text, &Piece::whole(text), &mut count);
//! assert_eq!((count.0, count.1), (1, 1));
//! ```
//!
//! # To which instruction a line belongs
//!
//! Lines of memory and registers belong to an instruction:
//! 1. the latest instruction before the line, if it has the line's time;
//! 2. else the latest of the [`WINDOW`] instructions before the line that has the line's time;
//! 3. else the next instruction, if it has the line's time and is within [`AHEAD`] lines;
//! 4. else the latest instruction before the line; before every instruction, the state at the start.
//!
//! Where a line names its cpu, as Tarmac's do, only instructions of that cpu are meant, unless the window has none.
//! A line without a time belongs to the latest instruction before it (of its cpu).

pub(crate) mod control_flow;
mod cursor;
mod detect;
mod dialect;
mod error;
pub mod execlog;
pub mod gem5;
mod lines;
pub mod microtesk;
pub mod nios2;
mod owner;
pub mod perf;
mod pieces;
pub mod qemu4v;
pub mod qemu_log;
mod refusal;
mod riscv;
pub mod rvfi;
mod source;
pub mod spike;
mod stamp;
pub mod tarmac;
mod transcriber;

use std::fmt;

pub(crate) use dialect::{Dialect, LineState};
pub use error::{LineError, UnparsedLine};
use lines::{Lines, is_blank_line};
pub use owner::{AHEAD, WINDOW};
pub use pieces::Piece;
pub use refusal::{Refusal, refusal};
pub(crate) use source::of_big_endian;
pub use source::{Compression, OpenError, TraceText, beginning, transcribed};

use crate::record::{Access, Event, Instruction, Line, Owner, Record, RegisterWrite};

/// A form of text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Format {
    /// QEMU4V.
    Qemu4v,
    /// MicroTESK's tracer, which writes QEMU4V's lines in its own manner.
    Microtesk,
    /// Arm's Tarmac, of Fast Models, gem5 and register transfer simulators.
    Tarmac,
    /// Nios II simulation, version 2.
    Nios2V2,
    /// Nios II simulation, version 3.
    Nios2V3,
    /// QEMU's own log, transcribed.
    QemuLog,
    /// QEMU's plugin `execlog`.
    Execlog,
    /// Spike's `-l` and `--log-commits`.
    Spike,
    /// gem5's `Exec`.
    Gem5,
    /// The tracers of Ibex and the CV32E40 family.
    Rvfi,
    /// `perf script`: instructions.
    PerfInstructions,
    /// `perf script`: branches.
    PerfBranches,
    /// `perf script`: samples.
    PerfSamples,
    /// Packets of a trace encoder, transcribed.
    ControlFlow,
}

/// Does something with the reader of a format.
macro_rules! with_dialect {
    ($format:expr, $dialect:ident => $do:expr) => {
        match $format {
            Format::Qemu4v | Format::Microtesk => {
                let $dialect = &qemu4v::Qemu4v::STRICT;
                $do
            }
            Format::Tarmac => {
                let $dialect = &tarmac::Tarmac;
                $do
            }
            Format::Nios2V2 => {
                let $dialect = &nios2::Nios2::V2;
                $do
            }
            Format::Nios2V3 => {
                let $dialect = &nios2::Nios2::V3;
                $do
            }
            Format::QemuLog => {
                let $dialect = &qemu_log::QemuLog;
                $do
            }
            Format::Execlog => {
                let $dialect = &execlog::Execlog;
                $do
            }
            Format::Spike => {
                let $dialect = &spike::Spike;
                $do
            }
            Format::Gem5 => {
                let $dialect = &gem5::Gem5;
                $do
            }
            Format::Rvfi => {
                let $dialect = &rvfi::Rvfi;
                $do
            }
            Format::PerfInstructions => {
                let $dialect = &perf::Perf::new(perf::Form::Instructions);
                $do
            }
            Format::PerfBranches => {
                let $dialect = &perf::Perf::new(perf::Form::Branches);
                $do
            }
            Format::ControlFlow => {
                let $dialect = &control_flow::ControlFlow;
                $do
            }
            Format::PerfSamples => {
                let $dialect = &perf::Perf::new(perf::Form::Samples);
                $do
            }
        }
    };
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 14] = [
        Self::Qemu4v,
        Self::Microtesk,
        Self::Tarmac,
        Self::Nios2V2,
        Self::Nios2V3,
        Self::QemuLog,
        Self::Execlog,
        Self::Spike,
        Self::Gem5,
        Self::Rvfi,
        Self::PerfInstructions,
        Self::PerfBranches,
        Self::PerfSamples,
        Self::ControlFlow,
    ];

    /// The name that `info` shows, such as `qemu4v`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qemu4v => "qemu4v",
            Self::Microtesk => "microtesk",
            Self::Tarmac => "tarmac",
            Self::Nios2V2 => "nios2-2",
            Self::Nios2V3 => "nios2-3",
            Self::QemuLog => "qemu-log",
            Self::Execlog => "execlog",
            Self::Spike => "spike",
            Self::Gem5 => "gem5",
            Self::Rvfi => "rvfi",
            Self::PerfInstructions => "perf-instructions",
            Self::PerfBranches => "perf-branches",
            Self::PerfSamples => "perf-samples",
            Self::ControlFlow => "control-flow",
        }
    }

    /// What the format is called, as people know it.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Qemu4v => "QEMU4V",
            Self::Microtesk => "MicroTESK",
            Self::Tarmac => "Tarmac",
            Self::Nios2V2 | Self::Nios2V3 => "Nios II simulation",
            Self::QemuLog => "QEMU's log",
            Self::Execlog => "QEMU's execlog plugin",
            Self::Spike => "Spike's log",
            Self::Gem5 => "gem5's Exec",
            Self::Rvfi => "the tracer of Ibex or CV32E40",
            Self::PerfInstructions | Self::PerfBranches | Self::PerfSamples => "perf script",
            Self::ControlFlow => "a transcript of E-Trace",
        }
    }

    /// The titles of all, in a sentence.
    #[must_use]
    pub fn titles() -> String {
        let mut titles: Vec<_> = Self::ALL.iter().map(|format| format.title()).collect();
        titles.dedup();
        let last = titles.pop().unwrap_or_default();
        format!("{} or {last}", titles.join(", "))
    }

    /// Whether a trace of this format can have the data and the sizes of its memory accesses.
    #[must_use]
    pub const fn reports_data(self) -> bool {
        !matches!(
            self,
            Self::QemuLog | Self::Execlog | Self::Gem5 | Self::ControlFlow
        ) && !self.is_perf()
    }

    /// Whether it is one of the three of `perf script`, whose cpus are threads.
    #[must_use]
    pub const fn is_perf(self) -> bool {
        matches!(
            self,
            Self::PerfInstructions | Self::PerfBranches | Self::PerfSamples
        )
    }

    /// The format of a text, known from its first lines; none where no line is of any format.
    #[must_use]
    pub fn detect(text: &[u8]) -> Option<Self> {
        detect::detect(text)
    }

    /// Cuts a text into pieces of about `size` bytes, which can be read in any order. Each but the first begins
    /// with an instruction.
    #[must_use]
    pub fn pieces(self, text: &[u8], size: usize) -> Vec<Piece> {
        with_dialect!(self, dialect => pieces::cut(dialect, text, size))
    }

    /// The piece of a text from `start` to `end`, both at the starts of lines or the end of the text. What the
    /// lines before it say of times and instructions is found by going back, 1 MiB at most.
    #[must_use]
    pub fn piece_at(self, text: &[u8], start: usize, end: usize) -> Piece {
        with_dialect!(self, dialect => pieces::at(dialect, text, start, end))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is reported of each record. One line may have several records, such as a Nios II line: an instruction first,
/// then what it did.
pub trait Sink {
    /// An instruction.
    fn instruction(&mut self, line: Line, instruction: &Instruction<'_>) {
        let _ = (line, instruction);
    }

    /// A memory access, and to which instruction it belongs.
    fn access(&mut self, line: Line, owner: Owner, access: &Access<'_>) {
        let _ = (line, owner, access);
    }

    /// A register write, and to which instruction it belongs.
    fn register(&mut self, line: Line, owner: Owner, write: &RegisterWrite<'_>) {
        let _ = (line, owner, write);
    }

    /// Something else, after the latest instruction.
    fn event(&mut self, line: Line, event: &Event<'_>) {
        let _ = (line, event);
    }

    /// A line that could not be read: its text without the line's end, and why.
    fn unparsed(&mut self, line: Line, text: &[u8], error: LineError) {
        let _ = (line, text, error);
    }
}

/// Reads a piece of a text and gives the sink of every record, in the order of the lines. Gives the number of
/// lines in the piece; lines are numbered from the piece's first ([`Piece::first_line`]).
///
/// Blank lines are passed over.
pub fn read(format: Format, text: &[u8], piece: &Piece, sink: &mut impl Sink) -> u64 {
    with_dialect!(format, dialect => read_piece(dialect, text, piece, sink))
}

/// What is wrong with a line by itself, if anything.
#[must_use]
pub fn first_error(format: Format, line: &[u8]) -> Option<LineError> {
    struct First(Option<LineError>);
    impl Sink for First {
        fn unparsed(&mut self, _: Line, _: &[u8], error: LineError) {
            self.0.get_or_insert(error);
        }
    }
    let mut first = First(None);
    read(format, line, &Piece::whole(line), &mut first);
    first.0
}

fn read_piece<D: Dialect>(dialect: &D, text: &[u8], piece: &Piece, sink: &mut impl Sink) -> u64 {
    let mut state = piece.state.line;
    let mut owners = piece.state.owners.clone();
    let mut count = 0;
    for (start, content) in Lines::new(text, piece.start, piece.end) {
        let line = Line {
            number: piece.first_line + count,
            start: start as u64,
            end: (start + content.len()) as u64,
        };
        count += 1;
        state.explicit = false;
        let read = dialect.line(&mut state, content, &mut |state, record| match record {
            Record::Instruction(instruction) => {
                owners.instruction(instruction.time, instruction.cpu);
                sink.instruction(line, instruction);
            }
            Record::Access(access) => {
                let owner = owners.of(state, access.cpu, || {
                    owner::next_instruction(dialect, text, start, *state)
                });
                sink.access(line, owner, access);
            }
            Record::Register(write) => {
                let owner = owners.of(state, write.cpu, || {
                    owner::next_instruction(dialect, text, start, *state)
                });
                sink.register(line, owner, write);
            }
            Record::Event(event) => sink.event(line, event),
        });
        if let Err(error) = read
            && !is_blank_line(content)
        {
            sink.unparsed(line, content, error);
        }
    }
    count
}
