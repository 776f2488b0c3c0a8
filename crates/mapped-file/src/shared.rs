//! Bytes with a fixed address while they are in use.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use stable_deref_trait::{CloneStableDeref, StableDeref};

use crate::MappedFile;

/// Bytes of a mapped file, or in memory, that several readers share. All clones have the same bytes at the same place.
#[derive(Clone, Debug)]
pub struct SharedBytes(Place);

#[derive(Clone, Debug)]
enum Place {
    Memory(Arc<Vec<u8>>),
    File(Arc<MappedFile>),
}

impl SharedBytes {
    /// Maps an open file, or reads it if it cannot be mapped. Lost parts read as zeros and are not reported.
    ///
    /// # Errors
    /// When it can be neither mapped nor read.
    pub fn of_file(file: File, path: &Path) -> io::Result<Self> {
        let mut again = file.try_clone()?;
        match MappedFile::map(file, path) {
            Ok(mapped) => {
                mapped.need(0);
                Ok(Self(Place::File(Arc::new(mapped))))
            }
            Err(_) => {
                let mut bytes = Vec::new();
                again.read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Place::Memory(Arc::new(bytes)))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Memory(bytes) => bytes,
            Place::File(file) => file,
        }
    }
}

// SAFETY: the bytes are on the heap or in a map, neither of which moves when this does, and there is no way to change them
// through this.
unsafe impl StableDeref for SharedBytes {}

// SAFETY: a clone shares the same heap block or map, which stays until the last of them is dropped.
unsafe impl CloneStableDeref for SharedBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_place_and_a_cut_file_reads_as_zeros() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("data");
        std::fs::write(&path, vec![7; 20_000]).expect("written");
        let file = File::open(&path).expect("opened");
        let bytes = SharedBytes::of_file(file, &path).expect("mapped");
        let clone = bytes.clone();
        assert_eq!(bytes.as_ptr(), clone.as_ptr());
        drop(bytes);
        let file = File::options().write(true).open(&path).expect("opened");
        file.set_len(4096).expect("cut");
        assert_eq!((clone[4095], clone[19_999], clone.len()), (7, 0, 20_000));
        drop(clone);
        crate::verify().expect("no file was truncated");
        assert_eq!(*SharedBytes::from(vec![1, 2]), [1, 2]);
        // A file that cannot be mapped is read.
        let file = File::open("/proc/self/environ").expect("opened");
        assert!(SharedBytes::of_file(file, Path::new("environ")).is_ok());
    }
}
