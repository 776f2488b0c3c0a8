//! Tables whose rows are made while a query runs, by several threads, and only those rows that its filters leave.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use tracewire_dataset::{DatasetError, Table};

/// How many batches a thread may be ahead of the consumer.
pub(crate) const AHEAD: usize = 2;

/// The order of rising numbers.
const RISING: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

/// A table of one run.
pub(crate) trait VirtualTable: fmt::Debug + Send + Sync + 'static {
    /// What a query reads of it.
    type Rows: Rows;

    /// The run that the table is of.
    fn run(&self) -> &str;

    /// Its name and columns.
    fn table(&self) -> &Table;

    /// The column by which the rows of each part rise, if there is one.
    fn order(&self) -> Option<&str> {
        None
    }

    /// Whether all rows that are made with a filter fulfil it, so that it is not evaluated again.
    fn is_exact(&self, _filter: &Expr) -> bool {
        false
    }

    /// The rows that the filters may leave, with some of the columns. `limit` is how many of them are needed at most.
    fn rows(
        &self,
        session: &dyn Session,
        columns: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Self::Rows>;
}

/// Rows that are made part by part.
pub(crate) trait Rows: fmt::Debug + Send + Sync + 'static {
    /// The name that a plan shows.
    const NAME: &'static str;

    /// How many parts of them can be read at a time.
    fn most_parts(&self) -> usize;

    /// Passes on the rows of one part of several, until `take` needs no more.
    fn read(
        &self,
        part: usize,
        parts: usize,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<()>;

    /// The filter that is evaluated while they are read.
    fn filter(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        None
    }

    /// Writes what a plan shows of them: how much is left by the filters.
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Gives the rows of a virtual table to queries.
#[derive(Debug)]
pub(crate) struct Provider<T>(pub(crate) T);

#[async_trait]
impl<T: VirtualTable> TableProvider for Provider<T> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.table().schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // Most are evaluated again on the remaining rows: that is cheap, and an index does not cover everything.
        let how = |filter: &&Expr| match self.0.is_exact(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(how).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = self.0.table();
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..table.schema.fields().len()).collect(),
        };
        let rows = self.0.rows(session, &columns, filters, limit)?;
        let parts = match limit {
            // Only the first rows are needed.
            Some(_) => 1,
            None => {
                let threads = session.config().target_partitions();
                threads.clamp(1, rows.most_parts().max(1))
            }
        };
        let schema = Arc::new(table.schema.project(&columns)?);
        let order = self.0.order();
        let order = order.and_then(|name| Column::new_with_schema(name, &schema).ok());
        let rising = |column| PhysicalSortExpr::new(Arc::new(column), RISING);
        let orders = order.map(|column| [rising(column)]);
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, orders),
            Partitioning::UnknownPartitioning(parts),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(Scan {
            run: self.0.run().to_owned(),
            table: table.name.clone(),
            rows: Arc::new(rows),
            limit,
            properties: Arc::new(properties),
        }))
    }
}

/// The part of a plan that reads a virtual table.
#[derive(Debug)]
struct Scan<R> {
    run: String,
    table: String,
    rows: Arc<R>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
}

impl<R: Rows> DisplayAs for Scan<R> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = (schema.fields().iter())
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "{}: run={}, table={}, columns=[{}], ",
            R::NAME,
            self.run,
            self.table,
            names.join(", ")
        )?;
        self.rows.explain(f)?;
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl<R: Rows> ExecutionPlan for Scan<R> {
    fn name(&self) -> &'static str {
        R::NAME
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
        self.rows
            .filter()
            .map_or(Ok(TreeNodeRecursion::Continue), visit)
    }

    #[allow(deprecated)]
    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, part: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut stream = RecordBatchReceiverStreamBuilder::new(self.schema(), AHEAD);
        let sender = stream.tx();
        let parts = self.properties.partitioning.partition_count().max(1);
        let rows = Arc::clone(&self.rows);
        let mut left = self.limit.unwrap_or(usize::MAX);
        stream.spawn_blocking(move || {
            rows.read(part, parts, &mut |batch| {
                let batch = batch.slice(0, batch.num_rows().min(left));
                left -= batch.num_rows();
                // Where the query has all that it needs, nobody receives.
                sender.blocking_send(Ok(batch)).is_ok() && left > 0
            })
        });
        Ok(stream.build())
    }
}

/// An error of a run, as the engine passes it on.
pub(crate) fn external(error: DatasetError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
