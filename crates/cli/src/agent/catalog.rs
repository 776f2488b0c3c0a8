//! The kept runs, by their age, and the removed ones: a journal of lines, so that a run is counted once even if the agent is
//! killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracewire_tracefile::private;

use super::config::Limits;
use super::layout::{Layout, names, now_us, replace};

/// A kept run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// When it was kept, in microseconds since 1970.
    pub time_us: u64,
    /// The path that is removed with it: a trace file, or a directory, below the agent's directory.
    pub path: PathBuf,
    /// How many bytes that has.
    pub bytes: u64,
    /// The number of frames; `None` if it is not known any more.
    pub frames: Option<u64>,
}

/// The runs that were removed because of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Removed {
    pub runs: u64,
    pub bytes: u64,
    pub frames: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    /// The runs that were removed before.
    Total(Removed),
    Kept(Run),
    /// It is about to be removed.
    Removing(PathBuf),
    /// It is removed.
    Gone(PathBuf),
}

/// The kept runs.
#[derive(Debug)]
pub struct Catalog {
    directory: PathBuf,
    journal: File,
    /// The runs by the time when they were kept.
    runs: BTreeMap<(u64, PathBuf), Run>,
    removed: Removed,
}

impl Catalog {
    /// Reads the journal, and checks which files exist.
    pub fn open(layout: &Layout) -> io::Result<Self> {
        let path = layout.catalog();
        let directory = layout.directory();
        let mut known: BTreeMap<PathBuf, (Run, bool)> = BTreeMap::new();
        let mut removed = Removed::default();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(Line::Total(total)) => removed = total,
                Ok(Line::Kept(run)) => drop(known.insert(run.path.clone(), (run, false))),
                Ok(Line::Removing(path)) => {
                    if let Some((_, removing)) = known.get_mut(&path) {
                        *removing = true;
                    }
                }
                Ok(Line::Gone(path)) => {
                    if let Some((run, _)) = known.remove(&path) {
                        removed.add(&run);
                    }
                }
                // One that was being written when the agent was killed.
                Err(_) => {}
            }
        }
        for (path, (run, _)) in known.extract_if(.., |_, (_, removing)| *removing) {
            remove(&directory.join(&path))?;
            removed.add(&run);
        }
        let mut runs = BTreeMap::new();
        for path in kept(layout)? {
            let run = match known.remove(&path) {
                Some((run, _)) => run,
                // The agent was killed before it could log it.
                None => Run {
                    time_us: time_of(&directory.join(&path)),
                    bytes: size(&directory.join(&path)),
                    frames: frames(&directory.join(&path)),
                    path,
                },
            };
            runs.insert((run.time_us, run.path.clone()), run);
        }
        let lines = std::iter::once(Line::Total(removed));
        let lines = lines.chain(runs.values().cloned().map(Line::Kept));
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        replace(&path, &text)?;
        let journal = private::options().append(true).open(&path)?;
        Ok(Self {
            directory: directory.to_owned(),
            journal,
            runs,
            removed,
        })
    }

    fn write(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        (&self.journal).write_all(&text)
    }

    /// Adds a kept run, at a path below the agent's directory.
    pub fn add(&mut self, path: PathBuf, frames: u64) -> io::Result<()> {
        let run = Run {
            time_us: now_us(),
            bytes: size(&self.directory.join(&path)),
            frames: Some(frames),
            path,
        };
        // One that is added again replaces itself.
        self.runs.retain(|(_, path), _| *path != run.path);
        self.write(&Line::Kept(run.clone()))?;
        self.runs.insert((run.time_us, run.path.clone()), run);
        Ok(())
    }

    /// Removes the oldest runs, as many as the limits demand. The given bytes are in use in addition. Returns the removed runs,
    /// with the reason of each.
    pub fn keep_to(
        &mut self,
        limits: &Limits,
        besides: u64,
    ) -> io::Result<Vec<(Run, &'static str)>> {
        let mut gone = Vec::new();
        let mut bytes = besides.saturating_add(self.bytes());
        let oldest = limits.age.map(|age| now_us().saturating_sub(micros(age)));
        while let Some((key, run)) = self.runs.first_key_value() {
            let why = if oldest.is_some_and(|oldest| run.time_us < oldest) {
                "age"
            } else if limits.size.is_some_and(|size| bytes > size) {
                "size"
            } else {
                break;
            };
            let (key, run) = (key.clone(), run.clone());
            self.write(&Line::Removing(run.path.clone()))?;
            remove(&self.directory.join(&run.path))?;
            self.write(&Line::Gone(run.path.clone()))?;
            self.runs.remove(&key);
            bytes = bytes.saturating_sub(run.bytes);
            self.removed.add(&run);
            gone.push((run, why));
        }
        Ok(gone)
    }

    /// How many bytes the runs have.
    pub fn bytes(&self) -> u64 {
        self.runs.values().map(|run| run.bytes).sum()
    }

    /// How many there are.
    pub fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// The runs that were removed, from the beginning.
    pub const fn removed(&self) -> Removed {
        self.removed
    }
}

impl Removed {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        self.bytes += run.bytes;
        self.frames += run.frames.unwrap_or(0);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The existing runs.
fn kept(layout: &Layout) -> io::Result<Vec<PathBuf>> {
    let mut kept = Vec::new();
    for day in names(&layout.runs())? {
        let folder = layout.runs().join(&day);
        if folder.is_dir() {
            let files = names(&folder)?
                .into_iter()
                .filter(|name| name.ends_with(".tf"));
            kept.extend(files.map(|name| Path::new("runs").join(&day).join(name)));
        }
    }
    let runs = names(&layout.dataset())?.into_iter();
    let runs = runs.filter(|name| name.starts_with("batch="));
    kept.extend(runs.map(|name| Path::new("dataset").join(name)));
    Ok(kept)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => {
            // The directory of a day is removed with its last run.
            let _ = path.parent().map(fs::remove_dir);
            Ok(())
        }
    }
}

/// How many bytes a file has, or all files of a directory.
pub fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}

fn time_of(path: &Path) -> u64 {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let since = modified
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, micros)
}

fn frames(path: &Path) -> Option<u64> {
    if path.is_dir() {
        return None;
    }
    let file = tracewire_tracefile::TraceFile::open(path).ok()?;
    Some(file.frame_count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(layout: &Layout, name: &str, bytes: usize) -> PathBuf {
        let path = Path::new("runs").join("2026-11-23").join(name);
        let whole = layout.directory().join(&path);
        fs::create_dir_all(whole.parent().expect("a folder")).expect("made");
        fs::write(whole, vec![0; bytes]).expect("written");
        path
    }

    #[test]
    fn the_oldest_go_first_and_are_counted_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (layout, _lock) = Layout::take(folder.path()).expect("taken");
        let mut catalog = Catalog::open(&layout).expect("opened");
        for name in ["b.tf", "a.tf", "c.tf"] {
            let path = run(&layout, name, 100);
            catalog.add(path, 7).expect("kept");
        }
        let limits = Limits {
            size: Some(250),
            age: None,
        };
        let gone = catalog.keep_to(&limits, 40).expect("kept to");
        let named: Vec<_> = gone
            .iter()
            .map(|(run, why)| (run.path.clone(), *why))
            .collect();
        assert_eq!(named, [(PathBuf::from("runs/2026-11-23/b.tf"), "size")]);
        assert_eq!(catalog.removed().frames, 7);
        // Killed after it had logged what it was about to remove.
        catalog
            .write(&Line::Removing("runs/2026-11-23/a.tf".into()))
            .expect("written");
        drop(catalog);
        for _ in 0..2 {
            let catalog = Catalog::open(&layout).expect("opened");
            assert_eq!((catalog.runs(), catalog.removed().frames), (1, 14));
        }
        let mut catalog = Catalog::open(&layout).expect("opened");
        let limits = Limits {
            size: None,
            age: Some(Duration::from_micros(1)),
        };
        while catalog.runs() > 0 {
            catalog.keep_to(&limits, 0).expect("kept to");
        }
        assert_eq!(catalog.removed().frames, 21);
        assert!(!layout.runs().join("2026-11-23").exists());
    }
}
