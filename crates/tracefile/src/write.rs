//! Whole files, written beside their place and put there by a rename.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::checksum::SealingWriter;
use crate::description::{Description, HEADER, LineError};
use crate::encode::FRAME_HEADER;
use crate::private;

/// The end marker that GDB writes; its reader needs the first two bytes.
pub(crate) const END_MARKER: [u8; 4] = [0; 4];

/// A trace file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refused.
    #[error("cannot {action} {}", path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The disk has less room than the frames that are to be kept may take.
    #[error(
        "{}: {size} bytes of frames are to be kept, and the disk has {free} bytes free; a smaller buffer does",
        path.display()
    )]
    NoRoom {
        /// The file that was to be written.
        path: PathBuf,
        /// How many bytes of frames are to be kept.
        size: u64,
        /// How many bytes of the disk are free.
        free: u64,
    },
    /// The path names no file, as `/` or `..`.
    #[error("{} names no file that could be written", .0.display())]
    NoName(PathBuf),
    /// Something in the description is too long for GDB.
    #[error(transparent)]
    Line(#[from] LineError),
    /// Bytes that are not one frame.
    #[error("expected one frame as `FrameEncoder` writes it, not {0} other bytes")]
    NotAFrame(usize),
}

impl WriteError {
    /// The error that the system refused to do something with a file.
    pub fn system(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether it is for want of room: a full disk, a quota, or the largest size a file may have.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::System { source, .. } if is_full(source))
    }
}

/// Whether a system's error says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Writes a trace file from its start to its end. What is at the path stays until [`Self::finish`]; a
/// writer that is dropped before leaves no trace.
#[derive(Debug)]
pub struct TraceFileWriter {
    /// None once it is finished.
    file: Option<SealingWriter<BufWriter<File>>>,
    temporary: PathBuf,
    path: PathBuf,
}

impl TraceFileWriter {
    /// Begins a file with a description.
    ///
    /// # Errors
    /// When no file can be made in the folder.
    pub fn create(path: impl AsRef<Path>, description: &Description) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let (temporary, file) = create_beside(path, ".part")?;
        let mut writer = Self {
            file: Some(SealingWriter::new(BufWriter::with_capacity(1 << 16, file))),
            temporary,
            path: path.to_owned(),
        };
        writer.write(HEADER)?;
        writer.write(description.as_bytes())?;
        writer.write(b"\n")?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.with_file(|file| file.write_all(bytes))
    }

    fn with_file(
        &mut self,
        write: impl FnOnce(&mut SealingWriter<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        self.file
            .as_mut()
            .map_or(Ok(()), write)
            .map_err(WriteError::system("write", &self.temporary))
    }

    /// Adds one frame, or several, as [`crate::FrameEncoder`] writes them.
    ///
    /// # Errors
    /// When they cannot be written, or are none.
    pub fn append(&mut self, frames: &[u8]) -> Result<(), WriteError> {
        check_frame(frames)?;
        self.write(frames)
    }

    /// Adds frames from another file, as they are.
    pub(crate) fn append_from(&mut self, frames: &mut impl io::Read) -> Result<(), WriteError> {
        self.with_file(|file| io::copy(frames, file).map(drop))
    }

    /// Writes the end marker and the checksum, and puts the file in its place.
    ///
    /// # Errors
    /// When the rest cannot be written; the file that was at the path stays then.
    pub fn finish(self) -> Result<(), WriteError> {
        self.finish_with(SealingWriter::finish)
    }

    /// As [`Self::finish`], but without a checksum: to the last byte the file that GDB would write.
    ///
    /// # Errors
    /// As for [`Self::finish`].
    pub fn finish_unsealed(self) -> Result<(), WriteError> {
        self.finish_with(SealingWriter::finish_unsealed)
    }

    fn finish_with(
        mut self,
        finish: impl FnOnce(SealingWriter<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        place(finish(file), &self.temporary, &self.path)
    }
}

/// Writes a file's bytes as they are, and puts the file in its place.
///
/// # Errors
/// When the file cannot be written.
pub fn write_as_it_is(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let (temporary, mut file) = create_beside(path, ".part")?;
    place(file.write_all(bytes), &temporary, path)
}

/// Puts what was written in its place, or removes what there is of it.
fn place(written: io::Result<()>, temporary: &Path, path: &Path) -> Result<(), WriteError> {
    let placed = written
        .map_err(WriteError::system("write", temporary))
        .and_then(|()| put_in_place(temporary, path).map_err(WriteError::system("write", path)));
    if placed.is_err() {
        remove(temporary);
    }
    placed
}

/// Puts a new file in the place of what is there, in one step.
///
/// A rename over a file has ext4 bring the new one to the disk before it goes on: half a second for some hundred megabytes. So
/// two files change places where they can, and the old one is removed then.
pub(crate) fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if fs::symlink_metadata(path).is_ok_and(|old| old.is_file()) && exchange(new, path).is_ok() {
        remove_in_the_background(new);
        return Ok(());
    }
    fs::rename(new, path)
}

/// Gives each of two files the other's name.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)?;
    Ok(())
}

/// Removes a file. A large one takes long to be freed, which happens when no process has it open any more: not before the caller goes
/// on.
#[cfg(target_os = "linux")]
fn remove_in_the_background(path: &Path) {
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;

    let held = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_PATH.bits())
        .open(path);
    remove(path);
    if let Ok(held) = held {
        // Without a thread it is freed here.
        let _ = std::thread::Builder::new().spawn(move || drop(held));
    }
}

/// Nothing more can be done about a file that cannot be removed.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

impl Drop for TraceFileWriter {
    fn drop(&mut self) {
        if self.file.is_some() {
            remove(&self.temporary);
        }
    }
}

/// Refuses what no frame starts with.
pub(crate) fn check_frame(frame: &[u8]) -> Result<(), WriteError> {
    match frame {
        [0, 0, ..] => Err(WriteError::NotAFrame(frame.len())),
        _ if frame.len() < FRAME_HEADER => Err(WriteError::NotAFrame(frame.len())),
        _ => Ok(()),
    }
}

/// Makes a new file in the folder of `path`, named after it, for its owner alone. A file that is there already, perhaps left by a
/// crash, is never touched.
pub(crate) fn create_beside(path: &Path, suffix: &str) -> Result<(PathBuf, File), WriteError> {
    under_free_name(path, suffix, |name| {
        private::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(name)
    })
}

/// Makes a file under the first free name in the folder of `path`: its name with `suffix`, and with a number from the second attempt on.
/// `make` fails where there is a file already.
pub(crate) fn under_free_name<T>(
    path: &Path,
    suffix: &str,
    make: impl Fn(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T), WriteError> {
    let name = path
        .file_name()
        .ok_or_else(|| WriteError::NoName(path.to_owned()))?;
    let mut attempt = 0u32;
    loop {
        let mut candidate = OsString::from(name);
        candidate.push(suffix);
        if attempt > 0 {
            candidate.push(format!("-{attempt}"));
        }
        let candidate = path.with_file_name(candidate);
        match make(&candidate) {
            Ok(made) => return Ok((candidate, made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 10_000 => {
                attempt += 1;
            }
            Err(error) => return Err(WriteError::system("create", &candidate)(error)),
        }
    }
}
