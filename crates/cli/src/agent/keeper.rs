//! Moves the files that recorders have finished to where they are kept, counts them, and enforces the limits.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tracewire_fail_point::fail_point;
use tracewire_tracefile::TraceFile;
use tracewire_views::words;

use super::catalog::{Catalog, Removed, Run, size};
use super::config::Limits;
use super::counts::Counts;
use super::layout::{DONE, FILES, Layout, names, now_us};
use super::program;
use crate::message::{say, warn};

/// How long the conversion of a file into the dataset may take.
const LONGEST: Duration = Duration::from_secs(600);

/// The state that the agent's threads share.
#[derive(Debug)]
pub struct Kept {
    pub counts: BTreeMap<String, Counts>,
    pub limits: Limits,
    pub runs: u64,
    pub bytes: u64,
    pub live_bytes: u64,
    pub removed: Removed,
}

/// The same, in several threads.
#[derive(Clone, Debug)]
pub struct SharedKept(Arc<Mutex<Kept>>);

impl SharedKept {
    pub fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place for runs; it works in a separate thread.
#[derive(Debug)]
pub struct Keeper {
    layout: Layout,
    catalog: Catalog,
    /// The program that writes datasets, if it is installed.
    query: Option<PathBuf>,
    kept: SharedKept,
    /// Whether the last turn, or that of an agent before, may have ended between two of its steps.
    is_interrupted: bool,
}

impl Keeper {
    pub fn new(layout: Layout, query: Option<PathBuf>) -> anyhow::Result<Self> {
        let catalog = Catalog::open(&layout).context("the catalog of runs")?;
        let kept = Kept {
            counts: BTreeMap::new(),
            limits: Limits::default(),
            runs: catalog.runs(),
            bytes: catalog.bytes(),
            live_bytes: 0,
            removed: catalog.removed(),
        };
        Ok(Self {
            layout,
            catalog,
            query,
            kept: SharedKept(Arc::new(Mutex::new(kept))),
            is_interrupted: true,
        })
    }

    /// The shared state, which can be read while this works.
    pub fn kept(&self) -> SharedKept {
        self.kept.clone()
    }

    /// Does the pending work.
    pub fn work(&mut self) -> anyhow::Result<()> {
        if self.is_interrupted {
            self.remove_counted()?;
        }
        self.is_interrupted = true;
        for (probe, folder) in self.layout.folders()? {
            // Checked before the files are listed, so that none can come later.
            let is_done = folder.join(DONE).exists();
            for name in names(&folder.join(FILES))? {
                if name.ends_with(".tf") {
                    self.keep(&probe, &folder, &name)?;
                }
            }
            self.count(&probe, &folder)?;
            if is_done {
                self.clear(&probe, &folder)?;
            }
        }
        let live = size(&self.layout.live());
        let limits = self.kept.lock().limits;
        let gone = self.catalog.keep_to(&limits, live)?;
        tell_removed(&gone);
        let mut kept = self.kept.lock();
        kept.live_bytes = live;
        kept.runs = self.catalog.runs();
        kept.bytes = self.catalog.bytes();
        kept.removed = self.catalog.removed();
        drop(kept);
        self.is_interrupted = false;
        Ok(())
    }

    /// Removes the files that are counted and still where the recorder has written them. Each probe remembers the last one only, so
    /// this comes before others are counted.
    fn remove_counted(&self) -> anyhow::Result<()> {
        for (probe, folder) in self.layout.folders()? {
            let counts = Counts::read(&self.layout, &probe, now_us());
            for name in names(&folder.join(FILES))? {
                if counts.has_just_kept(&run_name(&probe, &folder, &name)) {
                    fs::remove_file(folder.join(FILES).join(name))?;
                }
            }
        }
        Ok(())
    }

    /// Changes the counts of a probe, and keeps them.
    fn change(&self, probe: &str, change: impl FnOnce(&mut Counts)) -> anyhow::Result<()> {
        let mut kept = self.kept.lock();
        let counts = kept.counts.entry(probe.to_owned());
        let counts = counts.or_insert_with(|| Counts::read(&self.layout, probe, now_us()));
        change(counts);
        let written = counts.write(&self.layout, probe);
        written.with_context(|| format!("the state of probe {probe}"))
    }

    fn count(&self, probe: &str, folder: &Path) -> anyhow::Result<()> {
        let mut counts = {
            let mut kept = self.kept.lock();
            let counts = kept.counts.entry(probe.to_owned());
            let counts = counts.or_insert_with(|| Counts::read(&self.layout, probe, now_us()));
            counts.clone()
        };
        while counts.take_events(folder)? {
            let new = counts.clone();
            self.change(probe, |counts| *counts = new)?;
        }
        Ok(())
    }

    /// Keeps a finished file of a recorder.
    fn keep(&mut self, probe: &str, folder: &Path, name: &str) -> anyhow::Result<()> {
        let path = folder.join(FILES).join(name);
        // A recorder that is killed while it renames the file may leave both names.
        let _ = fs::remove_file(folder.join(FILES).join(format!("{name}.recording")));
        let file = match TraceFile::open(&path) {
            Ok(file) => file,
            Err(error) => {
                // It is not lost: it stays in a place where the user finds it.
                let aside = path.with_extension("unreadable");
                warn(format_args!(
                    "{}: {error}; it is kept as {}",
                    path.display(),
                    aside.display()
                ));
                return Ok(fs::rename(&path, aside)?);
            }
        };
        let frames = file.frame_count();
        let description = file.description();
        let is_empty = frames == 0 && description.aggregates().is_empty();
        let day = day(description
            .status()
            .and_then(|status| status.fields.start_time));
        drop(file);
        if is_empty {
            return Ok(fs::remove_file(&path)?);
        }
        let run = run_name(probe, folder, name);
        fail_point!("agent/keep");
        let place = match self.add_to_dataset(&run, &path) {
            Ok(Some(place)) => {
                fail_point!("agent/added");
                place
            }
            Ok(None) => self.put_aside(&run, &day, &path)?,
            Err(error) => {
                warn(format_args!("{run}: not in the dataset: {error:#}"));
                self.put_aside(&run, &day, &path)?
            }
        };
        fail_point!("agent/placed");
        self.catalog.add(place, frames)?;
        fail_point!("agent/catalogued");
        self.change(probe, |counts| {
            counts.kept(&run, frames);
        })?;
        fail_point!("agent/counted");
        // It has another name by now, or is in the dataset.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Where it is, below the directory; none where there is no dataset.
    fn add_to_dataset(&self, run: &str, path: &Path) -> anyhow::Result<Option<PathBuf>> {
        let Some(query) = &self.query else {
            return Ok(None);
        };
        let mut command = program::other(query);
        command.args(["dataset", "add", "--run", run]).arg(path);
        command.arg(self.layout.dataset());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let done = program::finish(command, LONGEST)?;
        if !done.status.success() {
            bail!("{}", done.said);
        }
        Ok(Some(Path::new("dataset").join(format!("batch={run}"))))
    }

    /// Keeps the trace file itself.
    fn put_aside(&self, run: &str, day: &str, path: &Path) -> anyhow::Result<PathBuf> {
        let place = Path::new("runs").join(day).join(format!("{run}.tf"));
        let whole = self.layout.directory().join(&place);
        if let Some(folder) = whole.parent() {
            fs::create_dir_all(folder)?;
        }
        // A link, so that the file has a recorder's name until it is counted: after a kill in between this is repeated.
        match fs::hard_link(path, &whole) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            linked => linked.with_context(|| whole.display().to_string())?,
        }
        Ok(place)
    }

    /// Forgets a recorder that has left nothing.
    fn clear(&self, probe: &str, folder: &Path) -> anyhow::Result<()> {
        let files = folder.join(FILES);
        let has = |end: &str| {
            Ok::<_, std::io::Error>(names(&files)?.iter().any(|name| name.ends_with(end)))
        };
        if has(".tf")? {
            return Ok(());
        }
        if has(".unreadable")? {
            let aside = self.layout.runs().join("unreadable");
            fs::create_dir_all(&aside)?;
            let begun = folder.file_name().unwrap_or_default().to_string_lossy();
            for name in names(&files)?
                .iter()
                .filter(|name| name.ends_with(".unreadable"))
            {
                fs::rename(
                    files.join(name),
                    aside.join(format!("{probe}-{begun}-{name}")),
                )?;
            }
        }
        fs::remove_dir_all(folder)?;
        let _ = folder.parent().map(fs::remove_dir);
        self.change(probe, |counts| counts.forget(folder))
    }
}

/// The name of a run, from a recorder's file.
fn run_name(probe: &str, folder: &Path, name: &str) -> String {
    let begun = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("{probe}-{begun}-{}", name.trim_end_matches(".tf"))
}

/// Reports what was removed.
fn tell_removed(gone: &[(Run, &'static str)]) {
    for limit in ["age", "size"] {
        let runs = gone.iter().filter(|(_, why)| *why == limit);
        let (mut number, mut bytes, mut frames) = (0, 0, 0);
        for (run, _) in runs {
            number += 1;
            bytes += run.bytes;
            frames += run.frames.unwrap_or(0);
        }
        if number > 0 {
            say(format_args!(
                "removed {} for limits.{limit}: {}, {}",
                words::count(number, "run"),
                words::count(frames, "frame"),
                words::bytes(bytes),
            ));
        }
    }
}

/// The day of a time, `YYYY-MM-DD`.
fn day(time_us: Option<u64>) -> String {
    let date = time_us
        .and_then(words::date)
        .or_else(|| words::date(now_us()));
    let day = date.as_deref().and_then(|date| date.get(..10));
    day.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(keeper: &Keeper) -> (u64, u64) {
        let kept = keeper.kept.lock();
        let counts = &kept.counts["calls"];
        (counts.files, counts.frames)
    }

    #[test]
    fn a_file_is_counted_once_if_the_agent_is_killed_before_it_removes_it() {
        let place = tempfile::tempdir().expect("a folder");
        let (layout, _locked) = Layout::take(place.path()).expect("taken");
        let sample =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../test-support/samples/sample.tf");
        let frames = TraceFile::open(&sample)
            .expect("a trace file")
            .frame_count();
        let file = |time: &str, name: &str| {
            let files = layout.live().join("calls").join(time).join(FILES);
            fs::create_dir_all(&files).expect("made");
            let path = files.join(name);
            fs::copy(&sample, &path).expect("copied");
            path
        };
        let second = file("2", "5.tf");
        let mut keeper = Keeper::new(layout.clone(), None).expect("begun");
        keeper.work().expect("kept");
        assert!(!second.exists());
        assert_eq!(counted(&keeper), (1, frames));
        // As an agent leaves it that is killed after it has counted the file. Meanwhile another one is finished.
        file("2", "5.tf");
        file("1", "5.tf");
        let mut keeper = Keeper::new(layout.clone(), None).expect("begun");
        keeper.work().expect("kept");
        assert_eq!(counted(&keeper), (2, 2 * frames));
        assert_eq!(keeper.catalog.runs(), 2);
    }
}
