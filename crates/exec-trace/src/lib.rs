#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! **Text in, one file beside it.** [`text`] reads a trace once, in pieces on all processors, and reports each record without
//! an allocation. The index holds all records, so it can replace the text: [`recording`] answers from it, and writes the text back
//! byte for byte.
//!
//! **What is not known stays unavailable.** A register that was not written yet is not zero. Neither is a byte that no instruction accessed, nor a digit
//! that the trace shows as `-` or `x`. A contradiction is reported, not repaired.
//!
//! **A line that cannot be read is kept.** It is counted and reported with its number, and with what was expected at which token. The
//! rest goes on.
//!
//! **Machines are tables.** [`tracewire_arch`] knows the registers of GDB's target descriptions, the names that traces have
//! for them, which machine a trace is of, and which codes are branches. [`debugger`] makes GDB's registers
//! from those of the trace.
//!
//! The file format is documented in `docs/formats/execution-index.md` of the repository.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod compact;
mod data_order;
pub mod debugger;
pub mod etrace;
mod guess;
mod index;
pub mod record;
pub mod recording;
pub mod text;
mod value;

pub use data_order::{DataOrderEvidence, DataOrderObserver};
pub use guess::{Settled, guess, settle};
pub use value::{MAX_DIGITS, Notation};
