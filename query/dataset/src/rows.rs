//! Frames to rows of a table.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use tracewire_debuginfo::SourcePlace;
use tracewire_expr::{Datum, Shape};
use tracewire_model::{Address, FrameNumber, TracepointNumber};
use tracewire_tracefile::{Frame, SavedState, Span, TraceFile};
use tracewire_views::{Program, SharedValue, Viewer};

use crate::array::{column, invalid_strings};
use crate::error::DatasetError;
use crate::layout::{Layout, Part, Wide};
use crate::narrow::{number, numbers, texts};
use crate::table::{FRAME_COLUMNS, HITS, Table, VALUES};

/// The parts of frames that are computed: only those that a column needs.
#[derive(Clone, Default, Debug)]
pub(crate) struct Needs {
    time: bool,
    thread: bool,
    cpu: bool,
    pc: bool,
    place: bool,
    kind: bool,
    pub(crate) values: Values,
}

/// Which values of a frame are worked out.
#[derive(Clone, Default, Debug)]
pub(crate) enum Values {
    #[default]
    None,
    Named(HashSet<String>),
    All,
}

impl Needs {
    /// All but the values.
    pub(crate) const fn of_frame() -> Self {
        Self {
            time: true,
            thread: true,
            cpu: true,
            pc: true,
            place: true,
            kind: true,
            values: Values::None,
        }
    }

    fn add(&mut self, column: &str) {
        match column {
            "time_ns" => self.time = true,
            "thread" => self.thread = true,
            "cpu" => self.cpu = true,
            "pc" => self.pc = true,
            "function" | "file" | "line" => self.place = true,
            "kind" | "duration_ns" | "ended" | "parent" => self.kind = true,
            _ => {}
        }
    }
}

/// A frame's row, before it is in columns.
pub(crate) struct Row {
    frame: i64,
    pub(crate) tracepoint: TracepointNumber,
    time_ns: Option<i64>,
    thread: Option<i64>,
    cpu: Option<i64>,
    pc: Option<Address>,
    place: Option<Rc<SourcePlace>>,
    kind: Option<&'static str>,
    span: Option<Span>,
    parent: Option<u64>,
    values: Vec<SharedValue>,
}

impl Row {
    pub(crate) fn new<'a>(viewer: &Viewer<'a>, frame: Frame<'a>, needs: &Needs) -> Self {
        let typed = needs.kind.then(|| viewer.placeless_row(frame));
        let saved = frame.saved_state();
        Self {
            frame: number(frame.number().0),
            tracepoint: frame.tracepoint(),
            time_ns: (needs.time.then(|| time_ns(&saved)).flatten()).map(number),
            thread: (needs.thread.then(|| saved.thread()).flatten()).map(|thread| thread.0.into()),
            cpu: (needs.cpu.then(|| saved.cpu()).flatten()).map(Into::into),
            pc: needs.pc.then(|| frame.program_counter()).flatten(),
            place: (needs.place.then(|| viewer.shared_place(frame, &saved))).flatten(),
            kind: typed.as_ref().map(|typed| typed.kind),
            span: typed.as_ref().and_then(|typed| typed.span),
            parent: typed.and_then(|typed| typed.parent),
            values: match &needs.values {
                Values::None => Vec::new(),
                Values::Named(names) => {
                    viewer.shared_values(frame, &saved, |name| names.contains(name))
                }
                Values::All => viewer.shared_values(frame, &saved, |_| true),
            },
        }
    }
}

/// When a frame was made, in nanoseconds.
pub(crate) fn time_ns(saved: &SavedState<'_>) -> Option<u64> {
    let from_microseconds = || saved.timestamp().map(|time| time.saturating_mul(1000));
    saved.nanoseconds().or_else(from_microseconds)
}

/// A column that tables of frames begin with.
fn frame_column(name: &str, rows: &[&Row]) -> ArrayRef {
    let rows = rows.iter();
    match name {
        "frame" => numbers(rows.map(|row| Some(row.frame))),
        "tracepoint" => numbers(rows.map(|row| Some(row.tracepoint.0.into()))),
        "time_ns" => numbers(rows.map(|row| row.time_ns)),
        "thread" => numbers(rows.map(|row| row.thread)),
        "cpu" => numbers(rows.map(|row| row.cpu)),
        "pc" => numbers(rows.map(|row| row.pc.map(|pc| pc.0.cast_signed()))),
        "function" => texts(rows.map(|row| row.place.as_ref()?.function.as_ref())),
        "file" => texts(rows.map(|row| row.place.as_ref()?.file.as_ref())),
        "line" => numbers(rows.map(|row| {
            let line = row.place.as_ref()?.line;
            (line != 0).then(|| number(line))
        })),
        "kind" => texts(rows.map(|row| row.kind)),
        "duration_ns" => numbers(rows.map(|row| Some(number(row.span?.duration_ns()?)))),
        "ended" => texts(rows.map(|row| Some(row.span?.end.name()))),
        "parent" => numbers(rows.map(|row| row.parent.map(number))),
        _ => {
            debug_assert!(false, "no column of frames: {name}");
            numbers(rows.map(|_| None))
        }
    }
}

/// The rows of a table.
#[derive(Clone, Copy, Debug)]
enum Kind<'l> {
    Hits,
    Values,
    Wide(TracepointNumber, &'l Wide),
}

/// Makes rows of one table of frames: `hits`, `values` or that of a tracepoint.
#[derive(Clone, Debug)]
pub(crate) struct RowMaker<'l> {
    table: String,
    kind: Kind<'l>,
    /// The columns of the table that are made.
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl<'l> RowMaker<'l> {
    /// Makes these columns of a table; all without `columns`. None where it is no table of frames.
    pub(crate) fn new(
        layout: &'l Layout,
        table: &'l Table,
        columns: Option<&[usize]>,
    ) -> Option<Self> {
        let kind = match table.name.as_str() {
            HITS => Kind::Hits,
            VALUES => Kind::Values,
            name => {
                let mut all = layout.tracepoints.iter();
                let (number, wide) = all.find(|(_, wide)| wide.table.name == name)?;
                Kind::Wide(*number, wide)
            }
        };
        let all: Vec<usize> = (0..table.schema.fields().len()).collect();
        let columns = columns.unwrap_or(&all).to_vec();
        let schema = table.schema.project(&columns).ok()?;
        Some(Self {
            table: table.name.clone(),
            kind,
            columns,
            schema: Arc::new(schema),
        })
    }

    /// The tracepoint whose frames have rows; none where all have.
    pub(crate) const fn tracepoint(&self) -> Option<TracepointNumber> {
        match self.kind {
            Kind::Wide(number, _) => Some(number),
            _ => None,
        }
    }

    /// The parts of frames that the columns need.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        for field in self.schema.fields() {
            needs.add(field.name());
        }
        match self.kind {
            Kind::Hits => {}
            // A frame has a row for each.
            Kind::Values => needs.values = Values::All,
            Kind::Wide(_, wide) => {
                let wanted = self.expressions(wide);
                let named = wide.index.iter().filter(|(_, at)| wanted.contains(at));
                let names: HashSet<String> = named.map(|((name, _), _)| name.clone()).collect();
                if !names.is_empty() {
                    needs.values = Values::Named(names);
                }
            }
        }
        needs
    }

    /// The expressions that columns are of.
    fn expressions(&self, wide: &Wide) -> HashSet<usize> {
        let own = self.columns.iter().filter_map(|column| {
            let (at, _) = wide.columns.get(column.checked_sub(FRAME_COLUMNS.len())?)?;
            Some(*at)
        });
        own.collect()
    }

    /// The rows of frames, all of which belong to the table's tracepoint.
    pub(crate) fn rows(&self, rows: &[&Row]) -> Result<RecordBatch, DatasetError> {
        let (count, columns) = match self.kind {
            Kind::Hits => {
                let fields = self.schema.fields().iter();
                let columns = fields.map(|field| frame_column(field.name(), rows));
                (rows.len(), columns.collect())
            }
            Kind::Values => {
                let all: Vec<(&Row, &SharedValue)> = (rows.iter())
                    .flat_map(|row| row.values.iter().map(move |value| (*row, value)))
                    .collect();
                let fields = self.schema.fields().iter();
                let columns = fields.map(|field| value_column(field.name(), &all));
                (all.len(), columns.collect())
            }
            Kind::Wide(_, wide) => (rows.len(), self.wide_columns(wide, rows)),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(DatasetError::arrow(&self.table))
    }

    fn wide_columns(&self, wide: &Wide, rows: &[&Row]) -> Vec<ArrayRef> {
        let wanted = self.expressions(wide);
        let mut cells: Vec<Vec<Option<&Datum>>> = (0..wide.expressions.len())
            .map(|at| vec![None; if wanted.contains(&at) { rows.len() } else { 0 }])
            .collect();
        // Rows of one place have the same expressions: those of the row before, mostly.
        let mut before: Vec<(&str, Option<usize>)> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let names = row.values.iter().map(|value| &*value.expression);
            if !names.clone().eq(before.iter().map(|(name, _)| *name)) {
                before = wide.places_of(names);
            }
            for ((_, place), value) in before.iter().zip(&row.values) {
                if let Some(cell) = place
                    .and_then(|place| cells.get_mut(place))
                    .and_then(|cells| cells.get_mut(at))
                {
                    *cell = Some(value.shown.datum());
                }
            }
        }
        // A value and why it is not there are made together.
        let mut made: HashMap<usize, (ArrayRef, ArrayRef)> = HashMap::new();
        let mut columns = Vec::with_capacity(self.columns.len());
        for (field, index) in self.schema.fields().iter().zip(&self.columns) {
            let own = index.checked_sub(FRAME_COLUMNS.len());
            let Some((at, part)) = own.and_then(|own| wide.columns.get(own)) else {
                columns.push(frame_column(field.name(), rows));
                continue;
            };
            let shape = wide
                .expressions
                .get(*at)
                .map_or(&Shape::Text, |expression| expression.shape());
            let data = cells.get(*at).map_or(&[][..], Vec::as_slice);
            let both = || {
                let (array, notes) = column(shape, data);
                (array, notes.into_array())
            };
            columns.push(match part {
                Part::Value => Arc::clone(&made.entry(*at).or_insert_with(both).0),
                Part::Unavailable => Arc::clone(&made.entry(*at).or_insert_with(both).1),
                Part::Bytes => invalid_strings(data),
            });
        }
        columns
    }
}

/// A column of `values`.
fn value_column(name: &str, all: &[(&Row, &SharedValue)]) -> ArrayRef {
    let all = all.iter();
    match name {
        "frame" => numbers(all.map(|(row, _)| Some(row.frame))),
        "time_ns" => numbers(all.map(|(row, _)| row.time_ns)),
        "tracepoint" => numbers(all.map(|(row, _)| Some(row.tracepoint.0.into()))),
        "expression" => texts(all.map(|(_, value)| Some(&value.expression))),
        "type" => texts(all.map(|(_, value)| value.type_name.as_ref())),
        "text" => texts(all.map(|(_, value)| Some(value.shown.text()))),
        "integer" => numbers(all.map(|(_, value)| match *value.shown.datum() {
            Datum::Integer(number) => i64::try_from(number).ok(),
            Datum::Boolean(truth) => Some(truth.into()),
            Datum::Address(address) => Some(address.cast_signed()),
            _ => None,
        })),
        "real" => {
            let reals = all.map(|(_, value)| match *value.shown.datum() {
                Datum::Float(number) => Some(number),
                _ => None,
            });
            Arc::new(reals.collect::<Float64Array>())
        }
        "string" => texts(all.map(|(_, value)| match value.shown.datum() {
            datum @ (Datum::Text(_) | Datum::String { .. }) => Some(datum.text()),
            _ => None,
        })),
        "unavailable" => texts(
            all.map(|(_, value)| match (&value.error, value.shown.datum()) {
                (Some(error), _) => Some(error.clone()),
                (None, Datum::Missing(why)) => {
                    Some(why.trim_start_matches('<').trim_end_matches('>').to_owned())
                }
                _ => None,
            }),
        ),
        _ => {
            debug_assert!(false, "no column of values: {name}");
            numbers(all.map(|_| None))
        }
    }
}

/// Reads frames as rows of one table: `hits`, `values` or that of a tracepoint. Data without a column is not computed.
///
/// It belongs to one thread, as the program's symbols do.
#[derive(Debug)]
pub struct FrameReader<'a> {
    viewer: &'a Viewer<'a>,
    maker: RowMaker<'a>,
    needs: Needs,
}

impl<'a> FrameReader<'a> {
    /// Reads columns of a table. None where it is no table of frames, or has no such columns.
    #[must_use]
    pub fn new(
        viewer: &'a Viewer<'a>,
        layout: &'a Layout,
        table: &'a Table,
        columns: &[usize],
    ) -> Option<Self> {
        let maker = RowMaker::new(layout, table, Some(columns))?;
        let needs = maker.needs();
        Some(Self {
            viewer,
            maker,
            needs,
        })
    }

    /// Of the table `values`, makes the rows of these expressions only.
    pub fn only_expressions(&mut self, names: impl IntoIterator<Item = String>) {
        if matches!(self.maker.kind, Kind::Values) {
            self.needs.values = Values::Named(names.into_iter().collect());
        }
    }

    /// The columns.
    #[must_use]
    pub const fn schema(&self) -> &SchemaRef {
        &self.maker.schema
    }

    /// The rows of frames. A frame without a row in the table is skipped.
    ///
    /// # Errors
    /// When rows do not fit their table.
    pub fn rows(&self, numbers: &[FrameNumber]) -> Result<RecordBatch, DatasetError> {
        let tracepoint = self.maker.tracepoint();
        let file: &TraceFile = self.viewer.file();
        let frames = numbers.iter().filter_map(|number| file.frame(*number));
        let own = frames.filter(|frame| {
            tracepoint.is_none_or(|number| frame.tracepoint() == number)
                && self.viewer.is_listed(*frame)
        });
        let rows: Vec<Row> = own
            .map(|frame| Row::new(self.viewer, frame, &self.needs))
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        self.maker.rows(&rows)
    }
}

/// The rows of a table without frames: `runs`, `modules`, `probes` or `spans`. `None` for other tables.
///
/// # Errors
/// When rows do not fit their table.
pub fn rows_of_run(
    file: &TraceFile,
    program: &Program,
    table: &Table,
) -> Result<Option<RecordBatch>, DatasetError> {
    use crate::narrow;
    use crate::table::{MODULES, PROBES, RUNS, SPANS};
    Ok(Some(match table.name.as_str() {
        RUNS => narrow::runs(table, file)?,
        MODULES => narrow::modules(table, file)?,
        PROBES => narrow::probes(table, file)?,
        SPANS => narrow::spans(table, file, program)?,
        _ => return Ok(None),
    }))
}
