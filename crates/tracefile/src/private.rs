//! Files for their owner alone.
//!
//! A trace file holds what a program had in its memory, and so do an index of it and a log of packets. They are made for
//! their owner; who wants to share one changes its mode. And in a folder that others can write to, a link or a file that
//! another user has put at a name that is about to be used has no effect: nothing is written through it, and an index that
//! another user owns is not read.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Options for a new file, readable and writable by its owner alone.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Whether a file belongs to the user that we act for, or to root.
#[must_use]
pub fn is_own(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        let owner = std::os::unix::fs::MetadataExt::uid(metadata);
        owner == 0 || owner == nix::unistd::geteuid().as_raw()
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        true
    }
}

/// Whether others than the user that we act for, and root, can put something into the folder of a path.
///
/// # Errors
/// When the folder cannot be looked at.
pub fn is_in_shared_folder(path: &Path) -> io::Result<bool> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let metadata = fs::metadata(folder)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // A group of the user's own is how some systems set users up.
        let others = if metadata.gid() == nix::unistd::getegid().as_raw() {
            0o002
        } else {
            0o022
        };
        Ok(!is_own(&metadata) || metadata.mode() & others != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        Ok(false)
    }
}

/// Whether there is a link at a path that is not to be followed, for others can put links there.
#[must_use]
pub fn is_foreign_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
        // What cannot be found out is not trusted.
        && is_in_shared_folder(path).unwrap_or(true)
}

/// Makes a file, or empties one of the user's own, to write to it where it is.
///
/// # Errors
/// When it cannot be made; when another user has put a file or a link there.
pub fn create(path: &Path) -> io::Result<File> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why);
    let mut options = options();
    options.write(true).create(true);
    #[cfg(unix)]
    if is_in_shared_folder(path)? {
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK,
        );
    }
    if is_foreign_link(path) {
        return Err(refused(
            "it is a link in a folder that others can write to, and not followed",
        ));
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        if !is_own(&metadata) {
            return Err(refused("it belongs to another user"));
        }
        file.set_len(0)?;
    }
    Ok(file)
}
