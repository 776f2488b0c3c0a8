#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! **One pass, and little kept.** Each analysis reads the instructions of a
//! [`Recording`](tracewire_exec_trace::recording::Recording) once and keeps only its counts: functions, addresses, locations. Analyses
//! that do not depend on the order of instructions run on all processors.
//!
//! **Codes, not text.** The instruction's code decides what is a call, a return or a delay slot ([`tracewire_arch::Flow`]), because
//! each tool writes disassembly differently. A trace without disassembly has a call tree too.
//!
//! **Later lines decide.** An interrupt, a line that is reported late, or a register that is written only when it changes looks
//! like a fault or a difference at first. [`check`] and [`diff`] wait until the trace decides it.
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
