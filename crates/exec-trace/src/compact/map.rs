//! Maps with a fast hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes what is not chosen to collide, or only slows itself.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        // The last bytes, some of which were in a word already: to copy a few takes longer than to read eight.
        let last = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => rest
                .iter()
                .fold(0, |last, byte| last << 8 | u64::from(*byte)),
        };
        self.write_u64(last ^ (bytes.len() as u64) << 56);
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;
