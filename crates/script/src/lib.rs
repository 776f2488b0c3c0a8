#![doc = include_str!("../README.md")]
//!
//! # The language
//!
//! - `trace`, `tp`, `tracepoint`, `ftrace`, `strace [-m ID]`, each `LOCATION [if COND] [PICK]`; GDB's abbreviations.
//! - `span FUNCTION [if COND] [PICK]` and `return FUNCTION [if COND] [PICK]`, commands of our own: each call, from its entry to its return.
//! - `watch [-l] OBJECT [if COND] [PICK]`, a tracepoint on memory: each write to a variable with static storage, or to `*(TYPE *) ADDRESS`.
//! - A pick, our own too: `sample 1/N [by KEY, ...]` or `first N [by KEY, ...]`. Of hits that meet the condition, only those make frames.
//! - `actions [N]` … `end`, and `commands [N]` … `end`: `collect[/s[N]] LIST`, `teval LIST`, and one
//!   `while-stepping N` … `end` with `collect` and `teval` in it.
//! - `enable N` and `disable N` between `actions` and `end`: the hit enables or disables other tracepoints.
//! - `condition N COND`, `passcount N [WHICH]`, `enable`, `disable` (also `N.M`, one location), `delete`.
//! - `tvariable $NAME [= CONSTANT]`, `delete tvariable`. The builtin variables, which GDB saves with the others, are
//!   there already.
//! - `set trace-notes`, `trace-user`, `trace-stop-notes`, `trace-buffer-size`, `circular-trace-buffer`,
//!   `disconnected-tracing`, `default-collect`, and `breakpoint pending`.
//! - `source FILE`, comments, lines that end in `\`.
//!
//! Settings of GDB that change its output or its search for files (`set pagination off`, `set sysroot`) are accepted. Commands of a session
//! that set no tracepoint (`target`, `break`, `tstart`, `info`, …) are left out and listed in [`Script::ignored`]; a breakpoint takes its
//! number all the same. Everything else is an error that names the word, and similar words.
//!
//! # From names to addresses
//!
//! A [`Resolver`] looks the locations up in the modules of a program. It compiles conditions and actions at every address, because
//! one name may have several: an inlined function, a template, an overload. A location that is in no module yet is [`Pending`].
//! The resolver is called again when modules are loaded, and then returns only the new addresses.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod actions;
mod aggregate;
mod chain;
mod collected;
mod command;
mod counting;
mod edit;
mod error;
mod exits;
mod list;
mod model;
mod number;
mod numbers;
mod parse;
mod pick;
mod place;
mod resolve;
mod scan;
mod settings;
mod source;
mod span;
mod watch;

pub use aggregate::ScriptAggregate;
pub use collected::CollectedItems;
pub use error::{Problem, ScriptError};
pub use exits::{CallPoint, call_points, straight_before};
pub use model::{
    BufferSize, Ignored, ScriptAction, ScriptActionKind, ScriptTracepoint, ScriptTracepointKind,
    ScriptVariable, Settings,
};
pub use parse::{BUILTIN_VARIABLES, Script};
pub use place::Located;
pub use resolve::{Excessive, MOST_PLACES, Pending, Placed, Resolution, ResolveWarning, Resolver};
pub use source::as_written;
pub use span::{conjuncts, in_nanoseconds};
