//! Where frames go: into the file as they come, or into memory that keeps the newest.

use std::path::{Path, PathBuf};

use tracewire_experiment::{CircularStore, FrameStore, SpoolStore, StoreError};
use tracewire_model::ByteOrder;
use tracewire_tracefile::{Description, Spool, TraceFileWriter, WriteError};

/// How many bytes a buffer has where the definitions do not say it.
const SIZE: u64 = 1 << 30;

/// The trace buffer.
#[derive(Debug)]
pub enum Buffer {
    /// The file.
    File(SpoolStore),
    /// Memory, which is written to the file at the end.
    Memory {
        /// The newest frames.
        store: CircularStore,
        /// The file.
        path: PathBuf,
    },
}

impl Buffer {
    /// Makes the buffer of a file. A linear one is the file.
    pub fn create(
        path: &Path,
        size: Option<u64>,
        circular: bool,
        description: &Description,
        order: ByteOrder,
    ) -> Result<Self, StoreError> {
        let size = size.unwrap_or(SIZE);
        if circular {
            return Ok(Self::Memory {
                store: CircularStore::new(size, order)?,
                path: path.to_owned(),
            });
        }
        let spool = Spool::create(path, description)?;
        Ok(Self::File(SpoolStore::new(spool, Some(size))))
    }

    /// Updates the description of the growing file. If there is no space for it, the first one stays until the end.
    pub fn describe(&mut self, description: &Description) -> Result<(), WriteError> {
        match self {
            Self::File(store) => store.spool().describe(description).map(drop),
            Self::Memory { .. } => Ok(()),
        }
    }

    /// Leaves no file: the run has not begun.
    pub fn discard(self) {
        if let Self::File(store) = self {
            let spool = store.into_spool();
            let growing = spool.temporary_path().to_owned();
            drop(spool);
            let _ = std::fs::remove_file(growing);
        }
    }

    /// Writes the file as it is to be.
    pub fn finish(self, description: &Description) -> Result<(), WriteError> {
        match self {
            Self::File(store) => store.into_spool().finish(description),
            Self::Memory { store, path } => {
                let mut file = TraceFileWriter::create(path, description)?;
                let frames = store.into_bytes();
                if !frames.is_empty() {
                    file.append(&frames)?;
                }
                file.finish()
            }
        }
    }

    fn store(&self) -> &dyn FrameStore {
        match self {
            Self::File(store) => store,
            Self::Memory { store, .. } => store,
        }
    }
}

impl FrameStore for Buffer {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::File(store) => store.append(frame),
            Self::Memory { store, .. } => store.append(frame),
        }
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        match self {
            Self::File(store) => store.clear(),
            Self::Memory { store, .. } => store.clear(),
        }
    }

    fn frames(&self) -> u64 {
        self.store().frames()
    }

    fn file_end(&self) -> Option<u64> {
        self.store().file_end()
    }

    fn size(&self) -> Option<u64> {
        self.store().size()
    }

    fn used(&self) -> u64 {
        self.store().used()
    }

    fn is_circular(&self) -> bool {
        self.store().is_circular()
    }
}
