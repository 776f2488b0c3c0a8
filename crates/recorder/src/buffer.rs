//! Where frames go: into the file as they come, or into memory that keeps the newest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracewire_experiment::{CircularStore, FrameStore, SpoolStore, StoreError};
use tracewire_model::{Aggregate, AggregateTable, ByteOrder, TracepointNumber};
use tracewire_script::Script;
use tracewire_tracefile::{Description, Spool, TraceFileWriter, WriteError};

use crate::error::RecordError;
use crate::limits::FrameLimit;

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
    /// A circular buffer is in memory: 5 MiB, gdbserver's default.
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
}

#[derive(Debug)]
enum Store {
    File(SpoolStore),
    Memory(CircularStore),
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
            Store::Memory(CircularStore::new(size.size, order)?)
        } else {
            Store::File(SpoolStore::new(
                Spool::create(path, description)?,
                Some(size.size),
            ))
        };
        Ok(Self {
            store,
            path: path.to_owned(),
            order,
            counters: Arc::default(),
            limit: None,
        })
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
        Ok(next)
    }

    /// Keeps no more frames than a run may have.
    pub fn limit(&mut self, limit: Option<FrameLimit>) {
        self.limit = limit;
    }

    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Brings the description in a growing file up to date, so that the file says what it should whatever happens
    /// to us. Where there is no room for all of it, or the disk is full, the last one stays until the end.
    pub fn describe(&mut self, description: &Description) {
        if let Store::File(store) = &mut self.store {
            let _ = store.spool().describe(description);
        }
    }

    /// The file that frames are written to as they come, wherever this process stands; `None` where they are in memory.
    pub fn growing_path(&mut self) -> Option<PathBuf> {
        match &mut self.store {
            Store::File(store) => std::path::absolute(store.spool().temporary_path()).ok(),
            Store::Memory(_) => None,
        }
    }

    /// Leaves no file: the run has not begun.
    pub fn discard(self) {
        if let Store::File(store) = self.store {
            let spool = store.into_spool();
            let growing = spool.temporary_path().to_owned();
            drop(spool);
            let _ = std::fs::remove_file(growing);
        }
    }

    /// Writes the file as it is to be.
    pub fn finish(self, description: &Description) -> Result<(), RecordError> {
        let (growing, finished) = match self.store {
            Store::File(store) => {
                let spool = store.into_spool();
                let growing = spool.temporary_path().to_owned();
                (Some(growing), spool.finish(description))
            }
            Store::Memory(store) => (None, write(&self.path, &store, description, self.order)),
        };
        finished.map_err(|source| RecordError::Finish {
            output: self.path,
            growing,
            source,
        })
    }
}

/// Writes what memory holds.
fn write(
    path: &Path,
    store: &CircularStore,
    description: &Description,
    order: ByteOrder,
) -> Result<(), WriteError> {
    let mut file = TraceFileWriter::create(path, description)?;
    let (first, second) = store.bytes();
    for frame in frames(first, second, order) {
        file.append(&frame)?;
    }
    file.finish()
}

/// The frames of a buffer in two parts, of which one may lie across the border.
fn frames<'a>(
    first: &'a [u8],
    second: &'a [u8],
    order: ByteOrder,
) -> impl Iterator<Item = std::borrow::Cow<'a, [u8]>> {
    const HEADER: usize = 6;
    let mut at = 0;
    let byte = move |index: usize| {
        let second_index = index.checked_sub(first.len());
        second_index
            .map_or_else(|| first.get(index), |index| second.get(index))
            .copied()
    };
    std::iter::from_fn(move || {
        let mut size = [0; 4];
        for (offset, digit) in size.iter_mut().enumerate() {
            *digit = byte(at + 2 + offset)?;
        }
        let length = HEADER + usize::try_from(order.u32_at(&size, 0)?).ok()?;
        let start = at;
        at += length;
        if let Some(frame) = first.get(start..at) {
            return Some(frame.into());
        }
        if let Some(start) = start.checked_sub(first.len()) {
            return second.get(start..start + length).map(Into::into);
        }
        let mut joined = first.get(start..)?.to_vec();
        joined.extend_from_slice(second.get(..at - first.len())?);
        Some(joined.into())
    })
}

impl FrameStore for Buffer {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        if let Some(limit) = self.limit.as_ref().filter(|limit| !limit.claim()) {
            return Err(StoreError::Enough(limit.most()));
        }
        match &mut self.store {
            Store::File(store) => store.append(frame)?,
            Store::Memory(store) => store.append(frame)?,
        }
        self.counters.frames.fetch_add(1, Ordering::Relaxed);
        self.counters
            .bytes
            .fetch_add(frame.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        match &mut self.store {
            Store::File(store) => store.clear(),
            Store::Memory(store) => store.clear(),
        }
    }

    fn frames(&self) -> u64 {
        match &self.store {
            Store::File(store) => store.frames(),
            Store::Memory(store) => store.frames(),
        }
    }

    fn file_end(&self) -> Option<u64> {
        match &self.store {
            Store::File(store) => store.file_end(),
            Store::Memory(_) => None,
        }
    }

    fn size(&self) -> Option<u64> {
        match &self.store {
            Store::File(store) => store.size(),
            Store::Memory(store) => store.size(),
        }
    }

    fn used(&self) -> u64 {
        match &self.store {
            Store::File(store) => store.used(),
            Store::Memory(store) => store.used(),
        }
    }

    fn is_circular(&self) -> bool {
        match &self.store {
            Store::File(store) => store.is_circular(),
            Store::Memory(store) => store.is_circular(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracewire_model::ByteOrder;

    use super::frames;

    #[test]
    fn a_frame_across_the_border_is_joined() {
        let one = [1, 0, 2, 0, 0, 0, b'a', b'b'];
        let two = [2, 0, 0, 0, 0, 0];
        let whole = [&one[..], &two, &one].concat();
        for border in 0..=whole.len() {
            let (first, second) = whole.split_at(border);
            let found: Vec<_> = frames(first, second, ByteOrder::Little).collect();
            assert_eq!(found, [&one[..], &two, &one], "{border}");
        }
    }
}
