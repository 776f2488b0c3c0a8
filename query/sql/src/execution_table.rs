//! A table of an execution trace: rows that are made while the query runs, and only those that its filters leave.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use tracewire_dataset::{Addresses, DatasetError, Execution, Piece, Reader, Selection, Table};

use crate::ranges::{Ranges, texts};

/// How many batches a thread may be ahead of the consumer.
const AHEAD: usize = 2;

/// A table of one execution trace.
#[derive(Debug)]
pub(crate) struct ExecutionTable {
    run: String,
    execution: Arc<Execution>,
    table: Table,
}

impl ExecutionTable {
    pub(crate) const fn new(run: String, execution: Arc<Execution>, table: Table) -> Self {
        Self {
            run,
            execution,
            table,
        }
    }
}

#[async_trait]
impl TableProvider for ExecutionTable {
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
        // They are evaluated again on the remaining rows.
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
        let reading = Arc::new(Reading {
            run: self.run.clone(),
            execution: Arc::clone(&self.execution),
            table: self.table.clone(),
            columns: projection.unwrap_or(&all).clone(),
            selection: selection(&self.table, filters),
            limit,
        });
        let reader = reading.reader()?;
        let pieces = reader.pieces().map_err(external)?;
        drop(reader);
        let partitions = match limit {
            // Only the first rows are needed.
            Some(_) => 1,
            None => state
                .config()
                .target_partitions()
                .clamp(1, pieces.len().max(1)),
        };
        let schema = Arc::new(self.table.schema.project(&reading.columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(ExecutionScan {
            reading,
            pieces: pieces.into(),
            properties: Arc::new(properties),
        }))
    }
}

/// What the filters leave of a table.
fn selection(table: &Table, filters: &[Expr]) -> Selection {
    let has = |name: &str| table.schema.index_of(name).is_ok();
    // Of a call, `address` is that of the function's code.
    let is_of_calls = table.name == "calls";
    let code = if is_of_calls { "address" } else { "pc" };
    let addresses = |name: &str| {
        let ranges = Ranges::of(filters, name);
        ranges.known().map(addresses)
    };
    let instructions = match Ranges::of(filters, "instruction").bounds() {
        None => 0..0,
        Some((first, last)) => {
            let first = u64::try_from(first).unwrap_or(0);
            let after = u64::try_from(last).map_or(0, |last| last.saturating_add(1));
            first..after
        }
    };
    let sizes = Ranges::of(filters, "size");
    let sizes = sizes
        .known()
        .map(|_| (1..=8).filter(|size| sizes.has(i64::from(*size))).collect());
    Selection {
        instructions,
        code: has(code).then(|| addresses(code)).flatten(),
        memory: (has("address") && !is_of_calls)
            .then(|| addresses("address"))
            .flatten(),
        sizes: has("size").then_some(sizes).flatten(),
        registers: texts(filters, "register"),
    }
}

/// Addresses, given as the numbers with the same bits.
fn addresses(ranges: &[(i64, i64)]) -> Addresses {
    let unsigned = ranges.iter().flat_map(|(first, last)| {
        let negative =
            (*first < 0).then(|| first.cast_unsigned()..=(*last).min(-1).cast_unsigned());
        let positive = (*last >= 0).then(|| (*first).max(0).cast_unsigned()..=last.cast_unsigned());
        [negative, positive].into_iter().flatten()
    });
    Addresses::new(unsigned.collect())
}

fn external(error: DatasetError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The part of a plan that reads an execution.
#[derive(Debug)]
struct ExecutionScan {
    reading: Arc<Reading>,
    pieces: Arc<[Piece]>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for ExecutionScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reading = &*self.reading;
        let names = self.schema();
        let names: Vec<&str> = names
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let all = reading.execution.recording().len();
        let Selection {
            instructions,
            code,
            memory,
            registers,
            ..
        } = &reading.selection;
        let (first, end) = (instructions.start.min(all), instructions.end.min(all));
        write!(
            f,
            "ExecutionScan: run={}, table={}, columns=[{}], instructions={} of {all}",
            reading.run,
            reading.table.name,
            names.join(", "),
            end.saturating_sub(first)
        )?;
        for (what, addresses) in [("code", code), ("memory", memory)] {
            if let Some(addresses) = addresses {
                let ranges = addresses.ranges().iter();
                let shown = ranges.map(|range| match range.start() == range.end() {
                    true => format!("{:#x}", range.start()),
                    false => format!("{:#x} to {:#x}", range.start(), range.end()),
                });
                write!(f, ", {what}=[{}]", shown.collect::<Vec<_>>().join(", "))?;
            }
        }
        if let Some(registers) = registers {
            let shown: Vec<&str> = registers.iter().map(String::as_str).collect();
            write!(f, ", registers=[{}]", shown.join(", "))?;
        }
        if let Some(limit) = reading.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ExecutionScan {
    fn name(&self) -> &'static str {
        "ExecutionScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
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
        let partitions = self.properties.partitioning.partition_count().max(1);
        let (reading, pieces) = (Arc::clone(&self.reading), Arc::clone(&self.pieces));
        stream.spawn_blocking(move || {
            let mine = pieces.iter().skip(partition).step_by(partitions);
            // The query has all the rows that it needs.
            reading.read(mine, |batch| sender.blocking_send(Ok(batch)).is_ok())
        });
        Ok(stream.build())
    }
}

/// What is read. Each thread reads a part of it.
#[derive(Debug)]
struct Reading {
    run: String,
    execution: Arc<Execution>,
    table: Table,
    columns: Vec<usize>,
    selection: Selection,
    limit: Option<usize>,
}

impl Reading {
    fn reader(&self) -> Result<Reader<'_>> {
        let selection = self.selection.clone();
        Reader::new(&self.execution, &self.table, &self.columns, selection).map_err(external)
    }

    fn read<'p>(
        &self,
        pieces: impl Iterator<Item = &'p Piece>,
        mut take: impl FnMut(RecordBatch) -> bool,
    ) -> Result<()> {
        let reader = self.reader()?;
        let mut left = self.limit.unwrap_or(usize::MAX);
        let mut is_wanted = true;
        for piece in pieces {
            let read = reader.read(piece, &mut |batch| {
                let rows = batch.slice(0, batch.num_rows().min(left));
                left -= rows.num_rows();
                is_wanted = take(rows) && left > 0;
                is_wanted
            });
            read.map_err(external)?;
            if !is_wanted {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn addresses_have_the_bits_of_numbers() {
        let found = addresses(&[(-2, 3), (i64::MAX, i64::MAX)]);
        let top = 1 << 63;
        assert_eq!(
            found.ranges(),
            [0..=3, top - 1..=top - 1, u64::MAX - 1..=u64::MAX]
        );
    }
}
