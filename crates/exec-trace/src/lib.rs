//! Execution traces: what a processor did, instruction by instruction.
#![deny(missing_docs)]

mod compact;
pub mod debugger;
mod index;
pub mod machine;
pub mod record;
pub mod recording;
pub mod text;
mod value;

pub use value::{MAX_DIGITS, Notation};
