//! What trace files look like, to people and to scripts.
//!
//! Three things are shown: the file by itself ([`Info`]), a frame with every value its tracepoint collected
//! ([`FrameView`], made by a [`Viewer`]), and the frames that fit a search ([`Criteria`]). Each is a plain structure of
//! names, numbers and strings first. Scripts get it as JSON, one object a line, with addresses and bytes as hexadecimal
//! strings; people get it through [`table`], aligned and, on a terminal, coloured. Both say the same, because both are
//! made of the same structure.
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
//! // A file that Tracewire recorded names its program itself; of this one it must be said.
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
//! A trace frame holds bytes; what they mean stands in the program. [`Program`] finds it by the file's own `module`
//! lines: where each file was loaded, when, and its build id, so that a program that was built anew since is not taken
//! for the one that was traced. A file that does not say gets its program from the user, and its place in memory from
//! the tracepoints: what their locations are in the file against where they were set.
//!
//! Every expression that the frame's tracepoint collected is evaluated on the frame alone. What was not collected, could
//! not be read or was optimized out is said to be so; nothing is made up.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod architecture;
mod collected;
mod find;
mod frame;
mod gdb;
mod here;
mod hexadecimal;
mod info;
mod markers;
mod program;
mod register;
mod row;
mod state;
pub mod table;
mod truth;
pub mod words;

pub use architecture::{OtherMachine, architecture_of, check_architecture, settle_architecture};
pub use find::{Criteria, FindError, LineCriterion, Matches};
pub use frame::{Bytes, FrameView, Map, MemoryView, Text, ValueView, Viewer};
pub use gdb::{TakenForAnother, commands as gdb_commands, taken_for_another};
pub use hexadecimal::Hexadecimal;
pub use info::{
    Info, ModuleInfo, ProblemInfo, SourceInfo, StatusInfo, TracepointInfo, VariableInfo,
};
pub use markers::{ElfInfo, MarkerInfo};
pub use program::{Program, ProgramError};
pub use row::FrameRow;
