//! The file of a live recording that keeps the newest frames.
//!
//! The file is a [`Spool`]: a good trace file at every moment, which grows. When it has as many bytes of frames as are to be kept, a
//! second file begins, and each frame goes into both. When the second one has all frames that are to be kept, it takes the place of
//! the first, by one call that the kernel does as a whole. So the file has all frames that are to be kept at every moment, and as many older
//! ones at most. Each byte is written twice, and never copied at once while the program waits.

use std::collections::VecDeque;
use std::fs::{self, Metadata};
use std::path::Path;

use nix::sys::statvfs::statvfs;
use tracewire_fail_point::fail_point;

use crate::description::Description;
use crate::spool::{Spool, Successor};
use crate::write::WriteError;

/// A file with fewer bytes of frames gets no successor: a small buffer would change its file all the time.
const LEAST: u64 = 4 << 20;

/// A trace file that grows while a run goes on, keeps the newest frames, and is a good one at every moment.
#[derive(Debug)]
pub struct CircularSpool {
    current: Spool,
    next: Option<Successor>,
    /// How many bytes of frames are kept.
    size: u64,
    /// How long each frame is that is kept, the oldest first.
    lengths: VecDeque<u32>,
    kept: u64,
    description: Description,
}

impl CircularSpool {
    /// Begins a file beside `path` (`PATH.recording`), which keeps the newest frames that fit into `size` bytes. Another one takes
    /// `path` at [`Self::finish`].
    ///
    /// # Errors
    /// [`WriteError::NoRoom`] where the disk has no room for so many bytes, and as [`Spool::create`].
    pub fn create(
        path: impl AsRef<Path>,
        size: u64,
        description: &Description,
    ) -> Result<Self, WriteError> {
        let current = Spool::create_for_a_time(path.as_ref(), description)?;
        // Some file systems do not say how much room they have.
        let room = statvfs(current.temporary_path()).map(|of| {
            let bytes = u128::from(of.blocks_available()) * u128::from(of.fragment_size());
            u64::try_from(bytes).unwrap_or(u64::MAX)
        });
        if let Some(free) = room.ok().filter(|free| *free < size) {
            let path = path.as_ref().to_owned();
            let _ = fs::remove_file(current.temporary_path());
            return Err(WriteError::NoRoom { path, size, free });
        }
        Ok(Self {
            current,
            next: None,
            size,
            lengths: VecDeque::new(),
            kept: 0,
            description: description.clone(),
        })
    }

    /// Where the file is while it grows.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        self.current.temporary_path()
    }

    /// Where the next frame goes, counted from the file's start, until [`Self::turn`] changes the file.
    #[must_use]
    pub const fn frames_end(&self) -> u64 {
        self.current.frames_end()
    }

    /// How many frames are kept.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// How many bytes the frames have that are kept.
    #[must_use]
    pub const fn kept_bytes(&self) -> u64 {
        self.kept
    }

    /// How many bytes of frames are kept at most.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds one frame, and gives up the oldest ones that no longer fit beside it. Gives `false` where the frame is larger than all that
    /// is kept; nothing has changed then.
    ///
    /// # Errors
    /// When the disk is full ([`WriteError::is_full`]), or the bytes are no frame. The frames before stay good, and the
    /// file can be finished.
    pub fn append(&mut self, frame: &[u8]) -> Result<bool, WriteError> {
        let length = frame.len() as u64;
        let (Ok(short), true) = (u32::try_from(length), length <= self.size) else {
            return Ok(false);
        };
        if self.next.is_none() && self.current.frame_bytes() >= self.size.max(LEAST) {
            self.next = Some(self.current.successor(&self.description)?);
            fail_point!("circular/next-begun");
        }
        if let Some(next) = &mut self.next {
            next.spool().append(frame)?;
            fail_point!("circular/in-next");
        }
        self.current.append(frame)?;
        while self.kept + length > self.size
            && let Some(oldest) = self.lengths.pop_front()
        {
            self.kept -= u64::from(oldest);
        }
        self.lengths.push_back(short);
        self.kept += length;
        Ok(true)
    }

    /// Whether the second file has all that is kept, so that it can take the place of the first.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let next = self.next.as_ref();
        next.is_some_and(|next| next.frame_bytes() >= self.kept)
    }

    /// Puts the second file in the place of the first, if it is due. The next frame goes to another place of the file then, and the file
    /// is another one under the same name. `announce` gets what the second file is before it takes the place.
    ///
    /// # Errors
    /// When the system refuses. The first file stays then, and goes on.
    pub fn turn(&mut self, announce: impl FnOnce(&Metadata)) -> Result<(), WriteError> {
        if !self.is_due() {
            return Ok(());
        }
        if let Some(next) = &mut self.next {
            announce(&next.metadata()?);
            next.take_place()?;
        }
        if let Some(next) = self.next.take() {
            self.current = next.into_spool();
        }
        fail_point!("circular/turned");
        Ok(())
    }

    /// Writes the description again, in place. Where it does not fit, the old one stays until the file is another one.
    ///
    /// # Errors
    /// When the system refuses to write.
    pub fn describe(&mut self, description: &Description) -> Result<(), WriteError> {
        self.description.clone_from(description);
        self.current.describe(description)?;
        if let Some(next) = &mut self.next {
            next.spool().describe(description)?;
        }
        Ok(())
    }

    /// Writes the file with the final description, the frames that are kept and a checksum, and puts it in its place.
    ///
    /// # Errors
    /// When it cannot be written or renamed. The frames are then still in [`Self::temporary_path`].
    pub fn finish(mut self, description: &Description) -> Result<(), WriteError> {
        if let Some(next) = self.next.take() {
            next.discard();
        }
        let older = self.current.frame_bytes() - self.kept;
        self.current.finish_from(older, description)
    }

    /// Leaves no file.
    pub fn discard(mut self) {
        if let Some(next) = self.next.take() {
            next.discard();
        }
        let path = self.current.temporary_path().to_owned();
        drop(self.current);
        let _ = fs::remove_file(path);
    }
}
