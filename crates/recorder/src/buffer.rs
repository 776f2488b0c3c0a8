//! Where frames go: into a file that has all of them, into one that keeps the newest, or into a lean recording.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracewire_experiment::{FrameStore, LeanStore, SpoolStore, StoreError};
use tracewire_fail_point::fail_point;
use tracewire_model::{Aggregate, AggregateTable, ByteOrder, TracepointNumber};
use tracewire_script::Script;
use tracewire_target_linux::FramesFileNote;
use tracewire_tracefile::lean::LeanSpool;
use tracewire_tracefile::{CircularSpool, Description, RegisterSets, Spool, WriteError};

use crate::error::RecordError;
use crate::limits::FrameLimit;
use crate::trigger::Trigger;

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferSize {
    /// In bytes.
    pub size: u64,
    /// Whether oldest frames make room.
    pub circular: bool,
}

impl BufferSize {
    /// A linear buffer is the file: 1 GiB.
    pub const LINEAR: u64 = 1 << 30;
    /// A circular buffer keeps 5 MiB, gdbserver's default.
    pub const CIRCULAR: u64 = 5 << 20;

    /// The size that was asked for, else the script's, else the usual one.
    #[must_use]
    pub fn of(script: &Script, asked: Option<u64>, circular: bool) -> Self {
        let from_script = match script.settings.buffer_size {
            Some(tracewire_script::BufferSize::Bytes(size)) if size > 0 => Some(size),
            _ => None,
        };
        let standard = if circular {
            Self::CIRCULAR
        } else {
            Self::LINEAR
        };
        Self {
            size: asked.or(from_script).unwrap_or(standard),
            circular,
        }
    }
}

/// How much has been recorded, counted where the frames come in.
#[derive(Debug, Default)]
pub struct Counters {
    frames: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    aggregates: Mutex<Arc<Aggregates>>,
}

/// What tracepoints have counted: a table for each aggregate.
pub type Aggregates = Vec<(TracepointNumber, Aggregate, AggregateTable)>;

impl Counters {
    /// How many frames were made so far.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// How long these frames are, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many hits made no frame so far, because their tracepoints have rates: as it was when the recorder looked last.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_skipped(&self, hits: u64) {
        self.skipped.store(hits, Ordering::Relaxed);
    }

    /// What has been counted: as it was at most a second ago while the program runs, and all of it when the recorder has ended.
    /// Two calls give the same `Arc` where nothing was added between them.
    #[must_use]
    pub fn aggregates(&self) -> Arc<Aggregates> {
        Arc::clone(&self.locked())
    }

    pub(crate) fn set_aggregates(&self, aggregates: Aggregates) {
        let mut known = self.locked();
        if **known != aggregates {
            *known = Arc::new(aggregates);
        }
    }

    fn locked(&self) -> MutexGuard<'_, Arc<Aggregates>> {
        self.aggregates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The trace buffer of a recording.
#[derive(Debug)]
pub struct Buffer {
    store: Store,
    path: PathBuf,
    order: ByteOrder,
    counters: Arc<Counters>,
    limit: Option<FrameLimit>,
    trigger: Option<Trigger>,
    /// Where the file is named for a tracer that comes after us, where frames come from memory that the program has too.
    note: Option<FramesFileNote>,
    /// Why the file that keeps the newest frames could not be changed.
    failure: Option<WriteError>,
}

#[derive(Debug)]
enum Store {
    All(SpoolStore),
    Newest(Box<CircularSpool>),
    Lean(Box<LeanStore>),
}

impl Buffer {
    /// Makes the buffer for a file at `path`.
    pub fn create(
        path: &Path,
        size: BufferSize,
        description: &Description,
        order: ByteOrder,
    ) -> Result<Self, RecordError> {
        let store = if size.circular {
            Store::Newest(Box::new(CircularSpool::create(
                path,
                size.size,
                description,
            )?))
        } else {
            Store::All(SpoolStore::new(
                Spool::create(path, description)?,
                Some(size.size),
            ))
        };
        Ok(Self::new(store, path, order))
    }

    /// As [`create`](Self::create), for one of many files, most of which are small.
    pub fn create_small(
        path: &Path,
        size: BufferSize,
        description: &Description,
        order: ByteOrder,
    ) -> Result<Self, RecordError> {
        if size.circular {
            return Self::create(path, size, description, order);
        }
        let spool = Spool::create_small(path, description)?;
        let store = Store::All(SpoolStore::new(spool, Some(size.size)));
        Ok(Self::new(store, path, order))
    }

    /// Makes the buffer for a lean recording at `path`.
    pub fn create_lean(
        path: &Path,
        size: BufferSize,
        description: &Description,
        order: ByteOrder,
    ) -> Result<Self, RecordError> {
        let spool = LeanSpool::create(path, description)?;
        let store = Store::Lean(Box::new(LeanStore::new(spool, Some(size.size))));
        Ok(Self::new(store, path, order))
    }

    fn new(store: Store, path: &Path, order: ByteOrder) -> Self {
        Self {
            store,
            path: path.to_owned(),
            order,
            counters: Arc::default(),
            limit: None,
            trigger: None,
            note: None,
            failure: None,
        }
    }

    /// Makes the buffer for the next file of a run, which is as this one and goes on with its counters.
    pub fn next(&self, path: &Path, description: &Description) -> Result<Self, RecordError> {
        let size = BufferSize {
            size: self.size().unwrap_or(BufferSize::LINEAR),
            circular: self.is_circular(),
        };
        let mut next = Self::create(path, size, description, self.order)?;
        next.counters = self.counters();
        next.limit = self.limit.clone();
        next.trigger = self.trigger.clone();
        Ok(next)
    }

    /// Keeps no more frames than a run may have.
    pub fn limit(&mut self, limit: Option<FrameLimit>) {
        self.limit = limit;
    }

    /// Ends the run so many frames after a hit of a tracepoint.
    pub fn trigger(&mut self, trigger: Option<Trigger>) {
        self.trigger = trigger;
    }

    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Brings the description in a growing file up to date, so that the file is right at any end of
    /// this process. Where there is no room for all of it, or the disk is full, the last one stays until the end.
    pub fn describe(&mut self, description: &Description) {
        let _ = match &mut self.store {
            Store::All(store) => store.spool().describe(description).map(drop),
            Store::Newest(spool) => spool.describe(description),
            Store::Lean(store) => store.spool().describe(description),
        };
    }

    /// The run is over: writes the frames that are in no block of a lean recording yet, and [describes](Self::describe) the file.
    pub fn end(&mut self, description: &Description) {
        if let Store::Lean(store) = &mut self.store
            && let Err(error) = store.spool().flush()
        {
            self.failure = Some(error);
        }
        self.describe(description);
    }

    /// Names the file that frames are written to as they come, now and whenever it becomes another one.
    pub fn name_file(&mut self, note: FramesFileNote) {
        if let Some(path) = self.growing_path() {
            note.name(&path);
        }
        self.note = Some(note);
    }

    /// The file that frames are written to as they come, as an absolute path.
    fn growing_path(&mut self) -> Option<PathBuf> {
        std::path::absolute(match &mut self.store {
            Store::All(store) => store.spool().temporary_path(),
            Store::Newest(spool) => spool.temporary_path(),
            Store::Lean(store) => store.spool().temporary_path(),
        })
        .ok()
    }

    /// The file that a reader can follow while it grows; none where it becomes another one.
    pub fn followed_path(&mut self) -> Option<PathBuf> {
        let is_followed = matches!(self.store, Store::All(_));
        self.growing_path().filter(|_| is_followed)
    }

    /// Copies into the second file, and changes the file that keeps the newest frames, where it is time. No frame is on its way out of the program's memory meanwhile:
    /// a tracer that comes after us would look for it in the other file. Of a lean recording, writes what came in a second ago.
    pub fn turn(&mut self) {
        let spool = match &mut self.store {
            Store::All(_) => return,
            Store::Newest(spool) => spool,
            Store::Lean(store) => {
                if let Err(error) = store.spool().flush_old() {
                    self.failure = Some(error);
                }
                return;
            }
        };
        if !spool.is_due() {
            return;
        }
        let path = std::path::absolute(spool.temporary_path());
        let turned = spool.turn(|metadata| {
            if let (Some(note), Ok(path)) = (&self.note, &path) {
                note.announce(path, metadata);
            }
        });
        match (turned, &self.note) {
            (Ok(true), Some(note)) => note.confirm(),
            (Ok(_), _) => {}
            (Err(error), _) => self.failure = Some(error),
        }
        fail_point!("buffer/turned");
    }

    /// Leaves no file: the run has not begun.
    pub fn discard(self) {
        match self.store {
            Store::All(store) => {
                let spool = store.into_spool();
                let growing = spool.temporary_path().to_owned();
                drop(spool);
                let _ = std::fs::remove_file(growing);
            }
            Store::Newest(spool) => spool.discard(),
            Store::Lean(store) => store.into_spool().discard(),
        }
    }

    /// Writes the file as it is to be.
    pub fn finish(self, description: &Description) -> Result<(), RecordError> {
        // The frames of a block that could not be written are lost.
        let is_lean = matches!(self.store, Store::Lean(_));
        let (growing, mut finished) = match self.store {
            Store::All(store) => {
                let spool = store.into_spool();
                let growing = spool.temporary_path().to_owned();
                (growing, spool.finish(description))
            }
            Store::Newest(spool) => {
                let growing = spool.temporary_path().to_owned();
                (growing, spool.finish(description))
            }
            Store::Lean(store) => {
                let spool = store.into_spool();
                let growing = spool.temporary_path().to_owned();
                (growing, spool.finish(description))
            }
        };
        let growing = finished.is_err().then_some(growing);
        if let Some(error) = self.failure.filter(|_| is_lean) {
            finished = finished.and(Err(error));
        }
        finished.map_err(|source| RecordError::Finish {
            output: self.path,
            growing,
            source,
        })
    }
}

impl FrameStore for Buffer {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        if let Some(limit) = self.limit.as_ref().filter(|limit| !limit.claim()) {
            return Err(StoreError::Enough(limit.most()));
        }
        if let Some(end) = self.trigger.as_ref().and_then(Trigger::end) {
            return Err(end);
        }
        match &mut self.store {
            Store::All(store) => store.append(frame)?,
            Store::Lean(store) => store.append(frame)?,
            Store::Newest(spool) => {
                if !spool.append(frame)? {
                    return Err(StoreError::Full);
                }
                // Frames that come from nowhere else are on their way to no other place.
                if self.note.is_none() {
                    self.turn();
                }
            }
        }
        if let Some(trigger) = &mut self.trigger {
            trigger.saw(frame, self.order);
        }
        // Nobody else writes them, so that no atomic addition is needed.
        let add = |counter: &AtomicU64, more: u64| {
            let before = counter.load(Ordering::Relaxed);
            counter.store(before + more, Ordering::Relaxed);
        };
        add(&self.counters.frames, 1);
        add(&self.counters.bytes, frame.len() as u64);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        match &mut self.store {
            Store::All(store) => store.clear(),
            Store::Lean(store) => store.clear(),
            Store::Newest(spool) if spool.frames() > 0 => Err(StoreError::OneRun),
            Store::Newest(_) => Ok(()),
        }
    }

    fn frames(&self) -> u64 {
        match &self.store {
            Store::All(store) => store.frames(),
            Store::Lean(store) => store.frames(),
            Store::Newest(spool) => spool.frames(),
        }
    }

    fn file_end(&self) -> Option<u64> {
        match &self.store {
            Store::All(store) => store.file_end(),
            Store::Lean(store) => store.file_end(),
            Store::Newest(spool) => Some(spool.frames_end()),
        }
    }

    fn size(&self) -> Option<u64> {
        match &self.store {
            Store::All(store) => store.size(),
            Store::Lean(store) => store.size(),
            Store::Newest(spool) => Some(spool.size()),
        }
    }

    fn used(&self) -> u64 {
        match &self.store {
            Store::All(store) => store.used(),
            Store::Lean(store) => store.used(),
            Store::Newest(spool) => spool.kept_bytes(),
        }
    }

    fn is_circular(&self) -> bool {
        matches!(self.store, Store::Newest(_))
    }

    fn note_sets(&mut self, sets: &RegisterSets) {
        if let Store::Lean(store) = &mut self.store {
            store.note_sets(sets);
        }
    }

    /// What a trigger asks for is decided here.
    fn is_watched(&self) -> bool {
        self.trigger.is_some()
    }
}
