//! Checks a dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;

use crate::directory::PART;
use crate::error::DatasetError;
use crate::parquet_file::{
    RUN_KEY, SCHEMA_VERSION, SOURCE_KEY, TABLE_KEY, TABLES_KEY, UNFINISHED, VERSION_KEY,
};
use crate::table::RUNS;

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
    run: String,
    table: String,
    path: PathBuf,
    rows: u64,
    schema: SchemaRef,
    /// The contents of `runs` about the other tables.
    tables: Option<String>,
}

/// Reads every file of a dataset whole.
///
/// # Errors
/// When a directory cannot be read.
pub fn check(directory: &Path) -> Result<Vec<Finding>, DatasetError> {
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort();
    let mut findings = Vec::new();
    let mut known: Vec<Known> = Vec::new();
    for path in files {
        match look(directory, &path) {
            Ok(file) => known.push(file),
            Err((severity, message)) => findings.push(Finding {
                severity,
                path,
                message,
            }),
        }
    }
    check_runs(directory, &known, &mut findings);
    check_types(&known, &mut findings);
    findings.sort_by(|a, b| (b.severity, &a.path).cmp(&(a.severity, &b.path)));
    Ok(findings)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), DatasetError> {
    let entries = std::fs::read_dir(directory).map_err(DatasetError::file(directory))?;
    for entry in entries {
        let entry = entry.map_err(DatasetError::file(directory))?;
        let path = entry.path();
        // A link is a foreign file, wherever it leads.
        let kind = entry.file_type().map_err(DatasetError::file(&path))?;
        if kind.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The parts of a path, `run`, `host`, `day`, `table`.
fn partitions(directory: &Path, path: &Path) -> Option<[String; 4]> {
    let relative = path.strip_prefix(directory).ok()?;
    let mut parts = relative.iter().map(|part| part.to_str());
    let mut part = |key: &str| {
        let value = parts.next()??.strip_prefix(key)?.strip_prefix('=')?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let found = [part("run")?, part("host")?, part("day")?, part("table")?];
    (parts.next()?? == PART && parts.next().is_none()).then_some(found)
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

/// Opens a file, and makes sure that it is the table of that run. Its rows are not read.
fn open_table(path: &Path, run: &str, table: &str) -> Look<ParquetRecordBatchReaderBuilder<File>> {
    let file = File::open(path).map_err(error)?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|why| error(format!("not a whole Parquet file: {why}")))?;
    let Some(version) = metadata_of(&reader, VERSION_KEY) else {
        let message = format!("a Parquet file of another program: it has no {VERSION_KEY}");
        return Err((Severity::Error, message));
    };
    match version.parse::<u32>() {
        Ok(version) if version <= SCHEMA_VERSION => {}
        _ => {
            let message = format!(
                "tables of version {version}; this program knows versions up to {SCHEMA_VERSION}: use a later one"
            );
            return Err((Severity::Error, message));
        }
    }
    for (key, place) in [(RUN_KEY, run), (TABLE_KEY, table)] {
        let said = metadata_of(&reader, key).unwrap_or_default();
        if said != place {
            let message = format!("the file says {key} {said:?}, and its directory {place:?}");
            return Err((Severity::Error, message));
        }
    }
    Ok(reader)
}

/// A table of a run in a dataset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedFile {
    /// The run.
    pub run: String,
    /// The machine that it is of.
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
    /// The tables of whole runs, by their paths.
    pub files: Vec<ListedFile>,
    /// The skipped parts: unfinished files, incomplete runs. Foreign files are errors.
    pub findings: Vec<Finding>,
}

/// Lists the files of a dataset. None is opened.
///
/// # Errors
/// When a directory cannot be read.
pub fn list(directory: &Path) -> Result<Listing, DatasetError> {
    let mut paths = Vec::new();
    collect(directory, &mut paths)?;
    paths.sort();
    let mut listing = Listing::default();
    for path in paths {
        match place(directory, &path) {
            Ok([run, host, day, table]) => listing.files.push(ListedFile {
                run,
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
    let whole: BTreeSet<String> = (listing.files.iter())
        .filter(|file| file.table == RUNS)
        .map(|file| file.run.clone())
        .collect();
    let (files, others): (Vec<_>, Vec<_>) =
        (listing.files.into_iter()).partition(|file| whole.contains(&file.run));
    listing.files = files;
    let others: BTreeSet<String> = others.into_iter().map(|file| file.run).collect();
    for run in others {
        listing.findings.push(Finding {
            severity: Severity::Warning,
            path: directory.join(format!("run={run}")),
            message: format!(
                "the run is not whole: it has no table {RUNS}, which its writer puts there last"
            ),
        });
    }
    Ok(listing)
}

impl ListedFile {
    /// The columns of the file, and the metadata of its rows at the end. The rows are not read.
    ///
    /// # Errors
    /// When it is not a whole file of this table and run.
    pub fn open(&self) -> Result<(SchemaRef, Arc<ParquetMetaData>), DatasetError> {
        let reader = open_table(&self.path, &self.run, &self.table).map_err(|(_, message)| {
            DatasetError::Unusable {
                path: self.path.clone(),
                message,
            }
        })?;
        Ok((Arc::clone(reader.schema()), Arc::clone(reader.metadata())))
    }
}

/// The parts of a file's path: `run`, `host`, `day`, `table`.
fn place(directory: &Path, path: &Path) -> Look<[String; 4]> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with('.') && name.ends_with(UNFINISHED) {
        let message = "a file that is not finished: its writer is still at work, or ended early";
        return Err((Severity::Warning, message.to_owned()));
    }
    partitions(directory, path).ok_or_else(|| {
        let message = format!(
            "a foreign file: expected run=…/host=…/day=…/table=…/{PART}; readers of the whole directory may trip over it"
        );
        (Severity::Error, message)
    })
}

fn look(directory: &Path, path: &Path) -> Look<Known> {
    let [run, _, _, table] = place(directory, path)?;
    let reader = open_table(path, &run, &table)?;
    let metadata = |wanted: &str| metadata_of(&reader, wanted);
    let known = Known {
        tables: metadata(TABLES_KEY),
        schema: reader.schema().clone(),
        path: path.to_owned(),
        rows: u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0),
        run,
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

/// Each run has the tables that its `runs` names, with their rows.
fn check_runs(directory: &Path, known: &[Known], findings: &mut Vec<Finding>) {
    let mut runs: BTreeMap<&str, Vec<&Known>> = BTreeMap::new();
    for file in known {
        runs.entry(&file.run).or_default().push(file);
    }
    for (run, files) in runs {
        let mut find = |message: String| {
            findings.push(Finding {
                severity: Severity::Error,
                path: directory.join(format!("run={run}")),
                message,
            });
        };
        let all: Vec<&&Known> = files.iter().filter(|file| file.table == RUNS).collect();
        let [whole] = all[..] else {
            find(match all.len() {
                0 => format!(
                    "the run is not whole: it has no table {RUNS}, which its writer puts there last; add it again"
                ),
                _ => "the run is there for several hosts or days".to_owned(),
            });
            continue;
        };
        for said in whole.tables.as_deref().unwrap_or("").split_whitespace() {
            let Some((table, rows)) = said.split_once('=') else {
                continue;
            };
            match files.iter().find(|file| file.table == table) {
                None => find(format!("the table {table} is missing; add the run again")),
                Some(file) if file.rows.to_string() != rows => find(format!(
                    "the table {table} has {} rows; the run has {rows}: add it again",
                    file.rows
                )),
                Some(_) => {}
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
                    "the column {column} of {table} is {other}, and {first} in run {}: read both with a cast",
                    before.run
                ),
            });
        }
    }
}

/// The source file of the run in a directory, from any of its tables.
pub(crate) fn source_of(of_run: &Path) -> Option<String> {
    let mut files = Vec::new();
    // A directory that is not there has none.
    collect(of_run, &mut files).ok()?;
    files.iter().find_map(|path| {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).ok()?).ok()?;
        let all = reader.metadata().file_metadata().key_value_metadata()?;
        all.iter()
            .find(|pair| pair.key == SOURCE_KEY)?
            .value
            .clone()
    })
}
