#![doc = include_str!("../README.md")]
//!
//! # Example
//!
//! ```
//! use tracewire_report::{RunOptions, RunPart, write_run};
//! use tracewire_tracefile::TraceFile;
//! use tracewire_views::Program;
//!
//! let file = TraceFile::open(tracewire_test_support::sample("sample.tf"))?;
//! let program = Program::of(&file, &[tracewire_test_support::sample("sample")])?;
//! let part = RunPart::only("sample.tf".to_owned(), &file, &program);
//! let options = RunOptions { title: "sample.tf".to_owned(), most_rows: 100_000, with_source: true };
//! let mut page = Vec::new();
//! let written = write_run(&[part], &options, &mut page)?;
//! assert_eq!((written.hits, written.rows), (file.frame_count(), file.frame_count()));
//! assert!(page.starts_with(b"<!DOCTYPE html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a page is made
//!
//! One pass over the frames counts, and keeps a row of each hit up to a limit. Counts are bounded too: nearly equal numbers become
//! one if there are many different ones, and rare texts are counted together.
//!
//! Charts and tables are HTML and SVG without a script. The table of hits is data: columns in a block of JSON, of which a script
//! shows one page at a time.
//!
//! # Hostile data
//!
//! Names and values come from the traced program. `maud` escapes them in HTML; the block of JSON has no `<`; the script only makes
//! text nodes. The page's policy forbids it to load or send anything.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod chart;
mod data;
mod distribution;
mod execution;
mod numbers;
mod page;
mod run;
mod source;
mod words;

use std::io::{self, Write};

use tracewire_exec_trace::recording::ReadError;

pub use execution::{ExecutionParts, MemoryHistory};
pub use run::RunOptions;
pub use tracewire_views::RunPart;

/// The results of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Hits of the run.
    pub hits: u64,
    /// Hits that have a row in the table.
    pub rows: u64,
}

/// Writes the report of a run: of a trace file, or of those of several processes.
///
/// # Errors
/// When it cannot be written.
pub fn write_run(
    parts: &[RunPart<'_>],
    options: &RunOptions,
    out: &mut impl Write,
) -> io::Result<Written> {
    let run = run::Run::read(parts, options);
    page::run::write(&run, out)?;
    Ok(Written {
        hits: run.hits,
        rows: run.hits.min(options.most_rows),
    })
}

/// Writes the report of an execution trace.
///
/// # Errors
/// When the trace's file is damaged, and when the report cannot be written.
pub fn write_execution(
    parts: &ExecutionParts<'_>,
    out: &mut impl Write,
) -> Result<(), ReportError> {
    let execution = execution::Execution::read(parts)?;
    Ok(page::execution::write(&execution, out)?)
}

/// Why there is no report of an execution trace.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The page cannot be written.
    #[error("the report cannot be written")]
    Write(#[from] io::Error),
}
