//! What an execution trace tells: its calls, where its instructions go, what code it covers, how it differs from
//! another, what is wrong with it, and what it looks like in other forms.
//!
//! ```
//! use tracewire_exec_analysis::calls::CallTree;
//! use tracewire_exec_trace::machine::Machine;
//! use tracewire_exec_trace::recording::{OpenOptions, Recording};
//! use tracewire_arch::Architecture;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("call.trace");
//! std::fs::write(
//!     &path,
//!     "1 clk 0 IT (1) 80001000 0c000408 A svc : jal 0x80001020\n\
//!      2 clk 0 IT (2) 80001004 00000000 A svc : nop\n\
//!      3 clk 0 IT (3) 80001020 03e00008 A svc : jr ra\n\
//!      4 clk 0 IT (4) 80001024 00000000 A svc : nop\n\
//!      5 clk 0 IT (5) 80001008 00000000 A svc : nop\n",
//! )?;
//! let recording = Recording::open(&path, &OpenOptions::default())?;
//! let machine = Machine::of(Architecture::Mips);
//! let tree = CallTree::of(&recording, machine, None, 0..u64::MAX)?;
//! let mut folded = Vec::new();
//! tree.write_folded(&mut folded)?;
//! assert_eq!(
//!     String::from_utf8(folded)?,
//!     "0x80001000 3\n0x80001000;0x80001020 2\n"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # The idea
//!
//! **A pass, and little kept.** Each analysis goes once over the instructions of a
//! [`Recording`](tracewire_exec_trace::recording::Recording) and keeps what it counts, not what it saw: functions,
//! addresses, locations. Those that need no order run on all processors.
//!
//! **Codes, not words.** What is a call, a return or a delay slot is told by the machine's codes
//! ([`tracewire_exec_trace::machine::Flow`]), since every tool writes disassembly in its own manner; a trace without a
//! word of text has a call tree too.
//!
//! **Doubt is settled by what comes later.** An interrupt, a line that is told late, a register that is written only
//! when it changes: each looks like a fault or a difference at first. [`check`] and [`diff`] hold their judgement
//! until the trace tells.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod calls;
pub mod check;
pub mod convert;
pub mod coverage;
pub mod diff;
pub mod follow;
pub mod functions;
pub mod state;
pub mod view;
