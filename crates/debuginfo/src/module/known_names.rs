//! The names in a module's debug information, kept in the user's cache: a module that has none of the names asked for is then known
//! for it without its debug information being decompressed and read. `docs/formats/known-names.md` has the form.
//!
//! Nothing in the file is trusted. What another user has written is not read, and what is damaged or belongs to other debug information
//! is made again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::debug_file::crc32;
use super::image::Image;
use crate::dwarf::DebugInformation;
use crate::dwarf::index::hash;

/// The beginning of a file, which says its form.
const MAGIC: &[u8; 8] = b"TWnames1";

/// The end of a file's name.
const EXTENSION: &str = "names";

/// Less debug information is read in the time that looking for a file takes, in bytes as it is stored.
const SMALLEST: u64 = 256 << 10;

/// More debug information is not read unasked, in bytes of `.debug_info` when decompressed.
const LARGEST: u64 = 256 << 20;

/// The longest file that is read.
const LONGEST: u64 = 128 << 20;

/// How much all the files may take before the oldest are removed.
const MOST: u64 = 512 << 20;

/// What a name is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An entry, by the last component of its name without template arguments.
    Entry,
    /// A source file, by the last part of its path.
    File,
}

/// The names of a module, by their hashes: a name whose hash is not here is not there.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct KnownNames {
    /// Sorted.
    hashes: Vec<u64>,
}

/// What the names belong to.
pub(crate) struct Key {
    path: PathBuf,
    text: String,
}

impl Key {
    /// The key of a module with debug information, where it pays to keep its names: it has a build id and is large.
    pub(crate) fn new(folder: &Path, image: &Image, debug: &Image) -> Option<Self> {
        let size = debug.section(".debug_info").map(|section| section.size)?;
        if debug.bytes.len() as u64 <= SMALLEST || size > LARGEST {
            return None;
        }
        let id: String = (image.build_id.as_ref()?.iter())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let metadata = fs::metadata(&debug.path).ok()?;
        // The name of a file may not be of any length.
        let name: String = id.chars().take(64).collect();
        Some(Self {
            path: folder.join(format!("{name}.{EXTENSION}")),
            text: format!(
                "{id} {} {}.{:09} {}",
                metadata.len(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                debug.path.display()
            ),
        })
    }
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
            for (name, path) in debug.file_names(unit).iter() {
                let last = [name, path].map(|name| of_kind(Kind::File, hash(last_part(name))));
                hashes.extend(last);
            }
        }
        hashes.sort_unstable();
        hashes.dedup();
        Some(Self { hashes })
    }

    /// Whether there may be such a name. Never wrongly `false`.
    pub(crate) fn may_have(&self, kind: Kind, name: &str) -> bool {
        let name = match kind {
            Kind::Entry => name,
            Kind::File => last_part(name),
        };
        self.hashes
            .binary_search(&of_kind(kind, hash(name)))
            .is_ok()
    }

    /// The names that were kept, if they are this key's.
    pub(crate) fn load(key: &Key) -> Option<Self> {
        let file = File::open(&key.path).ok()?;
        let metadata = file.metadata().ok()?;
        let is_own = metadata.uid() == 0 || metadata.uid() == own_user()?;
        if !is_own || !metadata.is_file() || metadata.len() > LONGEST {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes, &key.text)
    }

    fn parse(bytes: &[u8], key: &str) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let rest = content.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (stored_key, rest) = rest.split_at_checked(length)?;
        let (hashes, tail) = rest.as_chunks::<8>();
        let hashes: Vec<u64> = hashes.iter().map(|one| u64::from_le_bytes(*one)).collect();
        let is_right = stored_key == key.as_bytes() && tail.is_empty() && hashes.is_sorted();
        is_right.then_some(Self { hashes })
    }

    fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32::try_from(key.len()).ok()?.to_le_bytes());
        bytes.extend(key.as_bytes());
        for hash in &self.hashes {
            bytes.extend(hash.to_le_bytes());
        }
        let checksum = crc32(&bytes);
        bytes.extend(checksum.to_le_bytes());
        (bytes.len() as u64 <= LONGEST).then_some(bytes)
    }

    /// Keeps the names. A folder that cannot be written to means that nothing is kept, and is no error.
    pub(crate) fn store(&self, key: &Key) {
        let Some(bytes) = self.bytes(&key.text) else {
            return;
        };
        let _ = write(&key.path, &bytes);
    }
}

/// Writes a file beside its name and renames it.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut maker = DirBuilder::new();
    maker.recursive(true).mode(0o700).create(folder)?;
    let temporary = path.with_extension(format!("{EXTENSION}.{}.part", std::process::id()));
    let made = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(bytes)?;
        fs::rename(&temporary, path)
    };
    made().inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    prune(folder, path)
}

/// Removes the oldest files when all of them take too much; the newest stays.
fn prune(folder: &Path, newest: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().contains(".names") && path != newest {
            let metadata = entry.metadata()?;
            files.push((metadata.modified()?, metadata.len(), path));
        }
    }
    files.sort();
    let mut all: u64 = files.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in files {
        if all <= MOST {
            break;
        }
        fs::remove_file(path)?;
        all -= size;
    }
    Ok(())
}

/// The user that we act for.
fn own_user() -> Option<u32> {
    Some(fs::metadata("/proc/self").ok()?.uid())
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The hashes of the two kinds are told apart by their lowest bit.
const fn of_kind(kind: Kind, hash: u64) -> u64 {
    match kind {
        Kind::Entry => hash & !1,
        Kind::File => hash | 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entries: &[&str], files: &[&str]) -> KnownNames {
        let mut hashes: Vec<u64> = (entries.iter())
            .map(|name| of_kind(Kind::Entry, hash(name)))
            .chain(files.iter().map(|name| of_kind(Kind::File, hash(name))))
            .collect();
        hashes.sort_unstable();
        KnownNames { hashes }
    }

    #[test]
    fn names_come_back_and_damage_is_seen() {
        let known = names(&["main", "handle"], &["app.c"]);
        assert!(known.may_have(Kind::Entry, "main"));
        assert!(!known.may_have(Kind::Entry, "app.c"));
        assert!(known.may_have(Kind::File, "src/app.c"));
        assert!(!known.may_have(Kind::File, "main"));
        let bytes = known.bytes("key").expect("it is short");
        assert_eq!(KnownNames::parse(&bytes, "key").as_ref(), Some(&known));
        assert_eq!(KnownNames::parse(&bytes, "other"), None);
        for length in 0..bytes.len() {
            assert_eq!(KnownNames::parse(&bytes[..length], "key"), None);
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(KnownNames::parse(&changed, "key"), None, "{place}");
        }
    }

    #[test]
    fn a_file_is_the_owner_s_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |text: &str| Key {
            path: folder.path().join("a/b.names"),
            text: text.to_owned(),
        };
        let known = names(&["main"], &[]);
        assert_eq!(KnownNames::load(&key("one")), None);
        known.store(&key("one"));
        assert_eq!(KnownNames::load(&key("one")).as_ref(), Some(&known));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        assert_eq!(mode(&folder.path().join("a/b.names")), 0o600);
        // Debug information that has been replaced has other names.
        assert_eq!(KnownNames::load(&key("two")), None);
        names(&["work"], &[]).store(&key("two"));
        assert_eq!(KnownNames::load(&key("one")), None);
        assert!(KnownNames::load(&key("two")).is_some());
        let left = fs::read_dir(folder.path().join("a"))
            .expect("a folder")
            .count();
        assert_eq!(left, 1);
        // A folder that cannot be made is no error.
        known.store(&Key {
            path: folder.path().join("a/b.names/c.names"),
            text: String::new(),
        });
    }
}
