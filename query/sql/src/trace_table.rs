//! A table of a trace file: frames that are read while the query runs, and only those that its filters leave.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use datafusion::catalog::Session;
use datafusion::common::{DFSchema, DataFusionError, Result, exec_datafusion_err};
use datafusion::logical_expr::{Expr, utils::conjunction};
use datafusion::physical_expr::PhysicalExpr;
use tracewire_dataset::{FRAMES_FOR_THREADS, FrameReader, Layout, MOST_THREADS, Table};
use tracewire_model::{Address, FrameNumber, TracepointNumber};
use tracewire_tracefile::Selection;
use tracewire_views::Viewer;

use crate::ranges::{Ranges, texts};
use crate::trace_run::TraceRun;
use crate::virtual_table::{Rows, VirtualTable, external};

/// How many frames are asked of the index at a time.
const FRAMES_A_WINDOW: u64 = 8192;

/// How many frames are made into rows at a time.
const FRAMES_A_BATCH: usize = 8192;

/// A table of frames of one trace file.
#[derive(Debug)]
pub(crate) struct TraceTable {
    run: Arc<TraceRun>,
    layout: Arc<Layout>,
    table: Table,
}

impl TraceTable {
    /// None where the run has no such table.
    pub(crate) fn new(run: Arc<TraceRun>, layout: Arc<Layout>, table: &str) -> Option<Self> {
        let table = layout.table(table)?.clone();
        Some(Self { run, layout, table })
    }

    /// The tracepoint that the table is of.
    fn tracepoint(&self) -> Option<i32> {
        self.table.name.strip_prefix("tp")?.parse().ok()
    }
}

impl VirtualTable for TraceTable {
    type Rows = Reading;

    fn run(&self) -> &str {
        &self.run.name
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn rows(
        &self,
        session: &dyn Session,
        columns: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Reading> {
        Ok(Reading {
            run: Arc::clone(&self.run),
            layout: Arc::clone(&self.layout),
            table: self.table.clone(),
            columns: columns.to_vec(),
            wanted: Wanted::new(filters, self.tracepoint()),
            early: EarlyFilter::new(session, &self.layout, &self.table, filters)?,
            is_limited: limit.is_some(),
        })
    }
}

/// The constraints of the filters on the frames.
#[derive(Debug)]
struct Wanted {
    numbers: Ranges,
    tracepoints: Ranges,
    addresses: Ranges,
    /// In nanoseconds.
    times: Ranges,
    /// Of the table `values`: the expressions.
    expressions: Option<Vec<String>>,
}

impl Wanted {
    fn new(filters: &[Expr], tracepoint: Option<i32>) -> Self {
        Self {
            numbers: Ranges::of(filters, "frame"),
            tracepoints: match tracepoint {
                Some(number) => Ranges::within(number.into(), number.into()),
                None => Ranges::of(filters, "tracepoint"),
            },
            addresses: Ranges::of(filters, "pc"),
            times: Ranges::of(filters, "time_ns"),
            // The table of a tracepoint has no such column with this meaning.
            expressions: texts(filters, "expression").map(|texts| texts.into_iter().collect()),
        }
    }

    /// The range of frames that may match.
    fn bounds(&self, frames: u64) -> (u64, u64) {
        match self.numbers.bounds() {
            None => (0, 0),
            Some((first, last)) => {
                let first = u64::try_from(first).unwrap_or(0);
                let after = u64::try_from(last).map_or(0, |last| last.saturating_add(1));
                (first.min(frames), after.min(frames))
            }
        }
    }

    /// The frames of a window that may match.
    fn frames(&self, run: &TraceRun, start: u64, end: u64) -> Vec<FrameNumber> {
        let mut frames = run
            .file
            .selected(FrameNumber(start), FrameNumber(end), self);
        if !self.numbers.is_any() {
            frames.retain(|frame| {
                i64::try_from(frame.0).is_ok_and(|number| self.numbers.has(number))
            });
        }
        frames
    }
}

impl Selection for Wanted {
    fn tracepoint(&self, number: TracepointNumber) -> bool {
        self.tracepoints.has(number.0.into())
    }

    fn address(&self, address: Address) -> bool {
        self.addresses.has(address.0.cast_signed())
    }

    fn times(&self, first: u64, last: u64) -> bool {
        if self.times.is_any() {
            return true;
        }
        // A microsecond has a thousand nanoseconds. A time that SQL has no number for is the largest number.
        let nanoseconds = |microseconds: u64| {
            i64::try_from(microseconds.saturating_mul(1000)).unwrap_or(i64::MAX)
        };
        self.times
            .overlaps(nanoseconds(first), nanoseconds(last).saturating_add(999))
    }
}

/// The filters on a frame's own columns, evaluated before the values of its expressions.
#[derive(Debug)]
struct EarlyFilter {
    /// The columns of `hits` that it needs. The first is the frame's number.
    columns: Vec<usize>,
    table: Table,
    filter: Arc<dyn PhysicalExpr>,
}

impl EarlyFilter {
    fn new(
        state: &dyn Session,
        layout: &Layout,
        of: &Table,
        filters: &[Expr],
    ) -> Result<Option<Self>> {
        let Some(table) = layout.table("hits") else {
            return Ok(None);
        };
        let index = |name: &str| {
            let at = table.schema.index_of(name).ok()?;
            of.is_of_frame(name).then_some(at)
        };
        let mut columns: Vec<usize> = index("frame").into_iter().collect();
        let mut known = Vec::new();
        for filter in filters {
            let references = filter.column_refs();
            let own: Option<Vec<usize>> = references
                .iter()
                .map(|column| index(&column.name))
                .collect();
            if let Some(own) = own
                && !filter.is_volatile()
            {
                columns.extend(own);
                known.push(filter.clone());
            }
        }
        let Some(filter) = conjunction(known) else {
            return Ok(None);
        };
        let mut seen = std::collections::HashSet::new();
        columns.retain(|column| seen.insert(*column));
        let schema = table.schema.project(&columns)?;
        let filter = state.create_physical_expr(filter, &DFSchema::try_from(schema)?)?;
        Ok(Some(Self {
            columns,
            table: table.clone(),
            filter,
        }))
    }
}

/// The input. Each thread reads a part of it.
#[derive(Debug)]
pub(crate) struct Reading {
    run: Arc<TraceRun>,
    layout: Arc<Layout>,
    table: Table,
    columns: Vec<usize>,
    wanted: Wanted,
    early: Option<EarlyFilter>,
    /// Rows are passed on as soon as there are any: a few may be enough.
    is_limited: bool,
}

impl Rows for Reading {
    const NAME: &'static str = "TraceScan";

    fn most_parts(&self) -> usize {
        match usize::try_from(self.run.file.frame_count()) {
            Ok(0..FRAMES_FOR_THREADS) => 1,
            _ => MOST_THREADS,
        }
    }

    fn read(
        &self,
        part: usize,
        parts: usize,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let program = self.run.program();
        let viewer = Viewer::new(&self.run.file, &program);
        let no_table = || exec_datafusion_err!("{} is no table of frames", self.table.name);
        let mut reader = FrameReader::new(&viewer, &self.layout, &self.table, &self.columns)
            .ok_or_else(no_table)?;
        if let Some(expressions) = &self.wanted.expressions {
            reader.only_expressions(expressions.iter().cloned());
        }
        let early = match &self.early {
            Some(early) => {
                let reader = FrameReader::new(&viewer, &self.layout, &early.table, &early.columns);
                Some((reader.ok_or_else(no_table)?, &early.filter))
            }
            None => None,
        };
        let (start, end) = self.wanted.bounds(self.run.file.frame_count());
        let step = usize::try_from(FRAMES_A_WINDOW).unwrap_or(usize::MAX);
        let windows = (start..end).step_by(step).skip(part).step_by(parts);
        let mut waiting: Vec<FrameNumber> = Vec::new();
        let mut windows = windows.peekable();
        while let Some(window) = windows.next() {
            let window_end = window.saturating_add(FRAMES_A_WINDOW).min(end);
            waiting.extend(self.wanted.frames(&self.run, window, window_end));
            if waiting.len() < FRAMES_A_BATCH && windows.peek().is_some() && !self.is_limited {
                continue;
            }
            for numbers in waiting.chunks(FRAMES_A_BATCH) {
                let passed = match &early {
                    Some((reader, filter)) => Some(pass(reader, filter, numbers)?),
                    None => None,
                };
                let rows = reader
                    .rows(passed.as_deref().unwrap_or(numbers))
                    .map_err(external)?;
                if rows.num_rows() > 0 && !take(rows) {
                    return Ok(());
                }
            }
            waiting.clear();
        }
        self.run
            .file
            .verify()
            .map_err(|cut| DataFusionError::External(Box::new(cut)))
    }

    fn filter(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.early.as_ref().map(|early| &early.filter)
    }

    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = self.run.file.frame_count();
        let (start, end) = self.wanted.bounds(frames);
        let mut left = 0;
        let mut next = start;
        while next < end {
            let window = next.saturating_add(FRAMES_A_WINDOW).min(end);
            left += self.wanted.frames(&self.run, next, window).len();
            next = window;
        }
        write!(f, "frames={left} of {frames}")?;
        match &self.early {
            Some(early) => write!(f, ", filter={}", early.filter),
            None => Ok(()),
        }
    }
}

/// The frames that a filter leaves.
fn pass(
    reader: &FrameReader<'_>,
    filter: &Arc<dyn PhysicalExpr>,
    numbers: &[FrameNumber],
) -> Result<Vec<FrameNumber>> {
    let rows = reader.rows(numbers).map_err(external)?;
    let passes = filter.evaluate(&rows)?.into_array(rows.num_rows())?;
    let passes = passes
        .as_boolean_opt()
        .ok_or_else(|| exec_datafusion_err!("a filter is neither true nor false"))?;
    let rows = filter_record_batch(&rows, passes)?;
    let frames = rows.column(0).as_primitive::<Int64Type>();
    debug_assert_eq!(frames.null_count(), 0);
    Ok((frames.values().iter())
        .filter_map(|frame| u64::try_from(*frame).ok())
        .map(FrameNumber)
        .collect())
}
