//! A table of a dataset: the Parquet files of all its batches in which the table has the same columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use chrono::DateTime;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::object_store::{ObjectMeta, path};
use datafusion::physical_plan::ExecutionPlan;
use tracewire_dataset::ListedFile;

use crate::error::QueryError;

/// The columns that a dataset has in its paths, after those of the file.
const IN_PATHS: [&str; 2] = ["host", "day"];

/// Files of several batches with the same columns.
#[derive(Debug)]
pub(crate) struct DatasetTable {
    of_files: SchemaRef,
    /// With the columns that are in the paths.
    schema: SchemaRef,
    files: Vec<PartitionedFile>,
}

impl DatasetTable {
    /// Opens the files of one table, and puts those together that have the same columns.
    pub(crate) fn open(files: &[&ListedFile]) -> std::result::Result<Vec<Self>, QueryError> {
        let mut tables: Vec<Self> = Vec::new();
        for file in files {
            let (columns, metadata) = file.open()?;
            // The metadata of a file is no part of its columns.
            let columns = Arc::new(Schema::new(columns.fields().clone()));
            let engine = |error| QueryError::Engine(Box::new(error));
            let statistics =
                DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &columns)
                    .map_err(engine)?;
            let part = partitioned(file).map_err(engine)?;
            let part = part.with_statistics(Arc::new(statistics));
            match tables.iter_mut().find(|table| table.of_files == columns) {
                Some(table) => table.files.push(part),
                None => tables.push(Self {
                    schema: with_paths(&columns),
                    of_files: columns,
                    files: vec![part],
                }),
            }
        }
        Ok(tables)
    }
}

fn in_paths() -> Vec<Arc<Field>> {
    let field = |name: &&str| Arc::new(Field::new(*name, DataType::Utf8, true));
    IN_PATHS.iter().map(field).collect()
}

fn with_paths(columns: &Schema) -> SchemaRef {
    let mut fields: Vec<Arc<Field>> = columns.fields().iter().cloned().collect();
    fields.extend(in_paths());
    Arc::new(Schema::new(fields))
}

fn partitioned(file: &ListedFile) -> Result<PartitionedFile> {
    let metadata = std::fs::metadata(&file.path)?;
    let whole = std::fs::canonicalize(&file.path)?;
    let location = path::Path::from_absolute_path(&whole)
        .map_err(|error| exec_datafusion_err!("{}: {error}", whole.display()))?;
    let meta = ObjectMeta {
        location,
        last_modified: metadata.modified().map_or(DateTime::UNIX_EPOCH, Into::into),
        size: metadata.len(),
        e_tag: None,
        version: None,
    };
    let values = [&file.host, &file.day];
    let values = values.map(|value| ScalarValue::Utf8(Some(value.clone())));
    Ok(PartitionedFile::new_from_meta(meta).with_partition_values(values.to_vec()))
}

#[async_trait]
impl TableProvider for DatasetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = TableSchema::builder(Arc::clone(&self.of_files))
            .with_table_partition_cols(in_paths())
            .build();
        let source = ParquetSource::new(table)
            .with_table_parquet_options(state.table_options().parquet.clone());
        // The optimizer puts the filters into the scan, and cuts large files into parts for several threads.
        let groups: Vec<FileGroup> = FileGroup::new(self.files.clone())
            .split_files(state.config().target_partitions().max(1));
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}
