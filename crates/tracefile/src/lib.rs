#![doc = include_str!("../README.md")]
//!
//! # Principles
//!
//! **Nothing in a file is trusted, and nothing in it is lost.** [`TraceFile::open`] refuses only a file that is no trace file. A line that
//! cannot be parsed is a [`Problem`] and stays where it is. The rest of a frame that cannot be parsed is a [`Block::Unknown`]. A
//! file that is cut gives every whole frame, and [`Ending`] says where the cut is. A description that was read is written back byte for byte.
//!
//! **What was not collected is unavailable, not zero.** Registers, memory and variables of a frame are `None` where the frame does
//! not have them. A register block has no mark for a missing register. So a file should use the smallest register set that
//! covers what was collected ([`tracewire_arch::X86Registers`]).
//!
//! **What GDB cannot read is refused when it is written.** Lines over 999 bytes, tracepoint numbers over 32767, and register
//! blocks of another size are errors of the writer. Each names what it is about.
//!
//! **Damage is visible.** A file that is written here ends with a [`Checksum`] of all its bytes, after the end marker, where GDB does not
//! look.
//!
//! **A recording may be killed at any moment.** The [`Spool`] that it writes is a valid trace file all the time, and so is that of a
//! [`CircularSpool`], which keeps the newest frames.
//!
//! # More
//!
//! [`TraceFile::open_cached`] keeps the index of a large file for the next run. The crate `tracewire-diagnose` checks and repairs files.
//! [`tracewire_arch::StandardRegisters`] has the register sets of fifteen machines, for files that do not say theirs
//! ([`TraceFile::set_architecture`]). The types of `tp`, `tsv` and `status` lines are those of [`tracewire_model`].
//!
//! # Differences from GDB's manual
//!
//! - The `R` line is decimal in the manual and hexadecimal in GDB. [`TraceFile::register_block_size`] uses the base with which
//!   the frames parse.
//! - The byte order is not in the file. It is taken from the target description where that settles it. Otherwise it is the order in
//!   which the chain of frames ends at the end of the file.
//! - A frame's address is its own program counter ([`Frame::program_counter`]), not its tracepoint's. So searches find the frames
//!   of `while-stepping` too.
//! - `S` blocks of static tracepoints are read, and `L` actions, which no manual has.
//! - Source strings in parts (`Z` pieces) are joined.
//! - Lines of our own say where each module was loaded ([`Module`]); GDB skips them.
//!
//! Numbers in pieces, status and actions are hexadecimal. Times are microseconds. Multi-byte fields of frames are in the target's byte
//! order.
#![deny(missing_docs)]

mod by_location;
mod checksum;
#[cfg(target_os = "linux")]
mod circular_spool;
mod description;
mod encode;
mod file;
mod find;
#[cfg(target_os = "linux")]
mod follow;
mod fraction;
mod frame;
#[cfg(target_os = "linux")]
mod growing_list;
mod index;
pub mod lean;
mod memory;
mod module;
mod paused;
pub mod private;
pub mod raw;
mod register_set;
#[cfg(target_os = "linux")]
mod run;
mod served;
mod skipped;
mod span;
#[cfg(target_os = "linux")]
mod spool;
mod step;
mod unknown;
#[cfg(target_os = "linux")]
mod unnamed;
mod write;

pub use checksum::{Checksum, SealingWriter};
#[cfg(target_os = "linux")]
pub use circular_spool::CircularSpool;
pub use description::{
    Description, DescriptionParts, HEADER, Line, LineError, MAX_LINE, Problem, ProblemKind,
    RegisterBlockLine,
};
pub use encode::{EncodeError, FrameEncoder, FrameFormat, MAX_TRACEPOINT_NUMBER};
pub use file::{MAX_DESCRIPTION, OpenError, TraceFile};
pub use find::Search;
#[cfg(target_os = "linux")]
pub use follow::{Batch, GROWING, GrowingFile};
pub use fraction::{FRACTION, fraction_of, nanoseconds_of};
pub use frame::{Block, Blocks, Frame, SavedState};
#[cfg(target_os = "linux")]
pub use growing_list::{GrowingList, ListBatch};
pub use index::{Ending, IndexCache, Selection, user_cache};
pub use memory::CollectedMemory;
pub use module::Module;
pub use register_set::{RegisterSet, RegisterSets, SET_HEADER, SET_LETTER};
#[cfg(target_os = "linux")]
pub use run::{Part, RunFolder, RunWriter};
pub use span::{Span, SpanEnd, Spans};
#[cfg(target_os = "linux")]
pub use spool::Spool;
pub use step::describes_frame;
pub use unknown::{mask_variable, unknown_masks};
pub use write::{TraceFileWriter, WriteError};
