//! What trace files look like, to people and to scripts.
#![deny(missing_docs)]

mod architecture;
mod find;
mod frame;
mod gdb;
mod info;
mod program;
mod state;
pub mod table;
pub mod words;

pub use find::{Criteria, FindError, LineCriterion};
pub use frame::{FrameView, Map, MemoryView, Truth, ValueView, Viewer};
pub use gdb::commands as gdb_commands;
pub use info::{
    Info, ModuleInfo, ProblemInfo, SourceInfo, StatusInfo, TracepointInfo, VariableInfo,
};
pub use program::{Program, ProgramError, module_path};
pub use state::FrameState;
