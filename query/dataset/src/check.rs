//! Checks a dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;

use crate::directory::{COMPACTED, REPLACED, UNFINISHED, directory_of, parse_pairs, part_name};
use crate::error::DatasetError;
use crate::parquet_file::{
    BATCH_KEY, REPLACES_KEY, RUNS_KEY, SCHEMA_VERSION, TABLE_KEY, TABLES_KEY, VERSION_KEY,
};
use crate::table::RUNS;

/// The file that [`crate::compact`] locks.
pub(crate) const LOCK: &str = ".compact.lock";

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The dataset reads whole, and something is to be known.
    Warning,
    /// Something of it cannot be read, or is not there.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file or directory.
    pub path: PathBuf,
    /// The problem.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: {}",
            self.severity,
            self.path.display(),
            self.message
        )
    }
}

/// A file of a dataset that could be read.
struct Known {
    batch: String,
    table: String,
    path: PathBuf,
    rows: u64,
    schema: SchemaRef,
    /// The metadata of `runs` about the batch.
    of_batch: Option<BatchDescription>,
}

/// The metadata of `runs` about its batch.
#[derive(Clone, Default, Debug)]
pub(crate) struct BatchDescription {
    /// The runs, with the hashes of their trace files.
    pub(crate) runs: BTreeMap<String, String>,
    /// The tables, with the number of their rows.
    pub(crate) tables: BTreeMap<String, String>,
    /// The batches that a compacted one was made of.
    pub(crate) replaces: BTreeSet<String>,
}

/// Reads every file of a dataset whole.
///
/// # Errors
/// When a directory cannot be read.
pub fn check(directory: &Path) -> Result<Vec<Finding>, DatasetError> {
    let mut findings = Vec::new();
    let mut known: Vec<Known> = Vec::new();
    for path in collect(directory)? {
        match look(directory, &path) {
            Ok(file) => known.push(file),
            Err((severity, message)) => findings.push(Finding {
                severity,
                path,
                message,
            }),
        }
    }
    let stale: BTreeSet<String> = (known.iter().filter_map(|file| file.of_batch.as_ref()))
        .flat_map(|batch| batch.replaces.iter().cloned())
        .collect();
    let (stale, known): (Vec<_>, Vec<_>) =
        (known.into_iter()).partition(|file| stale.contains(&file.batch));
    let stale: BTreeSet<String> = stale.into_iter().map(|file| file.batch).collect();
    findings.extend(stale.iter().map(|batch| replaced(directory, batch)));
    check_batches(directory, &known, &mut findings);
    check_types(&known, &mut findings);
    findings.sort_by(|a, b| (b.severity, &a.path).cmp(&(a.severity, &b.path)));
    Ok(findings)
}

fn replaced(directory: &Path, batch: &str) -> Finding {
    Finding {
        severity: Severity::Warning,
        path: directory.join(directory_of(batch)),
        message:
            "its runs are in a compacted batch too, since `compact` was ended early: compact again"
                .to_owned(),
    }
}

/// The files of a dataset, sorted. A directory with a hidden name is one entry.
fn collect(directory: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        let entries = match std::fs::read_dir(&next) {
            // A batch that was replaced or removed since it was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && next != directory => {
                continue;
            }
            entries => entries.map_err(DatasetError::file(&next))?,
        };
        for entry in entries {
            let entry = entry.map_err(DatasetError::file(&next))?;
            let (path, name) = (entry.path(), entry.file_name());
            // A link is a foreign file, wherever it leads.
            let kind = entry.file_type().map_err(DatasetError::file(&path))?;
            if kind.is_dir() && !name.as_encoded_bytes().starts_with(b".") {
                directories.push(path);
            } else if name != LOCK || next != directory {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The parts of a path, `batch`, `host`, `day`, `table`.
fn partitions(directory: &Path, path: &Path) -> Option<[String; 4]> {
    let relative = path.strip_prefix(directory).ok()?;
    let mut parts = relative.iter().map(|part| part.to_str());
    let mut part = |key: &str| {
        let value = parts.next()??.strip_prefix(key)?.strip_prefix('=')?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let found = [part("batch")?, part("host")?, part("day")?, part("table")?];
    let file = parts.next()??;
    let number = file.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let is_part = number
        .parse()
        .is_ok_and(|part: usize| part_name(part) == file);
    (is_part && parts.next().is_none()).then_some(found)
}

type Look<T> = Result<T, (Severity, String)>;

fn error<E: fmt::Display>(error: E) -> (Severity, String) {
    (Severity::Error, error.to_string())
}

/// The metadata of a file.
fn metadata_of(reader: &ParquetRecordBatchReaderBuilder<File>, wanted: &str) -> Option<String> {
    let all = reader.metadata().file_metadata().key_value_metadata()?;
    all.iter().find(|pair| pair.key == wanted)?.value.clone()
}

/// Opens a file, and makes sure that it is the table of that batch. Its rows are not read.
pub(crate) fn open_table(
    path: &Path,
    batch: &str,
    table: &str,
) -> Look<ParquetRecordBatchReaderBuilder<File>> {
    let file = File::open(path).map_err(error)?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|why| error(format!("not a whole Parquet file: {why}")))?;
    let Some(version) = metadata_of(&reader, VERSION_KEY) else {
        let message = format!("a Parquet file of another program: it has no {VERSION_KEY}");
        return Err((Severity::Error, message));
    };
    match version.parse::<u32>() {
        Ok(SCHEMA_VERSION) => {}
        Ok(version) if version < SCHEMA_VERSION => {
            let message = format!(
                "tables of version {version}; this program reads version {SCHEMA_VERSION}: add the runs to a new dataset"
            );
            return Err((Severity::Error, message));
        }
        _ => {
            let message = format!(
                "tables of version {version}; this program knows versions up to {SCHEMA_VERSION}: use a later one"
            );
            return Err((Severity::Error, message));
        }
    }
    for (key, place) in [(BATCH_KEY, batch), (TABLE_KEY, table)] {
        let said = metadata_of(&reader, key).unwrap_or_default();
        if said != place {
            let message = format!("the file says {key} {said:?}, and its directory {place:?}");
            return Err((Severity::Error, message));
        }
    }
    Ok(reader)
}

/// What the file of `runs` says of its batch.
fn description_of(reader: &ParquetRecordBatchReaderBuilder<File>) -> BatchDescription {
    let text = |key: &str| metadata_of(reader, key).unwrap_or_default();
    let replaces = text(REPLACES_KEY);
    BatchDescription {
        runs: parse_pairs(&text(RUNS_KEY)),
        tables: parse_pairs(&text(TABLES_KEY)),
        replaces: replaces.split_whitespace().map(str::to_owned).collect(),
    }
}

/// Describes the batch in a directory; none where its table of runs is not there or cannot be read, which [`check`] reports.
pub(crate) fn describe(of_batch: &Path) -> Option<BatchDescription> {
    let directory = of_batch.parent()?;
    let files = collect(of_batch).ok()?;
    files.iter().find_map(|path| {
        let [batch, _, _, table] = partitions(directory, path)?;
        let reader = (table == RUNS).then(|| open_table(path, &batch, RUNS))?;
        Some(description_of(&reader.ok()?))
    })
}

/// A file of a table in a dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedFile {
    /// The batch of the runs.
    pub batch: String,
    /// The machine that they are of.
    pub host: String,
    /// The day, `YYYY-MM-DD` in UTC, or `unknown`.
    pub day: String,
    /// The table.
    pub table: String,
    /// Where it is.
    pub path: PathBuf,
}

/// The files of a dataset, and what else is there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Listing {
    /// The tables of whole batches, by their paths.
    pub files: Vec<ListedFile>,
    /// The runs, with the directories of their batches.
    pub runs: Vec<(String, PathBuf)>,
    /// The skipped parts: unfinished batches, incomplete ones, and those that a compacted one has replaced. Foreign files are errors.
    pub findings: Vec<Finding>,
}

/// Lists the files of a dataset. Of the files, only those are opened that say which runs a compacted batch has.
///
/// # Errors
/// When a directory cannot be read.
pub fn list(directory: &Path) -> Result<Listing, DatasetError> {
    let mut listing = Listing::default();
    let mut files = Vec::new();
    for path in collect(directory)? {
        match place(directory, &path) {
            Ok([batch, host, day, table]) => files.push(ListedFile {
                batch,
                host,
                day,
                table,
                path,
            }),
            Err((severity, message)) => listing.findings.push(Finding {
                severity,
                path,
                message,
            }),
        }
    }
    let whole: BTreeSet<String> = (files.iter())
        .filter(|file| file.table == RUNS)
        .map(|file| file.batch.clone())
        .collect();
    let mut stale = BTreeSet::new();
    for batch in &whole {
        let path = directory.join(directory_of(batch));
        if !batch.starts_with(COMPACTED) {
            listing.runs.push((batch.clone(), path));
            continue;
        }
        // One that cannot be read has no runs here; its files are refused when they are read.
        let described = describe(&path).unwrap_or_default();
        let runs = described.runs.into_keys();
        listing.runs.extend(runs.map(|run| (run, path.clone())));
        stale.extend(described.replaces);
    }
    let is_stale = |batch: &String| stale.contains(batch);
    let own = |path: &Path| {
        stale
            .iter()
            .any(|batch| path.ends_with(directory_of(batch)))
    };
    listing.runs.retain(|(_, path)| !own(path));
    for file in files {
        let (path, message) = if is_stale(&file.batch) {
            let finding = replaced(directory, &file.batch);
            (finding.path, finding.message)
        } else if whole.contains(&file.batch) {
            listing.files.push(file);
            continue;
        } else {
            let path = directory.join(directory_of(&file.batch));
            (
                path,
                format!("the batch is not whole: it has no table {RUNS}"),
            )
        };
        let finding = Finding {
            severity: Severity::Warning,
            path,
            message,
        };
        if !listing.findings.contains(&finding) {
            listing.findings.push(finding);
        }
    }
    Ok(listing)
}

impl ListedFile {
    /// The columns of the file, and the metadata of its rows at the end. The rows are not read.
    ///
    /// # Errors
    /// When it is not a whole file of this table and batch.
    pub fn open(&self) -> Result<(SchemaRef, Arc<ParquetMetaData>), DatasetError> {
        let reader = self.reader()?;
        Ok((Arc::clone(reader.schema()), Arc::clone(reader.metadata())))
    }

    pub(crate) fn reader(&self) -> Result<ParquetRecordBatchReaderBuilder<File>, DatasetError> {
        open_table(&self.path, &self.batch, &self.table).map_err(|(_, message)| {
            DatasetError::Unusable {
                path: self.path.clone(),
                message,
            }
        })
    }
}

/// The parts of a file's path: `batch`, `host`, `day`, `table`.
fn place(directory: &Path, path: &Path) -> Look<[String; 4]> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.parent() == Some(directory) && name.starts_with(".batch=") {
        let message = match () {
            () if name.ends_with(UNFINISHED) => {
                "a batch that is not finished: its writer is still at work, or ended early; `prune` removes it"
            }
            () if name.ends_with(REPLACED) => {
                "the rest of a batch that was replaced, by a program that ended early; `prune` removes it"
            }
            () => "a foreign directory",
        };
        return Err((Severity::Warning, message.to_owned()));
    }
    partitions(directory, path).ok_or_else(|| {
        let is_old = path.strip_prefix(directory).is_ok_and(|relative| {
            let first = relative.iter().next().and_then(|part| part.to_str());
            first.is_some_and(|part| part.starts_with("run="))
        });
        let message = match is_old {
            true => "a run in the layout of version 1: add it to a new dataset",
            false => {
                "a foreign file: expected batch=…/host=…/day=…/table=…/part-N.parquet; readers of the whole directory may trip over it"
            }
        };
        (Severity::Error, message.to_owned())
    })
}

fn look(directory: &Path, path: &Path) -> Look<Known> {
    let [batch, _, _, table] = place(directory, path)?;
    let reader = open_table(path, &batch, &table)?;
    let known = Known {
        of_batch: (table == RUNS).then(|| description_of(&reader)),
        schema: reader.schema().clone(),
        path: path.to_owned(),
        rows: u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0),
        batch,
        table,
    };
    let mut rows = 0;
    for batch in reader.build().map_err(error)? {
        rows += batch
            .map_err(|why| error(format!("damaged: {why}")))?
            .num_rows() as u64;
    }
    if rows != known.rows {
        let message = format!("{rows} rows; its end says {}", known.rows);
        return Err((Severity::Error, message));
    }
    Ok(known)
}

/// Each batch has the tables that its `runs` names, with their rows. Each run is in one batch.
fn check_batches(directory: &Path, known: &[Known], findings: &mut Vec<Finding>) {
    let mut batches: BTreeMap<&str, Vec<&Known>> = BTreeMap::new();
    for file in known {
        batches.entry(&file.batch).or_default().push(file);
    }
    let mut batch_of: BTreeMap<&str, &str> = BTreeMap::new();
    for (batch, files) in batches {
        let mut find = |message: String| {
            findings.push(Finding {
                severity: Severity::Error,
                path: directory.join(directory_of(batch)),
                message,
            });
        };
        let mut described = files.iter().filter_map(|file| file.of_batch.as_ref());
        let (Some(whole), None) = (described.next(), described.next()) else {
            find(match files.iter().any(|file| file.table == RUNS) {
                false => {
                    format!("the batch is not whole: it has no table {RUNS}; add its run again")
                }
                true => "the batch is there for several hosts or days".to_owned(),
            });
            continue;
        };
        for run in whole.runs.keys() {
            if let Some(other) = batch_of.insert(run, batch) {
                find(format!("the run {run} is in batch {other} too"));
            }
        }
        for (table, rows) in &whole.tables {
            let parts = files.iter().filter(|file| file.table == *table);
            let found: Vec<u64> = parts.map(|file| file.rows).collect();
            let count: u64 = found.iter().sum();
            if found.is_empty() {
                find(format!("the table {table} is missing; add the run again"));
            } else if count.to_string() != *rows {
                find(format!(
                    "the table {table} has {count} rows; the batch has {rows}: add the run again"
                ));
            }
        }
    }
}

/// Columns with several types: from builds in which an expression has another type.
fn check_types(known: &[Known], findings: &mut Vec<Finding>) {
    let mut types: BTreeMap<(&str, &str), Vec<(&DataType, &Known)>> = BTreeMap::new();
    for file in known {
        for field in file.schema.fields() {
            let all = types.entry((&file.table, field.name())).or_default();
            if all
                .iter()
                .all(|(data_type, _)| *data_type != field.data_type())
            {
                all.push((field.data_type(), file));
            }
        }
    }
    for ((table, column), all) in types {
        let Some(((first, before), rest)) = all.split_first() else {
            continue;
        };
        for (other, file) in rest {
            findings.push(Finding {
                severity: Severity::Warning,
                path: file.path.clone(),
                message: format!(
                    "the column {column} of {table} is {other}, and {first} in batch {}: read both with a cast",
                    before.batch
                ),
            });
        }
    }
}
