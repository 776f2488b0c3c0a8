//! Reading a trace file while a recorder writes it.
//!
//! A [`Spool`](crate::Spool) holds a lock on its file as long as it lives, so that a reader knows a recording that goes on from one
//! whose recorder was killed. A frame is there once its number is not zero, and everything else of it was written before.
//! The reader copies, and holds nothing that the recorder could wait for.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use crate::description::{Description, HEADER};
use crate::encode::FRAME_HEADER;
use crate::file::{MAX_DESCRIPTION, OpenError, TraceFile};
use tracewire_model::{ByteOrder, FrameNumber};

/// What a file is called while it grows, after its name.
pub const GROWING: &str = ".recording";

/// How many bytes of frames a batch has, unless its only frame is larger.
const BATCH: usize = 1 << 20;

/// How much of a description is read at a time.
const PIECE: usize = 64 << 10;

/// How long a recorder that has made its file may take to write the description.
const BEGINNING: Duration = Duration::from_secs(10);

/// A trace file that a recorder writes.
#[derive(Debug)]
pub struct GrowingFile {
    file: File,
    path: PathBuf,
    /// The header and the description, with the empty line that ends it.
    front: Vec<u8>,
    description: Description,
    order: ByteOrder,
    /// Where the next frame is.
    next: u64,
    /// How many frames are before it.
    frames: u64,
}

/// Frames that have come since the batch before.
#[derive(Debug)]
pub struct Batch {
    /// The description as it was when they were read, and the frames. They are numbered from 0 here.
    pub file: TraceFile,
    /// The number that the first of them has in the growing file.
    pub first: FrameNumber,
    /// Where it begins there.
    pub(crate) offset: u64,
}

impl GrowingFile {
    /// Opens what a recorder writes now: the file at `path`, or the one that will take its place (`PATH.recording`). `None`
    /// where no recorder writes it.
    ///
    /// # Errors
    /// When it cannot be read or is no trace file.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>, OpenError> {
        /// How many names a recorder tries.
        const NAMES: u32 = 100;
        let path = path.as_ref();
        let names = (0..NAMES).map(|attempt| {
            let mut name = path.as_os_str().to_owned();
            name.push(GROWING);
            if attempt > 0 {
                name.push(format!("-{attempt}"));
            }
            PathBuf::from(name)
        });
        // The names were taken one after the other, so that the first one that is free is the end. But a recording that has
        // ended has given its name back.
        for name in std::iter::once(path.to_owned()).chain(names) {
            let error = |source| OpenError::Read {
                path: name.clone(),
                source,
            };
            let file = match File::open(&name) {
                Ok(file) => file,
                Err(source) if source.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(error(source)),
            };
            if file.metadata().map_err(error)?.is_file() && is_written(&file).map_err(error)? {
                return Self::read(file, name).map(Some);
            }
        }
        Ok(None)
    }

    fn read(file: File, path: PathBuf) -> Result<Self, OpenError> {
        let mut growing = Self {
            file,
            path,
            front: Vec::new(),
            description: Description::default(),
            order: ByteOrder::Little,
            next: 0,
            frames: 0,
        };
        let begun = Instant::now();
        let mut front = Vec::new();
        let end = loop {
            let start = front.len();
            front.resize(start + PIECE, 0);
            let read = growing.read_at(&mut front[start..], start as u64)?;
            front.truncate(start + read);
            if !front.starts_with(HEADER.get(..front.len()).unwrap_or(HEADER)) {
                return Err(OpenError::Header);
            }
            // The header ends with a newline, which may be the first of the two.
            let from = start.saturating_sub(1).max(HEADER.len() - 1);
            if let Some(at) = memchr::memmem::find(front.get(from..).unwrap_or_default(), b"\n\n") {
                break from + at + 2;
            }
            if front.len() > MAX_DESCRIPTION {
                return Err(OpenError::Description);
            }
            if read == 0 {
                // A recorder that has just made its file has yet to write the description.
                if begun.elapsed() > BEGINNING || !growing.is_written()? {
                    return Err(OpenError::Description);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        front.truncate(end);
        growing.next = end as u64;
        growing.front = front;
        growing.describe();
        growing.order = TraceFile::in_memory(&growing.description, &[])?.byte_order();
        Ok(growing)
    }

    /// The file's name while it grows.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the recorder still writes. Frames may have come before it ended: [`Self::batch`] has all of them once this has said no.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn is_written(&self) -> Result<bool, OpenError> {
        is_written(&self.file).map_err(self.error())
    }

    /// The frames that have come since the last batch, about 1 MiB of them at most; `None` where there is none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn batch(&mut self) -> Result<Option<Batch>, OpenError> {
        let mut header = [0; FRAME_HEADER];
        self.read_at(&mut header, self.next)?;
        let Some(size) = frame_size(&header, self.order) else {
            return Ok(None);
        };
        let length = self.file.metadata().map_err(self.error())?.len();
        if length.saturating_sub(self.next) < size as u64 {
            return Ok(None);
        }
        let mut bytes = vec![0; BATCH.max(size)];
        let read = self.read_at(&mut bytes, self.next)?;
        bytes.truncate(read);
        let (length, count) = whole_frames(&bytes, self.order);
        if count == 0 {
            return Ok(None);
        }
        // The numbers were seen: what is read from now on is what was written before them.
        fence(Ordering::Acquire);
        bytes.truncate(length);
        if self.read_at(&mut bytes, self.next)? < length {
            // The recorder starts again, or another program cuts the file.
            return Ok(None);
        }
        self.read_description()?;
        let file = TraceFile::in_memory(&self.description, &[&bytes])?;
        let (first, offset) = (FrameNumber(self.frames), self.next);
        self.next += length as u64;
        self.frames += count;
        Ok(Some(Batch {
            file,
            first,
            offset,
        }))
    }

    /// The description, as it was when the last batch was read, or as [`Self::read_description`] has found it.
    pub(crate) const fn description(&self) -> &Description {
        &self.description
    }

    /// Reads a frame that came before.
    pub(crate) fn read_frame(&self, offset: u64, length: usize) -> Result<Vec<u8>, OpenError> {
        let mut bytes = vec![0; length];
        let read = self.read_at(&mut bytes, offset)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads the description again, which the recorder writes in place.
    pub(crate) fn read_description(&mut self) -> Result<(), OpenError> {
        /// How often it is read again while it changes under the reader. It changes with each library that is loaded.
        const ATTEMPTS: usize = 10;
        let mut before = Vec::new();
        for _ in 0..ATTEMPTS {
            let mut front = vec![0; self.front.len()];
            self.read_at(&mut front, 0)?;
            if front == self.front {
                return Ok(());
            }
            if front == before {
                break;
            }
            before = front;
        }
        if before.starts_with(HEADER) {
            self.front = before;
            self.describe();
        }
        Ok(())
    }

    fn describe(&mut self) {
        let text = self.front.get(HEADER.len()..).unwrap_or_default();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        self.description = Description::parse(text.to_vec());
    }

    /// Reads as much as there is.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<usize, OpenError> {
        let mut read = 0;
        while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error()(error)),
            }
        }
        Ok(read)
    }

    fn error(&self) -> impl Fn(io::Error) -> OpenError {
        move |source| OpenError::Read {
            path: self.path.clone(),
            source,
        }
    }
}

/// Whether a process holds the lock of a [`Spool`](crate::Spool).
pub(crate) fn is_written(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The size of the frame that bytes begin with, its header included; `None` where no frame is there yet.
fn frame_size(bytes: &[u8], order: ByteOrder) -> Option<usize> {
    let (number, size) = bytes.get(..FRAME_HEADER)?.split_at(2);
    let size = usize::try_from(order.unsigned(size)?).ok()?;
    (number != [0, 0]).then_some(FRAME_HEADER + size)
}

/// How long the whole frames are that bytes begin with, and how many they are.
fn whole_frames(bytes: &[u8], order: ByteOrder) -> (usize, u64) {
    let (mut at, mut count) = (0, 0);
    while let Some(rest) = bytes.get(at..)
        && let Some(size) = frame_size(rest, order)
        && size <= rest.len()
    {
        at += size;
        count += 1;
    }
    (at, count)
}
