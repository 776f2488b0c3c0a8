//! Counts of a probe's files: frames, and events without one. They outlive the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layout::{EVENTS, Layout, replace};

/// The longest line of events that is read; the agent's own lines are shorter.
const LONGEST_LINE: usize = 1 << 20;

/// The counts of a probe.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// When the agent first had this probe, in microseconds since 1970.
    pub since_us: u64,
    /// Files that were finished.
    pub files: u64,
    /// Frames in them, including those of rescued files.
    pub frames: u64,
    /// Frames that are in no file.
    pub lost: u64,
    /// Hits that made no frame because of a rate or a budget.
    pub skipped: u64,
    /// Recorders that ended without a request.
    pub failures: u64,
    /// Processes that ended with unread frames, after their recorder was killed. The number of frames is not known.
    pub gone: u64,
    /// The run that was counted last: its file may still be where the recorder has written it.
    last_run: String,
    /// The existing directories.
    folders: BTreeMap<String, Folder>,
}

/// The position in a recorder's events.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Folder {
    /// How many bytes of them are read.
    read: u64,
    /// The recorded processes, each with its counts since its recording began.
    processes: BTreeMap<u32, Counted>,
    /// The counted rescues, by process and time.
    rescued: BTreeSet<String>,
    /// Why the last process was not recorded.
    failed: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Counted {
    lost: u64,
    skipped: u64,
}

/// A line of a recorder, or of a rescue.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Begun {
        process: u32,
    },
    File {
        process: u32,
        lost: u64,
        skipped: u64,
    },
    Ended {
        process: u32,
    },
    Failed {
        process: u32,
        reason: String,
    },
    /// Lost and skipped hits since the recording of the process began.
    Rescued {
        process: u32,
        key: String,
        lost: u64,
        skipped: u64,
    },
    /// The process has ended before it could be rescued.
    Gone {
        process: u32,
    },
}

impl Counts {
    /// Reads them; missing ones begin now.
    pub fn read(layout: &Layout, probe: &str, now_us: u64) -> Self {
        let text = fs::read(path(layout, probe)).unwrap_or_default();
        let mut counts: Self = serde_json::from_slice(&text).unwrap_or_default();
        if counts.since_us == 0 {
            counts.since_us = now_us;
        }
        counts
    }

    /// Keeps them.
    pub fn write(&self, layout: &Layout, probe: &str) -> io::Result<()> {
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        replace(&path(layout, probe), &text)
    }

    /// Forgets a probe.
    pub fn remove(layout: &Layout, probe: &str) {
        // The counts of a probe that does not exist are not used.
        let _ = fs::remove_file(path(layout, probe));
    }

    /// Reads the events of a recorder since the last call. Returns whether there were any.
    pub fn take_events(&mut self, folder: &Path) -> io::Result<bool> {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
            return Ok(false);
        };
        let mut file = match File::open(folder.join(EVENTS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            file => file?,
        };
        let mut known = self.folders.get(name).cloned().unwrap_or_default();
        file.seek(SeekFrom::Start(known.read))?;
        let mut bytes = Vec::new();
        file.take(LONGEST_LINE as u64 * 16)
            .read_to_end(&mut bytes)?;
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(false);
        };
        let lines = bytes.get(..end).unwrap_or_default();
        for line in lines.split(|byte| *byte == b'\n') {
            if let Ok(event) = serde_json::from_slice(line) {
                self.take_event(&mut known, event);
            }
        }
        known.read += end as u64 + 1;
        self.folders.insert(name.to_owned(), known);
        Ok(true)
    }

    fn take_event(&mut self, folder: &mut Folder, event: Event) {
        match event {
            Event::Begun { process } => {
                folder.processes.insert(process, Counted::default());
                folder.failed = None;
            }
            Event::File {
                process,
                lost,
                skipped,
            } => {
                let counted = folder.processes.entry(process).or_default();
                counted.lost += lost;
                counted.skipped += skipped;
                self.lost += lost;
                self.skipped += skipped;
            }
            Event::Ended { process } => {
                folder.processes.remove(&process);
            }
            Event::Failed { process, reason } => {
                folder.failed = Some(format!("process {process}: {reason}"));
            }
            Event::Rescued {
                process,
                key,
                lost,
                skipped,
            } => {
                if folder.rescued.insert(key) {
                    let counted = folder.processes.remove(&process).unwrap_or_default();
                    self.lost += lost.saturating_sub(counted.lost);
                    self.skipped += skipped.saturating_sub(counted.skipped);
                }
            }
            Event::Gone { process } => {
                if folder.rescued.insert(format!("{process}-gone")) {
                    folder.processes.remove(&process);
                    self.gone += 1;
                }
            }
        }
    }

    /// Whether this is the run that was counted last.
    pub fn has_just_kept(&self, run: &str) -> bool {
        self.last_run == run
    }

    /// Counts a kept file with this many frames.
    pub fn kept(&mut self, run: &str, frames: u64) {
        if !self.has_just_kept(run) {
            run.clone_into(&mut self.last_run);
            self.files += 1;
            self.frames += frames;
        }
    }

    /// The processes that a recorder records now.
    pub fn processes(&self, folder: &Path) -> Vec<u32> {
        let folder = self.folder(folder);
        folder.map_or_else(Vec::new, |folder| {
            folder.processes.keys().copied().collect()
        })
    }

    /// Why the last process of a recorder was not recorded.
    pub fn failed(&self, folder: &Path) -> Option<&str> {
        self.folder(folder)?.failed.as_deref()
    }

    fn folder(&self, folder: &Path) -> Option<&Folder> {
        self.folders.get(folder.file_name()?.to_str()?)
    }

    /// Forgets a directory that was removed and whose events are all counted.
    pub fn forget(&mut self, folder: &Path) {
        if let Some(name) = folder.file_name().and_then(|name| name.to_str()) {
            self.folders.remove(name);
        }
    }
}

fn path(layout: &Layout, probe: &str) -> PathBuf {
    layout.state().join(format!("{probe}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_once_and_by_wholes() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("17");
        fs::create_dir(&folder).expect("made");
        let events = folder.join(EVENTS);
        let mut counts = Counts::default();
        assert!(!counts.take_events(&folder).expect("read"));
        let first = concat!(
            r#"{"event":"begun","process":5,"program":"/x"}"#,
            "\n",
            r#"{"event":"file","process":5,"file":"5.tf","frames":9,"lost":2,"skipped":3}"#,
            "\nnoise\n",
            r#"{"event":"fi"#
        );
        fs::write(&events, first).expect("written");
        assert!(counts.take_events(&folder).expect("read"));
        assert!(!counts.take_events(&folder).expect("read"));
        assert_eq!((counts.lost, counts.skipped), (2, 3));
        assert_eq!(counts.processes(&folder), [5]);
        // A rescue covers the whole recording, and one that was killed is reported again by the next.
        let rescued = r#"{"event":"rescued","process":5,"key":"5-1","lost":6,"skipped":3}"#;
        let rest = format!("{first}le\",\"x\"}}\n{rescued}\n{rescued}\n");
        fs::write(&events, rest).expect("written");
        assert!(counts.take_events(&folder).expect("read"));
        assert_eq!((counts.lost, counts.skipped), (6, 3));
        assert!(counts.processes(&folder).is_empty());
        counts.forget(&folder);
        assert!(counts.folders.is_empty());
    }
}
