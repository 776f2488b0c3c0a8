//! Execution traces on the command line.

pub mod check;
pub mod collect;
pub mod look;
mod open;

pub use open::{Kind, Source, kind};
