//! Execution traces: what a processor did, instruction by instruction.
#![deny(missing_docs)]

pub mod machine;
mod compact;
mod index;
pub mod record;
pub mod recording;
pub mod text;
mod value;

pub use value::{MAX_DIGITS, Notation};
