//! What is wrong with a dataset.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

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
    /// What is wrong with it.
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
    /// What `runs` says of the others.
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
        // A link is a file that is not ours, wherever it leads.
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

fn look(directory: &Path, path: &Path) -> Look<Known> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with('.') && name.ends_with(UNFINISHED) {
        let message = "a file that is not finished: its writer is still at work, or ended early";
        return Err((Severity::Warning, message.to_owned()));
    }
    let Some([run, _, _, table]) = partitions(directory, path) else {
        let message = format!(
            "a foreign file: expected run=…/host=…/day=…/table=…/{PART}; readers of the whole directory may trip over it"
        );
        return Err((Severity::Error, message));
    };
    let file = File::open(path).map_err(error)?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|why| error(format!("not a whole Parquet file: {why}")))?;
    let metadata = |wanted: &str| {
        let all = reader.metadata().file_metadata().key_value_metadata()?;
        all.iter().find(|pair| pair.key == wanted)?.value.clone()
    };
    let Some(version) = metadata(VERSION_KEY) else {
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
    for (key, place) in [(RUN_KEY, &run), (TABLE_KEY, &table)] {
        let said = metadata(key).unwrap_or_default();
        if said != *place {
            let message = format!("the file says {key} {said:?}, and its directory {place:?}");
            return Err((Severity::Error, message));
        }
    }
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

/// Columns that have several types: of builds in which an expression has another type.
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

/// What file the run in a directory was made of, as any of its tables says.
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
