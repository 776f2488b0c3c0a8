//! Tables and their columns.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::column::list_of;
use crate::execution::MEMORY_WRITES;

/// A table of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// The column that its rows are sorted by.
    pub sorted_by: Option<usize>,
}

pub(crate) const RUNS: &str = "runs";
pub(crate) const MODULES: &str = "modules";
pub(crate) const PROBES: &str = "probes";
pub(crate) const HITS: &str = "hits";
pub(crate) const VALUES: &str = "values";
pub(crate) const SPANS: &str = "spans";

const TEXT: DataType = DataType::Utf8;
const NUMBER: DataType = DataType::Int64;

/// The columns that `hits` and each table of a tracepoint begin with.
pub(crate) const FRAME_COLUMNS: &[(&str, DataType)] = &[
    ("frame", NUMBER),
    ("time_ns", NUMBER),
    ("thread", NUMBER),
    ("cpu", NUMBER),
    ("pc", NUMBER),
    ("function", TEXT),
    ("file", TEXT),
    ("line", NUMBER),
    ("kind", TEXT),
    ("duration_ns", NUMBER),
    ("ended", TEXT),
    ("parent", NUMBER),
];

impl Table {
    pub(crate) fn new(name: &str, fields: Vec<Field>) -> Self {
        let schema = Schema::new(fields);
        let time = schema
            .index_of("time_ns")
            .or_else(|_| schema.index_of("start_ns"))
            .or_else(|_| sorted_column_of_execution(name, &schema));
        Self {
            name: name.to_owned(),
            sorted_by: time.ok().filter(|_| name != RUNS),
            schema: schema.into(),
        }
    }

    /// Whether a column describes the frame, and is not collected data.
    #[must_use]
    pub fn is_of_frame(&self, column: &str) -> bool {
        match self.name.as_str() {
            HITS => self.schema.index_of(column).is_ok(),
            VALUES => matches!(column, "frame" | "time_ns" | "tracepoint"),
            RUNS | MODULES | PROBES | SPANS => false,
            _ => FRAME_COLUMNS.iter().any(|(name, _)| *name == column),
        }
    }

    fn narrow(name: &str, columns: &[(&str, DataType)]) -> Self {
        Self::new(name, fields(columns))
    }

    pub(crate) fn runs() -> Self {
        Self::narrow(
            RUNS,
            &[
                ("source", TEXT),
                ("architecture", TEXT),
                ("program", TEXT),
                ("build_id", TEXT),
                ("frames", NUMBER),
                ("created", NUMBER),
                ("start_ns", NUMBER),
                ("stop_ns", NUMBER),
                ("stop_reason", TEXT),
                ("stop_text", TEXT),
                ("ending", TEXT),
                ("notes", TEXT),
                ("user", TEXT),
            ],
        )
    }

    pub(crate) fn modules() -> Self {
        Self::narrow(
            MODULES,
            &[
                ("path", TEXT),
                ("build_id", TEXT),
                ("start", NUMBER),
                ("end", NUMBER),
                ("bias", NUMBER),
                ("loaded_ns", NUMBER),
                ("unloaded_ns", NUMBER),
            ],
        )
    }

    pub(crate) fn probes() -> Self {
        Self::narrow(
            PROBES,
            &[
                ("tracepoint", NUMBER),
                ("address", NUMBER),
                ("kind", TEXT),
                ("enabled", DataType::Boolean),
                ("location", TEXT),
                ("condition", TEXT),
                ("commands", list_of(TEXT)),
                ("pass_count", NUMBER),
                ("hits", NUMBER),
            ],
        )
    }

    pub(crate) fn hits() -> Self {
        let mut columns = FRAME_COLUMNS.to_vec();
        columns.insert(1, ("tracepoint", NUMBER));
        Self::narrow(HITS, &columns)
    }

    pub(crate) fn values() -> Self {
        Self::narrow(
            VALUES,
            &[
                ("frame", NUMBER),
                ("time_ns", NUMBER),
                ("tracepoint", NUMBER),
                ("expression", TEXT),
                ("type", TEXT),
                ("text", TEXT),
                ("integer", NUMBER),
                ("real", DataType::Float64),
                ("string", TEXT),
                ("unavailable", TEXT),
            ],
        )
    }

    pub(crate) fn spans() -> Self {
        Self::narrow(
            SPANS,
            &[
                ("frame", NUMBER),
                ("start_ns", NUMBER),
                ("end_ns", NUMBER),
                ("duration_ns", NUMBER),
                ("thread", NUMBER),
                ("tracepoint", NUMBER),
                ("function", TEXT),
                ("address", NUMBER),
                ("ended", TEXT),
                ("tail_call", DataType::Boolean),
                ("parent", NUMBER),
                ("depth", NUMBER),
            ],
        )
    }
}

/// The column that rows of an execution's table are sorted by.
fn sorted_column_of_execution(
    name: &str,
    schema: &Schema,
) -> Result<usize, arrow::error::ArrowError> {
    match name {
        MEMORY_WRITES => schema.index_of("address"),
        _ => schema.index_of("instruction"),
    }
}

pub(crate) fn fields(columns: &[(&str, DataType)]) -> Vec<Field> {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
    columns.iter().map(field).collect()
}
