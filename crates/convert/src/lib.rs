#![doc = include_str!("../README.md")]
//!
//! | module | output |
//! |---|---|
//! | [`json`] | JSON lines with everything that is in the file, and the file back from them, byte for byte |
//! | [`csv`] | a table of chosen columns: registers, variables, memory, expressions |
//! | [`ctf`] | a Common Trace Format 1.8 trace, for babeltrace2 and Trace Compass |
//! | [`chrome`] | a JSON time line for Chrome and Perfetto: calls of an execution trace (`tracewire-export` writes the hits of a trace file) |
//! | [`execution`] | an execution trace as text, JSON lines, a value change dump, a trace file |
//! | [`part`] | a trace file of some of the frames: a range, or a part of a split file |
//! | [`merge`] | one trace file of several, in the order of time |
//!
//! [`Source`] finds the format of a name, [`Format`] that of content. JSON lines keep every byte, damaged ones too. Parts and merged
//! files keep frames byte for byte, except for numbers that had to change. CTF keeps every value; Chrome and CSV keep what they can show.
//!
//! A truncated frame is left out ([`TraceFile::ending`] reports it). The byte order is the one that the reader chose.
//!
//! [`TraceFile::ending`]: tracewire_tracefile::TraceFile::ending
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod chrome;
pub mod csv;
pub mod ctf;
mod error;
pub mod execution;
mod format;
mod hex;
pub mod json;
pub mod merge;
pub mod part;
mod printable;
mod registers;
mod time;

pub use error::ConvertError;
pub use format::{Format, Source, UnknownFormat};
