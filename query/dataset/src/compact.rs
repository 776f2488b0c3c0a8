//! Many small batches to few large ones.
//!
//! The batches of one host and day become one, up to a size. Rows are copied as they are: files of a table whose columns differ stay files of their
//! own. The new batch names those that it replaces, so that readers never count a run twice, even where this program ends early.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use twox_hash::XxHash64;

use crate::check::{LOCK, ListedFile, describe, list};
use crate::directory::{COMPACTED, Place, Staging, directory_of, pairs, remove_batch};
use crate::error::DatasetError;
use crate::parquet_file::{BATCH_KEY, REPLACES_KEY, RUNS_KEY, TABLE_KEY, TABLES_KEY, TableFile};
use crate::row_group::TableFormat;
use crate::table::RUNS;

/// How large a compacted batch becomes, in bytes.
pub const COMPACT_TO: u64 = 256 << 20;

/// What was compacted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Compacted {
    /// How many batches became fewer.
    pub batches: usize,
    /// How many they are now.
    pub batches_after: usize,
    /// How many files they had.
    pub files: usize,
    /// How many they have now.
    pub files_after: usize,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many they have now.
    pub bytes_after: u64,
}

/// A batch that is whole.
struct Batch {
    place: Place,
    bytes: u64,
    files: Vec<ListedFile>,
}

/// Puts the batches of each host and day together, into batches of at most `most_bytes`. Larger ones stay as they are. Writers may add runs
/// meanwhile, and readers read; a second compaction at the same time is refused.
///
/// # Errors
/// When a file cannot be read or written: the batches that it is of stay as they are.
pub fn compact(directory: &Path, most_bytes: u64) -> Result<Compacted, DatasetError> {
    let _lock = lock(directory)?;
    remove_stale(directory)?;
    let mut done = Compacted::default();
    for group in groups(directory, most_bytes)? {
        let batches = group.len();
        let files = group.iter().map(|batch| batch.files.len()).sum::<usize>();
        let bytes = group.iter().map(|batch| batch.bytes).sum::<u64>();
        let written = merge(directory, &group)?;
        for batch in &group {
            remove_batch(directory, &batch.place.batch)?;
        }
        done.batches += batches;
        done.batches_after += 1;
        done.files += files;
        done.files_after += written.len();
        done.bytes += bytes;
        for path in written {
            done.bytes_after += size(&path)?;
        }
    }
    Ok(done)
}

/// Ended with the process that has it, however that ends.
fn lock(directory: &Path) -> Result<File, DatasetError> {
    let path = directory.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(DatasetError::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DatasetError::Busy {
            path: directory.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(DatasetError::file(&path)(error)),
    }
}

/// Removes the batches that a compaction has replaced which ended early.
fn remove_stale(directory: &Path) -> Result<(), DatasetError> {
    for (_, path) in list(directory)?.runs {
        for stale in describe(&path).unwrap_or_default().replaces {
            remove_batch(directory, &stale)?;
        }
    }
    Ok(())
}

fn size(path: &Path) -> Result<u64, DatasetError> {
    let metadata = std::fs::metadata(path).map_err(DatasetError::file(path))?;
    Ok(metadata.len())
}

/// Batches of one host and day, two or more, that fit into one.
fn groups(directory: &Path, most_bytes: u64) -> Result<Vec<Vec<Batch>>, DatasetError> {
    let mut batches: BTreeMap<String, Batch> = BTreeMap::new();
    for file in list(directory)?.files {
        let batch = batches.entry(file.batch.clone()).or_insert_with(|| Batch {
            place: Place {
                batch: file.batch.clone(),
                host: file.host.clone(),
                day: file.day.clone(),
            },
            bytes: 0,
            files: Vec::new(),
        });
        batch.bytes += size(&file.path)?;
        batch.files.push(file);
    }
    let mut of_days: BTreeMap<(String, String), Vec<(i64, Batch)>> = BTreeMap::new();
    for batch in batches.into_values() {
        let key = (batch.place.host.clone(), batch.place.day.clone());
        of_days
            .entry(key)
            .or_default()
            .push((start(&batch)?, batch));
    }
    let mut groups = Vec::new();
    for mut batches in of_days.into_values() {
        // By time: row groups of a compacted batch are of a stretch of it.
        batches.sort_by(|a, b| (a.0, &a.1.place.batch).cmp(&(b.0, &b.1.place.batch)));
        let mut group: Vec<Batch> = Vec::new();
        let mut bytes = 0;
        for (_, batch) in batches {
            if bytes + batch.bytes > most_bytes {
                groups.push(std::mem::take(&mut group));
                bytes = 0;
            }
            bytes += batch.bytes;
            group.push(batch);
        }
        groups.push(group);
    }
    groups.retain(|group| group.len() > 1);
    Ok(groups)
}

/// When the first run of a batch began, in nanoseconds; the least number where that is not known.
fn start(batch: &Batch) -> Result<i64, DatasetError> {
    let mut first = None;
    for file in batch.files.iter().filter(|file| file.table == RUNS) {
        for rows in rows(file)? {
            let rows = rows?;
            let starts = rows.column_by_name("start_ns");
            let starts = starts.and_then(|column| column.as_primitive_opt::<Int64Type>());
            let known = starts
                .into_iter()
                .flat_map(|starts| starts.iter().flatten());
            first = first.into_iter().chain(known).min();
        }
    }
    Ok(first.unwrap_or(i64::MIN))
}

/// The rows of a file, in batches.
fn rows(
    file: &ListedFile,
) -> Result<impl Iterator<Item = Result<arrow::array::RecordBatch, DatasetError>>, DatasetError> {
    let reader = file
        .reader()?
        .build()
        .map_err(DatasetError::parquet(&file.path))?;
    let path = file.path.clone();
    Ok(reader.map(move |rows| {
        rows.map_err(|error| DatasetError::Unusable {
            path: path.clone(),
            message: error.to_string(),
        })
    }))
}

/// Writes one batch with the rows of all, and gives its files.
fn merge(directory: &Path, group: &[Batch]) -> Result<Vec<PathBuf>, DatasetError> {
    let Some(first) = group.first() else {
        debug_assert!(false, "a group without batches");
        return Ok(Vec::new());
    };
    let mut runs: BTreeMap<String, String> = BTreeMap::new();
    for batch in group {
        let path = directory.join(directory_of(&batch.place.batch));
        runs.extend(describe(&path).unwrap_or_default().runs);
    }
    let runs_text = pairs(&runs);
    let place = Place {
        batch: format!(
            "{COMPACTED}{:016x}",
            XxHash64::oneshot(0, runs_text.as_bytes())
        ),
        ..first.place.clone()
    };
    let staging = Staging::create(directory, &place)?;
    let mut tables: BTreeMap<&str, Vec<&ListedFile>> = BTreeMap::new();
    for file in group.iter().flat_map(|batch| &batch.files) {
        tables.entry(&file.table).or_default().push(file);
    }
    // The description of the batch has the rows of all other tables.
    let of_runs = tables.remove(RUNS).unwrap_or_default();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut names = Vec::new();
    let last = std::iter::once((RUNS, of_runs));
    for (table, files) in tables.into_iter().chain(last) {
        let mut parts: Vec<(SchemaRef, Vec<&ListedFile>)> = Vec::new();
        for file in files {
            // The metadata of a file is no part of its columns.
            let schema = Arc::new(Schema::new(file.open()?.0.fields().clone()));
            match parts.iter_mut().find(|(known, _)| *known == schema) {
                Some((_, files)) => files.push(file),
                None => parts.push((schema, vec![file])),
            }
        }
        let rows_of_runs = u64::try_from(runs.len()).unwrap_or(u64::MAX);
        for (part, (schema, files)) in parts.into_iter().enumerate() {
            let mut metadata = vec![
                (TABLE_KEY, table.to_owned()),
                (BATCH_KEY, place.batch.clone()),
            ];
            if table == RUNS {
                counts.insert(RUNS.to_owned(), rows_of_runs);
                let replaces = group.iter().map(|batch| batch.place.batch.as_str());
                metadata.extend([
                    (RUNS_KEY, runs_text.clone()),
                    (TABLES_KEY, pairs(&counts)),
                    (REPLACES_KEY, replaces.collect::<Vec<_>>().join(" ")),
                ]);
            }
            // A run follows another: rows are sorted within each only.
            let path = staging.file(table, part);
            let format = TableFormat::new(schema, None, runs.len(), &metadata);
            let mut written = TableFile::create(&path, format.into())?;
            for file in files {
                for rows in rows(file)? {
                    written.write(&rows?)?;
                }
            }
            let count = written.finish()?;
            if table != RUNS {
                *counts.entry(table.to_owned()).or_default() += count;
            }
            names.push((table.to_owned(), part));
        }
    }
    let inner = staging.put_in_place()?;
    let path = |(table, part): (String, usize)| {
        inner
            .join(format!("table={table}"))
            .join(crate::directory::part_name(part))
    };
    Ok(names.into_iter().map(path).collect())
}
