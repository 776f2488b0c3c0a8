#![doc = include_str!("../README.md")]
//!
//! # What is shown
//!
//! Three things are shown: the file itself ([`Info`]), a frame with every value that its tracepoint collected ([`FrameView`], made by a
//! [`Viewer`]), and the frames that match a search ([`Criteria`]). Programs get plain structures of names, numbers and strings. Scripts get
//! the same as JSON, one object a line, with addresses and bytes as hexadecimal strings ([`JsonWriter`]). People get it through
//! [`table`], aligned, and coloured on a terminal.
//!
//! # Example
//!
//! ```
//! use tracewire_tracefile::TraceFile;
//! use tracewire_views::{Criteria, Info, Program, Viewer, table};
//!
//! # let path = tracewire_test_support::sample("sample.tf");
//! # let elf = tracewire_test_support::sample("sample");
//! let file = TraceFile::open(path)?;
//! print!("{}", table::info(&Info::of(&file), "sample.tf"));
//!
//! // A file that Tracewire recorded names its program; for this file the caller names it.
//! let program = Program::of(&file, &[elf.into()])?;
//! let viewer = Viewer::new(&file, &program);
//! let criteria = Criteria { condition: Some("j->id == 3 && depth == 2".into()), ..Criteria::default() };
//! for frame in criteria.find(&viewer, Default::default()) {
//!     let view = viewer.view(frame?);
//!     assert_eq!((view.frame, view.function.as_deref(), view.line), (10, Some("handle"), Some(11)));
//!     let names: Vec<_> = view.values.iter().map(|value| value.expression.as_str()).collect();
//!     assert_eq!(names, ["j", "depth", "score", "total", "*j", "j->name", "$hits"]);
//!     assert_eq!(view.values[5].value, "0x55555555601d \"gamma\"");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where values come from
//!
//! A trace frame holds bytes; their types are in the program. [`Program`] finds it by the file's `module` lines: where each file was loaded,
//! when, and its build id. So a program that was built again is not taken for the traced one. For a file without such lines the user names the program.
//! Its place in memory follows from the tracepoints: their locations in the file, compared with their addresses.
//!
//! Every expression that the frame's tracepoint collected is evaluated on the frame alone. What was not collected, could
//! not be read or was optimized out is reported as such; nothing is invented.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod aggregate;
mod aggregate_words;
mod architecture;
mod by_time;
mod collected;
mod condition;
mod find;
mod frame;
mod frame_place;
mod gdb;
mod hexadecimal;
mod info;
mod json;
mod markers;
mod old_value;
mod paused;
mod place_cache;
mod program;
mod register;
mod row;
mod run_part;
mod skipped;
mod span;
mod stack;
mod state;
pub mod table;
mod truth;
mod typed;
mod unwinders;
pub mod words;

pub use aggregate::{AggregateRow, AggregateView};
pub use aggregate_words::AggregateHistogram;
pub use architecture::{OtherMachine, architecture_of, check_architecture, settle_architecture};
pub use by_time::by_time;
pub use condition::Condition;
pub use find::{Criteria, FindError, LineCriterion, Matcher, Matches};
pub use frame::{Bytes, FrameView, Map, MemoryView, ValueView, Viewer};
pub use gdb::{TakenForAnother, commands as gdb_commands, taken_for_another};
pub use hexadecimal::Hexadecimal;
pub use info::{
    Info, ModuleInfo, ProblemInfo, SourceInfo, StatusInfo, TracepointInfo, VariableInfo,
};
pub use json::JsonWriter;
pub use markers::{ElfInfo, MarkerInfo};
pub use paused::{PausedTracepoint, paused_tracepoints};
pub use program::{Program, ProgramError, ProgramFiles, ReadFiles};
pub use row::FrameRow;
pub use run_part::RunPart;
pub use skipped::{SkippedHits, skipped_hits};
pub use stack::{Stack, StackEntry, folded};
pub use typed::{SharedValue, TypedRow, TypedValue, ValueShape};
