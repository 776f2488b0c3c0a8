//! A table of a trace file: frames that are read while the query runs, and only those that its filters leave.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType, utils::conjunction};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use tracewire_dataset::{FRAMES_FOR_THREADS, FrameReader, Layout, MOST_THREADS, Table};
use tracewire_model::{Address, FrameNumber, TracepointNumber};
use tracewire_tracefile::Selection;
use tracewire_views::Viewer;

use crate::ranges::{Ranges, texts};
use crate::trace_run::TraceRun;

/// How many frames are asked of the index at a time.
const FRAMES_A_WINDOW: u64 = 8192;

/// How many frames are made into rows at a time.
const FRAMES_A_BATCH: usize = 8192;

/// How many batches a thread may be ahead of the consumer.
const AHEAD: usize = 2;

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

#[async_trait]
impl TableProvider for TraceTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // They are evaluated again on the remaining rows: that is cheap, and the index does not cover everything.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.table.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all).clone();
        let wanted = Wanted::new(filters, self.tracepoint());
        let frames = self.run.file.frame_count();
        let partitions = match (limit, usize::try_from(frames)) {
            // Only the first rows are needed.
            (Some(_), _) | (None, Ok(0..FRAMES_FOR_THREADS)) => 1,
            _ => state.config().target_partitions().clamp(1, MOST_THREADS),
        };
        let schema = Arc::new(self.table.schema.project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let early = EarlyFilter::new(state, &self.layout, &self.table, filters)?;
        let reading = Reading {
            run: Arc::clone(&self.run),
            layout: Arc::clone(&self.layout),
            table: self.table.clone(),
            columns,
            wanted,
            early,
            limit,
        };
        Ok(Arc::new(TraceScan {
            reading: Arc::new(reading),
            properties: Arc::new(properties),
        }))
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

/// The part of a plan that reads frames.
#[derive(Debug)]
struct TraceScan {
    reading: Arc<Reading>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for TraceScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading {
            run,
            table,
            wanted,
            early,
            limit,
            ..
        } = &*self.reading;
        let frames = run.file.frame_count();
        let (start, end) = wanted.bounds(frames);
        let mut left = 0;
        let mut next = start;
        while next < end {
            let window = next.saturating_add(FRAMES_A_WINDOW).min(end);
            left += wanted.frames(run, next, window).len();
            next = window;
        }
        let names = self.schema();
        let names: Vec<&str> = names
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "TraceScan: run={}, table={}, columns=[{}], frames={left} of {frames}",
            run.name,
            table.name,
            names.join(", ")
        )?;
        if let Some(early) = early {
            write!(f, ", filter={}", early.filter)?;
        }
        if let Some(limit) = limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for TraceScan {
    fn name(&self) -> &'static str {
        "TraceScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match &self.reading.early {
            Some(early) => visit(&early.filter),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    #[allow(deprecated)]
    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema(), AHEAD);
        let sender = stream.tx();
        let partitions = self.properties.partitioning.partition_count();
        let reading = Arc::clone(&self.reading);
        stream.spawn_blocking(move || {
            // The query has all the rows that it needs.
            reading.read(partition, partitions, |batch| {
                sender.blocking_send(Ok(batch)).is_ok()
            })
        });
        Ok(stream.build())
    }
}

/// The input. Each thread reads a part of it.
#[derive(Debug)]
struct Reading {
    run: Arc<TraceRun>,
    layout: Arc<Layout>,
    table: Table,
    columns: Vec<usize>,
    wanted: Wanted,
    early: Option<EarlyFilter>,
    limit: Option<usize>,
}

impl Reading {
    /// Passes on the rows of every window that belongs to this partition, until `take` needs no more.
    fn read(
        &self,
        partition: usize,
        partitions: usize,
        mut take: impl FnMut(RecordBatch) -> bool,
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
        let windows = (start..end)
            .step_by(step)
            .skip(partition)
            .step_by(partitions.max(1));
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut waiting: Vec<FrameNumber> = Vec::new();
        let mut windows = windows.peekable();
        while let Some(window) = windows.next() {
            let window_end = window.saturating_add(FRAMES_A_WINDOW).min(end);
            waiting.extend(self.wanted.frames(&self.run, window, window_end));
            if waiting.len() < FRAMES_A_BATCH && windows.peek().is_some() && self.limit.is_none() {
                continue;
            }
            for numbers in waiting.chunks(FRAMES_A_BATCH) {
                let passed = match &early {
                    Some((reader, filter)) => Some(pass(reader, filter, numbers)?),
                    None => None,
                };
                let rows = reader
                    .rows(passed.as_deref().unwrap_or(numbers))
                    .map_err(|error| DataFusionError::External(Box::new(error)))?;
                let rows = rows.slice(0, rows.num_rows().min(left));
                left -= rows.num_rows();
                if rows.num_rows() > 0 && !take(rows) {
                    return Ok(());
                }
                if left == 0 {
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
}

/// The frames that a filter leaves.
fn pass(
    reader: &FrameReader<'_>,
    filter: &Arc<dyn PhysicalExpr>,
    numbers: &[FrameNumber],
) -> Result<Vec<FrameNumber>> {
    let rows = reader
        .rows(numbers)
        .map_err(|error| DataFusionError::External(Box::new(error)))?;
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
