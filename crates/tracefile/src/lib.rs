//! The GDB trace file, as GDB's `tsave` and `target tfile` have it: read, searched and written.
//!
//! A trace file is what a run of tracepoints leaves behind. It has a header of 8 bytes, lines of text that
//! describe the run, an empty line, and then one binary *frame* for every hit, each a row of blocks:
//! registers, pieces of memory, values of variables. An end marker, a tracepoint number of 0, closes it.
//!
//! ```
//! use tracewire_arch::X86Registers;
//! use tracewire_model::{Address, ByteOrder, TracepointNumber};
//! use tracewire_tracefile::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("two.tf");
//! // A file with one frame, of registers and an int.
//! let registers = X86Registers::Core;
//! let layout = registers.layout_64();
//! let description = Description::build(&DescriptionParts {
//!     register_block_size: layout.size(),
//!     target_xml: Some(registers.target_xml_64()),
//!     ..DescriptionParts::default()
//! })?;
//! let format =
//!     FrameFormat { byte_order: ByteOrder::Little, register_block_size: layout.size() };
//! let mut block = vec![0; layout.size() as usize];
//! let rip = layout.by_name("rip").expect("x86-64 has one").offset as usize;
//! block[rip..rip + 8].copy_from_slice(&0x401136u64.to_le_bytes());
//!
//! let mut bytes = Vec::new();
//! let mut frame = FrameEncoder::begin(&mut bytes, format, TracepointNumber(1))?;
//! frame.registers(&block)?;
//! frame.memory(Address(0x404010), &42u32.to_le_bytes());
//! frame.finish()?;
//! let mut writer = TraceFileWriter::create(&path, &description)?;
//! writer.append(&bytes)?;
//! writer.finish()?;
//!
//! // And read again.
//! let file = TraceFile::open(&path)?;
//! let at = Search::ProgramCounter(Address(0x401136));
//! let frame = file.find(at, None).expect("the only frame");
//! assert_eq!(frame.register_value_named("rip"), Some(0x401136));
//! assert_eq!(frame.memory(Address(0x404010), 4), Some(vec![42, 0, 0, 0]));
//! assert_eq!(frame.memory(Address(0x404010), 5), None);
//! # Ok(())
//! # }
//! ```
//!
//! # The idea
//!
//! **Nothing in a file is believed, and nothing in it is lost.** [`TraceFile::open`] refuses only what is no
//! trace file at all. A line that cannot be understood is a [`Problem`] and stays where it is; a frame's rest
//! that cannot be taken apart is a [`Block::Unknown`]; a file that is cut gives every whole frame, and
//! [`Ending`] says where the cut is. A description that was read is written back byte for byte.
//!
//! **What was not collected is unknown, not zero.** Registers, memory and variables of a frame are `None` where
//! the frame does not hold them. A register block of the format has no way to say that a register is missing,
//! so a file should be written with the smallest register set that covers what was collected
//! ([`tracewire_arch::X86Registers`]).
//!
//! **What GDB cannot read is refused when it is written, not when it is needed.** Lines over 999 bytes,
//! tracepoint numbers over 32767, register blocks of another size are errors of the writer, each naming what it
//! is about.
//!
//! **Damage shows.** A file that is written here ends with a [`Checksum`] of all its bytes, behind the end marker, where
//! GDB does not look; a file of another writer gets one by [`TraceFile::seal`].
//!
//! **A recording may be killed at any moment.** The [`Spool`] that it streams into is a good trace file all the
//! time.
//!
//! # What else there is
//!
//! [`check::check`] tells everything that is wrong with a file, with places; [`repair::repair`] writes a good file
//! of all that is whole in a damaged one. [`TraceFile::open_cached`] keeps the index of a large file for the next
//! run. [`tracewire_arch::StandardRegisters`] has the register sets of fifteen machines for files that do not tell theirs
//! ([`TraceFile::set_architecture`]).
//! The types of `tp`, `tsv` and `status` lines are those of [`tracewire_model`].
//!
//! # Where the format is read differently from its manual
//!
//! - The `R` line is decimal in the manual and hexadecimal in GDB. [`TraceFile::register_block_size`] is the
//!   reading with which the frames parse.
//! - The byte order is nowhere told. It is taken from the target description where that settles it, else it is
//!   the one in which the chain of frames ends where it should.
//! - A frame's address is its own program counter ([`Frame::program_counter`]), not its tracepoint's, so that
//!   searches find the frames of `while-stepping` too.
//! - `S` blocks of static tracepoints, and `L` actions, which no manual has, are read.
//! - Source strings that come in parts (`Z` pieces) are joined.
//! - Lines of our own say where each module was loaded ([`Module`]); GDB skips them. A [`Checksum`] of our own stands
//!   behind the end marker.
//!
//! Numbers in pieces, status and actions are hexadecimal, times are microseconds, multi-byte fields of frames
//! are in the target's byte order.
#![deny(missing_docs)]

pub mod check;
mod checksum;
mod description;
mod encode;
mod file;
mod find;
mod frame;
mod index;
mod memory;
mod module;
pub mod private;
mod register_set;
pub mod repair;
mod seal;
mod served;
#[cfg(target_os = "linux")]
mod spool;
mod step;
mod unknown;
mod write;

pub use checksum::{Checksum, SealingWriter};
pub use description::{
    Description, DescriptionParts, HEADER, Line, LineError, MAX_LINE, Problem, ProblemKind,
    RegisterBlockLine,
};
pub use encode::{EncodeError, FrameEncoder, FrameFormat, MAX_TRACEPOINT_NUMBER};
pub use file::{MAX_DESCRIPTION, OpenError, TraceFile};
pub use find::Search;
pub use frame::{Block, Blocks, Frame};
pub use index::{Ending, IndexCache};
pub use memory::CollectedMemory;
pub use module::Module;
pub use register_set::{RegisterSet, RegisterSets, SET_HEADER, SET_LETTER};
pub use seal::SealError;
#[cfg(target_os = "linux")]
pub use spool::Spool;
pub use step::describes_frame;
pub use unknown::unknown_masks;
pub use write::{TraceFileWriter, WriteError};
