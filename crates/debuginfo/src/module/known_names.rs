//! The names in a module's debug information, kept in the user's cache. A module without any of the names looked up is then
//! recognized without decompressing and reading its debug information.

use super::kept::{Kept, Key};
use crate::dwarf::DebugInformation;
use crate::dwarf::index::hash;
use crate::dwarf::line::FileName;

/// The kind of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An entry, by the last component of its name without template arguments.
    Entry,
    /// A source file, by the last part of its path.
    File,
}

/// The names of a module, by their hashes: a name whose hash is not here is not there.
#[derive(Debug)]
pub(crate) struct KnownNames {
    /// Hashes of 8 bytes in rising order, little-endian.
    hashes: Kept,
}

impl KnownNames {
    /// The names of debug information; none of one that is in several files, which may change one by one.
    pub(crate) fn read(debug: &DebugInformation) -> Option<Self> {
        if debug.is_in_several_files() {
            return None;
        }
        let mut hashes: Vec<u64> = debug
            .index()
            .plain_name_hashes()
            .map(|hash| of_kind(Kind::Entry, hash))
            .collect();
        for unit in 0..debug.unit_count() {
            for FileName { name, path } in debug.file_names(unit).iter() {
                let last = [name, path].map(|name| of_kind(Kind::File, hash(last_part(name))));
                hashes.extend(last);
            }
        }
        hashes.sort_unstable();
        hashes.dedup();
        Some(Self::of(&hashes))
    }

    fn of(hashes: &[u64]) -> Self {
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        Self {
            hashes: bytes.into(),
        }
    }

    /// The names that were kept.
    pub(crate) fn load(key: &Key) -> Option<Self> {
        let hashes = key.load()?;
        let (sorted, rest) = hashes.content().as_chunks::<8>();
        let is_sorted = sorted.is_sorted_by_key(|hash| u64::from_le_bytes(*hash));
        (is_sorted && rest.is_empty()).then_some(Self { hashes })
    }

    /// Keeps the names.
    pub(crate) fn store(&self, key: &Key) {
        key.store(self.hashes.content());
    }

    /// Whether there may be such a name. Never wrongly `false`.
    pub(crate) fn may_have(&self, kind: Kind, name: &str) -> bool {
        let name = match kind {
            Kind::Entry => name,
            Kind::File => last_part(name),
        };
        let wanted = of_kind(kind, hash(name));
        let (hashes, _) = self.hashes.content().as_chunks::<8>();
        hashes
            .binary_search_by_key(&wanted, |hash| u64::from_le_bytes(*hash))
            .is_ok()
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The lowest bit distinguishes the hashes of the two kinds.
const fn of_kind(kind: Kind, hash: u64) -> u64 {
    match kind {
        Kind::Entry => hash & !1,
        Kind::File => hash | 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_their_kinds() {
        let mut hashes: Vec<u64> = (["main", "handle"].iter())
            .map(|name| of_kind(Kind::Entry, hash(name)))
            .chain([of_kind(Kind::File, hash("app.c"))])
            .collect();
        hashes.sort_unstable();
        let known = KnownNames::of(&hashes);
        assert!(known.may_have(Kind::Entry, "main"));
        assert!(!known.may_have(Kind::Entry, "app.c"));
        assert!(known.may_have(Kind::File, "src/app.c"));
        assert!(!known.may_have(Kind::File, "main"));
    }
}
