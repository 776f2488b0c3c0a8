//! Machine code for tracepoints: what a hit does is compiled before, and done by the program itself.
//!
//! A tracepoint's condition and actions are agent expressions, made to be interpreted at a stop. A stop costs tens of
//! microseconds, the little that most tracepoints do a few nanoseconds. So the tracer, which is another process,
//! writes a *pad* near the place: code that looks at registers and memory as the expressions say, makes the frame
//! as it stands in a trace file, and goes on with the displaced instructions. Nothing of it is the program's: no
//! library, no allocator, no lock, not even a thread's own memory.
//!
//! - [`compile()`] makes a pad from the [`tracewire_model::TracepointDefinition`]s of an address. Its oracle is the
//!   evaluation at a stop: the same frames to the byte, the same errors in the same words, the same variables
//!   (`tests/differential`). What it cannot do it refuses with a reason ([`CannotCompile`]); such a tracepoint is a trap.
//! - [`relocate`] copies displaced instructions and finds jumps.
//! - [`Shared`] is the tracer's hand on the memory that pads and tracer share ([`SharedLayout`] says where what is): one
//!   ring a cpu, a block a tracepoint, the trace state variables, a clock, threads, why collecting has ended.
//! - [`RingReader`] takes frames from the rings while they are written, and gives them out by time, those of stopped threads
//!   among them.
//!
//! # What a pad does to the program
//! - *Registers*: flags and all registers are as they were. Vector registers are read where they are collected and never
//!   changed; `mxcsr` and the x87 unit are left alone.
//! - *Stack*: below the red zone of the thread that hits, some 200 to 400 bytes ([`Pad::stack`] has the number). There is no
//!   other place that is a thread's own without a library. The lowest byte is touched first: at the end of a stack
//!   that faults, the tracer goes on at the displaced instructions, and the hit is lost and counted. (Where the x87 unit
//!   is in use and registers are collected, 528 bytes more.)
//! - *Memory* is read where it is, without asking first. An instruction that reads for an expression or a frame stands in
//!   [`Pad::faults`] with the place to go on at; the tracer sees the signal before the program can. A value that cannot be
//!   read is missing from its first unreadable byte on and counted; in a condition it ends the run.
//! - *Without a tracer* such a signal would be the program's death. So every hit looks at a word that the kernel marks
//!   when the tracer dies (a robust futex). From then on a pad does nothing, or, where that was allowed
//!   ([`PadOptions::goes_on`], [`Orphaned::GoOn`]), has the kernel read memory for it: slower, and safe.
//! - *Signals* may come inside a pad, and their handlers may hit again: a frame has its room alone from the moment it is
//!   reserved. A handler that leaves by `longjmp` leaves a frame that is never finished; the reader counts it.
//! - *Two threads* do not meet: each cpu has a ring, whose head is moved by one compare-and-exchange; it is not the
//!   thread's, because threads come and go, and nothing cheap tells two of them apart while they share their `fs` base.
//! - *Alignment checking* (`AC`) set by a program is not reckoned with: nothing else works with it either.
//!
//! - *A restartable sequence* (`rseq`) is left by a jump to a pad: a thread that loses its cpu there is not restarted.
//!
//! # A record
//! A frame's room is reserved, its state word says *begun*, it is filled, its state word says *whole*. Both words depend
//! on the position in the ring, so that nothing which stood there before can be taken for one. Positions never begin
//! anew; a record that reaches the end of the ring goes on behind it, and the next starts at the front. So there is no
//! padding and no frame in two pieces. A frame whose length is not known beforehand gives back what it did not need,
//! unless another came meanwhile.
//!
//! # Time
//! Pads stamp with the time stamp counter, in microseconds of the day as the tracer last measured them. Frames are given out
//! by the counter. It is read once the record is reserved; so what the reader has not seen by then is later, and frames
//! of one thread, or of two of which one waited for the other, come in their order (the processor reads the
//! counter early by less than a microsecond). The clock is a trifle slow and only ever set forward: no time goes back.
//!
//! # Threads
//! The kernel's number of a thread costs a system call; its `fs` base costs a nanosecond. The tracer puts pairs into a table
//! as threads come ([`Shared::set_thread`]); while the program has one thread, that is the one of every unknown base
//! ([`Shared::set_sole_thread`]); where the program may make system calls of ours, any other asks the kernel once. Until a new
//! thread has a base of its own it counts as the one that made it.
//!
//! ```
//! use std::collections::BTreeMap;
//! use tracewire_jump_pad::{
//!     Features, PadOptions, PadTracepoint, SharedLayout, SharedSizes, WhenFull, compile,
//! };
//! use tracewire_arch::X86Registers;
//! use tracewire_model::{Action, Address, TracepointDefinition, TracepointKind, TracepointNumber};
//!
//! let sizes = SharedSizes {
//!     cpus: 2,
//!     ring_bytes: 1 << 20,
//!     frame_limit: 4096,
//!     tracepoints: 1,
//!     variables: 0,
//!     hold_bytes: 0,
//!     when_full: WhenFull::Stop,
//! };
//! let layout = SharedLayout::new(sizes, 0x7e57)?;
//! let definition = TracepointDefinition {
//!     number: TracepointNumber(1),
//!     address: Address(0x401136),
//!     enabled: true,
//!     kind: TracepointKind::Trap,
//!     step_count: 0,
//!     pass_count: 0,
//!     condition: None,
//!     actions: vec![Action::Memory { base: None, offset: 0x404010, length: 4 }],
//!     step_actions: vec![],
//!     source: Default::default(),
//! };
//! let options = PadOptions {
//!     layout: &layout,
//!     shared: Address(0x7f00_0000_0000),
//!     registers: X86Registers::Core,
//!     always_registers: false,
//!     stamp: None,
//!     variables: &BTreeMap::new(),
//!     stack_limit: 512,
//!     goes_on: false,
//!     features: Features::of_this_machine(),
//! };
//! let tracepoint = PadTracepoint { index: 0, definition: &definition, kept: None };
//! let pad = compile(definition.address, &[tracepoint], &options)?;
//! assert!(pad.stack < 512 && !pad.faults.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(missing_docs)]

mod clock;
mod compile;
mod features;
mod layout;
mod pad;
pub mod relocate;
mod ring;
#[cfg(test)]
mod ring_kill;
#[cfg(test)]
mod ring_model;
mod shared;

pub use clock::counter;
pub use compile::{compile, is_x87};
pub use layout::{LayoutError, SharedLayout, SharedSizes, WhenFull};
pub use pad::{
    CannotCompile, Fault, FaultKind, Features, KeptSet, Pad, PadOptions, PadTracepoint, PadVariable,
};
pub use ring::{Drained, RingReader, TimedFrame, Writers};
pub use shared::{Losses, Moving, Origin, Orphaned, PadCounts, PadError, PadStop, Shared};
