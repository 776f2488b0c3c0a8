//! A trace file as a source of tables.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use tracewire_dataset::{Layout, Table, day_of, rows_of_run};
use tracewire_tracefile::{Ending, IndexCache, TraceFile};
use tracewire_views::{Program, ProgramFiles};

use crate::error::QueryError;

/// An open trace file and its program. Threads share it: each makes a separate copy of the symbols.
#[derive(Debug)]
pub(crate) struct TraceRun {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) file: TraceFile,
    program_files: ProgramFiles,
    layout: OnceLock<Arc<Layout>>,
}

impl TraceRun {
    /// Opens a trace file. Messages about it and its program are passed to `note`.
    pub(crate) fn open(
        path: &Path,
        name: String,
        elf: &[PathBuf],
        index: Option<&IndexCache>,
        note: &mut dyn FnMut(String),
    ) -> Result<Self, QueryError> {
        let opened = match index {
            Some(cache) => TraceFile::open_cached(path, cache),
            None => TraceFile::open(path),
        };
        let file = opened.map_err(QueryError::trace_file(path))?;
        let shown = path.display();
        match file.ending() {
            Ending::Cut { .. } => note(format!(
                "{shown}: cut short; the {} whole frames are read",
                file.frame_count()
            )),
            Ending::CutInDescription => {
                note(format!("{shown}: cut short before its first frame"));
            }
            Ending::Marker { .. } | Ending::Missing { .. } => {}
        }
        let program = Program::of(&file, elf).map_err(|source| QueryError::Program {
            path: path.to_owned(),
            source,
        })?;
        for one in &program.notes {
            note(format!("{shown}: {one}"));
        }
        if program.is_empty() {
            note(format!(
                "{shown}: nothing is known of the program, so there are no values: name it with --elf"
            ));
        }
        Ok(Self {
            name,
            path: path.to_owned(),
            program_files: program.program_files().clone(),
            file,
            layout: OnceLock::new(),
        })
    }

    /// The program, for one thread. Files that were already read are not read again; one that was removed meanwhile has no symbols.
    pub(crate) fn program(&self) -> Program {
        Program::with_files(&self.file, self.program_files.clone()).unwrap_or_default()
    }

    /// The tables that the run's tracepoints have. For a file whose frame index is not known, every frame is looked at.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        let find = || Arc::new(Layout::of(&self.file, &self.program()));
        Arc::clone(self.layout.get_or_init(find))
    }

    /// The tables without those of tracepoints: their columns are the same in all runs.
    pub(crate) fn common_layout(&self) -> Arc<Layout> {
        match self.layout.get() {
            Some(layout) => Arc::clone(layout),
            None => Arc::new(Layout::common()),
        }
    }

    /// The numbers of the tracepoints that the file describes.
    pub(crate) fn tracepoints(&self) -> impl Iterator<Item = i32> {
        let tracepoints = self.file.description().tracepoints().iter();
        tracepoints.map(|tracepoint| tracepoint.definition.number.0)
    }

    /// The rows of a table without frames.
    pub(crate) fn rows(&self, table: &Table) -> Result<Option<RecordBatch>, QueryError> {
        Ok(rows_of_run(&self.file, &self.program(), table)?)
    }

    /// The day on which the run began, as a dataset has it.
    pub(crate) fn day(&self) -> String {
        day_of(&self.file)
    }
}
