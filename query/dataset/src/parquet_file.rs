//! A table as a Parquet file, put in place by renaming it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::DatasetError;
use crate::table::Table;

/// The version of the tables, in the metadata of each file. A reader knows all versions up to its own.
pub const SCHEMA_VERSION: u32 = 1;

/// The metadata key for the version of the tables.
pub(crate) const VERSION_KEY: &str = "tracewire.schema";

/// The metadata key for the name of the table.
pub(crate) const TABLE_KEY: &str = "tracewire.table";

/// The metadata key for the name of the run.
pub(crate) const RUN_KEY: &str = "tracewire.run";

/// The metadata key for the file that the run was made from: a hash.
pub(crate) const SOURCE_KEY: &str = "tracewire.source";

/// The metadata key of `runs` for the number of rows in each table of the run: `NAME=ROWS` separated by blanks.
pub(crate) const TABLES_KEY: &str = "tracewire.tables";

/// Rows of a row group: the unit that a reader skips by the least and the greatest time.
const ROWS_A_GROUP: usize = 128 << 10;

/// A good compression at more than the speed at which values are evaluated.
const ZSTD_LEVEL: i32 = 3;

/// The end of the name of a file that is not finished. Readers of `*.parquet` pass over it, and those that read all files pass over
/// names that begin with a dot.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// A file that is being written beside its place.
pub(crate) struct TableFile {
    path: PathBuf,
    unfinished: PathBuf,
    writer: Option<ArrowWriter<File>>,
    pub(crate) rows: u64,
}

impl TableFile {
    /// Begins a file for a table, with `metadata` in addition to its own.
    pub(crate) fn create(
        path: &Path,
        table: &Table,
        metadata: &[(&str, String)],
    ) -> Result<Self, DatasetError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let process = std::process::id();
        let unfinished = path.with_file_name(format!(".{name}.{process}{UNFINISHED}"));
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(DatasetError::file(directory))?;
        }
        // Data from a program's memory is only for the user who recorded it, as in a trace file. An existing link is not followed.
        let _ = std::fs::remove_file(&unfinished);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(DatasetError::file(&unfinished))?;
        let mut all = vec![
            KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string()),
            KeyValue::new(TABLE_KEY.to_owned(), table.name.clone()),
        ];
        let given = metadata.iter();
        all.extend(given.map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())));
        let sorting = table
            .sorted_by
            .and_then(|column| i32::try_from(leaf_of(table, column)).ok())
            .map(|column_idx| {
                vec![SortingColumn {
                    column_idx,
                    descending: false,
                    nulls_first: true,
                }]
            });
        let level = ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default();
        let properties = WriterProperties::builder()
            .set_created_by(format!("tracewire {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROWS_A_GROUP))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_sorting_columns(sorting)
            .set_key_value_metadata(Some(all))
            .build();
        let writer = ArrowWriter::try_new(file, table.schema.clone(), Some(properties))
            .map_err(DatasetError::parquet(path))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            writer: Some(writer),
            rows: 0,
        })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), DatasetError> {
        if let Some(writer) = &mut self.writer {
            writer
                .write(batch)
                .map_err(DatasetError::parquet(&self.path))?;
            self.rows += batch.num_rows() as u64;
        }
        Ok(())
    }

    /// Writes the rest, and waits until it is on the disk. The file is not in its place yet.
    pub(crate) fn finish(&mut self) -> Result<(), DatasetError> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let file = writer
            .into_inner()
            .map_err(DatasetError::parquet(&self.path))?;
        file.sync_all()
            .map_err(DatasetError::file(&self.unfinished))
    }

    /// Puts the finished file in its place.
    pub(crate) fn put_in_place(mut self) -> Result<(), DatasetError> {
        self.finish()?;
        std::fs::rename(&self.unfinished, &self.path).map_err(DatasetError::file(&self.path))
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        // It does not exist after it was moved to its place. One that cannot be removed is reported by `check`.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

/// Parquet counts columns without the structures that they are in. The columns before the one that rows are sorted by are plain.
fn leaf_of(table: &Table, column: usize) -> usize {
    let fields = table.schema.fields().iter().take(column);
    debug_assert!(fields.clone().all(|field| !field.data_type().is_nested()));
    fields.count()
}
