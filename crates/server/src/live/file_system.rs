//! The file system that names refer to, and the files that may be written.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat};

/// The file system that names refer to (`vFile:setfs`), and the directory in which files may be written.
#[derive(Debug, Default)]
pub(super) struct FileSystem {
    /// The root of another process, if it differs from ours.
    root: Option<OwnedFd>,
    writable: Option<PathBuf>,
}

impl FileSystem {
    /// Our file system; writes are allowed only below the directory.
    pub(super) fn new(writable: Option<&Path>) -> Self {
        Self {
            root: None,
            // Resolved once: a later change of the name has no effect.
            writable: writable.and_then(|folder| folder.canonicalize().ok()),
        }
    }

    /// Makes names refer to the files that a process sees; ours for 0.
    pub(super) fn select(&mut self, process: u32) -> io::Result<()> {
        self.root = None;
        if process == 0 {
            return Ok(());
        }
        let space = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt"));
        let root = |process: &str| std::fs::read_link(format!("/proc/{process}/root"));
        let number = process.to_string();
        if space(&number)? != space("self")? || root(&number)? != root("self")? {
            let folder = File::options()
                .read(true)
                .custom_flags(OFlag::O_PATH.bits() | OFlag::O_DIRECTORY.bits())
                .open(format!("/proc/{process}/root"))?;
            self.root = Some(folder.into());
        }
        Ok(())
    }

    fn open_with(&self, name: &[u8], flags: OFlag) -> io::Result<OwnedFd> {
        let path = Path::new(OsStr::from_bytes(name));
        match &self.root {
            None => Ok(File::options()
                .read(true)
                .custom_flags(flags.bits())
                .open(path)?
                .into()),
            Some(root) => {
                let how = OpenHow::new()
                    .flags(flags | OFlag::O_CLOEXEC)
                    .resolve(ResolveFlag::RESOLVE_IN_ROOT);
                Ok(openat2(root.as_fd(), path, how)?)
            }
        }
    }

    /// Opens a file for reading, without waiting for the writer of a pipe.
    pub(super) fn open(&self, name: &[u8]) -> io::Result<File> {
        self.open_with(name, OFlag::O_NONBLOCK).map(File::from)
    }

    /// Opens a name for reading its metadata; the link itself if `link` is set.
    pub(super) fn look_at(&self, name: &[u8], link: bool) -> io::Result<File> {
        let follow = if link {
            OFlag::O_NOFOLLOW
        } else {
            OFlag::empty()
        };
        self.open_with(name, OFlag::O_PATH | follow).map(File::from)
    }

    pub(super) fn read_link(&self, name: &[u8]) -> io::Result<Vec<u8>> {
        let link = self.look_at(name, true)?;
        Ok(readlinkat(link.as_fd(), "")?.into_vec())
    }

    /// The path of a file that may be written or removed: its folder is the one that the server was given, or below it.
    pub(super) fn writable(&self, name: &[u8]) -> io::Result<PathBuf> {
        let denied = || io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let allowed = self.writable.as_ref().ok_or_else(denied)?;
        if self.root.is_some() {
            return Err(denied());
        }
        let path = Path::new(OsStr::from_bytes(name));
        let file = path.file_name().ok_or_else(denied)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = folder.canonicalize()?;
        if folder.starts_with(allowed) {
            Ok(folder.join(file))
        } else {
            Err(denied())
        }
    }
}
