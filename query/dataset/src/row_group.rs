//! Row groups of a table's file. Any thread can encode one.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::encoding::with_encodings;
use crate::error::DatasetError;
use crate::parquet_file::{RUN, SCHEMA_VERSION, TABLE_KEY, VERSION_KEY};
use crate::repeated_value::{RepeatedChunk, RepeatedValue, RepeatedValues};
use crate::table::VALUES;

/// The columns of `values` that have texts of different expressions.
const TEXTS_OF_VALUES: &[&str] = &["expression", "type", "text", "string", "unavailable"];

/// The most rows of a row group. A reader skips it by the least and the greatest time.
pub(crate) const ROWS_A_GROUP: usize = 128 << 10;

/// From this many rows on, a thread encodes a row group of its own.
const ROWS_TO_ENCODE: usize = 16 << 10;

/// The quickest. The files of level 3 are as large.
const ZSTD_LEVEL: i32 = 1;

/// The columns of a table's file, and how they are written.
#[derive(Debug)]
pub(crate) struct TableFormat {
    schema: SchemaRef,
    properties: WriterPropertiesBuilder,
    /// Whether all rows are of one run. Otherwise the column of its name has a bloom filter.
    has_own_run: bool,
    repeated_values: RepeatedValues,
}

impl TableFormat {
    /// A file with these columns, of which `run` is the first, and with `metadata` in addition to its own. `sorted_by` is the column
    /// that the rows are sorted by; `runs` is how many runs they are of.
    pub(crate) fn new(
        schema: SchemaRef,
        sorted_by: Option<usize>,
        runs: usize,
        metadata: &[(&str, String)],
    ) -> Self {
        let version = KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string());
        let given = metadata.iter();
        let given = given.map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
        let sorting = sorted_by
            .and_then(|column| i32::try_from(leaf_of(&schema, column)).ok())
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
        Self {
            schema,
            properties,
            has_own_run: runs <= 1,
            repeated_values: RepeatedValues::default(),
        }
    }

    /// Begins a file.
    pub(crate) fn writer<W: Write + Send>(
        &self,
        file: W,
    ) -> Result<SerializedFileWriter<W>, ParquetError> {
        let mut properties = self.properties.clone().build();
        add_encoded_arrow_schema_to_metadata(&self.schema, &mut properties);
        self.writer_with(file, properties)
    }

    fn writer_with<W: Write + Send>(
        &self,
        file: W,
        properties: WriterProperties,
    ) -> Result<SerializedFileWriter<W>, ParquetError> {
        let columns = ArrowSchemaConverter::new().convert(&self.schema)?;
        SerializedFileWriter::new(file, columns.root_schema_ptr(), Arc::new(properties))
    }

    /// How a row group is encoded that begins with these rows.
    fn encoding(&self, first: &RecordBatch) -> WriterProperties {
        with_encodings(self.properties.clone(), &self.schema, first).build()
    }
}

/// A row group that is being encoded.
struct RowGroup {
    format: Arc<TableFormat>,
    properties: WriterProperties,
    columns: Vec<Column>,
    rows: usize,
}

/// A column of a row group, with the columns that are in it.
struct Column {
    writers: Vec<ArrowColumnWriter>,
    /// The value that all rows have so far. It is not written yet.
    repeated: Option<RepeatedValue>,
}

impl RowGroup {
    /// A row group that is to begin with the rows `first`.
    fn new(format: &Arc<TableFormat>, first: &RecordBatch) -> Result<Self, ParquetError> {
        let properties = format.encoding(first);
        // The library makes the writers for a file only.
        let file = format.writer_with(std::io::sink(), properties.clone())?;
        let factory = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&format.schema));
        let mut writers = factory.create_column_writers(0)?.into_iter();
        let mut columns = Vec::with_capacity(first.num_columns());
        for (field, column) in format.schema.fields().iter().zip(first.columns()) {
            let repeated = format.has_own_run.then(|| RepeatedValue::of(column));
            columns.push(Column {
                writers: writers.by_ref().take(leaves(field.data_type())).collect(),
                repeated: repeated.flatten(),
            });
        }
        debug_assert_eq!(writers.count(), 0, "a column for each writer");
        Ok(Self {
            format: Arc::clone(format),
            properties,
            columns,
            rows: 0,
        })
    }

    /// Adds rows as far as there is room, and gives the others.
    fn write(&mut self, rows: &RecordBatch) -> Result<Option<RecordBatch>, ParquetError> {
        debug_assert!(!self.is_full());
        let count = rows.num_rows().min(ROWS_A_GROUP - self.rows);
        let others = rows.num_rows() - count;
        self.add(&rows.slice(0, count))?;
        Ok((others > 0).then(|| rows.slice(count, others)))
    }

    fn add(&mut self, rows: &RecordBatch) -> Result<(), ParquetError> {
        let fields = self.format.schema.fields();
        debug_assert_eq!(rows.num_columns(), fields.len());
        let columns = self.columns.iter_mut().zip(rows.columns());
        for (field, (column, array)) in fields.iter().zip(columns) {
            if let Some(value) = column.repeated.take() {
                if value.is_that_of(array) {
                    column.repeated = Some(value);
                    continue;
                }
                column.write(field, &value.column(self.rows))?;
            }
            column.write(field, array)?;
        }
        self.rows += rows.num_rows();
        Ok(())
    }

    const fn is_full(&self) -> bool {
        self.rows == ROWS_A_GROUP
    }

    fn finish(self) -> Result<EncodedRowGroup, ParquetError> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (field, column) in self.format.schema.fields().iter().zip(self.columns) {
            match column.repeated {
                Some(value) => {
                    let known = &self.format.repeated_values;
                    let chunk = known.chunk(field, value, self.rows, &self.properties)?;
                    columns.push(EncodedColumn::Repeated(chunk));
                }
                None => {
                    for writer in column.writers {
                        columns.push(EncodedColumn::Own(Box::new(writer.close()?)));
                    }
                }
            }
        }
        Ok(EncodedRowGroup {
            columns,
            rows: self.rows as u64,
        })
    }
}

impl Column {
    fn write(&mut self, field: &Field, array: &ArrayRef) -> Result<(), ParquetError> {
        let leaves = compute_leaves(field, array)?;
        debug_assert_eq!(leaves.len(), self.writers.len(), "{field}");
        for (writer, leaf) in self.writers.iter_mut().zip(leaves) {
            writer.write(&leaf)?;
        }
        Ok(())
    }
}

/// The row groups of a table's rows. The last one is being encoded.
pub(crate) struct RowGroups {
    format: Arc<TableFormat>,
    last: Option<RowGroup>,
}

impl RowGroups {
    pub(crate) const fn new(format: Arc<TableFormat>) -> Self {
        Self { format, last: None }
    }

    /// Whether a row group has rows and is not full.
    pub(crate) const fn is_open(&self) -> bool {
        self.last.is_some()
    }

    /// Adds rows, which have the name of their run, and gives the row groups that are full.
    pub(crate) fn add(&mut self, rows: &RecordBatch) -> Result<Vec<EncodedRowGroup>, ParquetError> {
        let mut full = Vec::new();
        let mut rest = (rows.num_rows() > 0).then(|| rows.clone());
        while let Some(rows) = rest {
            let mut group = match self.last.take() {
                Some(group) => group,
                None => RowGroup::new(&self.format, &rows)?,
            };
            rest = group.write(&rows)?;
            match group.is_full() {
                true => full.push(group.finish()?),
                false => self.last = Some(group),
            }
        }
        Ok(full)
    }

    /// Ends the last row group; none where there are no rows, or the last group is full.
    pub(crate) fn close(&mut self) -> Result<Option<EncodedRowGroup>, ParquetError> {
        self.last.take().map(RowGroup::finish).transpose()
    }
}

/// How many columns Parquet has for one.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(element) => leaves(element.data_type()),
        _ => 1,
    }
}

/// A row group as it is written into its file.
#[derive(Debug)]
pub struct EncodedRowGroup {
    columns: Vec<EncodedColumn>,
    rows: u64,
}

#[derive(Debug)]
enum EncodedColumn {
    Own(Box<ArrowColumnChunk>),
    /// Other row groups have the same.
    Repeated(Arc<RepeatedChunk>),
}

impl EncodedRowGroup {
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn write_to<W: Write + Send>(
        self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for column in self.columns {
            match column {
                EncodedColumn::Own(chunk) => chunk.append_to_row_group(&mut group)?,
                EncodedColumn::Repeated(chunk) => chunk.append_to_row_group(&mut group)?,
            }
        }
        group.close().map(|_| ())
    }
}

/// Rows of a table, on their way into its file.
#[derive(Debug)]
pub enum Rows {
    /// Some rows.
    Batch(RecordBatch),
    /// Many, encoded.
    Group(EncodedRowGroup),
}

/// Encodes the rows of one run for the file of a table.
#[derive(Debug)]
pub struct TableEncoder {
    table: String,
    format: Arc<TableFormat>,
    run: String,
}

impl TableEncoder {
    pub(crate) fn new(table: &str, format: TableFormat, run: &str) -> Self {
        Self {
            table: table.to_owned(),
            format: Arc::new(format),
            run: run.to_owned(),
        }
    }

    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    pub(crate) const fn format(&self) -> &Arc<TableFormat> {
        &self.format
    }

    /// Rows of the table as those of the file, which have the name of the run.
    pub(crate) fn named(&self, rows: &RecordBatch) -> Result<RecordBatch, DatasetError> {
        let name: ArrayRef = Arc::new(StringArray::new_repeated(&self.run, rows.num_rows()));
        let columns = std::iter::once(name).chain(rows.columns().iter().cloned());
        RecordBatch::try_new(Arc::clone(&self.format.schema), columns.collect())
            .map_err(DatasetError::arrow(&self.table))
    }

    /// Takes a stretch of the run's rows.
    pub(crate) fn begin(&self) -> EncodedRows<'_> {
        EncodedRows {
            encoder: self,
            waiting: Vec::new(),
            groups: RowGroups::new(Arc::clone(&self.format)),
            done: Vec::new(),
        }
    }

    fn failed(&self) -> impl FnOnce(ParquetError) -> DatasetError {
        DatasetError::encoding(&self.table)
    }
}

/// A stretch of a run's rows, encoded where they are many. Few rows are left as they are: a table with a row now and then would have
/// row groups of a few rows otherwise.
pub(crate) struct EncodedRows<'e> {
    encoder: &'e TableEncoder,
    /// Rows that are not many yet.
    waiting: Vec<RecordBatch>,
    groups: RowGroups,
    done: Vec<EncodedRowGroup>,
}

impl EncodedRows<'_> {
    pub(crate) fn add(&mut self, rows: RecordBatch) -> Result<(), DatasetError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.waiting.push(rows);
        let waiting: usize = self.waiting.iter().map(RecordBatch::num_rows).sum();
        if !self.groups.is_open() && waiting < ROWS_TO_ENCODE {
            return Ok(());
        }
        for rows in std::mem::take(&mut self.waiting) {
            let full = self.groups.add(&self.encoder.named(&rows)?);
            self.done.extend(full.map_err(self.encoder.failed())?);
        }
        Ok(())
    }

    /// All of them, in their order.
    pub(crate) fn finish(mut self) -> Result<Vec<Rows>, DatasetError> {
        debug_assert!(!self.groups.is_open() || self.waiting.is_empty());
        let last = self.groups.close().map_err(self.encoder.failed())?;
        self.done.extend(last);
        let encoded = self.done.into_iter().map(Rows::Group);
        let waiting = self.waiting.into_iter().map(Rows::Batch);
        Ok(encoded.chain(waiting).collect())
    }
}

/// Parquet counts columns without the structures that they are in. The columns before the one that rows are sorted by are plain.
fn leaf_of(schema: &Schema, column: usize) -> usize {
    let fields = schema.fields().iter().take(column);
    debug_assert!(fields.clone().all(|field| !field.data_type().is_nested()));
    fields.count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::{DataType, Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
    use parquet::file::metadata::PageIndexPolicy;
    use parquet::file::statistics::Statistics;

    use super::{ROWS_A_GROUP, RowGroup, TableFormat};
    use crate::parquet_file::RUN;

    #[test]
    fn row_groups_with_one_value_and_with_several_are_read_as_they_were_written() {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        let number = |name: &str| Field::new(name, DataType::Int64, true);
        let fields = vec![text(RUN), number("number"), text("kind"), number("line")];
        let schema = Arc::new(Schema::new(fields));
        let format = Arc::new(TableFormat::new(Arc::clone(&schema), Some(1), 1, &[]));
        let batch = |kind: &dyn Fn(i64) -> Option<&'static str>| {
            let kinds: StringArray = (0..1000).map(kind).collect();
            let lines: Int64Array = (0..1000)
                .map(|row| kind(row).map(|kind| if kind == "hit" { 7 } else { 8 }))
                .collect();
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::new_repeated("the run", 1000)),
                Arc::new(Int64Array::from_iter_values(0..1000)),
                Arc::new(kinds),
                Arc::new(lines),
            ];
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch")
        };
        let hits = batch(&|_| Some("hit"));
        let steps = batch(&|row| Some(if row < 999 { "hit" } else { "step" }));
        let none = batch(&|_| None);
        let mut file = format.writer(Vec::new()).expect("a file");
        let mut written = Vec::new();
        for batches in [
            vec![&hits, &hits],
            vec![&hits, &steps, &hits],
            vec![&hits, &none],
            vec![&none],
            vec![&hits, &hits],
        ] {
            let mut group = RowGroup::new(&format, batches[0]).expect("a row group");
            for batch in batches {
                assert_eq!(group.write(batch).expect("written"), None);
                written.push(batch.clone());
            }
            let group = group.finish().expect("encoded");
            group.write_to(&mut file).expect("written");
        }
        let file = Bytes::from(file.into_inner().expect("a whole file"));
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options);
        let reader = reader.expect("Parquet with page indexes");
        let metadata = Arc::clone(reader.metadata());
        let read: Result<Vec<_>, _> = reader.build().expect("a reader").collect();
        let all = |batches: &[RecordBatch]| concat_batches(&schema, batches).expect("one batch");
        assert_eq!(all(&read.expect("rows")), all(&written));

        let least = |group: usize, column: usize| match metadata
            .row_group(group)
            .column(column)
            .statistics()
        {
            Some(Statistics::ByteArray(statistics)) => {
                let least = statistics.min_opt()?;
                Some(least.as_utf8().expect("text").to_owned())
            }
            _ => None,
        };
        for group in 0..5 {
            assert_eq!(least(group, 0).as_deref(), Some("the run"), "{group}");
        }
        assert_eq!(least(1, 2).as_deref(), Some("hit"));
        assert_eq!(least(3, 2), None);
    }
    #[test]
    fn a_full_row_group_gives_back_what_has_no_room() {
        let fields = vec![Field::new(RUN, DataType::Utf8, true)];
        let schema = Arc::new(Schema::new(fields));
        let format = Arc::new(TableFormat::new(Arc::clone(&schema), None, 1, &[]));
        let batch = |rows: usize| {
            let runs: ArrayRef = Arc::new(StringArray::new_repeated("the run", rows));
            RecordBatch::try_new(Arc::clone(&schema), vec![runs]).expect("a batch")
        };
        let mut group = RowGroup::new(&format, &batch(1)).expect("a row group");
        let mut write = |rows| {
            let rest = group.write(&batch(rows)).expect("written");
            (rest.map(|rest| rest.num_rows()), group.is_full())
        };
        assert_eq!(write(ROWS_A_GROUP - 1), (None, false));
        assert_eq!(write(1), (None, true));
        let mut group = RowGroup::new(&format, &batch(1)).expect("a row group");
        let rest = group.write(&batch(ROWS_A_GROUP + 7)).expect("written");
        assert_eq!(rest.map(|rest| rest.num_rows()), Some(7));
        let encoded = group.finish().expect("encoded");
        assert_eq!(encoded.rows(), ROWS_A_GROUP as u64);
    }
}
