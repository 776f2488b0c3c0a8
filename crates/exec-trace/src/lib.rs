//! Execution traces: what a processor did, instruction by instruction, read, indexed and looked at from any instant.
//!
//! Simulators write such traces as text, a line for each instruction, memory access and register write. This crate
//! reads QEMU4V, MicroTESK, Arm's Tarmac and the text of Nios II models, of any size, and answers what registers and
//! memory held at any instant, who wrote a location, and who was there.
//!
//! ```
//! use tracewire_exec_trace::record::{Address, CpuNumber, InstructionNumber};
//! use tracewire_exec_trace::recording::{OpenOptions, Recording, Search, What};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("two.trace");
//! std::fs::write(
//!     &path,
//!     "1 clk 0 IT (1) 80001000 3c088010 A svc : lui t0,0x8010\n\
//!      1 clk R r8 80100000\n\
//!      2 clk 0 IT (2) 80001004 ad080004 A svc : sw t0,4(t0)\n\
//!      2 clk MW4 80100004 80100000\n",
//! )?;
//! let recording = Recording::open(&path, &OpenOptions::default())?;
//! assert_eq!(recording.summary().instructions, 2);
//!
//! // The state is that before an instruction executes: the second one sees what the first one wrote.
//! let r8 = recording.register("r8").expect("it is written");
//! let before = |number| recording.register_at(CpuNumber(0), r8, InstructionNumber(number));
//! assert!(before(0)?.is_unknown());
//! assert_eq!(before(1)?.known(), Some(0x8010_0000));
//!
//! // Who wrote this?
//! let search = Search::new(What::Write, 0x8010_0004..=0x8010_0007);
//! let writer = recording.find_last(&search, InstructionNumber(2))?;
//! assert_eq!(writer, Some(InstructionNumber(1)));
//! # Ok(())
//! # }
//! ```
//!
//! # The idea
//!
//! **Text in, one file beside it.** [`text`] goes over a trace once, in pieces on all processors, and tells of each
//! record without an allocation. Out of that comes an index in which all records are, so that it can replace the text:
//! [`recording`] answers from it, and the text can be had back byte for byte.
//!
//! **What is not known stays unknown.** A register that was not written yet, a byte that nobody touched, a digit that
//! the trace shows as `-` or `x`: none of them is ever zero. What contradicts itself is told, not mended.
//!
//! **A line that cannot be read is kept.** It is counted, told with its number and what was expected at which token,
//! and the rest goes on.
//!
//! **Machines are tables.** [`machine`] knows the registers of GDB's target descriptions, the names that traces have
//! for them, which machine a trace is of, and which codes are branches. [`debugger`] puts GDB's registers together
//! from what a trace calls them.

#![forbid(unsafe_code)]
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
