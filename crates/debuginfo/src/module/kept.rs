//! Data read from a module, kept in the user's cache for the next time: files that are mapped and not read.
//! `docs/formats/module-cache.md` describes the format.
//!
//! Nothing in a file is trusted. A file of another user is not read, and one that is damaged or belongs to another module is made
//! again. A file that is cut or changed while it is mapped gives wrong answers at worst: each offset and each text is checked where
//! it is used.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimli::RunTimeEndian;
use tracewire_mapped_file::SharedBytes;

use super::image::{Image, Reader};

/// The longest file that is kept.
const LONGEST: u64 = 256 << 20;

/// How much all the files may take before the oldest are removed.
const MOST: u64 = 512 << 20;

/// Where the content begins is a multiple of this.
const ALIGNMENT: usize = 8;

/// The kind of content, which is in the file's name and header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    Names,
    Index,
    Sections,
    Symbols,
}

impl Content {
    const ALL: [Self; 4] = [Self::Names, Self::Index, Self::Sections, Self::Symbols];

    /// The first bytes of the file, which say its form. They end in the version.
    const fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Names => b"TWnames2",
            Self::Index => b"TWdwarf1",
            Self::Sections => b"TWsects1",
            Self::Symbols => b"TWsymbs1",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Names => "names",
            Self::Index => "index",
            Self::Sections => "sections",
            Self::Symbols => "symbols",
        }
    }
}

/// Where all that is kept is.
#[derive(Clone, Debug)]
pub(crate) enum Cache {
    /// The user's folder, which need not be there.
    Folder(Arc<Path>),
    /// Files that are in memory, by their names. None is written.
    Memory(Arc<HashMap<String, SharedBytes>>),
}

/// Where something of a module is kept.
#[derive(Debug)]
enum Place {
    File(PathBuf),
    Memory(Option<SharedBytes>),
}

/// The place of a module's kept data, and its identity.
#[derive(Debug)]
pub(crate) struct Key {
    place: Place,
    content: Content,
    text: String,
}

impl Key {
    /// The key for data from a module and its debug file; `None` for a module without a build id.
    pub(crate) fn new(
        cache: &Cache,
        content: Content,
        image: &Image,
        debug: Option<&Image>,
    ) -> Option<Self> {
        let id: String = (image.build_id.as_ref()?.iter())
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut text = id.clone();
        for file in std::iter::once(image).chain(debug) {
            let metadata = match (fs::metadata(&file.path), cache) {
                (Ok(metadata), _) => metadata,
                // The module may be in memory, too.
                (Err(_), Cache::Memory(_)) => continue,
                (Err(_), Cache::Folder(_)) => return None,
            };
            text += &format!(
                " {} {}.{:09} {}",
                metadata.len(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                file.path.display()
            );
        }
        // The name of a file may not be of any length.
        let name: String = id.chars().take(64).collect();
        let name = format!("{name}.{}", content.extension());
        let place = match cache {
            Cache::Folder(folder) => Place::File(folder.join(name)),
            Cache::Memory(files) => Place::Memory(files.get(&name).cloned()),
        };
        Some(Self {
            place,
            content,
            text,
        })
    }

    /// The kept data, if it belongs to this key.
    pub(crate) fn load(&self) -> Option<Kept> {
        let bytes = match &self.place {
            Place::File(path) => mapped(path)?,
            Place::Memory(bytes) => bytes.clone()?,
        };
        let start = content_start(&bytes, self.content, &self.text)?;
        let end = bytes.len().checked_sub(size_of::<u32>())?;
        Some(Kept { bytes, start, end })
    }

    /// Keeps content. A folder that cannot be written to means that nothing is kept, and is no error.
    pub(crate) fn store(&self, content: &[u8]) {
        if let Place::File(path) = &self.place
            && let Some(bytes) = self.whole(content)
        {
            let _ = self.write(path, &bytes);
        }
    }

    fn whole(&self, content: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = self.content.magic().to_vec();
        bytes.extend(u32::try_from(self.text.len()).ok()?.to_le_bytes());
        bytes.extend(self.text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes.extend(content);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        (bytes.len() as u64 <= LONGEST).then_some(bytes)
    }

    /// Writes a file beside its name and renames it.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut maker = DirBuilder::new();
        maker.recursive(true).mode(0o700).create(folder)?;
        let extension = self.content.extension();
        let process = std::process::id();
        let temporary = path.with_extension(format!("{extension}.{process}.part"));
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
}

/// A kept file, if it was not written by another user.
fn mapped(path: &Path) -> Option<SharedBytes> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_own = metadata.uid() == 0 || metadata.uid() == own_user()?;
    if !is_own || !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    SharedBytes::of_file(file, path).ok()
}

/// Where the content begins in a whole file of a key; none for a file that is damaged or of another key.
fn content_start(bytes: &[u8], content: Content, key: &str) -> Option<usize> {
    let (checked, checksum) = bytes.split_last_chunk::<4>()?;
    let rest = checked.strip_prefix(content.magic())?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (stored_key, rest) = rest.split_at_checked(length)?;
    let start = (checked.len() - rest.len()).checked_next_multiple_of(ALIGNMENT)?;
    // A fuzzer does not find the checksum.
    let is_right = cfg!(fuzzing)
        || stored_key == key.as_bytes()
            && crc32fast::hash(checked) == u32::from_le_bytes(*checksum);
    (is_right && start <= checked.len()).then_some(start)
}

/// Content that was kept, or that has just been made.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    bytes: SharedBytes,
    start: usize,
    end: usize,
}

impl Kept {
    /// The content.
    pub(crate) fn content(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or(&[])
    }

    /// A part of the content, which has to be within it.
    pub(crate) fn reader(&self, endian: RunTimeEndian, part: Range<usize>) -> Reader {
        let part = self.start + part.start..self.start + part.end;
        Reader::new(self.bytes.clone(), endian).range(part)
    }
}

impl From<Vec<u8>> for Kept {
    fn from(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Self {
            bytes: bytes.into(),
            start: 0,
            end,
        }
    }
}

/// Removes the oldest files when all of them take too much space; the newest is kept.
fn prune(folder: &Path, newest: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_kept = |content: Content| name.contains(&format!(".{}", content.extension()));
        if Content::ALL.into_iter().any(is_kept) && path != newest {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(folder: &Path, text: &str) -> Key {
        Key {
            place: Place::File(folder.join("a/b.names")),
            content: Content::Names,
            text: text.to_owned(),
        }
    }

    #[test]
    fn content_comes_back_and_damage_is_seen() {
        let key = key(Path::new("/"), "key");
        let bytes = key.whole(b"content").expect("it is short");
        let start = content_start(&bytes, Content::Names, "key").expect("it is whole");
        assert_eq!(&bytes[start..bytes.len() - 4], b"content");
        assert_eq!(start % ALIGNMENT, 0);
        assert_eq!(content_start(&bytes, Content::Names, "other"), None);
        assert_eq!(content_start(&bytes, Content::Symbols, "key"), None);
        for length in 0..bytes.len() {
            let cut = content_start(&bytes[..length], Content::Names, "key");
            assert_eq!(cut, None, "{length}");
        }
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            let start = content_start(&changed, Content::Names, "key");
            assert_eq!(start, None, "{place}");
        }
    }

    #[test]
    fn a_file_is_the_owner_s_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = |text: &str| key(folder.path(), text);
        let content = |text: &str| key(text).load().map(|kept| kept.content().to_vec());
        assert_eq!(content("one"), None);
        key("one").store(b"first");
        assert_eq!(content("one").as_deref(), Some(&b"first"[..]));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        assert_eq!(mode(&folder.path().join("a/b.names")), 0o600);
        // Of a module that has been replaced something else is kept.
        assert_eq!(content("two"), None);
        key("two").store(b"second");
        assert_eq!(content("one"), None);
        assert_eq!(content("two").as_deref(), Some(&b"second"[..]));
        let left = fs::read_dir(folder.path().join("a"))
            .expect("a folder")
            .count();
        assert_eq!(left, 1);
        // A folder that cannot be made is no error.
        let below_a_file = Key {
            place: Place::File(folder.path().join("a/b.names/c.names")),
            ..key("")
        };
        below_a_file.store(b"content");
    }

    #[test]
    fn bytes_in_memory_are_read_as_a_file() {
        let bytes = key(Path::new("/"), "key").whole(b"content");
        let bytes = bytes.expect("it is short");
        let load = |text: &str, bytes: Option<&[u8]>| {
            let key = Key {
                place: Place::Memory(bytes.map(|bytes| bytes.to_vec().into())),
                content: Content::Names,
                text: text.to_owned(),
            };
            key.store(b"nowhere");
            key.load().map(|kept| kept.content().to_vec())
        };
        assert_eq!(load("key", Some(&bytes)).as_deref(), Some(&b"content"[..]));
        assert_eq!(load("other", Some(&bytes)), None);
        assert_eq!(load("key", Some(&bytes[1..])), None);
        assert_eq!(load("key", None), None);
    }

    #[test]
    fn a_file_of_another_user_is_not_read() {
        const NOBODY: u32 = 65534;
        let folder = tempfile::tempdir().expect("a folder");
        let key = key(folder.path(), "key");
        key.store(b"content");
        assert!(key.load().is_some());
        let path = folder.path().join("a/b.names");
        if std::os::unix::fs::chown(path, Some(NOBODY), None).is_err() {
            eprintln!("not tried with another user's file: only root can make one");
            return;
        }
        assert!(key.load().is_none());
        // Another user's file is no obstacle: ours replaces it.
        key.store(b"content");
        assert!(key.load().is_some());
    }
}
