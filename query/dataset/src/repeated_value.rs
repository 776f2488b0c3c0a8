//! Columns of a row group that have one value in all rows, as that of the run's name.
//!
//! The Parquet writer hashes the value of each row. Here a column of so many equal values is encoded once, and its bytes are copied into
//! each row group that has it.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray as _, Int64Array, StringArray};
use arrow::datatypes::{Field, Int64Type, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

/// The longest text that is encoded in this way: all rows of a row group are in memory for it once.
const LONGEST: usize = 256;

/// A value that all rows of a column have.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RepeatedValue {
    Text(String),
    Number(i64),
}

impl RepeatedValue {
    /// The value that all rows of a column have, if it is not long.
    pub(crate) fn of(column: &dyn Array) -> Option<Self> {
        let text = text_of_all(column).map(|text| Self::Text(text.to_owned()));
        text.or_else(|| number_of_all(column).map(Self::Number))
    }

    /// Whether all rows of a column have the value.
    pub(crate) fn is_that_of(&self, column: &dyn Array) -> bool {
        match self {
            Self::Text(text) => text_of_all(column) == Some(text),
            Self::Number(number) => number_of_all(column) == Some(*number),
        }
    }

    /// A column of so many rows.
    pub(crate) fn column(&self, rows: usize) -> ArrayRef {
        match self {
            Self::Text(text) => Arc::new(StringArray::new_repeated(text, rows)),
            Self::Number(number) => Arc::new(Int64Array::from_value(*number, rows)),
        }
    }
}

/// The column chunks of one file that have one value.
#[derive(Debug, Default)]
pub(crate) struct RepeatedValues(Mutex<HashMap<Key, Arc<RepeatedChunk>>>);

/// The name of the column, the value, and how many rows have it.
type Key = (String, RepeatedValue, usize);

/// A column chunk of one value.
#[derive(Debug)]
pub(crate) struct RepeatedChunk {
    /// A file that has this column only.
    file: Bytes,
    close: ColumnCloseResult,
}

impl RepeatedValues {
    /// The chunk of a column.
    pub(crate) fn chunk(
        &self,
        field: &Field,
        value: RepeatedValue,
        rows: usize,
        properties: &WriterProperties,
    ) -> Result<Arc<RepeatedChunk>, ParquetError> {
        let key = (field.name().clone(), value, rows);
        // Another thread mostly waits for the same column.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = known.get(&key) {
            return Ok(Arc::clone(chunk));
        }
        let column = key.1.column(rows);
        let chunk = Arc::new(RepeatedChunk::encode(field, &column, properties)?);
        known.insert(key, Arc::clone(&chunk));
        Ok(chunk)
    }
}

impl RepeatedChunk {
    fn encode(
        field: &Field,
        array: &ArrayRef,
        properties: &WriterProperties,
    ) -> Result<Self, ParquetError> {
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let columns = ArrowSchemaConverter::new().convert(&schema)?;
        // The index of the column that rows are sorted by is one of another file.
        let properties = properties.clone().into_builder().set_sorting_columns(None);
        let properties = Arc::new(properties.build());
        let mut file =
            SerializedFileWriter::new(Vec::new(), columns.root_schema_ptr(), properties)?;
        let writers = ArrowRowGroupWriterFactory::new(&file, schema).create_column_writers(0)?;
        let mut group = file.next_row_group()?;
        for mut writer in writers {
            for leaf in compute_leaves(field, array)? {
                writer.write(&leaf)?;
            }
            writer.close()?.append_to_row_group(&mut group)?;
        }
        group.close()?;
        let file = Bytes::from(file.into_inner()?);
        let metadata = ParquetMetaDataReader::new()
            .with_page_index_policy(PageIndexPolicy::Required)
            .parse_and_finish(&file)?;
        let missing = || ParquetError::General("a column without its metadata".to_owned());
        let column = metadata.row_groups().first().ok_or_else(missing)?;
        let column = column.columns().first().ok_or_else(missing)?.clone();
        let close = ColumnCloseResult {
            bytes_written: column.compressed_size().cast_unsigned(),
            rows_written: array.len() as u64,
            metadata: column,
            bloom_filter: None,
            column_index: (metadata.column_index())
                .and_then(|groups| groups.first()?.first().cloned()),
            offset_index: (metadata.offset_index())
                .and_then(|groups| groups.first()?.first().cloned()),
        };
        Ok(Self { file, close })
    }

    /// Copies the column into a row group.
    pub(crate) fn append_to_row_group<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        group.append_column(&self.file, self.close.clone())
    }
}

/// The number that all rows of a column have.
fn number_of_all(column: &dyn Array) -> Option<i64> {
    let numbers = column.as_primitive_opt::<Int64Type>()?;
    let first = numbers.values().first()?;
    let is_one = numbers.null_count() == 0 && numbers.values().iter().all(|number| number == first);
    is_one.then_some(*first)
}

/// The text that all rows of a column have, if it is not long.
fn text_of_all(column: &dyn Array) -> Option<&str> {
    let texts = column.as_string_opt::<i32>()?;
    let first = texts.iter().next()??;
    if texts.null_count() > 0 || first.len() > LONGEST {
        return None;
    }
    let has_length = |ends: &[i32]| match ends {
        [start, end] => usize::try_from(end - start) == Ok(first.len()),
        _ => false,
    };
    // All are as long as the first, and each is equal to the one before.
    let offsets = texts.value_offsets();
    let start = usize::try_from(*offsets.first()?).ok()?;
    let end = usize::try_from(*offsets.last()?).ok()?;
    let bytes = texts.value_data().get(start..end)?;
    let is_one = offsets.windows(2).all(has_length)
        && bytes.get(first.len()..) == bytes.get(..bytes.len().checked_sub(first.len())?);
    is_one.then_some(first)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::{LONGEST, RepeatedValue, text_of_all};

    #[test]
    fn one_value_is_found_in_any_part_of_a_column() {
        let texts = |texts: &[Option<&str>]| StringArray::from(texts.to_vec());
        for (all, text) in [
            (texts(&[]), None),
            (texts(&[None]), None),
            (texts(&[Some("a"), None]), None),
            (texts(&[Some("a")]), Some("a")),
            (texts(&[Some(""), Some("")]), Some("")),
            (texts(&[Some(""), Some("a")]), None),
            (
                texts(&[Some("grün"), Some("grün"), Some("grün")]),
                Some("grün"),
            ),
            (texts(&[Some("ab"), Some("ba")]), None),
            // As long together, and with the same bytes.
            (texts(&[Some("aa"), Some("a"), Some("aaa")]), None),
        ] {
            assert_eq!(text_of_all(&all), text, "{all:?}");
        }
        let (longest, longer) = ("x".repeat(LONGEST), "x".repeat(LONGEST + 1));
        let all = StringArray::new_repeated(&longest, 3);
        assert_eq!(text_of_all(&all), Some(longest.as_str()));
        assert_eq!(text_of_all(&StringArray::new_repeated(&longer, 3)), None);
        let some = texts(&[Some("x"), Some("ab"), Some("ab"), Some("y")]);
        assert_eq!(text_of_all(&some.slice(1, 2)), Some("ab"));
        assert_eq!(text_of_all(&some.slice(0, 2)), None);
        let number =
            |numbers: &[Option<i64>]| RepeatedValue::of(&Int64Array::from(numbers.to_vec()));
        let one = Some(RepeatedValue::Number(7));
        assert_eq!(number(&[Some(7), Some(7), Some(7)]), one);
        for several in [
            &[][..],
            &[None],
            &[None, Some(7)],
            &[Some(7), Some(7), Some(8)],
        ] {
            assert_eq!(number(several), None);
        }
    }
}
