//! A run as reports and exports take it.

use tracewire_model::ThreadId;
use tracewire_tracefile::TraceFile;

use crate::program::Program;

/// A trace file of a run. A run of one process has one; a run of several has one for each.
#[derive(Debug)]
pub struct RunPart<'a> {
    /// Its name, as the user called it.
    pub name: String,
    /// Its process, in a run of several.
    pub process: Option<ThreadId>,
    /// The process that made that one.
    pub parent: Option<ThreadId>,
    /// The origin of its frames' times, in microseconds.
    pub origin: Option<u64>,
    /// The file.
    pub file: &'a TraceFile,
    /// Its program.
    pub program: &'a Program,
}

impl<'a> RunPart<'a> {
    /// The trace file of a run of one process, whose times count from the first one.
    #[must_use]
    pub const fn only(name: String, file: &'a TraceFile, program: &'a Program) -> Self {
        Self {
            name,
            process: None,
            parent: None,
            origin: None,
            file,
            program,
        }
    }
}
