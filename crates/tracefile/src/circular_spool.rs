//! The file of a live recording that keeps the newest frames.
//!
//! The file is a [`Spool`]: a good trace file at every moment, which grows. When it has twice as many bytes of frames as are to be kept,
//! a second file begins. The frames that come from then on are copied into it in blocks. When the second one has all frames that are to be
//! kept, it takes the place of the first, by one call that the kernel does as a whole. So the file has all frames that are to be kept at
//! every moment, and older ones of twice their size at most. Half of the bytes are written twice, never all at once while the program
//! waits.

use std::collections::VecDeque;
use std::fs::{self, Metadata};
use std::path::Path;

use nix::sys::statvfs::statvfs;
use tracewire_fail_point::fail_point;

use crate::description::Description;
use crate::spool::{Spool, Successor};
use crate::write::WriteError;

/// So many bytes are copied into the second file at once: a call of the system for each frame takes longer than the copy.
const BLOCK: u64 = 1 << 20;

/// A file with fewer bytes of frames gets no second one: a small buffer would change its file all the time.
const LEAST: u64 = 16 << 20;

/// How many times the bytes that are kept a file has when the second one begins. The more, the fewer bytes are written twice, and the more of
/// the disk is used.
const FULL: u64 = 2;

/// A trace file that grows while a run goes on, keeps the newest frames, and is a good one at every moment.
#[derive(Debug)]
pub struct CircularSpool {
    current: Spool,
    next: Option<Second>,
    /// How many bytes of frames are kept.
    size: u64,
    /// How long each frame is that is kept, the oldest first.
    lengths: VecDeque<u32>,
    kept: u64,
    description: Description,
}

/// The second file.
#[derive(Debug)]
struct Second {
    file: Successor,
    /// Where the frames that it gets start in the first file.
    start: u64,
}

impl Second {
    /// Where the first frame is in the first file that is not in this one.
    fn copied(&self) -> u64 {
        self.start + self.file.frame_bytes()
    }
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
        if self.next.is_none()
            && self.current.frame_bytes() >= self.size.saturating_mul(FULL).max(LEAST)
        {
            self.next = Some(Second {
                file: self.current.successor(&self.description)?,
                start: self.current.frames_end(),
            });
            fail_point!("circular/next-begun");
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

    /// Whether [`Self::turn`] has something to do.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let next = self.next.as_ref();
        next.is_some_and(|next| self.can_turn(next) || self.left(next) >= BLOCK)
    }

    /// How many bytes of frames are to be copied into the second file.
    const fn left(&self, next: &Second) -> u64 {
        self.current.frames_end() - next.start - next.file.frame_bytes()
    }

    /// Whether all that is kept came after the second file began.
    const fn can_turn(&self, next: &Second) -> bool {
        self.current.frames_end() - next.start >= self.kept
    }

    /// Copies what has come into the second file, and puts that in the place of the first if it has all that is kept. Gives whether
    /// it does: the next frame goes to another place of the file then, and the file is another one under the same name. `announce`
    /// gets what the second file is before it takes the place.
    ///
    /// # Errors
    /// When the disk is full ([`WriteError::is_full`]), or the system refuses. The first file stays then, and goes on.
    pub fn turn(&mut self, announce: impl FnOnce(&Metadata)) -> Result<bool, WriteError> {
        let is_due = self.is_due();
        let Some(mut next) = self.next.take_if(|_| is_due) else {
            return Ok(false);
        };
        let turned = self.turn_to(&mut next, announce);
        match turned {
            Ok(true) => {
                self.current = next.file.into_spool();
                fail_point!("circular/turned");
            }
            Ok(false) | Err(_) => self.next = Some(next),
        }
        turned
    }

    /// As [`Self::turn`] for the second file. Gives whether it has the place.
    fn turn_to(
        &self,
        next: &mut Second,
        announce: impl FnOnce(&Metadata),
    ) -> Result<bool, WriteError> {
        let copied = next.copied();
        next.file.spool().append_from(&self.current, copied)?;
        fail_point!("circular/in-next");
        if !self.can_turn(next) {
            return Ok(false);
        }
        announce(&next.file.metadata()?);
        next.file.take_place()?;
        Ok(true)
    }

    /// Writes the description again, in place. Where it does not fit, the old one stays until the file is another one.
    ///
    /// # Errors
    /// When the system refuses to write.
    pub fn describe(&mut self, description: &Description) -> Result<(), WriteError> {
        self.description.clone_from(description);
        self.current.describe(description)?;
        if let Some(next) = &mut self.next {
            next.file.spool().describe(description)?;
        }
        Ok(())
    }

    /// Writes the file with the final description, the frames that are kept and a checksum, and puts it in its place.
    ///
    /// # Errors
    /// When it cannot be written or renamed. The frames are then still in [`Self::temporary_path`].
    pub fn finish(mut self, description: &Description) -> Result<(), WriteError> {
        if let Some(next) = self.next.take() {
            next.file.discard();
        }
        let older = self.current.frame_bytes() - self.kept;
        self.current.finish_from(older, description)
    }

    /// Leaves no file.
    pub fn discard(mut self) {
        if let Some(next) = self.next.take() {
            next.file.discard();
        }
        let path = self.current.temporary_path().to_owned();
        drop(self.current);
        let _ = fs::remove_file(path);
    }
}
