//! Live x86-64 Linux processes as a target for tracepoints.
#![deny(missing_docs)]

mod affinity;
mod attach;
mod breakpoint;
mod clock;
mod error;
mod event;
mod halt;
mod inject;
mod interrupt;
mod leave;
mod loader;
mod maps;
mod memory;
mod modules;
mod process;
mod ptrace;
mod registers;
mod relocate;
mod run;
mod signal;
mod slots;
mod spawn;
mod standing;
mod step;
mod thread;
mod xstate;

pub use error::Error;
pub use event::Event;
pub use interrupt::Interrupter;
pub use modules::{Module, ModuleKind};
pub use process::{Process, Settings};
