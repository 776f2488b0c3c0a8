//! Execution traces: what a processor did, instruction by instruction.
#![deny(missing_docs)]

pub mod machine;
pub mod record;
pub mod text;
mod value;

pub use value::{MAX_DIGITS, Notation};
