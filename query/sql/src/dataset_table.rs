//! A table of a dataset: the Parquet files of all its batches in which the table has the same columns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use chrono::DateTime;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::datasource::file_format::parquet::transform_schema_to_view;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::parquet::{
    CachedParquetFileReaderFactory, CachedParquetMetaData,
};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::{ObjectMeta, path};
use datafusion::physical_plan::ExecutionPlan;
use tracewire_dataset::ListedFile;

use crate::error::QueryError;

/// The columns that a dataset has in its paths, after those of the file.
const IN_PATHS: [&str; 2] = ["host", "day"];

/// Each thread that scans reads about so many pieces of files. A thread that has none left takes those of others, so that all end at
/// about the same time.
const PIECES: u64 = 8;

/// The smallest piece, in bytes: each costs a look at the row groups of its file.
const SMALLEST_PIECE: u64 = 512 << 10;

/// Files of several batches with the same columns.
#[derive(Debug)]
pub(crate) struct DatasetTable {
    of_files: SchemaRef,
    /// With the columns that are in the paths.
    schema: SchemaRef,
    files: Vec<PartitionedFile>,
}

impl DatasetTable {
    /// Opens the files of one table, and puts those together that have the same columns. The metadata of the files goes into `cache`.
    pub(crate) fn open(
        files: &[&ListedFile],
        cache: &FileMetadataCache,
    ) -> std::result::Result<Vec<Self>, QueryError> {
        let mut tables: Vec<Self> = Vec::new();
        for file in files {
            let (columns, metadata) = file.open()?;
            // The metadata of a file is no part of its columns. As views, repeated text is not copied for each row.
            let columns = Schema::new(columns.fields().clone());
            let columns = Arc::new(transform_schema_to_view(&columns));
            let engine = |error| QueryError::Engine(Box::new(error));
            let statistics =
                DFParquetMetadata::statistics_from_parquet_metadata(&metadata, &columns)
                    .map_err(engine)?;
            let part = partitioned(file).map_err(engine)?;
            let part = part.with_statistics(Arc::new(statistics));
            let metadata = Arc::new(CachedParquetMetaData::new(metadata));
            let known = CachedFileMetadataEntry::new(part.object_meta.clone(), metadata);
            cache.put(&part.object_meta.location, known);
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

    /// Whether columns are read that no filter needs.
    fn has_other_columns(&self, projection: Option<&Vec<usize>>, filters: &[Expr]) -> bool {
        let filtered: HashSet<&str> = filters
            .iter()
            .flat_map(Expr::column_refs)
            .map(|column| column.name.as_str())
            .collect();
        let of_file = self.of_files.fields().iter().enumerate();
        let mut others = of_file.filter(|(_, field)| !filtered.contains(field.name().as_str()));
        others.any(|(place, _)| projection.is_none_or(|wanted| wanted.contains(&place)))
    }
}

/// The files in pieces for so many threads. A row group is of the piece in which its middle is.
fn pieces(files: &[PartitionedFile], threads: usize) -> Vec<PartitionedFile> {
    let all: u64 = files.iter().map(|file| file.object_meta.size).sum();
    let most = (all / (threads as u64 * PIECES)).max(SMALLEST_PIECE);
    let cut = files.iter().flat_map(|file| {
        let size = file.object_meta.size;
        let count = size.div_ceil(most);
        (0..count).map(move |piece| {
            let bounds = [piece, piece + 1].map(|piece| (size * piece / count).cast_signed());
            file.clone().with_range(bounds[0], bounds[1])
        })
    });
    cut.collect()
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

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        // `scan` is to see them. Afterwards they are the optimizer's.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = TableSchema::builder(Arc::clone(&self.of_files))
            .with_table_partition_cols(in_paths())
            .build();
        let (url, runtime) = (ObjectStoreUrl::local_filesystem(), state.runtime_env());
        let store = runtime.object_store(&url)?;
        let cache = runtime.cache_manager.get_file_metadata_cache();
        // A filter that leaves few rows spares the decoding of the other columns. Where there is none, it takes two to four times as
        // long while it is decoded.
        let mut options = state.table_options().parquet.clone();
        let is_worth_it = self.has_other_columns(projection, filters);
        options.global.pushdown_filters = is_worth_it;
        options.global.reorder_filters = is_worth_it;
        let source = ParquetSource::new(table)
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(CachedParquetFileReaderFactory::new(
                store, cache,
            )));
        // The optimizer puts the filters into the scan, and evens the groups out.
        let threads = state.config().target_partitions().max(1);
        let groups = FileGroup::new(pieces(&self.files, threads)).split_files(threads);
        let scan = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(groups)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::listing::PartitionedFile;
    use datafusion::logical_expr::{col, lit};

    use super::{DatasetTable, PIECES, SMALLEST_PIECE, pieces, with_paths};

    #[test]
    fn columns_that_no_filter_needs_are_seen() {
        let fields = ["n", "name", "time_ns"].map(|name| Field::new(name, DataType::Int64, true));
        let columns = Arc::new(Schema::new(fields.to_vec()));
        let table = DatasetTable {
            schema: with_paths(&columns),
            of_files: columns,
            files: Vec::new(),
        };
        let filters = [col("n").gt(lit(100)), col("name").eq(lit(2))];
        for (wanted, others) in [
            (Some(vec![0, 1]), false),
            (Some(vec![1]), false),
            // The host is not in the file.
            (Some(vec![0, 3]), false),
            (Some(vec![0, 2]), true),
            (None, true),
        ] {
            let found = table.has_other_columns(wanted.as_ref(), &filters);
            assert_eq!(found, others, "{wanted:?}");
        }
    }

    #[test]
    fn pieces_are_many_where_files_are_large_and_each_byte_is_in_one() {
        for (sizes, threads) in [
            (vec![7 << 20, 20_000_001, 3], 2),
            (vec![SMALLEST_PIECE; 5], 64),
            (vec![1; 100], 1),
        ] {
            let named = sizes.iter().enumerate();
            let files = named.map(|(place, size)| PartitionedFile::new(place.to_string(), *size));
            let files: Vec<PartitionedFile> = files.collect();
            let made = pieces(&files, threads);
            for file in &files {
                let of_file = made.iter().filter(|piece| piece.path() == file.path());
                let ranges = of_file.map(|piece| piece.range.clone().expect("a range"));
                let end = ranges.fold(0, |end, range| {
                    assert_eq!(range.start, end, "{sizes:?}");
                    range.end
                });
                assert_eq!(end.cast_unsigned(), file.object_meta.size, "{sizes:?}");
            }
            let all: u64 = sizes.iter().sum();
            let large = all > threads as u64 * PIECES * SMALLEST_PIECE;
            assert!(
                !large || made.len() as u64 >= threads as u64 * PIECES,
                "{sizes:?}: {} pieces",
                made.len()
            );
        }
    }
}
