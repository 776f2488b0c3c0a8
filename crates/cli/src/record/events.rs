//! Events of a run's processes, line by line in a file, which the agent reads.
//!
//! A line is a JSON object and is written by one call, so that a recorder that is killed leaves no partial line.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use tracewire_model::ThreadId;
use tracewire_recorder::{FileShare, FinishedFile, RecordError, RecordedPart};
use tracewire_tracefile::private;
use tracewire_views::words;

/// The file.
#[derive(Debug)]
pub struct Events(File);

impl Events {
    /// Makes it.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let file = private::options().append(true).create_new(true).open(path);
        let file = file.with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(file))
    }

    fn write(&self, event: &Value) {
        let line = format!("{event}\n");
        // A full disk loses the counts of a file, and neither frames nor the run.
        let _ = (&self.0).write_all(line.as_bytes());
    }

    /// The tracepoints of a process are in it.
    pub fn begun(&self, process: ThreadId) {
        let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        self.write(&json!({
            "event": "begun",
            "process": process.0,
            "program": program.to_string_lossy(),
        }));
    }

    /// A file is finished, and the recording continues in the next one.
    pub fn rotated(&self, file: &FinishedFile) {
        self.file(file.process, &file.path, file.share);
    }

    /// The recording of a process has ended.
    pub fn ended(&self, part: &RecordedPart) {
        self.file(part.process, &part.path, part.report.last_file);
        let failure = part.failure.as_ref().map(ToString::to_string);
        self.write(&json!({
            "event": "ended",
            "process": part.process.0,
            "how": super::report::ending_words(&part.report),
            "failure": failure,
        }));
    }

    fn file(&self, process: ThreadId, path: &Path, share: FileShare) {
        let name = path.file_name().unwrap_or_default();
        self.write(&json!({
            "event": "file",
            "process": process.0,
            "file": name.to_string_lossy(),
            "frames": share.frames,
            "lost": share.lost,
            "skipped": share.skipped,
        }));
    }

    /// A process is not recorded.
    pub fn failed(&self, process: ThreadId, error: &RecordError) {
        let reason = words::printable_lines(&error.to_string());
        self.write(&json!({"event": "failed", "process": process.0, "reason": reason}));
    }
}
