//! The keys of a segment's templates, each once, by their numbers.
//!
//! Text that does not repeat has nearly as many templates as groups. So all keys are in one row of bytes, and what is
//! looked up is a hash of 8 bytes: a table that grows does not go over the keys again, and none has an allocation of its own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use super::map::Mixer;

/// A hash that is hashed already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "only a number is hashed");
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The end of a row of keys of one hash.
const NONE: u32 = u32::MAX;

/// Keys, numbered from 0.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// Where each ends, and the key before it that has its hash.
    keys: Vec<(u32, u32)>,
    /// The latest key of each hash.
    by_hash: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
}

impl Keys {
    /// The number of a key, and whether it is new.
    #[inline]
    pub(crate) fn number(&mut self, key: &[u8]) -> (u32, bool) {
        let mut mixer = Mixer::default();
        mixer.write(key);
        let new = self.keys.len() as u32;
        let mut before = NONE;
        match self.by_hash.entry(mixer.finish()) {
            Entry::Vacant(entry) => {
                entry.insert(new);
            }
            Entry::Occupied(mut entry) => {
                let mut at = *entry.get();
                before = at;
                while at != NONE {
                    let (end, earlier) = self.keys[at as usize];
                    let start = at.checked_sub(1).map_or(0, |at| self.keys[at as usize].0);
                    if &self.bytes[start as usize..end as usize] == key {
                        return (at, false);
                    }
                    at = earlier;
                }
                entry.insert(new);
            }
        }
        self.bytes.extend_from_slice(key);
        self.keys.push((self.bytes.len() as u32, before));
        (new, true)
    }

    /// The key of a number; empty where there is none.
    pub(crate) fn key(&self, number: u32) -> &[u8] {
        let place = number as usize;
        let start = place.checked_sub(1).map_or(0, |at| self.keys[at].0);
        let end = self.keys.get(place).map_or(start, |key| key.0);
        &self.bytes[start as usize..end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_number() {
        let mut keys = Keys::default();
        let key = |number: u32| number.to_string().repeat(number as usize % 5);
        let mut numbers = HashMap::new();
        for round in 0..2 {
            for of in 0..5000 {
                let key = key(of);
                let next = numbers.len() as u32;
                let expected = *numbers.entry(key.clone()).or_insert(next);
                let is_new = round == 0 && expected == next;
                assert_eq!(keys.number(key.as_bytes()), (expected, is_new));
            }
        }
        for (key, number) in numbers {
            assert_eq!(keys.key(number), key.as_bytes());
        }
    }
}
