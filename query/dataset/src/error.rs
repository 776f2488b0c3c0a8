//! Errors of datasets.

use std::path::{Path, PathBuf};

/// Why a run cannot be read as data, or not written.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// A file or directory cannot be read or written.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The contents of a dataset's file do not match its path, or are damaged.
    #[error("{}: {message}", path.display())]
    Unusable {
        /// Which.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// A file is no execution trace, or one that cannot be read.
    #[error("{}", path.display())]
    Execution {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Box<tracewire_exec_trace::recording::OpenError>,
    },
    /// The file of an execution trace is damaged.
    #[error(transparent)]
    Recording(#[from] tracewire_exec_trace::recording::ReadError),
    /// A file of an execution's program cannot be used.
    #[error("{}", path.display())]
    Program {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Box<tracewire_debuginfo::SymbolError>,
    },
    /// A table that is as long as all memory at all times.
    #[error(
        "memory_values needs the places that are meant, at most {most}: where address = … and size = …, a size of 1 to 8"
    )]
    Places {
        /// How many places may be asked for.
        most: usize,
    },
    /// A Parquet file cannot be written.
    #[error("{}", path.display())]
    Parquet {
        /// Which.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// Rows of a table cannot be encoded as Parquet.
    #[error("table {table}")]
    Encoding {
        /// Which table.
        table: String,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// Rows do not fit their table.
    #[error("table {table}")]
    Arrow {
        /// Which table.
        table: String,
        /// Why.
        source: arrow::error::ArrowError,
    },
    /// A file of the program could be read before, and cannot be read again.
    #[error("a file of the program went away while its values were read")]
    ProgramGone,
    /// A thread that writes a file has ended early, of which it gives the reason.
    #[error("a file of the dataset is no longer written")]
    WriterGone,
    /// A name that is part of a path cannot be one.
    #[error("{what} {name:?} cannot be a part of a path: use letters, digits, `.`, `-` and `_`")]
    Name {
        /// The kind of the name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The directory has another run of this name.
    #[error(
        "{}: a run of this name is there already, made of another file: give this one a name with --run", path.display()
    )]
    OtherRun {
        /// The directory of the run.
        path: PathBuf,
    },
    /// Another process compacts the dataset.
    #[error("{} is being compacted by another process", path.display())]
    Busy {
        /// The dataset.
        path: PathBuf,
    },
}

impl DatasetError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn parquet(path: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        move |source| Self::Parquet {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn encoding(table: &str) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        move |source| Self::Encoding {
            table: table.to_owned(),
            source,
        }
    }

    pub(crate) fn arrow(table: &str) -> impl FnOnce(arrow::error::ArrowError) -> Self {
        move |source| Self::Arrow {
            table: table.to_owned(),
            source,
        }
    }
}
