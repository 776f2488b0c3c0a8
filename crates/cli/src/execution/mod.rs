//! Execution traces on the command line.

pub mod analyze;
pub mod check;
pub mod collect;
pub mod convert;
pub mod diff;
pub mod look;
pub mod memory;
mod open;
mod place;

pub use open::{Kind, Source, elf_architecture, kind, nothing_in};
pub use place::{MemoryPlace, parse_place};
