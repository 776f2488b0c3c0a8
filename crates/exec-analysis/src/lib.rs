#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! **One pass, and little kept.** Each analysis goes once over the instructions of a
//! [`Recording`](tracewire_exec_trace::recording::Recording) and keeps what it counts, not what it saw: functions,
//! addresses, locations. Those that need no order run on all processors.
//!
//! **Codes, not text.** The instruction's code says what is a call, a return or a delay slot
//! ([`tracewire_arch::Flow`]), because every tool writes disassembly in its own way. A trace without disassembly has
//! a call tree too.
//!
//! **Doubt is settled by what comes later.** An interrupt, a line that is reported late, or a register that is written only
//! when it changes looks like a fault or a difference at first. [`check`] and [`diff`] wait until the trace settles
//! it.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod calls;
pub mod check;
pub mod coverage;
pub mod diff;
pub mod follow;
pub mod functions;
pub mod state;
pub mod view;
