#![doc = include_str!("../README.md")]
//!
//! The first mapped file installs a handler for `SIGBUS`. A fault outside the files mapped here is passed to the previous handler,
//! or ends the program as usual.
//!
//! Bytes that another process *changes* are not noticed. They are read as whatever the page holds at that moment. So a reader must not
//! assume that a byte has the same value when it is read twice.
#![deny(missing_docs)]

mod fault;
mod shared;

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use memmap2::Mmap;

pub use memmap2::Advice;
pub use shared::SharedBytes;

/// A file that is shorter than the part that a reader needs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{} was cut to {length} bytes while it was read: {expected} bytes are needed; read it again when nothing changes it",
    path.display()
)]
pub struct Cut {
    /// The file.
    pub path: PathBuf,
    /// Its length now, in bytes.
    pub length: u64,
    /// The length that its reader needs, in bytes.
    pub expected: u64,
}

/// A file mapped for reading, with its size at that time: later appended data is not seen.
#[derive(Debug)]
pub struct MappedFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    map: Mmap,
    // Declared after the map: dropped after it, so that no fault in the map goes unanswered.
    _region: fault::Region,
    file: File,
    path: PathBuf,
    needed: AtomicU64,
}

impl MappedFile {
    /// Maps the file at a path.
    ///
    /// # Errors
    /// When it cannot be opened or mapped.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        Self::map(File::open(path)?, path)
    }

    /// Maps an open file. The path is for reports only.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn map(file: File, path: impl Into<PathBuf>) -> io::Result<Self> {
        // SAFETY: the map is only read, as bytes. The region below turns pages that the file loses into zeros. Bytes that
        // another process changes are plain bytes of a shared page: every reader checks what it decodes, as it does for
        // a file that is damaged.
        let map = unsafe { Mmap::map(&file) }?;
        let region = fault::Region::new(&map)?;
        let inner = Arc::new(Inner {
            needed: AtomicU64::new(map.len() as u64),
            map,
            _region: region,
            file,
            path: path.into(),
        });
        let mut known = files();
        known.open.retain(|file| file.strong_count() > 0);
        known.open.push(Arc::downgrade(&inner));
        Ok(Self { inner })
    }

    /// Sets the needed length of the file: a file that is being recorded has space at its end, which is removed when it is
    /// finished.
    pub fn need(&self, length: u64) {
        let length = length.min(self.inner.map.len() as u64);
        self.inner.needed.store(length, Ordering::Relaxed);
    }

    /// Whether the file has become shorter than the needed length.
    #[must_use]
    pub fn cut(&self) -> Option<Cut> {
        self.inner.cut()
    }

    /// Passes advice about the way of reading to the kernel. If the kernel refuses it, only the speed changes.
    pub fn advise(&self, advice: Advice) {
        let _ = self.inner.map.advise(advice);
    }

    /// As [`Self::advise`], for a part of the file: `length` bytes from `offset`, within the map.
    pub fn advise_range(&self, advice: Advice, offset: usize, length: usize) {
        let _ = self.inner.map.advise_range(advice, offset, length);
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.inner.map
    }
}

impl Inner {
    fn cut(&self) -> Option<Cut> {
        let expected = self.needed.load(Ordering::Relaxed);
        // A descriptor that is open has a size.
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        (length < expected).then(|| Cut {
            path: self.path.clone(),
            length,
            expected,
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(cut) = self.cut() {
            let mut known = files();
            known.cut.get_or_insert(cut);
        }
    }
}

/// The files of this process.
struct Files {
    open: Vec<Weak<Inner>>,
    /// The first of those no longer open that was cut while it was.
    cut: Option<Cut>,
}

static FILES: Mutex<Files> = Mutex::new(Files {
    open: Vec::new(),
    cut: None,
});

fn files() -> MutexGuard<'static, Files> {
    // Each change of it is one assignment or one call.
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks the mapped file that these bytes are of; other bytes are always good.
///
/// # Errors
/// When the file was cut while it was mapped.
pub fn verify_bytes(bytes: &[u8]) -> Result<(), Cut> {
    let start = bytes.as_ptr();
    let open: Vec<_> = files().open.iter().filter_map(Weak::upgrade).collect();
    open.iter()
        .filter(|file| file.map.as_ptr_range().contains(&start))
        .find_map(|file| file.cut())
        .map_or(Ok(()), Err)
}

/// Checks all files that this process has mapped so far. Call it before a result made from them is put in place.
///
/// # Errors
/// When one of them was cut while it was mapped.
pub fn verify() -> Result<(), Cut> {
    let known = files();
    if let Some(cut) = &known.cut {
        return Err(cut.clone());
    }
    let open: Vec<_> = known.open.iter().filter_map(Weak::upgrade).collect();
    // The last owner of one may be here now, and its end takes the lock.
    drop(known);
    open.iter().find_map(|file| file.cut()).map_or(Ok(()), Err)
}
