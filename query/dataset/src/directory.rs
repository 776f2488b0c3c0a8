//! A dataset: a directory of Parquet files, in the form of Hive's partitions.
//!
//! `run=NAME/host=NAME/day=YYYY-MM-DD/table=NAME/part-0.parquet`. Each run has a separate directory, so writers do not conflict.
//! The file of `runs` comes last: a run without one is incomplete.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracewire_tracefile::TraceFile;
use twox_hash::XxHash64;

use crate::error::DatasetError;
use crate::parquet_file::{RUN_KEY, SOURCE_KEY, TABLES_KEY, TableFile};
use crate::run::{Run, start_ns};
use crate::table::{RUNS, Table};

/// The file of a table.
pub(crate) const PART: &str = "part-0.parquet";

/// The name of a run in a dataset.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// The name of the run; without one, the trace file's name and a hash of its content.
    pub run: Option<String>,
    /// The machine that it is of; without one, this one.
    pub host: Option<String>,
}

/// A run that was added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Added {
    /// The name of the run.
    pub run: String,
    /// Its directory.
    pub path: PathBuf,
    /// How many rows each table has.
    pub rows: BTreeMap<String, u64>,
    /// How many bytes its files have.
    pub bytes: u64,
}

/// Writes a run into a dataset. A run that is there already is replaced, file by file.
///
/// # Errors
/// When a file cannot be written, or another run has the name.
pub fn add(directory: &Path, run: &Run<'_>, options: &AddOptions) -> Result<Added, DatasetError> {
    let hash = XxHash64::oneshot(0, run.file().as_bytes());
    let source = format!("{hash:016x}");
    let name = match &options.run {
        Some(name) => name.clone(),
        None => {
            let path = run.file().path().and_then(Path::file_stem);
            let stem = path.map_or_else(|| "run".into(), |stem| stem.to_string_lossy());
            format!("{}-{source}", path_part(&stem))
        }
    };
    let host = match &options.host {
        Some(host) => host.clone(),
        None => path_part(&this_host()),
    };
    for (what, name) in [("run", &name), ("host", &host)] {
        if name.is_empty() || *name != path_part(name) {
            return Err(DatasetError::Name {
                what,
                name: name.clone(),
            });
        }
    }
    let day = day_of(run.file());
    let of_run = directory.join(format!("run={name}"));
    if let Some(known) = crate::check::source_of(&of_run)
        && known != source
    {
        return Err(DatasetError::OtherRun { path: of_run });
    }
    let path = of_run
        .join(format!("host={host}"))
        .join(format!("day={day}"));
    let place = |table: &Table| path.join(format!("table={}", table.name)).join(PART);
    let metadata = [(RUN_KEY, name.clone()), (SOURCE_KEY, source.clone())];

    let mut files: BTreeMap<&str, TableFile> = BTreeMap::new();
    for table in run.tables().iter().filter(|table| table.name != RUNS) {
        files.insert(
            &table.name,
            TableFile::create(&place(table), table, &metadata)?,
        );
    }
    let mut last = None;
    run.read(
        |_| true,
        |table, batch| {
            match files.get_mut(table.name.as_str()) {
                Some(file) => file.write(&batch)?,
                None => last = Some((table.clone(), batch)),
            }
            Ok::<(), DatasetError>(())
        },
    )?;
    let mut rows = BTreeMap::new();
    for (table, file) in &mut files {
        file.finish()?;
        rows.insert((*table).to_owned(), file.rows);
    }
    for file in files.into_values() {
        file.put_in_place()?;
    }
    if let Some((table, batch)) = last {
        rows.insert(table.name.clone(), batch.num_rows() as u64);
        let counts: Vec<String> = rows
            .iter()
            .map(|(name, rows)| format!("{name}={rows}"))
            .collect();
        let mut metadata = metadata.to_vec();
        metadata.push((TABLES_KEY, counts.join(" ")));
        let mut file = TableFile::create(&place(&table), &table, &metadata)?;
        file.write(&batch)?;
        file.put_in_place()?;
    }
    let bytes = run
        .tables()
        .iter()
        .map(|table| std::fs::metadata(place(table)).map_or(0, |metadata| metadata.len()));
    Ok(Added {
        run: name,
        bytes: bytes.sum(),
        path,
        rows,
    })
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
