//! GDB's tracepoint scripts: parsed, and resolved with symbols into tracepoint definitions.
//!
//! A script is the language that people who use tracepoints already write: GDB's own commands. It is obeyed line by
//! line, as GDB obeys it, so that numbers, `$bpnum` and the last word on a setting come out as they would there. What
//! `save tracepoints` writes is accepted unchanged.
//!
//! ```
//! use tracewire_script::Script;
//!
//! let mut script = Script::new();
//! script.read_text("example", "
//!     tvariable $hits
//!     trace handle if depth < 3
//!     actions
//!       collect $args, *j
//!       teval $hits = $hits + 1
//!     end
//!     passcount 100
//! ")?;
//! script.read_specification("sample.c:14 : /s j->name")?;
//!
//! assert_eq!(script.tracepoints[0].pass_count, 100);
//! assert_eq!(script.tracepoints[1].location.text(), "sample.c:14");
//! assert_eq!(script.tracepoints[1].command_lines(), ["collect/s j->name"]);
//!
//! let error = script.read_text("example", "trace main\nactions\n  colect $regs\nend").unwrap_err();
//! assert_eq!(error.to_string(), "\
//! example:3:3: `colect` is no tracepoint action; did you mean `collect`?
//!  3 |   colect $regs
//!    |   ^^^^^^");
//! # Ok::<(), tracewire_script::ScriptError>(())
//! ```
//!
//! # The language
//!
//! - `trace`, `tp`, `tracepoint`, `ftrace`, `strace [-m ID]`, each `LOCATION [if COND]`; GDB's abbreviations.
//! - `actions [N]` … `end`, and `commands [N]` … `end`: `collect[/s[N]] LIST`, `teval LIST`, and one
//!   `while-stepping N` … `end` with `collect` and `teval` in it.
//! - `condition N COND`, `passcount N [WHICH]`, `enable`, `disable` (also `N.M`, one location), `delete`.
//! - `tvariable $NAME [= CONSTANT]`, `delete tvariable`. The builtin variables, which GDB saves with the others, are
//!   there already.
//! - `set trace-notes`, `trace-user`, `trace-stop-notes`, `trace-buffer-size`, `circular-trace-buffer`,
//!   `disconnected-tracing`, `default-collect`, and `breakpoint pending`.
//! - `source FILE`, comments, lines that end in `\`.
//!
//! Settings of GDB that change how it looks or finds files (`set pagination off`, `set sysroot`) are let pass.
//! Commands of a session that have no part in setting tracepoints (`target`, `break`, `tstart`, `info`, …) are left
//! out and listed in [`Script::ignored`]; a breakpoint takes its number all the same. Everything else is an error that
//! names the word, and names like it.
//!
//! # From names to addresses
//!
//! A [`Resolver`] looks the locations up in the modules of a program, and compiles conditions and actions at every
//! address, for a name may be at several (an inlined function, a template, an overload), and its variables live
//! elsewhere at each. What is not there yet is [`Pending`]; the resolver is asked again when modules have come, and
//! then gives only what is new.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod actions;
mod collected;
mod command;
mod error;
mod later;
mod list;
mod model;
mod number;
mod numbers;
mod parse;
mod place;
mod resolve;
mod scan;
mod settings;
mod source;

pub use collected::CollectedItems;
pub use error::{Problem, ScriptError};
pub use model::{
    BufferSize, Ignored, ScriptAction, ScriptActionKind, ScriptTracepoint, ScriptTracepointKind,
    ScriptVariable, Settings,
};
pub use parse::{BUILTIN_VARIABLES, Script};
pub use place::Located;
pub use resolve::{Pending, Placed, Resolution, ResolveWarning, Resolver};
pub use source::as_written;
