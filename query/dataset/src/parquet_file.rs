//! A table of a batch as a Parquet file. Its first column is the name of the run.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::Hash;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::error::DatasetError;
use crate::table::VALUES;

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

/// The columns of `values` that have texts of different expressions.
const TEXTS_OF_VALUES: &[&str] = &["type", "text", "string", "unavailable"];

/// Rows of a row group: the unit that a reader skips by the least and the greatest time.
const ROWS_A_GROUP: usize = 128 << 10;

/// A good compression at more than the speed at which values are evaluated.
const ZSTD_LEVEL: i32 = 3;

/// The fewest rows that say whether the values of a column differ.
const ROWS_OF_A_SAMPLE: usize = 256;

/// A file that is being written.
pub(crate) struct TableFile {
    path: PathBuf,
    schema: SchemaRef,
    properties: WriterPropertiesBuilder,
    state: State,
    rows: u64,
}

enum State {
    /// The encodings are chosen by the first rows.
    Empty(File),
    Writing(Box<ArrowWriter<File>>),
    /// It could not be begun.
    Failed,
}

impl TableFile {
    /// Begins a file with these columns, of which `run` is the first, and with `metadata` in addition to its own. `sorted_by` is the column that the
    /// rows are sorted by; `runs` is how many runs they are of.
    pub(crate) fn create(
        path: &Path,
        schema: &SchemaRef,
        sorted_by: Option<usize>,
        runs: usize,
        metadata: &[(&str, String)],
    ) -> Result<Self, DatasetError> {
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
        let version = KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string());
        let given = metadata.iter();
        let given = given.map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let sorting = sorted_by
            .and_then(|column| i32::try_from(leaf_of(schema, column)).ok())
            .map(|column_idx| {
                vec![SortingColumn {
                    column_idx,
                    descending: false,
                    nulls_first: true,
                }]
            });
        let run = ColumnPath::from(RUN);
        let level = ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default();
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("tracewire {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROWS_A_GROUP))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_sorting_columns(sorting)
            .set_key_value_metadata(Some([version].into_iter().chain(given).collect()));
        // The least and the greatest of all texts of all expressions lead to no row group.
        let is_of_values = (metadata.iter()).any(|(key, name)| *key == TABLE_KEY && name == VALUES);
        if is_of_values {
            for column in TEXTS_OF_VALUES {
                let column = ColumnPath::from(*column);
                properties =
                    properties.set_column_statistics_enabled(column, EnabledStatistics::None);
            }
        }
        // The number of values by itself would make one, too.
        if runs > 1 {
            properties = properties
                .set_column_bloom_filter_enabled(run.clone(), true)
                .set_column_bloom_filter_max_ndv(run, runs as u64);
        }
        Ok(Self {
            path: path.to_owned(),
            schema: Arc::clone(schema),
            properties,
            state: State::Empty(file),
            rows: 0,
        })
    }

    /// The writer, which begins with `rows`, or with none.
    fn writer(
        &mut self,
        rows: Option<&RecordBatch>,
    ) -> Result<&mut ArrowWriter<File>, DatasetError> {
        if let State::Empty(_) = &self.state
            && let State::Empty(file) = std::mem::replace(&mut self.state, State::Failed)
        {
            let properties = encoded(self.properties.clone(), &self.schema, rows).build();
            let writer = ArrowWriter::try_new(file, Arc::clone(&self.schema), Some(properties));
            let writer = writer.map_err(DatasetError::parquet(&self.path))?;
            self.state = State::Writing(Box::new(writer));
        }
        match &mut self.state {
            State::Writing(writer) => Ok(writer),
            State::Empty(_) | State::Failed => Err(DatasetError::WriterGone),
        }
    }

    /// Writes rows of a run.
    pub(crate) fn write_of(&mut self, run: &str, rows: &RecordBatch) -> Result<(), DatasetError> {
        let named = rows_of(run, rows, &self.schema);
        self.write(&named.map_err(DatasetError::arrow(&self.path.to_string_lossy()))?)
    }

    /// Writes rows with the name of their run.
    pub(crate) fn write(&mut self, rows: &RecordBatch) -> Result<(), DatasetError> {
        let written = self.writer(Some(rows))?.write(rows);
        written.map_err(DatasetError::parquet(&self.path))?;
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// Writes the rest, and waits until it is on the disk. How many rows the file has.
    pub(crate) fn finish(mut self) -> Result<u64, DatasetError> {
        self.writer(None)?;
        let State::Writing(writer) = self.state else {
            return Err(DatasetError::WriterGone);
        };
        let file = writer
            .into_inner()
            .map_err(DatasetError::parquet(&self.path))?;
        file.sync_all().map_err(DatasetError::file(&self.path))?;
        Ok(self.rows)
    }
}

/// The encodings of columns, by their first rows. Where many values differ a dictionary is of no use: it costs a look-up for each
/// value, and the values are written besides.
fn encoded(
    mut properties: WriterPropertiesBuilder,
    schema: &Schema,
    rows: Option<&RecordBatch>,
) -> WriterPropertiesBuilder {
    for (at, field) in schema.fields().iter().enumerate() {
        let column = ColumnPath::new(vec![field.name().clone()]);
        let differ = rows.is_some_and(|rows| {
            let column = rows.columns().get(at);
            column.is_some_and(|column| rarely_repeat(column.as_ref()))
        });
        let encoding = match field.data_type() {
            // Of numbers the differences are small, and of texts the lengths are.
            DataType::Int64 => Encoding::DELTA_BINARY_PACKED,
            DataType::Utf8 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            _ => continue,
        };
        properties = properties.set_column_encoding(column.clone(), encoding);
        if differ || is_ascending(field.name()) && *field.data_type() == DataType::Int64 {
            properties = properties.set_column_dictionary_enabled(column, false);
        }
    }
    properties
}

/// Whether values of a column are there a few times each at most.
fn rarely_repeat(column: &dyn Array) -> bool {
    fn most<T: Hash + Eq>(values: impl Iterator<Item = Option<T>>) -> bool {
        let mut there = 0;
        let mut seen = HashSet::new();
        for value in values.flatten() {
            there += 1;
            seen.insert(value);
        }
        there >= ROWS_OF_A_SAMPLE && seen.len() > there / 8
    }
    match column.data_type() {
        DataType::Int64 => most(column.as_primitive::<Int64Type>().iter()),
        DataType::Utf8 => most(column.as_string::<i32>().iter()),
        _ => false,
    }
}

/// Whether a column has other numbers in nearly all rows, each a little more than that before.
fn is_ascending(column: &str) -> bool {
    matches!(column, "frame" | "time_ns" | "start_ns" | "end_ns")
}

/// The columns of a table in a file.
pub(crate) fn with_run(columns: &Schema) -> SchemaRef {
    let run = Arc::new(Field::new(RUN, DataType::Utf8, true));
    let all = std::iter::once(run).chain(columns.fields().iter().cloned());
    Arc::new(Schema::new(all.collect::<Vec<_>>()))
}

/// Rows of a table as those of a file.
fn rows_of(
    run: &str,
    rows: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, arrow::error::ArrowError> {
    let name: ArrayRef = Arc::new(StringArray::new_repeated(run, rows.num_rows()));
    let columns = std::iter::once(name).chain(rows.columns().iter().cloned());
    RecordBatch::try_new(Arc::clone(schema), columns.collect())
}

/// Parquet counts columns without the structures that they are in. The columns before the one that rows are sorted by are plain.
fn leaf_of(schema: &Schema, column: usize) -> usize {
    let fields = schema.fields().iter().take(column);
    debug_assert!(fields.clone().all(|field| !field.data_type().is_nested()));
    fields.count()
}
