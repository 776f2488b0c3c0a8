//! The files that were read, each once for all programs that use it.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ModuleFile;
use crate::error::SymbolError;

/// The identity of a file with its current content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct FileIdentity {
    device: u64,
    inode: u64,
    length: u64,
    /// When it was changed last, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Files that were read, which may be used for several programs: a file is read again only if it has changed.
#[derive(Clone, Debug, Default)]
pub struct ReadFiles(Arc<Mutex<HashMap<(PathBuf, FileIdentity), ModuleFile>>>);

impl ReadFiles {
    /// Reads a file, unless it was read before.
    ///
    /// # Errors
    /// As [`ModuleFile::read`].
    pub fn read(&self, path: &Path) -> Result<ModuleFile, SymbolError> {
        let key = FileIdentity::of(path).map(|identity| (path.to_owned(), identity));
        let known = key.as_ref().and_then(|key| self.known().get(key).cloned());
        if let Some(file) = known {
            return Ok(file);
        }
        let file = ModuleFile::read(path)?;
        // It may have changed while it was read: then it is read again the next time.
        let key = key.filter(|(path, identity)| FileIdentity::of(path) == Some(*identity));
        Ok(match key {
            // Another thread may have read it meanwhile.
            Some(key) => self.known().entry(key).or_insert(file).clone(),
            None => file,
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(PathBuf, FileIdentity), ModuleFile>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
