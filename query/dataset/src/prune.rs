//! Removes what is old, and what programs left behind that ended early.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::check::list;
use crate::directory::{REPLACED, UNFINISHED, remove, remove_batch};
use crate::error::DatasetError;

/// How old the rest of a program is that is removed: younger ones may be at work, on another machine too.
pub const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// What is removed.
#[derive(Clone, Debug)]
pub struct PruneOptions {
    /// Batches of earlier days than this, `YYYY-MM-DD`.
    pub before: Option<String>,
    /// The oldest days, until the others have at most so many bytes.
    pub most_bytes: Option<u64>,
    /// Unfinished and replaced batches that were not changed for so long.
    pub left_after: Duration,
}

impl Default for PruneOptions {
    fn default() -> Self {
        Self {
            before: None,
            most_bytes: None,
            left_after: LEFT_AFTER,
        }
    }
}

/// What was removed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pruned {
    /// How many batches.
    pub batches: usize,
    /// How many unfinished and replaced ones.
    pub leftovers: usize,
    /// How many bytes the batches had.
    pub bytes: u64,
}

/// Removes batches of a dataset, each at once for its readers. A batch whose day is unknown is only removed for its size, after all others.
///
/// # Errors
/// When a directory cannot be read, or something cannot be removed.
pub fn prune(directory: &Path, options: &PruneOptions) -> Result<Pruned, DatasetError> {
    let listing = list(directory)?;
    let mut pruned = Pruned::default();
    for finding in &listing.findings {
        let name = finding
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let is_left =
            name.starts_with(".batch=") && (name.ends_with(UNFINISHED) || name.ends_with(REPLACED));
        if is_left && is_older(&finding.path, options.left_after) {
            remove(&finding.path)?;
            pruned.leftovers += 1;
        }
    }
    let mut batches: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for file in &listing.files {
        let metadata = std::fs::metadata(&file.path).map_err(DatasetError::file(&file.path))?;
        *batches.entry((&file.day, &file.batch)).or_default() += metadata.len();
    }
    let mut left: u64 = batches.values().sum();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    // Days sort by time, and `unknown` after them.
    for ((day, batch), bytes) in batches {
        let is_day = day.starts_with(|first: char| first.is_ascii_digit());
        let is_early = options
            .before
            .as_deref()
            .is_some_and(|before| is_day && day < before);
        let is_over = options.most_bytes.is_some_and(|most| left > most);
        if (is_early || is_over) && done.insert(batch) {
            remove_batch(directory, batch)?;
            left -= bytes;
            pruned.batches += 1;
            pruned.bytes += bytes;
        }
    }
    Ok(pruned)
}

/// Whether nothing in a directory was changed for so long. One that is gone was removed by its owner.
fn is_older(path: &Path, than: Duration) -> bool {
    let newest = newest(path);
    newest.is_some_and(|time| {
        SystemTime::now()
            .duration_since(time)
            .is_ok_and(|age| age >= than)
    })
}

fn newest(path: &Path) -> Option<SystemTime> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    let own = metadata.modified().ok()?;
    if !metadata.is_dir() {
        return Some(own);
    }
    let entries = std::fs::read_dir(path).ok()?.flatten();
    entries
        .filter_map(|entry| newest(&entry.path()))
        .chain([own])
        .max()
}
