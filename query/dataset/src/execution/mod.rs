//! An execution trace as tables.
//!
//! | table | a row for each |
//! |---|---|
//! | `instructions` | executed instruction |
//! | `register_writes` | write to a register, with what the register holds after it, and how long |
//! | `memory_accesses` | read or write of memory |
//! | `memory_writes` | write, with what the bytes hold after it, and how long; in the order of addresses |
//! | `calls` | call of a function |
//! | `register_values` | register before each instruction |
//! | `memory_values` | bytes of memory before each instruction |
//!
//! The first five are what the trace has, and are written into datasets. The last two are answers of the index: they are as long as all
//! instructions times all registers, so they are read with a filter, and never written.
//!
//! A state is that *before* an instruction. A write is held from `valid_from`, the instruction after it, to `valid_to`, the instruction that
//! writes again; both are included. At the end `valid_to` is the number of instructions.

mod columns;
mod read;
mod registers;
mod selection;

use std::num::NonZero;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use tracewire_debuginfo::Symbols;
use tracewire_exec_trace::recording::{OpenOptions, Recording};
use tracewire_exec_trace::text::{Format, beginning};

pub use self::read::{Piece, Reader};
pub use self::selection::Selection;
use crate::error::DatasetError;
use crate::narrow::{batch, numbers, texts};
use crate::row_group::{Rows, TableEncoder};
use crate::table::{RUNS, Table, fields};

pub(crate) const INSTRUCTIONS: &str = "instructions";
pub(crate) const REGISTER_WRITES: &str = "register_writes";
pub(crate) const MEMORY_ACCESSES: &str = "memory_accesses";
pub(crate) const MEMORY_WRITES: &str = "memory_writes";
pub(crate) const CALLS: &str = "calls";
pub(crate) const REGISTER_VALUES: &str = "register_values";
pub(crate) const MEMORY_VALUES: &str = "memory_values";

const NUMBER: DataType = DataType::Int64;
const TEXT: DataType = DataType::Utf8;

/// The tables that executions have in a dataset, after `runs`.
const STORED: [(&str, &[(&str, DataType)]); 5] = [
    (
        INSTRUCTIONS,
        &[
            ("instruction", NUMBER),
            ("time", NUMBER),
            ("cpu", NUMBER),
            ("pc", NUMBER),
            ("taken", DataType::Boolean),
            ("code", TEXT),
            ("disassembly", TEXT),
        ],
    ),
    (
        REGISTER_WRITES,
        &[
            ("instruction", NUMBER),
            ("cpu", NUMBER),
            ("register", TEXT),
            ("value", NUMBER),
            ("digits", TEXT),
            ("valid_from", NUMBER),
            ("valid_to", NUMBER),
        ],
    ),
    (
        MEMORY_ACCESSES,
        &[
            ("instruction", NUMBER),
            ("cpu", NUMBER),
            ("kind", TEXT),
            ("address", NUMBER),
            ("size", NUMBER),
            ("value", NUMBER),
        ],
    ),
    (
        MEMORY_WRITES,
        &[
            ("instruction", NUMBER),
            ("address", NUMBER),
            ("size", NUMBER),
            ("value", NUMBER),
            ("valid_from", NUMBER),
            ("valid_to", NUMBER),
        ],
    ),
    (
        CALLS,
        &[
            ("instruction", NUMBER),
            ("time", NUMBER),
            ("cpu", NUMBER),
            ("depth", NUMBER),
            ("function", TEXT),
            ("address", NUMBER),
            ("caller", TEXT),
            ("call_site", NUMBER),
        ],
    ),
];

/// The tables that are answers of the index.
const ASKED: [(&str, &[(&str, DataType)]); 2] = [
    (
        REGISTER_VALUES,
        &[
            ("instruction", NUMBER),
            ("time", NUMBER),
            ("cpu", NUMBER),
            ("pc", NUMBER),
            ("register", TEXT),
            ("value", NUMBER),
            ("digits", TEXT),
        ],
    ),
    (
        MEMORY_VALUES,
        &[
            ("instruction", NUMBER),
            ("time", NUMBER),
            ("cpu", NUMBER),
            ("pc", NUMBER),
            ("address", NUMBER),
            ("size", NUMBER),
            ("value", NUMBER),
        ],
    ),
];

/// Pieces that a thread makes between two that are written.
const PIECES_A_THREAD: usize = 2;

/// The names of all tables of executions but `runs`.
pub fn execution_table_names() -> impl Iterator<Item = &'static str> {
    STORED.iter().chain(&ASKED).map(|(name, _)| *name)
}

/// How much of a file is looked at to tell its kind.
const LOOKED_AT: usize = 4 << 20;

/// Whether a file is an execution trace, from its first bytes; also not where it cannot be read.
#[must_use]
pub fn is_execution(path: &Path) -> bool {
    let Ok(bytes) = beginning(path, LOOKED_AT) else {
        return false;
    };
    let is_trace_file = bytes.starts_with(b"\x7fTRACE");
    !is_trace_file && (Recording::is_compact(&bytes) || Format::detect(&bytes).is_some())
}

/// An execution trace with its program, as tables. Threads may share it.
#[derive(Debug)]
pub struct Execution {
    recording: Recording,
    elf: Vec<PathBuf>,
    tables: Vec<Table>,
}

impl Execution {
    /// Opens a trace, and makes its index where there is none. `elf` are the files of its program, at the addresses that they say.
    ///
    /// # Errors
    /// When the trace or a file of the program cannot be read.
    pub fn open(path: &Path, elf: &[PathBuf]) -> Result<Self, DatasetError> {
        let options = OpenOptions {
            architecture: elf.iter().find_map(|path| architecture_of(path)),
            cache: tracewire_tracefile::user_cache(),
            ..OpenOptions::default()
        };
        let recording =
            Recording::open(path, &options).map_err(|source| DatasetError::Execution {
                path: path.to_owned(),
                source: Box::new(source),
            })?;
        let table =
            |(name, columns): &(&str, &[(&str, DataType)])| Table::new(name, fields(columns));
        let execution = Self {
            recording,
            elf: elf.to_vec(),
            tables: std::iter::once(Table::runs())
                .chain(STORED.iter().map(table))
                .collect(),
        };
        execution.symbols()?;
        Ok(execution)
    }

    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The symbols of its program, for one thread; none where no file of it is known.
    pub(crate) fn symbols(&self) -> Result<Option<Symbols>, DatasetError> {
        let mut symbols = Symbols::new();
        for path in &self.elf {
            let added = symbols.add_module(path, 0);
            added.map_err(|source| DatasetError::Program {
                path: path.clone(),
                source: Box::new(source),
            })?;
        }
        Ok((!self.elf.is_empty()).then_some(symbols))
    }

    /// The tables that are written into a dataset. `runs` is the first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// A table by its name, also one that is an answer of the index.
    #[must_use]
    pub fn table(name: &str) -> Option<Table> {
        if name == RUNS {
            return Some(Table::runs());
        }
        let mut all = STORED.iter().chain(&ASKED);
        let (name, columns) = all.find(|(known, _)| *known == name)?;
        Some(Table::new(name, fields(columns)))
    }

    /// The row of `runs`.
    ///
    /// # Errors
    /// When it does not fit its table.
    pub fn run(&self) -> Result<RecordBatch, DatasetError> {
        let table = Table::runs();
        let recording = &self.recording;
        let ending = match &recording.summary().cut {
            Some(_) => "cut",
            None => "whole",
        };
        let columns = table.schema.fields().iter().map(|field| {
            let no_number = || numbers([None]);
            match field.name().as_str() {
                "source" => texts([Some(recording.path().to_string_lossy())]),
                "architecture" => texts([recording.architecture().map(|of| of.name())]),
                "ending" => texts([Some(ending)]),
                "notes" => texts([recording.summary().cut.as_deref()]),
                _ if *field.data_type() == NUMBER => no_number(),
                _ => texts([None::<&str>]),
            }
        });
        batch(&table, columns.collect())
    }

    /// Passes on the rows of all tables, in batches; pieces of a table are made side by side.
    ///
    /// # Errors
    /// When `take` fails, and when the recording's file is damaged.
    pub fn read(
        &self,
        take: &mut dyn FnMut(&Table, RecordBatch) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        for table in &self.tables {
            if table.name == RUNS {
                take(table, self.run()?)?;
                continue;
            }
            let columns: Vec<usize> = (0..table.schema.fields().len()).collect();
            let reader = Reader::new(self, table, &columns, Selection::ALL)?;
            for pieces in reader.pieces()?.chunks(threads * PIECES_A_THREAD) {
                let made = std::thread::scope(|scope| {
                    let each = pieces.chunks(pieces.len().div_ceil(threads).max(1));
                    let workers: Vec<_> = each
                        .map(|pieces| {
                            let reader = &reader;
                            scope.spawn(move || {
                                let mut batches = Vec::new();
                                reader.read(pieces, &mut |batch| {
                                    batches.push(batch);
                                    true
                                })?;
                                Ok(batches)
                            })
                        })
                        .collect();
                    let joined = workers.into_iter().map(|worker| {
                        worker
                            .join()
                            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    });
                    joined.collect::<Result<Vec<Vec<RecordBatch>>, DatasetError>>()
                })?;
                for batch in made.into_iter().flatten() {
                    take(table, batch)?;
                }
            }
        }
        Ok(())
    }
}

/// What a dataset needs to know of a run to have its tables.
pub trait RunTables {
    /// A hash of the file that the run was made of.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn source_hash(&self) -> Result<u64, DatasetError>;

    /// The file.
    fn source_path(&self) -> Option<&Path>;

    /// The day on which the run began, `YYYY-MM-DD` in UTC, or `unknown`.
    fn day(&self) -> String;

    /// All tables. `runs` is one of them.
    fn run_tables(&self) -> &[Table];

    /// Passes on the rows of all tables. Rows of a table that has an encoder may be encoded.
    ///
    /// # Errors
    /// When `take` fails, and when rows cannot be made.
    fn read_tables(
        &self,
        encoders: &[TableEncoder],
        take: &mut dyn FnMut(&Table, Rows) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError>;
}

impl RunTables for Execution {
    fn source_hash(&self) -> Result<u64, DatasetError> {
        use std::hash::Hasher as _;
        use std::io::Read as _;
        let path = self.recording.path();
        let mut file = std::fs::File::open(path).map_err(DatasetError::file(path))?;
        let mut hash = twox_hash::XxHash64::with_seed(0);
        let mut piece = vec![0; 1 << 20];
        loop {
            match file.read(&mut piece).map_err(DatasetError::file(path))? {
                0 => return Ok(hash.finish()),
                length => hash.write(&piece[..length]),
            }
        }
    }

    fn source_path(&self) -> Option<&Path> {
        Some(self.recording.path())
    }

    fn day(&self) -> String {
        // No simulator says when it ran.
        "unknown".to_owned()
    }

    fn run_tables(&self) -> &[Table] {
        &self.tables
    }

    fn read_tables(
        &self,
        _: &[TableEncoder],
        take: &mut dyn FnMut(&Table, Rows) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        self.read(&mut |table, batch| take(table, Rows::Batch(batch)))
    }
}

/// The machine that a program is for.
fn architecture_of(path: &Path) -> Option<tracewire_arch::Architecture> {
    use std::io::Read as _;
    let mut head = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(64).read_to_end(&mut head).ok()?;
    tracewire_arch::of_elf(&head)
}
