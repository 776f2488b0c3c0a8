//! Files of one recording that follow one another, so that what is old can be read and removed while the run goes on.
//!
//! A rotation changes nothing in the program. Its threads are stopped while the last frames come out of the rings, and the next ones go
//! to the next file. The counts of tracepoints go on; a file has those of its own time. What `count()` and the other aggregates have
//! counted is of the whole run, so that the newest file has all of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracewire_experiment::{Experiment, FrameStore as _};
use tracewire_model::{Address, ThreadId, Tracepoint, TracepointNumber, TracepointUsage};

use crate::buffer::{Aggregates, Buffer};
use crate::report::FileShare;

/// A trace file of a process whose recording goes on in the next one, or has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishedFile {
    /// The process.
    pub process: ThreadId,
    /// The file; there is none where nothing was recorded.
    pub path: PathBuf,
    /// What it has of the recording.
    pub share: FileShare,
}

/// When the next file begins, and what the files before it have.
#[derive(Debug)]
pub struct Rotation {
    every: Duration,
    next: Instant,
    /// How much of the buffer may be used, as a part of it: after an error, all of it until it is time again.
    has_failed: bool,
    /// What had been counted when this file began.
    counted: Arc<Aggregates>,
    before: Before,
}

/// What the files before this one have.
#[derive(Clone, Debug, Default)]
struct Before {
    files: u64,
    frames: u64,
    created: u64,
    lost: u64,
    skipped: u64,
    tracepoints: BTreeMap<(TracepointNumber, Address), Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    usage: TracepointUsage,
    skipped: u64,
}

impl Rotation {
    pub fn new(every: Duration, experiment: &Experiment<Buffer>) -> Self {
        Self {
            every,
            next: Instant::now() + every,
            has_failed: false,
            counted: experiment.buffer().counters().aggregates(),
            before: Before::default(),
        }
    }

    /// Whether the next file is to begin.
    pub fn is_due(&self, experiment: &Experiment<Buffer>) -> bool {
        if !experiment.is_running() {
            return false;
        }
        let buffer = experiment.buffer();
        let is_late = Instant::now() >= self.next;
        let is_full = || {
            let half = buffer.size().map(|size| size / 2);
            half.is_some_and(|half| buffer.used() > half)
        };
        if !is_late {
            return !self.has_failed && is_full();
        }
        buffer.frames() > 0 || !Arc::ptr_eq(&self.counted, &buffer.counters().aggregates())
    }

    /// It could not be done: it is tried again when it is time.
    pub fn failed(&mut self) {
        self.has_failed = true;
        self.next = Instant::now() + self.every;
    }

    /// A file is finished, with this in the run so far.
    pub fn finished(
        &mut self,
        experiment: &Experiment<Buffer>,
        tracepoints: &[Tracepoint],
        frames: u64,
        created: u64,
    ) {
        self.has_failed = false;
        self.next = Instant::now() + self.every;
        self.counted = experiment.buffer().counters().aggregates();
        self.before.files += 1;
        self.before.frames += frames;
        self.before.created += created;
        self.before.lost = experiment.losses().all();
        self.before.skipped = skipped(tracepoints);
        self.before.tracepoints = tracepoints
            .iter()
            .map(|tracepoint| (tracepoint.definition.key(), Counts::of(tracepoint)))
            .collect();
    }

    /// How many files there are before this one.
    pub const fn files(&self) -> u64 {
        self.before.files
    }

    /// How many frames are in the files before this one, and how many were made for them.
    pub const fn frames(&self) -> (u64, u64) {
        (self.before.frames, self.before.created)
    }

    /// Whether something was counted since this file began.
    pub fn has_counted(&self, experiment: &Experiment<Buffer>) -> bool {
        *self.counted != experiment.aggregates()
    }

    /// What this file has, with so many frames.
    pub fn share(
        &self,
        experiment: &Experiment<Buffer>,
        tracepoints: &[Tracepoint],
        frames: u64,
    ) -> FileShare {
        FileShare {
            frames,
            lost: experiment.losses().all().saturating_sub(self.before.lost),
            skipped: skipped(tracepoints).saturating_sub(self.before.skipped),
        }
    }

    /// Leaves of the counts of tracepoints what they have counted since this file began.
    pub fn since(&self, tracepoints: &mut [Tracepoint]) {
        for tracepoint in tracepoints {
            let key = tracepoint.definition.key();
            let Some(before) = self.before.tracepoints.get(&key) else {
                continue;
            };
            if let Some(usage) = &mut tracepoint.usage {
                usage.hits = usage.hits.saturating_sub(before.usage.hits);
                usage.bytes = usage.bytes.saturating_sub(before.usage.bytes);
            }
            tracepoint.skipped = tracepoint.skipped.saturating_sub(before.skipped);
        }
    }
}

impl Counts {
    fn of(tracepoint: &Tracepoint) -> Self {
        Self {
            usage: tracepoint.usage.unwrap_or_default(),
            skipped: tracepoint.skipped,
        }
    }
}

/// How many hits of tracepoints were skipped.
pub fn skipped(tracepoints: &[Tracepoint]) -> u64 {
    tracepoints
        .iter()
        .map(|tracepoint| tracepoint.skipped)
        .sum()
}
