//! The columns of rows that are made one by one.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, Int64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, SchemaRef};

use crate::error::DatasetError;
use crate::table::Table;

/// A value of a row.
pub(super) enum Cell<'a> {
    Number(Option<i64>),
    Text(Option<&'a str>),
    Truth(bool),
}

impl Cell<'_> {
    /// A number that SQL has: the largest where it has none so large.
    pub(super) fn count(number: u64) -> Self {
        Self::Number(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// An address or a value: the number with the same bits.
    pub(super) const fn bits(number: u64) -> Self {
        Self::Number(Some(number.cast_signed()))
    }
}

enum Builder {
    Number(Int64Builder),
    Text(StringBuilder),
    Truth(BooleanBuilder),
}

/// The columns of a table that are wanted, as they grow.
pub(super) struct Columns {
    table: String,
    schema: SchemaRef,
    /// Each with its number in the table.
    builders: Vec<(usize, Builder)>,
    rows: usize,
}

impl Columns {
    pub(super) fn new(table: &Table, wanted: &[usize]) -> Result<Self, DatasetError> {
        let schema = table.schema.project(wanted);
        let schema = schema.map_err(DatasetError::arrow(&table.name))?;
        let builder = |data_type: &DataType| match data_type {
            DataType::Utf8 => Builder::Text(StringBuilder::new()),
            DataType::Boolean => Builder::Truth(BooleanBuilder::new()),
            _ => Builder::Number(Int64Builder::new()),
        };
        let builders = wanted.iter().zip(schema.fields());
        Ok(Self {
            table: table.name.clone(),
            builders: builders
                .map(|(number, field)| (*number, builder(field.data_type())))
                .collect(),
            schema: Arc::new(schema),
            rows: 0,
        })
    }

    /// Whether a column is wanted.
    pub(super) fn has(&self, column: usize) -> bool {
        self.builders.iter().any(|(number, _)| *number == column)
    }

    /// How many rows there are.
    pub(super) const fn len(&self) -> usize {
        self.rows
    }

    /// Appends a row, of which the wanted columns are asked.
    pub(super) fn row<'a>(&mut self, mut cell: impl FnMut(usize) -> Cell<'a>) {
        self.rows += 1;
        for (number, builder) in &mut self.builders {
            match (builder, cell(*number)) {
                (Builder::Number(column), Cell::Number(value)) => column.append_option(value),
                (Builder::Text(column), Cell::Text(value)) => column.append_option(value),
                (Builder::Truth(column), Cell::Truth(value)) => column.append_value(value),
                (Builder::Number(column), _) => column.append_null(),
                (Builder::Text(column), _) => column.append_null(),
                (Builder::Truth(column), _) => column.append_null(),
            }
        }
    }

    /// Gives the rows so far. An empty set of rows follows.
    pub(super) fn take(&mut self) -> Result<RecordBatch, DatasetError> {
        let arrays: Vec<ArrayRef> = (self.builders.iter_mut())
            .map(|(_, builder)| match builder {
                Builder::Number(column) => Arc::new(column.finish()) as ArrayRef,
                Builder::Text(column) => Arc::new(column.finish()),
                Builder::Truth(column) => Arc::new(column.finish()),
            })
            .collect();
        let options = arrow::array::RecordBatchOptions::new()
            .with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(DatasetError::arrow(&self.table))
    }
}
