//! A recorded execution, opened: any instant of it, in no order.
//!
//! [`Recording::open`] takes a trace's text, plain, compressed or from a pipe, or its compact form. It makes an index
//! where there is none yet, and then answers from that: what an instruction did, what registers and memory held
//! before it, who wrote, who read, who was there.
//!
//! ```
//! use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
//! use tracewire_exec_trace::recording::{OpenOptions, Recording, Search, What};
//! use tracewire_arch::Architecture;
//! use tracewire_model::Address;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("x.trace");
//! let text = "\
//! 1 clk 0 IT (1) 00000004 3c080001 A svc : lui t0,0x1
//! 1 clk R r8 00010000
//! 2 clk 0 IT (2) 00000008 ad080000 A svc : sw t0,0(t0)
//! 2 clk MW4 00010000 00010000
//! 3 clk 0 IT (3) 0000000c 8d090002 A svc : lh t1,2(t0)
//! 3 clk MR2 00010002 0000
//! 3 clk R r9 00000000
//! ";
//! std::fs::write(&path, text)?;
//! // The second time the index is there.
//! let options = OpenOptions { architecture: Some(Architecture::Mips), ..OpenOptions::default() };
//! let recording = Recording::open(&path, &options)?;
//! assert_eq!(recording.summary().instructions, 3);
//!
//! // Registers and memory before the last instruction. What no line gives is not known.
//! let last = InstructionNumber(2);
//! let r8 = recording.register("r8").expect("it is written");
//! let r9 = recording.register("r9").expect("it is written");
//! assert_eq!(recording.register_at(CpuNumber(0), r8, last)?.known(), Some(0x10000));
//! assert!(recording.register_at(CpuNumber(0), r9, last)?.is_unknown());
//! let mut bytes = [None; 6];
//! recording.memory_at(last, Address(0x10000), &mut bytes)?;
//! assert_eq!(bytes, [Some(0), Some(1), Some(0), Some(0), None, None]);
//!
//! // Who wrote what it reads?
//! let read = recording.instruction(last)?.expect("there is one").accesses[0].address;
//! let search = Search::new(What::Write, read.0..=read.0);
//! assert_eq!(recording.find_last(&search, last)?, Some(InstructionNumber(1)));
//! # Ok(())
//! # }
//! ```
//!
//! # What is known
//!
//! The state *before* instruction `n` is what the instructions before it left behind.
//! - A byte of memory has the value of the latest access to it, read or write. Before any access it has that of the
//!   image, if one was given ([`OpenOptions::image`]); else that of the first access later on, if that is a read:
//!   it was so all along. Else it is unknown.
//! - Where the recording reports no writes to memory, or less than half of those that its instructions make
//!   ([`ReportedWrites`]), an access is of one instant, and the image of what the program may write of the start only:
//!   after it such bytes are unknown.
//! - A register has the value that was last written to it; one that was not written yet is unknown. Writes to parts
//!   leave the rest as it was, unknown digits change nothing.
//! - Cpus have registers of their own, and share memory.
//!
//! Unknown is never zero. A read that differs from what was known is a [`Contradiction`]: from then on memory is
//! what was read.

mod candidates;
mod code_locations;
mod compressed;
mod content;
mod executed;
mod find;
mod history;
mod index_location;
mod make;
mod memory;
mod open;
mod registers;
mod replay;
mod scan;
#[cfg(test)]
mod tests;
mod text;
mod visits;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tracewire_arch::Architecture;
use tracewire_model::ByteOrder;

pub use crate::compact::RegisterValue;
pub use code_locations::{Addresses, CodeLocations};
pub use content::{Content, Lacking, Need};
pub use executed::{Accessed, Executed, StartEffect, Written};
pub use find::{Search, What};
pub use history::Touch;
pub use memory::{Contradiction, Contradictions, Image, ImagePiece, ReportedWrites};
pub use open::{OpenError, OpenOptions, Progress};
pub use replay::Replay;
pub use scan::{AccessEffect, Code, CodeId, Effect, RegisterEffect, Step};
pub use text::WriteError;
pub use visits::Visits;

use crate::compact::bytes::Damaged;
use crate::data_order::DataOrderEvidence;
use crate::index::Store;
use crate::record::{CpuNumber, DataOrder, Time};
use crate::text::Format;

/// A register, by its place in [`Recording::register_names`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegisterId(pub u32);

/// What a recording has, counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Instruction records, skipped ones too.
    pub instructions: u64,
    /// Memory access records.
    pub memory_accesses: u64,
    /// Those of them that write.
    pub memory_writes: u64,
    /// Executed instructions that write memory by their code.
    pub stores: u64,
    /// Executed instructions of which that is not known, or depends on more than their code.
    pub possible_stores: u64,
    /// Register write records.
    pub register_writes: u64,
    /// Other records, which are kept as text alone: exceptions, headers, branches.
    pub events: u64,
    /// The cpus that executed instructions, in order.
    pub cpus: Vec<CpuNumber>,
    /// The time of the first instruction.
    pub first_time: Option<Time>,
    /// The time of the last instruction.
    pub last_time: Option<Time>,
    /// Lines of text.
    pub lines: u64,
    /// Lines that could not be read.
    pub unparsed_lines: u64,
    /// Why the text ends before its end: what is wrong with the compressed data after it.
    pub cut: Option<String>,
    /// Bytes of text.
    pub text_size: u64,
    /// Bytes of the index file, or of the compact form.
    pub index_size: u64,
    /// How many of these only searching needs: the rest are the records.
    pub search_size: u64,
}

/// Why a recording could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The compact form is damaged, and there is no text to make it again.
    #[error("`{}` is damaged: convert the trace again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The index is damaged, and could not be made again.
    #[error("the index of `{}` is damaged and could not be made again", path.display())]
    NotRebuilt {
        /// The trace.
        path: PathBuf,
        /// Why not.
        source: Box<OpenError>,
    },
}

/// A recorded execution.
pub struct Recording {
    path: PathBuf,
    store: RwLock<Arc<Store>>,
    /// How the index is made again; none for a compact form, which has no text.
    again: Option<make::Again>,
    format: Format,
    architecture: Option<Architecture>,
    order: ByteOrder,
    data_order: Option<DataOrder>,
    data_evidence: DataOrderEvidence,
    summary: Summary,
    names: Vec<Box<str>>,
    image: Image,
    reported: ReportedWrites,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording")
            .field("path", &self.path)
            .field("format", &self.format)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// Opens a trace, and makes its index where there is no good one.
    ///
    /// The index is a file beside the trace, `NAME.twx`; where that cannot be written it is in the cache folder of
    /// the options, else in a temporary file, else in memory. It is made again when the trace changed, when another
    /// version made it, and when it is cut or damaged.
    ///
    /// `-` is the standard input.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read, is of no known format, or is a compact form that is damaged.
    pub fn open(path: &Path, options: &OpenOptions<'_>) -> Result<Self, OpenError> {
        open::open(path, options)
    }

    /// Indexes text that is in memory, in memory.
    ///
    /// # Errors
    ///
    /// When it is of no known format.
    pub fn of_text(text: &[u8], options: &OpenOptions<'_>) -> Result<Self, OpenError> {
        open::open_text(text, crate::index::CHUNK, options)
    }

    /// Opens a compact form that is in memory.
    ///
    /// # Errors
    ///
    /// When it is cut, damaged or of another version.
    pub fn of_compact(bytes: Vec<u8>, options: &OpenOptions<'_>) -> Result<Self, OpenError> {
        open::open_compact(bytes, options)
    }

    /// The compact form, as [`Self::save_compact`] writes it.
    #[must_use]
    pub fn compact(&self) -> Vec<u8> {
        self.store().bytes().to_vec()
    }

    /// Whether a file begins as compact forms do.
    #[must_use]
    pub fn is_compact(first_bytes: &[u8]) -> bool {
        first_bytes.starts_with(&crate::index::MAGIC)
    }

    /// The file that was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The form of the text.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The machine: the one that was given, else the one that the trace looks like.
    #[must_use]
    pub const fn architecture(&self) -> Option<Architecture> {
        self.architecture
    }

    /// What it records.
    #[must_use]
    pub const fn content(&self) -> Content {
        Content::of(self.format, &self.summary)
    }

    /// Refuses a question that needs what it does not record.
    ///
    /// # Errors
    /// When it does not have what is needed.
    pub fn require(&self, need: Need) -> Result<(), Lacking> {
        match self.content().lacking(need, self.format, &self.summary) {
            Some(lacking) => Err(lacking),
            None => Ok(()),
        }
    }

    /// In which order the bytes of a number are in memory.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.order
    }

    /// How the data of accesses are written that may be a number or bytes: as was said, else as the content says; none where
    /// the types of the lines decide.
    #[must_use]
    pub const fn data_order(&self) -> Option<DataOrder> {
        self.data_order
    }

    /// What registers that were loaded and stored say of that, at the start of the text.
    #[must_use]
    pub const fn data_order_evidence(&self) -> DataOrderEvidence {
        self.data_evidence
    }

    /// What it has, counted.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// How many instructions it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.summary.instructions
    }

    /// Whether it has no instruction.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.summary.instructions == 0
    }

    /// The registers that are ever written, named as the trace names them. Bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn register_names(&self) -> &[Box<str>] {
        &self.names
    }

    /// The register of a name: the very name, else the first that differs in case only.
    #[must_use]
    pub fn register(&self, name: &str) -> Option<RegisterId> {
        let place = |is_selected: &dyn Fn(&str) -> bool| {
            self.names.iter().position(|known| is_selected(known))
        };
        place(&|known| known == name)
            .or_else(|| place(&|known| known.eq_ignore_ascii_case(name)))
            .map(|at| RegisterId(at as u32))
    }

    /// The image of memory at the start that was given.
    #[must_use]
    pub const fn image(&self) -> &Image {
        &self.image
    }

    /// How many of the writes to memory it reports.
    #[must_use]
    pub const fn reported_writes(&self) -> ReportedWrites {
        self.reported
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the file. One that turns out to be damaged is made again, once.
    fn ask<T>(
        &self,
        mut question: impl FnMut(&Store) -> Result<T, Damaged>,
    ) -> Result<T, ReadError> {
        let store = self.store();
        match question(&store) {
            Ok(answer) => Ok(answer),
            Err(Damaged) => {
                let store = self.rebuild(&store)?;
                question(&store).map_err(|Damaged| ReadError::Damaged {
                    path: self.path.clone(),
                })
            }
        }
    }

    /// Makes the index again, unless someone did so already.
    fn rebuild(&self, damaged: &Arc<Store>) -> Result<Arc<Store>, ReadError> {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&store, damaged) {
            let again = self.again.as_ref().ok_or_else(|| ReadError::Damaged {
                path: self.path.clone(),
            })?;
            let new = again
                .rebuild(&self.path)
                .map_err(|source| ReadError::NotRebuilt {
                    path: self.path.clone(),
                    source: Box::new(source),
                })?;
            *store = Arc::new(new);
        }
        Ok(Arc::clone(&store))
    }
}
