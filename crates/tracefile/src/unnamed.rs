//! Files that have no name until they can be read: a process that is killed before leaves nothing behind.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;

use crate::write::{WriteError, create_beside, under_free_name};

/// A new file in a folder, without a name and for its owner alone.
pub(crate) fn unnamed(folder: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_TMPFILE.bits())
        .mode(0o600)
        .open(folder)
}

/// A new file in the folder of `path`, for its owner alone. On a file system without unnamed files it has a name from the beginning on,
/// as [`create_beside`] makes it.
pub(crate) fn unnamed_beside(
    path: &Path,
    suffix: &str,
) -> Result<(File, Option<PathBuf>), WriteError> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match unnamed(folder) {
        Ok(file) => Ok((file, None)),
        Err(_) => create_beside(path, suffix).map(|(name, file)| (file, Some(name))),
    }
}

/// Begins a file that gets its name, that of `path` with `suffix`, when `begin` has written what makes it readable. Gives the name and
/// what `begin` made of the file. Where that fails there is no file.
pub(crate) fn begin_beside<T>(
    path: &Path,
    suffix: &str,
    begin: impl FnOnce(File) -> Result<T, WriteError>,
    file_of: impl FnOnce(&T) -> &File,
) -> Result<(PathBuf, T), WriteError> {
    let (file, name) = unnamed_beside(path, suffix)?;
    let begun = begin(file).and_then(|begun| {
        let name = match &name {
            Some(name) => name.clone(),
            None => name_beside(file_of(&begun), path, suffix)?,
        };
        Ok((name, begun))
    });
    if let (Err(_), Some(name)) = (&begun, name) {
        let _ = fs::remove_file(name);
    }
    begun
}

/// Gives an unnamed file the first free name in the folder of `path`: that of `path` with `suffix`.
pub(crate) fn name_beside(file: &File, path: &Path, suffix: &str) -> Result<PathBuf, WriteError> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let named = under_free_name(path, suffix, |name| {
        let (old, follow) = (descriptor.as_str(), AtFlags::AT_SYMLINK_FOLLOW);
        linkat(AT_FDCWD, old, AT_FDCWD, name, follow).map_err(io::Error::from)
    });
    Ok(named?.0)
}
