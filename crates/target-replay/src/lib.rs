//! A recorded execution as a target that runs both ways.
//!
//! ```
//! use tracewire_exec_trace::recording::{OpenOptions, Recording};
//! use tracewire_experiment::{Hit, HitHandler, Outcome, StoppedThread};
//! use tracewire_target_replay::{Recorded, Replay, StopCause, Watch};
//! use tracewire_arch::Architecture;
//! use tracewire_model::Address;
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("small.trace");
//! let text = "\
//! 1 clk 0 IT (1) 00001000 24020007 A svc : li v0,7
//! 1 clk R r2 00000007
//! 2 clk 0 IT (2) 00001004 af820010 A svc : sw v0,16(gp)
//! 2 clk MW4 00002010 00000007
//! 3 clk 0 IT (3) 00001008 00000000 A svc : nop
//! ";
//! std::fs::write(&path, text)?;
//! let options = OpenOptions { architecture: Some(Architecture::Mips), ..OpenOptions::default() };
//! let recorded = Recorded::new(Recording::open(&path, &options)?)?;
//!
//! /// No experiment is on.
//! struct Nobody;
//! impl HitHandler for Nobody {
//!     fn hit(&mut self, _: Hit, _: &mut dyn StoppedThread) -> Outcome {
//!         Outcome { step: false, run_ended: false }
//!     }
//! }
//!
//! // Who wrote this?
//! let mut replay = Replay::new(&recorded);
//! replay.go_to(3);
//! replay.insert_watchpoint(Watch::Write, Address(0x2010), 4);
//! let stop = replay.run_back(&mut Nobody);
//! assert_eq!(stop.cause, StopCause::Watchpoint(Watch::Write, Address(0x2010)));
//! // MIPS's watchpoints stop before the access, and going backward, that is behind it.
//! assert_eq!(replay.position(), 2);
//! replay.step_back(stop.thread, &mut Nobody);
//! assert_eq!(replay.program_counter(stop.thread), Some(Address(0x1004)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The idea
//!
//! To a debugger a recording is a program that stands at one of its instants. Nothing has to be executed to go to
//! another: what registers and memory held there is looked up, and where a breakpoint or a watchpoint stops is found in
//! the index, however far away it is and on whichever side. So [`Replay`] is a number, the instruction that comes next,
//! and all that moves it.
//!
//! Cpus are threads. They stop together, as in GDB's all-stop mode: all are at the same instant. What comes next of the
//! one may lie far behind what comes next of the other; a step of a thread takes along what others did meanwhile.
//!
//! Tracepoints are applied after the fact: an experiment is told of every visit to their addresses on the way of a
//! forward movement, each exactly once. Running backward collects nothing.
//!
//! # What is not known
//!
//! A recording tells of a register when it is written, and of memory when it is accessed. Before that it is not known,
//! and never made up: [`RegisterBlock`] says which bytes it knows, memory is bytes or nothing. The one exception is the
//! program counter of a cpu behind its last instruction, without which GDB shows nothing at all: it stays there.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod collect;
mod execution;
mod moment;
mod movement;
mod played;
mod player;
mod recorded;
mod replay;

pub use collect::{CollectError, Collected, FrameRegisters, FrameSink, Request, collect};
pub use execution::{Executed, Execution, RegisterBlock, Watch, canonical, extends_addresses};
pub use moment::Moment;
pub use movement::{Stop, StopCause};
pub use player::{Player, Seeker};
pub use recorded::{Recorded, UnknownMachine};
pub use replay::{Direction, Replay, thread_of};
