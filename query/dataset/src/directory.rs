//! A dataset: a directory of Parquet files, in the form of Hive's partitions.
//!
//! `batch=NAME/host=NAME/day=YYYY-MM-DD/table=NAME/part-N.parquet`. A batch is a run that was added, or several of one host and day that were
//! compacted. Each has a separate directory, so writers do not conflict. It is written under a hidden name and appears whole, by a rename.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tracewire_tracefile::TraceFile;

use crate::check::describe;
use crate::error::DatasetError;
use crate::execution::RunTables;
use crate::parquet_file::{BATCH_KEY, RUNS_KEY, TABLE_KEY, TABLES_KEY, TableFile, with_run};
use crate::row_group::{Rows, TableEncoder, TableFormat};
use crate::run::start_ns;
use crate::table::{RUNS, Table};
use crate::table_writers::TableWriters;

/// The beginning of the name of a batch of several runs. No run has such a name.
pub(crate) const COMPACTED: &str = "compacted-";

/// The end of the name of a batch's directory that is not finished. Readers of `*` pass over names that begin with a dot.
pub(crate) const UNFINISHED: &str = ".unfinished";

/// The end of the name of a batch's directory that was replaced, and is being removed.
pub(crate) const REPLACED: &str = ".replaced";

/// The name of a run in a dataset.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// The name of the run; without one, the trace file's name and a hash of its content.
    pub run: Option<String>,
    /// The machine that it is of; without one, this one.
    pub host: Option<String>,
}

/// A run that is in a dataset now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    /// The name of the run.
    pub run: String,
    /// The directory of its tables.
    pub path: PathBuf,
    /// How many rows each table has. Empty where the run was there already, in a compacted batch.
    pub rows: BTreeMap<String, u64>,
    /// How many bytes were written.
    pub bytes: u64,
}

/// Where the batch of a run or of several is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) batch: String,
    pub(crate) host: String,
    pub(crate) day: String,
}

impl Place {
    /// The directory of the tables below that of the batch.
    pub(crate) fn inner(&self) -> PathBuf {
        Path::new(&format!("host={}", self.host)).join(format!("day={}", self.day))
    }
}

/// The name of the directory of a batch.
pub(crate) fn directory_of(batch: &str) -> String {
    format!("batch={batch}")
}

/// A batch that is being written, in a directory with a hidden name. Dropped before it is in its place, it is removed.
pub(crate) struct Staging {
    dataset: PathBuf,
    place: Place,
    path: PathBuf,
}

impl Staging {
    pub(crate) fn create(dataset: &Path, place: &Place) -> Result<Self, DatasetError> {
        let path = hidden(dataset, &place.batch, UNFINISHED);
        fs::create_dir_all(dataset).map_err(DatasetError::file(dataset))?;
        // One of an earlier process with the same number.
        remove(&path)?;
        fs::create_dir(&path).map_err(DatasetError::file(&path))?;
        Ok(Self {
            dataset: dataset.to_owned(),
            place: place.clone(),
            path,
        })
    }

    /// The file of a part of a table.
    pub(crate) fn file(&self, table: &str, part: usize) -> PathBuf {
        let tables = self.path.join(self.place.inner());
        tables.join(format!("table={table}")).join(part_name(part))
    }

    /// Puts the batch in its place, and removes the one that was there. The directory of its tables.
    pub(crate) fn put_in_place(self) -> Result<PathBuf, DatasetError> {
        let path = self.dataset.join(directory_of(&self.place.batch));
        // Both at once, so that readers find one or the other.
        match renameat_with(CWD, &self.path, CWD, &path, RenameFlags::EXCHANGE) {
            // Not on all file systems.
            Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                remove_batch(&self.dataset, &self.place.batch)?;
                fs::rename(&self.path, &path).map_err(DatasetError::file(&path))?;
            }
            Err(error) => return Err(DatasetError::file(&path)(error.into())),
            Ok(()) => {}
        }
        Ok(path.join(self.place.inner()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // It does not exist after it was moved to its place. One that cannot be removed is reported by `check`.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A part of a table in its directory.
pub(crate) fn part_name(part: usize) -> String {
    format!("part-{part}.parquet")
}

/// A name for this process, which readers pass over.
fn hidden(dataset: &Path, batch: &str, end: &str) -> PathBuf {
    let process = std::process::id();
    dataset.join(format!(".{}.{process}{end}", directory_of(batch)))
}

/// Removes a batch: at once for readers. One that is not there is removed already.
pub(crate) fn remove_batch(dataset: &Path, batch: &str) -> Result<(), DatasetError> {
    let path = dataset.join(directory_of(batch));
    let away = hidden(dataset, batch, REPLACED);
    remove(&away)?;
    match fs::rename(&path, &away) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(DatasetError::file(&path)(error)),
        Ok(()) => remove(&away),
    }
}

/// Removes a directory with its contents, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), DatasetError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(DatasetError::file(path)(error))
        }
        _ => Ok(()),
    }
}

/// Writes a run, or an execution, into a dataset. A run that is there already is replaced at once; one in a compacted batch is left as it is.
///
/// # Errors
/// When a file cannot be written, or another run has the name.
pub fn add(
    directory: &Path,
    run: &impl RunTables,
    options: &AddOptions,
) -> Result<Added, DatasetError> {
    let source = format!("{:016x}", run.source_hash()?);
    let name = match &options.run {
        Some(name) => name.clone(),
        None => {
            let path = run.source_path().and_then(Path::file_stem);
            let stem = path.map_or_else(|| "run".into(), |stem| stem.to_string_lossy());
            format!("{}-{source}", path_part(&stem))
        }
    };
    let host = match &options.host {
        Some(host) => host.clone(),
        None => path_part(&this_host()),
    };
    for (what, name) in [("run", &name), ("host", &host)] {
        if name.is_empty() || *name != path_part(name) || name.starts_with(COMPACTED) {
            return Err(DatasetError::Name {
                what,
                name: name.clone(),
            });
        }
    }
    let place = Place {
        batch: name.clone(),
        host,
        day: run.day(),
    };
    if let Some((batch, known)) = known_run(directory, &name)? {
        let path = directory.join(directory_of(&batch));
        if known != source {
            return Err(DatasetError::OtherRun { path });
        }
        if batch != name {
            return Ok(Added {
                run: name,
                path,
                rows: BTreeMap::new(),
                bytes: 0,
            });
        }
    }
    let staging = Staging::create(directory, &place)?;
    let size = |table: &str| {
        let path = staging.file(table, 0);
        let metadata = fs::metadata(&path).map_err(DatasetError::file(&path))?;
        Ok::<u64, DatasetError>(metadata.len())
    };
    let encoder = |table: &Table, more: &[(&str, String)]| {
        let schema = with_run(&table.schema);
        let mut metadata = vec![
            (TABLE_KEY, table.name.clone()),
            (BATCH_KEY, place.batch.clone()),
        ];
        metadata.extend_from_slice(more);
        let sorted_by = table.sorted_by.map(|column| column + 1);
        let format = TableFormat::new(schema, sorted_by, 1, &metadata);
        TableEncoder::new(&table.name, format, &name)
    };
    let create = |encoder: &TableEncoder| {
        let path = staging.file(encoder.table(), 0);
        TableFile::create(&path, Arc::clone(encoder.format()))
    };
    let tables: Vec<&Table> = (run.run_tables().iter())
        .filter(|table| table.name != RUNS)
        .collect();
    let encoders: Vec<TableEncoder> = tables.iter().map(|table| encoder(table, &[])).collect();
    let mut files = Vec::with_capacity(tables.len());
    for encoder in &encoders {
        files.push((create(encoder)?, encoder));
    }
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut of_runs = None;
    let counts = std::thread::scope(|scope| {
        let writers = TableWriters::start(scope, files, threads);
        let read = run.read_tables(&encoders, &mut |table, rows| {
            match (
                tables.iter().position(|known| known.name == table.name),
                rows,
            ) {
                (Some(file), rows) => writers.write(file, rows)?,
                (None, Rows::Batch(batch)) => of_runs = Some((table.clone(), batch)),
                (None, Rows::Group(_)) => debug_assert!(false, "no encoder for {}", table.name),
            }
            Ok(())
        });
        // A file that cannot be written is why the reading ended.
        let counts = writers.finish()?;
        read.map(|()| counts)
    })?;
    let mut rows = BTreeMap::new();
    let mut bytes = 0;
    for (table, count) in tables.iter().zip(counts) {
        rows.insert(table.name.clone(), count);
        bytes += size(&table.name)?;
    }
    debug_assert!(of_runs.is_some(), "a run has a row in {RUNS}");
    if let Some((table, batch)) = of_runs {
        rows.insert(table.name.clone(), batch.num_rows() as u64);
        let more = [
            (RUNS_KEY, format!("{name}={source}")),
            (TABLES_KEY, pairs(&rows)),
        ];
        let encoder = encoder(&table, &more);
        let mut file = create(&encoder)?;
        file.write(&encoder.named(&batch)?)?;
        file.finish()?;
        bytes += size(&table.name)?;
    }
    let path = staging.put_in_place()?;
    Ok(Added {
        run: name,
        bytes,
        path,
        rows,
    })
}

/// The batch that has a run of this name, and the run's source: its own batch, or one that was compacted.
fn known_run(directory: &Path, name: &str) -> Result<Option<(String, String)>, DatasetError> {
    let own = std::iter::once(name.to_owned());
    for batch in compacted(directory)?.into_iter().chain(own) {
        let described = describe(&directory.join(directory_of(&batch)));
        if let Some(source) = described.and_then(|batch| batch.runs.get(name).cloned()) {
            return Ok(Some((batch, source)));
        }
    }
    Ok(None)
}

/// The compacted batches of a dataset, which are few.
fn compacted(directory: &Path) -> Result<Vec<String>, DatasetError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(DatasetError::file(directory))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(DatasetError::file(directory))?.file_name();
        let batch = name.to_str().and_then(|name| name.strip_prefix("batch="));
        found.extend(
            batch
                .filter(|batch| batch.starts_with(COMPACTED))
                .map(str::to_owned),
        );
    }
    found.sort();
    Ok(found)
}

/// Names with their values, as the metadata of a file has them.
pub(crate) fn pairs<V: std::fmt::Display>(all: &BTreeMap<String, V>) -> String {
    let pairs = all.iter().map(|(name, value)| format!("{name}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// What [`pairs`] wrote.
pub(crate) fn parse_pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// A name as a part of a path that all readers take for a plain name.
fn path_part(name: &str) -> String {
    let part = name.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') => c,
        _ => '_',
    });
    let part: String = part.collect();
    part.trim_start_matches('.').to_owned()
}

fn this_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// The day on which a run began, `YYYY-MM-DD` in UTC; `unknown` where its clock is not that of a calendar.
#[must_use]
pub fn day_of(file: &TraceFile) -> String {
    start_ns(file).map_or_else(|| "unknown".to_owned(), day)
}

/// The day of a time in nanoseconds since 1970, in UTC.
fn day(time_ns: i64) -> String {
    // The civil calendar in eras of 400 years that begin on the 1st of March.
    let days = time_ns.div_euclid(86_400_000_000_000) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{day, path_part};

    #[test]
    fn days_are_those_of_the_calendar() {
        const DAY: i64 = 86_400_000_000_000;
        for (days, text) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_722, "2023-12-31"),
            (20_780, "2026-11-23"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(day(days * DAY), text);
            assert_eq!(day(days * DAY + DAY - 1), text);
        }
    }

    #[test]
    fn names_in_paths_lead_nowhere_else() {
        assert_eq!(path_part("../a b/ü=1"), "_a_b___1");
        assert_eq!(path_part("web-01.example"), "web-01.example");
    }
}
