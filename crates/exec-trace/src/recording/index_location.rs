//! Where an index is, and how its file comes there.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_tracefile::private;

/// Where the index of a trace may be: beside it, and in the cache.
pub(super) fn places(path: &Path, cache: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(name) = path.file_name() {
        let mut beside = name.to_owned();
        beside.push(".twindex");
        places.push(path.with_file_name(beside));
        if let (Some(cache), Ok(whole)) = (cache, fs::canonicalize(path)) {
            let mut hasher = std::hash::DefaultHasher::new();
            whole.hash(&mut hasher);
            let name = name.to_string_lossy();
            let name = format!("{name:.80}-{:016x}.twindex", hasher.finish());
            places.push(cache.join(name));
        }
    }
    places
}

/// Where a file is written.
pub(super) struct IndexLocation {
    /// The name that it gets once it is whole, and the one it has until then.
    pub(super) names: Option<(PathBuf, PathBuf)>,
    pub(super) file: Option<File>,
    pub(super) scratch: Option<File>,
}

impl IndexLocation {
    pub(super) const MEMORY: Self = Self {
        names: None,
        file: None,
        scratch: None,
    };

    /// A file that gets this name.
    pub(super) fn named(place: &Path) -> Option<Self> {
        let folder = match place.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // One of somebody else's, which is not read, is not replaced either.
        if fs::symlink_metadata(place).is_ok_and(|there| !private::is_own(&there)) {
            return None;
        }
        fs::create_dir_all(folder).ok()?;
        let (name, file) = create(folder)?;
        Some(Self {
            names: Some((place.to_owned(), name)),
            file: Some(file),
            scratch: nameless(folder),
        })
    }

    /// A file without a name.
    pub(super) fn nameless(folder: &Path) -> Option<Self> {
        Some(Self {
            names: None,
            file: Some(nameless(folder)?),
            scratch: nameless(folder),
        })
    }
}

/// A new file with a name that no other has.
fn create(folder: &Path) -> Option<(PathBuf, File)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = folder.join(format!(".tracewire-{}-{count}.part", std::process::id()));
    let mut options = private::options();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(&name).or_else(|error| {
        // What an earlier process of this number left behind.
        if error.kind() == io::ErrorKind::AlreadyExists {
            fs::remove_file(&name)?;
            return options.open(&name);
        }
        Err(error)
    });
    Some((name, file.ok()?))
}

fn nameless(folder: &Path) -> Option<File> {
    let (name, file) = create(folder)?;
    fs::remove_file(name).ok()?;
    Some(file)
}
