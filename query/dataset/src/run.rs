//! A trace file as tables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field};
use tracewire_expr::{Datum, Shape};
use tracewire_model::{FrameNumber, TracepointNumber};
use tracewire_tracefile::{Frame, TraceFile};
use tracewire_views::{Program, TypedRow, TypedValue, Viewer};

use crate::array::{column, invalid_strings};
use crate::column::{Names, data_type, unified};
use crate::error::DatasetError;
use crate::narrow::{self, batch, nanoseconds, number, numbers, texts};
use crate::table::{FRAME_COLUMNS, HITS, MODULES, PROBES, RUNS, SPANS, Table, VALUES, fields};

/// How many frames are made into rows at a time.
const FRAMES_A_BATCH: usize = 8192;

/// From how many frames on another thread is worth its own copy of the program's symbols.
const MANY: usize = 20_000;

/// The most threads: each has the symbols in memory.
const MOST_THREADS: usize = 8;

/// How many pieces a thread may be ahead of what is taken.
const AHEAD: usize = 2;

/// The most expressions that one tracepoint has columns for. Steps may come by any number of places with variables of their own; the
/// values of those for which there is no column are in `values`.
const MOST_EXPRESSIONS: usize = 2000;

/// A trace file with its program, as tables.
#[derive(Debug)]
pub struct Run<'a> {
    file: &'a TraceFile,
    program: &'a Program,
    /// The frames that have rows, sorted by their times.
    frames: Vec<FrameNumber>,
    tracepoints: BTreeMap<TracepointNumber, Wide>,
    tables: Vec<Table>,
}

/// The table of a tracepoint.
#[derive(Debug)]
struct Wide {
    table: Table,
    expressions: Vec<Expression>,
    /// Where each expression is: its name, and how many of the same name the frame has before it.
    index: HashMap<(String, usize), usize>,
}

/// An expression that a tracepoint collects: a column, one for why there is no value, and for strings one of bytes.
#[derive(Debug)]
struct Expression {
    name: String,
    shape: Option<Shape>,
}

impl Expression {
    fn shape(&self) -> &Shape {
        self.shape.as_ref().unwrap_or(&Shape::Text)
    }
}

/// A frame's row, before it is in columns.
struct Row {
    frame: i64,
    tracepoint: TracepointNumber,
    time_ns: Option<i64>,
    thread: Option<i64>,
    cpu: Option<i64>,
    typed: TypedRow,
    values: Vec<TypedValue>,
}

impl<'a> Run<'a> {
    /// Finds the tables of a run, and their columns.
    #[must_use]
    pub fn new(file: &'a TraceFile, program: &'a Program) -> Self {
        let viewer = Viewer::new(file, program);
        let mut frames: Vec<(Option<u64>, FrameNumber)> = Vec::new();
        let mut seen = HashSet::new();
        let mut found: BTreeMap<TracepointNumber, Found> = BTreeMap::new();
        // A tracepoint that was not hit has a table too.
        for tracepoint in file.description().tracepoints() {
            found.entry(tracepoint.definition.number).or_default();
        }
        for frame in file.frames() {
            if !viewer.is_listed(frame) {
                continue;
            }
            frames.push((time_ns(frame), frame.number()));
            let number = frame.tracepoint();
            if seen.insert((number, viewer.place_key(frame))) {
                found.entry(number).or_default().add(&viewer, frame);
            }
        }
        frames.sort_by_key(|(time, number)| (time.unwrap_or(0), *number));
        let tracepoints: BTreeMap<_, _> = (found.into_iter())
            .map(|(number, found)| (number, found.wide(number)))
            .collect();
        let mut tables = vec![
            Table::runs(),
            Table::modules(),
            Table::probes(),
            Table::hits(),
        ];
        tables.push(Table::values());
        if file.spans().iter().next().is_some() {
            tables.push(Table::spans());
        }
        tables.extend(tracepoints.values().map(|wide| wide.table.clone()));
        Self {
            file,
            program,
            frames: frames.into_iter().map(|(_, number)| number).collect(),
            tracepoints,
            tables,
        }
    }

    /// The trace file.
    #[must_use]
    pub const fn file(&self) -> &'a TraceFile {
        self.file
    }

    /// All tables. `runs` is the first.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Gives the rows of all tables, in batches: those of each table sorted as it says. `wanted` says which tables.
    ///
    /// # Errors
    /// When `take` fails, and when rows do not fit their table.
    pub fn read<E: From<DatasetError>>(
        &self,
        wanted: impl Fn(&Table) -> bool,
        mut take: impl FnMut(&Table, RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let threads = match self.frames.len() {
            0..MANY => 1,
            _ => std::thread::available_parallelism().map_or(1, NonZero::get),
        };
        let wanted: Vec<bool> = self.tables.iter().map(wanted).collect();
        for (at, table) in self.tables.iter().enumerate() {
            if wanted.get(at) != Some(&true) {
                continue;
            }
            let batch = match table.name.as_str() {
                RUNS => narrow::runs(table, self.file)?,
                MODULES => narrow::modules(table, self.file)?,
                PROBES => narrow::probes(table, self.file)?,
                SPANS => narrow::spans(table, self.file, self.program)?,
                _ => continue,
            };
            take(table, batch)?;
        }
        let pieces = self.pieces(&wanted, FRAMES_A_BATCH);
        let threads = threads.min(MOST_THREADS);
        pieces.read(self.program, threads, |at, batch| {
            match self.tables.get(at) {
                Some(table) => take(table, batch),
                None => Ok(()),
            }
        })
    }

    fn pieces<'p>(&'p self, wanted: &'p [bool], frames_a_piece: usize) -> Pieces<'p, 'a> {
        Pieces {
            file: self.file,
            frames: &self.frames,
            tracepoints: &self.tracepoints,
            tables: &self.tables,
            wanted,
            frames_a_piece,
        }
    }
}

/// The rows of frames, made a piece at a time: a run without its program, which threads do not share.
struct Pieces<'p, 'a> {
    file: &'a TraceFile,
    frames: &'p [FrameNumber],
    tracepoints: &'p BTreeMap<TracepointNumber, Wide>,
    tables: &'p [Table],
    /// Which of the tables.
    wanted: &'p [bool],
    frames_a_piece: usize,
}

/// Rows, with the numbers of their tables.
type Piece = Result<Vec<(usize, RecordBatch)>, DatasetError>;

impl Pieces<'_, '_> {
    /// Gives the rows of all frames in the frames' order.
    fn read<E: From<DatasetError>>(
        &self,
        program: &Program,
        threads: usize,
        mut take: impl FnMut(usize, RecordBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let pieces: Vec<&[FrameNumber]> = self.frames.chunks(self.frames_a_piece.max(1)).collect();
        if threads <= 1 {
            let viewer = Viewer::new(self.file, program);
            for numbers in pieces {
                for (at, batch) in self.piece(&viewer, numbers)? {
                    take(at, batch)?;
                }
            }
            return Ok(());
        }
        let rules = program.type_rules();
        let program_files = program.program_files();
        std::thread::scope(|scope| {
            // Each thread makes the pieces of its turn. Symbols cannot be asked by two threads at once.
            let workers: Vec<Receiver<Piece>> = (0..threads)
                .map(|turn| {
                    let (done, made) = sync_channel(AHEAD);
                    let mine = pieces.iter().skip(turn).step_by(threads);
                    let rules = Arc::clone(&rules);
                    let program_files = program_files.clone();
                    scope.spawn(move || {
                        let Ok(mut program) = Program::with_files(self.file, program_files) else {
                            return;
                        };
                        program.set_type_rules(&rules);
                        let viewer = Viewer::new(self.file, &program);
                        for numbers in mine {
                            // Nobody reads on after an error.
                            if done.send(self.piece(&viewer, numbers)).is_err() {
                                return;
                            }
                        }
                    });
                    made
                })
                .collect();
            for turn in 0..pieces.len() {
                let made = workers
                    .get(turn % threads)
                    .and_then(|worker| worker.recv().ok());
                for (at, batch) in made.ok_or(DatasetError::ProgramGone)?? {
                    take(at, batch)?;
                }
            }
            Ok(())
        })
    }

    fn piece(&self, viewer: &Viewer<'_>, numbers: &[FrameNumber]) -> Piece {
        let wanted = |name: &str| {
            let at = self.tables.iter().position(|table| table.name == name)?;
            let is_wanted = self.wanted.get(at) == Some(&true);
            is_wanted.then_some(at)
        };
        let (hits, values) = (wanted(HITS), wanted(VALUES));
        let wide: Vec<(usize, TracepointNumber, &Wide)> = (self.tracepoints.iter())
            .filter_map(|(number, wide)| Some((wanted(&wide.table.name)?, *number, wide)))
            .collect();
        let needs_values = values.is_some() || !wide.is_empty();
        let mut made = Vec::new();
        if hits.is_none() && !needs_values {
            return Ok(made);
        }
        let rows: Vec<Row> = (numbers.iter())
            .filter_map(|number| viewer.file().frame(*number))
            .map(|frame| row(viewer, frame, needs_values))
            .collect();
        let table = |at: usize| self.tables.get(at);
        if let Some((at, table)) = hits.and_then(|at| Some((at, table(at)?))) {
            made.push((at, hit_rows(table, &rows)?));
        }
        if let Some((at, table)) = values.and_then(|at| Some((at, table(at)?))) {
            made.push((at, value_rows(table, &rows)?));
        }
        for (at, number, wide) in wide {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.tracepoint == number).collect();
            if !rows.is_empty() {
                made.push((at, wide.rows(&rows)?));
            }
        }
        Ok(made)
    }
}

/// When a frame was made, in nanoseconds.
fn time_ns(frame: Frame<'_>) -> Option<u64> {
    let from_microseconds = || frame.timestamp().map(|time| time.saturating_mul(1000));
    frame.nanoseconds().or_else(from_microseconds)
}

fn row<'a>(viewer: &Viewer<'a>, frame: Frame<'a>, with_values: bool) -> Row {
    Row {
        frame: number(frame.number().0),
        tracepoint: frame.tracepoint(),
        time_ns: time_ns(frame).map(number),
        thread: frame.thread().map(|thread| thread.0.into()),
        cpu: frame.cpu().map(Into::into),
        typed: viewer.typed_row(frame),
        values: match with_values {
            true => viewer.typed_values(frame),
            false => Vec::new(),
        },
    }
}

/// The columns that all tables of frames begin with.
fn frame_columns(rows: &[&Row]) -> Vec<ArrayRef> {
    let place = |row: &&Row| row.typed.place.clone();
    vec![
        numbers(rows.iter().map(|row| Some(row.frame))),
        numbers(rows.iter().map(|row| row.time_ns)),
        numbers(rows.iter().map(|row| row.thread)),
        numbers(rows.iter().map(|row| row.cpu)),
        numbers(
            rows.iter()
                .map(|row| row.typed.pc.map(|pc| pc.0.cast_signed())),
        ),
        texts(rows.iter().map(|row| place(row)?.function)),
        texts(rows.iter().map(|row| place(row)?.file)),
        numbers(rows.iter().map(|row| {
            let line = row.typed.place.as_ref()?.line;
            (line != 0).then(|| number(line))
        })),
        texts(rows.iter().map(|row| Some(row.typed.kind))),
        numbers(
            rows.iter()
                .map(|row| Some(number(row.typed.span?.duration_ns()?))),
        ),
        texts(rows.iter().map(|row| Some(row.typed.span?.end.name()))),
        numbers(rows.iter().map(|row| row.typed.parent.map(number))),
    ]
}

fn hit_rows(table: &Table, rows: &[Row]) -> Result<RecordBatch, DatasetError> {
    let rows: Vec<&Row> = rows.iter().collect();
    let mut columns = frame_columns(&rows);
    columns.insert(
        1,
        numbers(rows.iter().map(|row| Some(row.tracepoint.0.into()))),
    );
    batch(table, columns)
}

fn value_rows(table: &Table, rows: &[Row]) -> Result<RecordBatch, DatasetError> {
    let all: Vec<(&Row, &TypedValue)> = rows
        .iter()
        .flat_map(|row| row.values.iter().map(move |value| (row, value)))
        .collect();
    let datum = |(_, value): &(&Row, &'_ TypedValue)| value.datum.clone();
    batch(
        table,
        vec![
            numbers(all.iter().map(|(row, _)| Some(row.frame))),
            numbers(all.iter().map(|(row, _)| row.time_ns)),
            numbers(all.iter().map(|(row, _)| Some(row.tracepoint.0.into()))),
            texts(all.iter().map(|(_, value)| Some(&value.view.expression))),
            texts(all.iter().map(|(_, value)| value.view.type_name.as_ref())),
            texts(all.iter().map(|(_, value)| Some(&value.view.value))),
            numbers(all.iter().map(|(_, value)| match value.datum {
                Datum::Integer(number) => i64::try_from(number).ok(),
                Datum::Boolean(truth) => Some(truth.into()),
                Datum::Address(address) => Some(address.cast_signed()),
                _ => None,
            })),
            std::sync::Arc::new(
                (all.iter())
                    .map(|(_, value)| match value.datum {
                        Datum::Float(number) => Some(number),
                        _ => None,
                    })
                    .collect::<arrow::array::Float64Array>(),
            ),
            texts(all.iter().map(|value| match datum(value) {
                datum @ (Datum::Text(_) | Datum::String { .. }) => Some(datum.text()),
                _ => None,
            })),
            texts(
                all.iter()
                    .map(|(_, value)| match (&value.view.error, &value.datum) {
                        (Some(error), _) => Some(error.clone()),
                        (None, Datum::Missing(why)) => {
                            Some(why.trim_start_matches('<').trim_end_matches('>').to_owned())
                        }
                        _ => None,
                    }),
            ),
        ],
    )
}

/// What the frames of a tracepoint collect.
#[derive(Default)]
struct Found {
    expressions: Vec<Expression>,
    index: HashMap<(String, usize), usize>,
}

impl Found {
    fn add<'a>(&mut self, viewer: &Viewer<'a>, frame: Frame<'a>) {
        let mut same: HashMap<String, usize> = HashMap::new();
        for found in viewer.value_shapes(frame) {
            let before = same.entry(found.expression.clone()).or_default();
            let key = (found.expression.clone(), *before);
            *before += 1;
            match self.index.get(&key) {
                Some(at) => {
                    let known = &mut self.expressions[*at];
                    known.shape = match (known.shape.take(), found.shape) {
                        (Some(a), Some(b)) => Some(unified(&a, &b)),
                        (a, b) => a.or(b),
                    };
                }
                None if self.expressions.len() < MOST_EXPRESSIONS => {
                    self.index.insert(key, self.expressions.len());
                    self.expressions.push(Expression {
                        name: found.expression,
                        shape: found.shape,
                    });
                }
                None => {}
            }
        }
    }

    fn wide(mut self, number: TracepointNumber) -> Wide {
        let mut all = fields(FRAME_COLUMNS);
        let mut names = Names::default();
        // A partition of a dataset is a column for its readers.
        for name in ["run", "host", "day", "table"] {
            names.unique(name);
        }
        for field in &all {
            names.unique(field.name());
        }
        for expression in &mut self.expressions {
            expression.name = names.unique(&expression.name);
        }
        for expression in &self.expressions {
            let shape = expression.shape();
            all.push(Field::new(&expression.name, data_type(shape), true));
            let name = names.unique(&format!("{}_unavailable", expression.name));
            all.push(Field::new(name, DataType::Utf8, true));
            if *shape == Shape::String {
                let name = names.unique(&format!("{}_bytes", expression.name));
                all.push(Field::new(name, DataType::Binary, true));
            }
        }
        Wide {
            table: Table::new(&format!("tp{}", number.0), all),
            expressions: self.expressions,
            index: self.index,
        }
    }
}

impl Wide {
    fn rows(&self, rows: &[&Row]) -> Result<RecordBatch, DatasetError> {
        let mut columns = frame_columns(rows);
        let mut cells: Vec<Vec<Option<&Datum>>> =
            vec![vec![None; rows.len()]; self.expressions.len()];
        for (at, row) in rows.iter().enumerate() {
            let mut same: HashMap<&str, usize> = HashMap::new();
            for value in &row.values {
                let name = value.view.expression.as_str();
                let before = same.entry(name).or_default();
                let column = self.index.get(&(name.to_owned(), *before));
                *before += 1;
                if let Some(cell) = column
                    .and_then(|column| cells.get_mut(*column))
                    .and_then(|cells| cells.get_mut(at))
                {
                    *cell = Some(&value.datum);
                }
            }
        }
        for (expression, cells) in self.expressions.iter().zip(&cells) {
            let (array, notes) = column(expression.shape(), cells);
            columns.push(array);
            columns.push(notes.into_array());
            if *expression.shape() == Shape::String {
                columns.push(invalid_strings(cells));
            }
        }
        batch(&self.table, columns)
    }
}

/// When a run began, in nanoseconds since 1970, where its clock is that of a calendar.
pub(crate) fn start_ns(file: &TraceFile) -> Option<i64> {
    /// 2001-09-09.
    const FIRST: u64 = 1_000_000_000_000_000;
    let start = file.description().status()?.fields.start_time?;
    (start >= FIRST).then(|| nanoseconds(start))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::RecordBatch;
    use arrow::compute::concat_batches;
    use tracewire_test_support::sample;
    use tracewire_tracefile::TraceFile;
    use tracewire_views::Program;

    use super::Run;
    use crate::error::DatasetError;

    #[test]
    fn threads_and_pieces_change_no_row() {
        let file = TraceFile::open(sample("sample.tf")).expect("a trace file");
        let program = Program::of(&file, &[sample("sample")]).expect("the program");
        let run = Run::new(&file, &program);
        let wanted = vec![true; run.tables().len()];
        let rows = |threads: usize, frames: usize| {
            let mut all: BTreeMap<usize, Vec<RecordBatch>> = BTreeMap::new();
            let pieces = run.pieces(&wanted, frames);
            let read = pieces.read(&program, threads, |at, batch| {
                all.entry(at).or_default().push(batch);
                Ok::<(), DatasetError>(())
            });
            read.expect("rows");
            let whole = |(at, batches): (usize, Vec<RecordBatch>)| {
                (
                    at,
                    concat_batches(&batches[0].schema(), &batches).expect("one batch"),
                )
            };
            all.into_iter().map(whole).collect::<BTreeMap<_, _>>()
        };
        let all = rows(1, 8192);
        assert!(all.len() >= 4, "{} tables", all.len());
        for (threads, frames) in [(1, 1), (2, 3), (3, 1), (8, 5)] {
            assert_eq!(rows(threads, frames), all);
        }
    }
}
