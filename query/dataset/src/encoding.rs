//! How the columns of a Parquet file are encoded.

use std::collections::HashSet;
use std::hash::Hash;

use arrow::array::{Array, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, Schema};
use parquet::basic::Encoding;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::ColumnPath;

/// The fewest rows that say whether the values of a column differ.
const ROWS_OF_A_SAMPLE: usize = 256;

/// Adds the encodings of the columns, by their first rows. Where many values differ a dictionary is of no use: it costs a look-up for
/// each value, and the values are written besides.
#[must_use]
pub fn with_encodings(
    mut properties: WriterPropertiesBuilder,
    schema: &Schema,
    rows: &RecordBatch,
) -> WriterPropertiesBuilder {
    for (field, first) in schema.fields().iter().zip(rows.columns()) {
        let column = ColumnPath::new(vec![field.name().clone()]);
        // Of numbers the differences are small, and of texts the lengths are.
        let encoding = match field.data_type() {
            DataType::Int64 => Encoding::DELTA_BINARY_PACKED,
            DataType::Utf8 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            DataType::Float64 => Encoding::PLAIN,
            _ => continue,
        };
        properties = properties.set_column_encoding(column.clone(), encoding);
        let ascends = is_ascending(field.name()) && *field.data_type() == DataType::Int64;
        if ascends || rarely_repeat(first) {
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
        DataType::Float64 => {
            let bits = |number: Option<f64>| number.map(f64::to_bits);
            most(column.as_primitive::<Float64Type>().iter().map(bits))
        }
        DataType::Utf8 => most(column.as_string::<i32>().iter()),
        _ => false,
    }
}

/// Whether a column has other numbers in nearly all rows, each a little more than that before.
fn is_ascending(column: &str) -> bool {
    matches!(column, "frame" | "time_ns" | "start_ns" | "end_ns")
}
