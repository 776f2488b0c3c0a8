//! The types of an answer. The engine holds text and bytes as views, which not every reader of Arrow knows.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::common::Result;

/// The same columns without views, at any depth.
pub(crate) fn plain_schema(schema: &Schema) -> SchemaRef {
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new_with_metadata(
        plain_fields(schema.fields()),
        metadata,
    ))
}

/// The rows with the columns of [`plain_schema`].
pub(crate) fn plain_rows(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if rows.schema_ref() == schema {
        return Ok(rows);
    }
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(
        |(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => Ok(cast(column, field.data_type())?),
        },
    );
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

fn plain_fields(fields: &Fields) -> Fields {
    fields.iter().map(plain_field).collect()
}

fn plain_field(field: &Arc<Field>) -> Arc<Field> {
    let plain = plain_type(field.data_type());
    match plain == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(field.as_ref().clone().with_data_type(plain)),
    }
}

fn plain_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(element) => DataType::List(plain_field(element)),
        DataType::LargeList(element) => DataType::LargeList(plain_field(element)),
        DataType::FixedSizeList(element, length) => {
            DataType::FixedSizeList(plain_field(element), *length)
        }
        DataType::Struct(parts) => DataType::Struct(plain_fields(parts)),
        DataType::Map(entry, sorted) => DataType::Map(plain_field(entry), *sorted),
        _ => kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Array as _, ArrayRef, AsArray as _, Int64Array, ListArray, RecordBatch, StringViewArray,
        StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{DataType, Field};

    use super::{plain_rows, plain_schema};

    #[test]
    fn views_become_plain_at_every_depth() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![
            Some("a text that does not fit in a view"),
            None,
            Some("b"),
        ]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let element = Arc::new(Field::new("item", DataType::Utf8View, true));
        let lists: ArrayRef = Arc::new(ListArray::new(
            element,
            OffsetBuffer::from_lengths([2, 0, 1]),
            Arc::clone(&texts),
            None,
        ));
        let part = Arc::new(Field::new("part", lists.data_type().clone(), true));
        let structures: ArrayRef = Arc::new(StructArray::from(vec![(part, Arc::clone(&lists))]));
        let rows = RecordBatch::try_from_iter([
            ("text", texts),
            ("number", numbers),
            ("list", lists),
            ("structure", structures),
        ])
        .expect("a batch");
        let schema = plain_schema(&rows.schema());
        assert!(!schema.to_string().contains("View"), "{schema}");
        let plain = plain_rows(rows, &schema).expect("plain");
        let texts = plain.column(0).as_string::<i32>();
        let expected = [Some("a text that does not fit in a view"), None, Some("b")];
        assert_eq!(texts.iter().collect::<Vec<_>>(), expected);
        let inner = plain.column(3).as_struct().column(0).as_list::<i32>();
        assert_eq!(
            inner.value(0).as_string::<i32>().iter().collect::<Vec<_>>(),
            expected[..2]
        );
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let schema = plain_schema(&arrow::datatypes::Schema::empty());
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(7));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), Vec::new(), &options);
        let rows = rows.expect("a batch");
        assert_eq!(plain_rows(rows, &schema).expect("plain").num_rows(), 7);
    }
}
