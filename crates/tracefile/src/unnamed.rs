//! Files that have no name until they can be read: a process that is killed before leaves nothing behind.

use std::fs::File;
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

/// Gives an unnamed file the first free name in the folder of `path`: that of `path` with `suffix`.
pub(crate) fn name_beside(file: &File, path: &Path, suffix: &str) -> Result<PathBuf, WriteError> {
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let named = under_free_name(path, suffix, |name| {
        let (old, follow) = (descriptor.as_str(), AtFlags::AT_SYMLINK_FOLLOW);
        linkat(AT_FDCWD, old, AT_FDCWD, name, follow).map_err(io::Error::from)
    });
    Ok(named?.0)
}
