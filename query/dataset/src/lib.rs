//! The values of a trace run as typed rows.
//!
//! A [`Run`] is a trace file with its program. Its [tables](Run::tables) are `runs`, `modules`, `probes`, `hits`, `values` and
//! `spans`. There is also a wide one for each tracepoint, `tpN`, with a column for each collected expression, named as the user
//! wrote it. [`Run::read`] makes Arrow batches of all of them, sorted by time. [`add`] writes them as Parquet files into a
//! directory, [`check`] checks one, [`compact`] makes few large files of many small ones, and [`prune`] removes what is old.
//!
//! The values are those that `tracewire show --json` shows: one walk over a value makes its text and its data
//! ([`tracewire_expr::Datum`]).
//!
//! # Types
//!
//! | of the program | column |
//! |---|---|
//! | integers to 64 bits with a sign, to 32 bits without | `BIGINT` |
//! | unsigned 64 bits | `DECIMAL(20, 0)` |
//! | 128 bits | `DECIMAL(38, 0)`; a number that is larger is null, with a reason |
//! | `float`; `double` and half precision | `FLOAT`; `DOUBLE` |
//! | longer floating-point numbers, complex numbers | text, as they are shown |
//! | truth values | `BOOLEAN` |
//! | enumerations, pointers to members | text |
//! | strings, arrays of characters, `char *` | text; bytes that are not UTF-8 become U+FFFD, and the original bytes are in `NAME_bytes` |
//! | other pointers | `BIGINT`, the address |
//! | structures, classes, unions, tuples | `STRUCT` |
//! | Rust's enums with data | `STRUCT`, with the variant's name in `variant` |
//! | arrays, vectors, lists, sets | `LIST` |
//! | maps | `LIST` of `STRUCT(key, value)`: a `std::multimap` has a key several times |
//! | owning pointers, optional values | as their contents |
//!
//! A missing value is null, and `NAME_unavailable` has the reason.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(test)]
mod agreement;
mod array;
mod check;
mod column;
mod compact;
mod directory;
mod encoding;
mod error;
mod execution;
mod layout;
mod narrow;
mod parquet_file;
mod prune;
mod repeated_value;
mod row_group;
mod rows;
mod run;
mod table;
mod table_writers;

pub use check::{Finding, ListedFile, Listing, Severity, check, list};
pub use compact::{COMPACT_TO, Compacted, compact};
pub use directory::{AddOptions, Added, add, day_of};
pub use encoding::with_encodings;
pub use error::DatasetError;
pub use execution::{
    Execution, Piece, Reader, RunTables, Selection, execution_table_names, is_execution,
};
pub use layout::Layout;
pub use parquet_file::SCHEMA_VERSION;
pub use prune::{LEFT_AFTER, PruneOptions, Pruned, prune};
pub use row_group::{EncodedRowGroup, Rows, TableEncoder};
pub use rows::{FrameReader, rows_of_run};
pub use run::{FRAMES_FOR_THREADS, MOST_THREADS, Run};
pub use table::Table;
