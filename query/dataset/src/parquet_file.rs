//! A table of a batch as a Parquet file. Its first column is the name of the run.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::file::writer::SerializedFileWriter;

use crate::error::DatasetError;
use crate::row_group::{EncodedRowGroup, RowGroups, TableFormat};

/// The version of the tables, in the metadata of each file. Version 2 has the name of the run in a column, and no longer in the path.
pub const SCHEMA_VERSION: u32 = 2;

/// The metadata key for the version of the tables.
pub(crate) const VERSION_KEY: &str = "tracewire.schema";

/// The metadata key for the name of the table.
pub(crate) const TABLE_KEY: &str = "tracewire.table";

/// The metadata key for the name of the batch.
pub(crate) const BATCH_KEY: &str = "tracewire.batch";

/// The metadata key of `runs` for the runs of the batch: `NAME=SOURCE` separated by blanks. The source is a hash of the trace file.
pub(crate) const RUNS_KEY: &str = "tracewire.runs";

/// The metadata key of `runs` for the number of rows in each table of the batch: `NAME=ROWS` separated by blanks.
pub(crate) const TABLES_KEY: &str = "tracewire.tables";

/// The metadata key of `runs` for the batches that a compacted one replaces: their names separated by blanks.
pub(crate) const REPLACES_KEY: &str = "tracewire.replaces";

/// The column with the name of the run.
pub(crate) const RUN: &str = "run";

/// A file that is being written.
pub(crate) struct TableFile {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    /// Those of the rows that are added here.
    groups: RowGroups,
    rows: u64,
}

impl TableFile {
    /// Begins a file.
    pub(crate) fn create(path: &Path, format: Arc<TableFormat>) -> Result<Self, DatasetError> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(DatasetError::file(directory))?;
        }
        // Data from a program's memory is only for the user who recorded it, as in a trace file. An existing link is not followed.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(DatasetError::file(path))?;
        let writer = format.writer(file).map_err(DatasetError::parquet(path))?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            groups: RowGroups::new(format),
            rows: 0,
        })
    }

    /// Writes rows, which have the name of their run.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), DatasetError> {
        let full = self.groups.add(rows);
        for group in full.map_err(DatasetError::parquet(&self.path))? {
            self.put(group)?;
        }
        Ok(())
    }

    /// Writes a row group.
    pub(crate) fn append(&mut self, group: EncodedRowGroup) -> Result<(), DatasetError> {
        self.close_group()?;
        self.put(group)
    }

    /// Writes the rows that are in no row group yet.
    fn close_group(&mut self) -> Result<(), DatasetError> {
        let last = self.groups.close();
        match last.map_err(DatasetError::parquet(&self.path))? {
            Some(group) => self.put(group),
            None => Ok(()),
        }
    }

    fn put(&mut self, group: EncodedRowGroup) -> Result<(), DatasetError> {
        self.rows += group.rows();
        let written = group.write_to(&mut self.writer);
        written.map_err(DatasetError::parquet(&self.path))
    }

    /// Writes the rest, and waits until it is on the disk. How many rows the file has.
    pub(crate) fn finish(mut self) -> Result<u64, DatasetError> {
        self.close_group()?;
        let file = self.writer.into_inner();
        let file = file.map_err(DatasetError::parquet(&self.path))?;
        file.sync_all().map_err(DatasetError::file(&self.path))?;
        Ok(self.rows)
    }
}

/// The columns of a table in a file.
pub(crate) fn with_run(columns: &Schema) -> SchemaRef {
    let run = Arc::new(Field::new(RUN, DataType::Utf8, true));
    let all = std::iter::once(run).chain(columns.fields().iter().cloned());
    Arc::new(Schema::new(all.collect::<Vec<_>>()))
}
