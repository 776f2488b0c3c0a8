//! GDB's tracepoint scripts.
#![deny(missing_docs)]

mod actions;
mod collected;
mod command;
mod error;
mod model;
mod number;
mod parse;
mod place;
mod resolve;
mod scan;
mod settings;

pub use collected::CollectedItems;
pub use error::{Problem, ScriptError};
pub use model::{
    BufferSize, Ignored, ScriptAction, ScriptActionKind, ScriptTracepoint, ScriptTracepointKind,
    ScriptVariable, Settings,
};
pub use parse::{BUILTIN_VARIABLES, Script};
pub use place::Located;
pub use resolve::{Pending, Placed, Resolution, ResolveWarning, Resolver};
