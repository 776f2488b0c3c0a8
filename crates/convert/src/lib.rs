//! GDB trace files in other formats, merged, split and cut.
#![deny(missing_docs)]

pub mod chrome;
pub mod csv;
pub mod ctf;
mod error;
mod format;
mod hex;
pub mod json;
pub mod merge;
pub mod part;
mod time;

pub use error::ConvertError;
pub use format::{Format, UnknownFormat};
