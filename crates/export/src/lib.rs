#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! ```
//! use tracewire_export::perfetto::{self, PerfettoOptions};
//! use tracewire_tracefile::TraceFile;
//! use tracewire_views::{Program, RunPart};
//!
//! let file = TraceFile::open(tracewire_test_support::sample("sample.tf"))?;
//! let program = Program::of(&file, &[tracewire_test_support::sample("sample")])?;
//! let part = RunPart::only("sample.tf".to_owned(), &file, &program);
//! let mut trace = Vec::new();
//! perfetto::write(&[part], &PerfettoOptions::default(), &mut trace)?;
//! // The first field of each trace is a packet.
//! assert_eq!(trace[0], 0x0a);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a format is written
//!
//! All formats use the same events: one for each line of `show --json`, in order of time. A span is one event, at its beginning.
//! Values are data with types (`Datum` of `tracewire-expr`); the [notes](#values) list what a format cannot represent.
//!
//! # Values
//!
//! | value | Perfetto | Chrome | OTLP |
//! |---|---|---|---|
//! | truth value, integer of 64 bits, number | of that type | of that type | of that type |
//! | larger integer | text | text | text, from 2 to the power 63 on |
//! | NaN, infinity | number | text | number |
//! | address | pointer | text, `0x…` | text, `0x…` |
//! | string that is not UTF-8 | text with U+FFFD, and its bytes under `bytes` | the same | bytes |
//! | structure, list | dictionary, array | object, list | key-value list, array |
//! | map | array of `key` and `value` | the same | the same |
//! | missing | the reason, as `show` has it | `null` | a value without any |
//!
//! `missing` has the reason of a missing value by its path, and `cut` has the paths of incomplete values.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod chrome;
mod error;
mod event;
pub mod firefox;
pub mod folded;
mod json;
mod lanes;
mod notes;
pub mod otlp;
pub mod perfetto;
mod run;
#[cfg(test)]
mod tests;
mod threads;
mod words;

pub use error::ExportError;
