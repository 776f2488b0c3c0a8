//! The bytes of a file, mapped or in memory.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_mapped_file::{Advice, MappedFile};

use crate::compact::bytes::Damaged;

/// How much is read from the disk at once.
const PIECE: usize = 1 << 16;

/// The bytes of a file.
pub(crate) enum Bytes {
    /// Looked at here and there: the kernel's reading ahead would make the first look at a place many times
    /// slower, so that it is given what is wanted, piece by piece.
    Map {
        map: MappedFile,
        /// A bit for each piece that was asked for.
        asked: Vec<AtomicU64>,
    },
    Memory(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Map { map, .. } => map,
            Self::Memory(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// All of a file.
    pub(crate) fn map(file: File, path: &Path) -> io::Result<Self> {
        let map = MappedFile::map(file, path)?;
        map.advise(Advice::Random);
        let words = map.len().div_ceil(PIECE).div_ceil(64);
        Ok(Self::Map {
            map,
            asked: (0..words).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Some of the bytes.
    #[inline]
    pub(crate) fn part(&self, start: usize, length: usize) -> Result<&[u8], Damaged> {
        let end = start.checked_add(length).ok_or(Damaged)?;
        let part = self.get(start..end).ok_or(Damaged)?;
        if let Self::Map { map, asked } = self
            && length > 0
        {
            for piece in start / PIECE..=(end - 1) / PIECE {
                let (word, bit) = (&asked[piece / 64], 1 << (piece % 64));
                if word.load(Ordering::Relaxed) & bit == 0 {
                    word.fetch_or(bit, Ordering::Relaxed);
                    let at = piece * PIECE;
                    let size = PIECE.min(map.len() - at);
                    map.advise_range(Advice::WillNeed, at, size);
                }
            }
        }
        Ok(part)
    }
}
