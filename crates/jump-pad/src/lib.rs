#![doc = include_str!("../README.md")]
//!
//! # Contents
//!
//! - [`compile()`] makes a pad from the [`tracewire_model::TracepointDefinition`]s of an address. Its oracle is the evaluation at a
//!   stop: the same frames to the byte, the same errors, the same variables (`tests/differential`). What it
//!   cannot do it refuses with a reason ([`CannotCompile`]); such a tracepoint is a trap.
//! - [`relocate`] copies displaced instructions and finds jumps.
//! - [`Shared`] is the tracer's access to the memory that pads and tracer share; [`SharedLayout`] says what is where. It has one ring for each
//!   cpu, a block for each tracepoint, the trace state variables, a clock, a table of threads, and the reason why collecting has ended.
//! - [`JumpPads`] are the pads of a trace run, as an experiment uses them ([`tracewire_experiment::Pads`]).
//! - [`call_events`] are the entries and exits of functions, 16 bytes each, without an experiment.
//! - [`RingReader`] takes frames from the rings while they are written, and returns them in the order of time, with those of stopped
//!   threads among them.
//!
//! # What a pad does to the program
//!
//! - *Registers*: flags and all registers are restored. Vector registers are read where they are collected and never
//!   changed; `mxcsr` and the x87 unit are left alone.
//! - *Stack*: a pad uses 200 to 400 bytes below the red zone of the thread that hits ([`Pad::stack`] has the number). No other memory
//!   belongs to a thread without a library. The lowest byte is touched first. At the end of a stack that faults, the tracer continues
//!   at the displaced instructions; the hit is lost and counted. (Where the x87 unit is in use and registers are collected, it uses
//!   528 bytes more.)
//! - *Memory* is read without a check. An instruction that reads for an expression or a frame is in [`Pad::faults`] with the place
//!   to continue at; the tracer sees the signal before the program. A value that cannot be read is missing from its first unreadable
//!   byte on, and counted. In a condition it ends the run.
//! - *Without a tracer* such a signal would kill the program. So every hit reads a word that the kernel marks when the tracer
//!   dies (a robust futex). From then on a pad does nothing. Where it may continue ([`PadOptions::goes_on`],
//!   [`Orphaned::GoOn`]), it reads memory by a system call, which is slower but cannot fault.
//! - *Signals* may come inside a pad, and their handlers may hit again: a frame has its own space from the moment it is reserved.
//!   A handler that leaves by `longjmp` leaves an unfinished frame; the reader counts it.
//! - *Threads* share no lock. Each cpu has a ring, whose head is moved by one compare-and-exchange. A ring belongs
//!   to a cpu, because no cheap test distinguishes two threads that share their `fs` base.
//! - *Alignment checking* (`AC`) set by a program is off while the pad works, and on again afterwards.
//! - *A restartable sequence* (`rseq`) would be left by a jump to a pad: a thread that loses its cpu there is not restarted. So the
//!   target refuses a place within one.
//!
//! # A record
//!
//! Space for a frame is reserved, its state word says *begun*, it is filled, its state word says *whole*. Both words depend on the
//! position in the ring, so old content is never taken for a record. Positions only grow. A record that reaches the end of the
//! ring continues after it, and the next one starts at the front. So there is no padding and no frame in two pieces. A frame whose
//! length is not known beforehand gives back what it did not need, unless another one came meanwhile.
//!
//! A ring that overwrites ([`WhenFull::Overwrite`]) gives up its oldest frames and waits for nobody. A record that is not
//! finished when the ring comes around is stepped over, and counted as lost. Its space stays unused as long as its owner may
//! return: a *token* on the stack of the owner's thread says so. When the token has been overwritten, the hit is over, and the
//! space is used again. Between records there may then be a *gap*. Where the buffer is larger than the ring
//! ([`WhenFull::WaitThenOverwrite`]), a pad waits for the reader before it gives up a frame.
//! `docs/decisions/0001-circular-rings-step-over-unfinished-records.md` of the repository has the reasons.
//!
//! # Time
//!
//! Pads stamp with the time stamp counter, converted to microseconds by the tracer's last measurement. Frames are returned in the order of the counter. It
//! is read right before the record is reserved, and again if the reader has looked at the rings in between. So what the reader has not
//! seen by then is later. Frames of one thread come in their order. So do those of two threads of which one waited for the other. (The processor reads the counter early by less than a microsecond.)
//! The clock is slightly slow and only set forward, so time never goes back.
//!
//! # Threads
//!
//! The kernel's number of a thread costs a system call; its `fs` base costs a nanosecond. The tracer fills a table of pairs as threads
//! come ([`Shared::set_thread`]). While the program has one thread, an unknown base is that thread's
//! ([`Shared::set_sole_thread`]). Where the program is permitted the pads' system calls, any other thread asks the kernel once. A new thread
//! counts as its creator until it has a base of its own.
//!
//! # Layout
//!
//! The layout of the shared memory is documented in `docs/formats/shared-memory.md` of the repository.
#![deny(missing_docs)]

pub mod call_events;
mod clock;
mod compile;
mod count_table;
mod features;
mod layout;
mod pad;
mod pads;
pub mod relocate;
mod ring;
#[cfg(test)]
mod ring_kill;
#[cfg(test)]
mod ring_model;
#[cfg(test)]
mod ring_order;
mod shared;

pub use clock::{counter, nanoseconds};
pub use compile::{REPORT_SIGNAL, compile, report};
pub use count_table::CountTable;
pub use layout::{LayoutError, SharedLayout, SharedSizes, WhenFull};
pub use pad::{CannotCompile, Features, Pad, PadOptions, PadRate, PadTracepoint, PadVariable};
pub use pads::{JumpPads, PadMemory, PadNews};
pub use ring::{Drained, RingReader, TimedFrame};
pub use shared::{Losses, Moving, Origin, Orphaned, PadCounts, PadError, PadStop, Shared};
