//! The file that a live recording streams into.
//!
//! A recording may end at any moment: a crash, SIGKILL, a full disk. So the file is a good trace file at every
//! moment, and every frame that was finished is in it:
//!
//! - The description is in a region at the front with room to grow, so that it can be rewritten in place
//!   when the final status, hits, late tracepoints and modules are known. The room is filled with blank
//!   `tdesc` lines: blanks after the end of the target description, which no reader minds.
//! - The kernel may stop a write at a page's end when the process is killed. So every page of the region
//!   starts with a new line, and a description written halfway is still one of whole lines.
//! - Frames go through a shared mapping, a window of a few MiB at a time, so that they are in the kernel's
//!   hands at once, without a system call for each. A window is reserved on the disk before it is mapped: a
//!   full disk is an error and never SIGBUS. Windows passed are unmapped, so that memory stays small. Many
//!   frames that come at once are written by one system call instead, all but the first one's number.
//! - What follows the last frame is zero, which is the end marker. A frame's number is stored last: until
//!   then the frame reads as the end.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use crc32fast::Hasher;
use memmap2::{MmapMut, MmapOptions};
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;

use crate::checksum::Checksum;
use crate::description::{Description, HEADER};
use crate::follow::GROWING;
use crate::unnamed::{begin_beside, name_beside, unnamed, unnamed_beside};
use crate::write::{END_MARKER, TraceFileWriter, WriteError, check_frame, is_full, put_in_place};
use tracewire_fail_point::fail_point;

/// What the file is called that takes the place of another one, after its name, just before it does.
const NEXT: &str = ".recording.next";

/// The unit in which the kernel may stop a write. Where pages are larger, that is a multiple of it.
const PAGE: u64 = 4096;

/// How much is reserved and mapped at a time.
const WINDOW: u64 = 4 << 20;

/// How much room the description has to grow.
const ROOM: u64 = 32 << 10;

/// How much there is in a small file ([`Spool::create_small`]): twenty libraries may be loaded meanwhile.
const SMALL_ROOM: u64 = 4 << 10;

/// How much more for each tracepoint: the line with its hits is added at the end of the run.
const USAGE: u64 = 64;

/// Up to how many bytes of frames a finished file is copied, without the room, instead of left in place.
const COPIED: u64 = 8 << 20;

/// So many bytes of room are left in a finished file. To copy it costs more.
const LEFT: u64 = SMALL_ROOM + PAGE;

/// So many bytes of frames at once are written and not put into the mapping, which costs a page fault for each page.
const LARGE: usize = 32 << 10;

/// So many bytes are copied from file to file at a time: the buffer stays in the cache of the processor.
const COPIED_AT_ONCE: u64 = 256 << 10;

/// Room after every frame, for the end marker and the checksum.
const TAIL: u64 = (END_MARKER.len() + Checksum::LINE) as u64;

/// A trace file that grows while a run goes on, and is a good one at every moment.
#[derive(Debug)]
pub struct Spool {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    /// Where the frames start.
    frames_start: u64,
    /// Where the next frame goes.
    end: u64,
    window: Option<Window>,
    /// Up to where the disk has room for the file, from the next frame on. It is the end of a page.
    reserved: u64,
    /// Of the frames; none where they are copied into a file that has one.
    sum: Option<Hasher>,
    finished: bool,
}

/// A file that is to take the place of another one.
#[derive(Debug)]
pub(crate) struct Successor {
    spool: Spool,
    /// Its name until then; none where it has none.
    name: Option<PathBuf>,
}

impl Successor {
    /// The file, to write to it.
    pub(crate) const fn spool(&mut self) -> &mut Spool {
        &mut self.spool
    }

    /// How many bytes of frames there are.
    pub(crate) const fn frame_bytes(&self) -> u64 {
        self.spool.frame_bytes()
    }

    /// What the system says of the file.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn metadata(&self) -> Result<Metadata, WriteError> {
        let metadata = self.spool.file.metadata();
        metadata.map_err(WriteError::system("look at", &self.spool.temporary))
    }

    /// Takes the place of the other one, which goes. At every moment, one of the two has the name.
    ///
    /// # Errors
    /// When it cannot be named.
    pub(crate) fn take_place(&mut self) -> Result<(), WriteError> {
        let beside = match self.name.take() {
            Some(name) => name,
            None => name_beside(&self.spool.file, &self.spool.path, NEXT)?,
        };
        fail_point!("spool/successor-named");
        let place = &self.spool.temporary;
        if let Err(error) = fs::rename(&beside, place) {
            let error = WriteError::system("write", place)(error);
            self.name = Some(beside);
            return Err(error);
        }
        fail_point!("spool/succeeded");
        Ok(())
    }

    /// The file, which has taken the place.
    pub(crate) fn into_spool(self) -> Spool {
        self.spool
    }

    /// It will not be needed.
    pub(crate) fn discard(self) {
        if let Some(name) = self.name {
            let _ = fs::remove_file(name);
        }
    }
}

/// A mapped part of the file.
#[derive(Debug)]
struct Window {
    start: u64,
    map: MmapMut,
}

impl Spool {
    /// Begins a file beside `path` (`PATH.recording`), which takes its place at [`Self::finish`].
    ///
    /// # Errors
    /// When no file can be made in the folder, or the disk is full.
    pub fn create(path: impl AsRef<Path>, description: &Description) -> Result<Self, WriteError> {
        Self::begin_beside(path.as_ref(), description, ROOM, lock)
    }

    /// As [`Self::create`], of a file that is to be small. There is little room for the description to grow, and what it does not need
    /// stays in the finished file: nothing is copied, and no file is removed. ext4 takes long to make files where many were removed.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_small(
        path: impl AsRef<Path>,
        description: &Description,
    ) -> Result<Self, WriteError> {
        Self::begin_beside(path.as_ref(), description, SMALL_ROOM, lock)
    }

    /// As [`Self::create`], of a file whose place another one will take. It cannot be followed.
    pub(crate) fn create_for_a_time(
        path: &Path,
        description: &Description,
    ) -> Result<Self, WriteError> {
        let mut spool = Self::begin_beside(path, description, ROOM, |_| {})?;
        spool.sum = None;
        Ok(spool)
    }

    /// The file gets its name when its description is written: from then on it is a good trace file.
    fn begin_beside(
        path: &Path,
        description: &Description,
        room: u64,
        lock: impl FnOnce(&File),
    ) -> Result<Self, WriteError> {
        let begin = |file| {
            lock(&file);
            Self::begin(file, path.to_owned(), path.to_owned(), description, room)
        };
        let (name, mut spool) = begin_beside(path, GROWING, begin, |spool| &spool.file)?;
        spool.temporary = name;
        fail_point!("spool/named");
        Ok(spool)
    }

    /// Begins a file without a name, which goes with the process unless [`Self::finish_as`] gives it one in this
    /// folder, or in another one of the same file system.
    ///
    /// # Errors
    /// When no file can be made in the folder, when its file system has none without names, or when the disk is full.
    pub fn create_unnamed(
        folder: impl AsRef<Path>,
        description: &Description,
    ) -> Result<Self, WriteError> {
        let folder = folder.as_ref();
        let file = unnamed(folder).map_err(WriteError::system("create a file in", folder))?;
        let (temporary, path) = (folder.to_owned(), folder.to_owned());
        Self::begin(file, temporary, path, description, ROOM)
    }

    /// Begins the file that is to take the place of this one. Until then it has no name and goes with the process, where the
    /// file system has files without names.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub(crate) fn successor(&self, description: &Description) -> Result<Successor, WriteError> {
        let (file, name) = unnamed_beside(&self.path, NEXT)?;
        let (temporary, path) = (self.temporary.clone(), self.path.clone());
        let spool = Self::begin(file, temporary, path, description, ROOM);
        if let (Err(_), Some(name)) = (&spool, &name) {
            let _ = fs::remove_file(name);
        }
        let mut spool = spool?;
        spool.sum = None;
        Ok(Successor { spool, name })
    }

    fn begin(
        file: File,
        temporary: PathBuf,
        path: PathBuf,
        description: &Description,
        room: u64,
    ) -> Result<Self, WriteError> {
        let front = match lay_out(description, u64::MAX) {
            // Without a target description there is nothing to hide the room in.
            Some(front) if description.target_xml().is_some() => {
                let room = room + USAGE * description.tracepoints().len() as u64;
                let size = (front.len() as u64 + room).next_multiple_of(PAGE);
                lay_out(description, size)
            }
            front => front,
        };
        let front = front.unwrap_or_else(|| plain(description));
        fail_point!("spool/laid-out");
        file.write_all_at(&front, 0)
            .and_then(|()| allocate(&file, front.len() as u64, TAIL))
            .map_err(WriteError::system("write", &temporary))?;
        Ok(Self {
            file,
            temporary,
            path,
            frames_start: front.len() as u64,
            end: front.len() as u64,
            window: None,
            reserved: 0,
            sum: Some(Hasher::new()),
            finished: false,
        })
    }

    /// Where the file is while it grows.
    #[must_use]
    pub fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// Where the next frame goes, counted from the file's start. There are zeros until it is whole.
    #[must_use]
    pub const fn frames_end(&self) -> u64 {
        self.end
    }

    /// How many bytes of frames there are.
    #[must_use]
    pub const fn frame_bytes(&self) -> u64 {
        self.end - self.frames_start
    }

    /// Adds one frame, or several, as [`crate::FrameEncoder`] writes them.
    ///
    /// # Errors
    /// When the disk is full ([`WriteError::is_full`]), or the bytes are no frame. The frames before stay
    /// good, and the file can be finished.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), WriteError> {
        check_frame(frame)?;
        if frame.len() >= LARGE {
            return self.append_large(frame);
        }
        let (number, rest) = frame.split_at(2);
        let end = self.end + frame.len() as u64;
        let fits = |window: &Window| end + TAIL <= window.start + window.map.len() as u64;
        if !self.window.as_ref().is_some_and(fits) {
            self.window = None;
            fail_point!("spool/window-closed");
            let window = self.open_window(frame.len() as u64 + TAIL);
            self.window = Some(window.map_err(WriteError::system("write", &self.temporary))?);
            fail_point!("spool/window-open");
        }
        let place = self.window.as_mut().and_then(|window| {
            let start = usize::try_from(self.end - window.start).ok()?;
            window.map.get_mut(start..start + frame.len())
        });
        let place = place.ok_or(WriteError::NotAFrame(frame.len()))?;
        let (number_place, rest_place) = place.split_at_mut(2);
        rest_place.copy_from_slice(rest);
        fail_point!("spool/frame-copied");
        fence(Ordering::Release);
        number_place.copy_from_slice(number);
        fail_point!("spool/number-written");
        if let Some(sum) = &mut self.sum {
            sum.update(frame);
        }
        self.end = end;
        Ok(())
    }

    /// Adds many frames by one call of the system, and the number of the first one last: where the call is stopped half-way,
    /// none of them is there.
    fn append_large(&mut self, frames: &[u8]) -> Result<(), WriteError> {
        let (number, rest) = frames.split_at(2);
        self.reserve(frames.len() as u64 + TAIL)
            .and_then(|()| self.file.write_all_at(rest, self.end + 2))
            .and_then(|()| self.write_number(number))
            .map_err(WriteError::system("write", &self.temporary))?;
        if let Some(sum) = &mut self.sum {
            sum.update(frames);
        }
        self.end += frames.len() as u64;
        Ok(())
    }

    /// Writes the number of the next frame. Both bytes are there or none, also where a page ends between them.
    fn write_number(&self, number: &[u8]) -> io::Result<()> {
        let start = self.end - self.end % PAGE;
        let mut window = self.map(start, 2 * PAGE)?;
        let place = (self.end - start) as usize;
        fence(Ordering::Release);
        window.map[place..place + 2].copy_from_slice(number);
        Ok(())
    }

    /// Adds the frames that another file has from an offset on. This file must have no reader meanwhile: the frames are whole at the end only.
    ///
    /// # Errors
    /// When the disk is full ([`WriteError::is_full`]), or the system refuses. This file is as it was then.
    pub(crate) fn append_from(&mut self, other: &Self, start: u64) -> Result<(), WriteError> {
        debug_assert!(self.sum.is_none(), "the sum of this file is not kept");
        self.window = None;
        let mut buffer = vec![0; COPIED_AT_ONCE.min(other.end.saturating_sub(start)) as usize];
        let (mut from, mut to) = (start, self.end);
        while from < other.end {
            buffer.truncate((other.end - from).min(COPIED_AT_ONCE) as usize);
            other
                .file
                .read_exact_at(&mut buffer, from)
                .map_err(WriteError::system("read", &other.temporary))?;
            self.file
                .write_all_at(&buffer, to)
                .map_err(WriteError::system("write", &self.temporary))?;
            from += buffer.len() as u64;
            to += buffer.len() as u64;
        }
        allocate(&self.file, to, TAIL).map_err(WriteError::system("write", &self.temporary))?;
        self.end = to;
        Ok(())
    }

    /// Makes sure that the disk has room for `least` bytes from the next frame on, and mostly for more.
    fn reserve(&mut self, least: u64) -> io::Result<()> {
        let needed = self.end + least;
        if needed <= self.reserved {
            return Ok(());
        }
        let start = self.end - self.end % PAGE;
        let least = (needed - start).next_multiple_of(PAGE);
        let mut size = least.max(WINDOW);
        while let Err(error) = allocate(&self.file, start, size) {
            // What is left of the disk, of a quota, or up to the largest size of a file may still do for this frame.
            if size <= least || !is_full(&error) {
                return Err(error);
            }
            size = (size / 4).next_multiple_of(PAGE).max(least);
        }
        self.reserved = start + size;
        Ok(())
    }

    /// Maps the place of the next frame and what comes after it, `least` bytes at least.
    fn open_window(&mut self, least: u64) -> io::Result<Window> {
        self.reserve(least)?;
        fail_point!("spool/window-reserved");
        let start = self.end - self.end % PAGE;
        // A file that has filled a window fills the next one, too. The kernel makes the pages of a large write together, in a third of
        // the time of a fault for each, and maps them together then.
        if self.frame_bytes() >= WINDOW {
            self.write_zeros(self.end)?;
        }
        self.map(start, self.reserved - start)
    }

    /// Writes zeros from there on to the end of what is reserved, as it reads already.
    fn write_zeros(&self, from: u64) -> io::Result<()> {
        static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
        let mut at = from;
        while at < self.reserved {
            let length = (self.reserved - at).min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..length as usize], at)?;
            at += length;
        }
        Ok(())
    }

    /// Maps a part of what is reserved.
    fn map(&self, start: u64, size: u64) -> io::Result<Window> {
        debug_assert!(start + size <= self.reserved, "the part is reserved");
        let length = usize::try_from(size).map_err(io::Error::other)?;
        let mut options = MmapOptions::new();
        options.offset(start).len(length);
        // SAFETY: the file is this process's own, made with `create_new`, and reserved to the part's end.
        // Nothing reads the map, so that no reference can see a byte change under it.
        let map = unsafe { options.map_mut(&self.file) }?;
        Ok(Window { start, map })
    }

    /// Writes the description again, in place. Gives whether it fits; where it does not, the old one stays, and
    /// [`Self::finish`] will copy the file.
    ///
    /// # Errors
    /// When the system refuses to write.
    pub fn describe(&mut self, description: &Description) -> Result<bool, WriteError> {
        let Some(front) = lay_out(description, self.frames_start) else {
            return Ok(false);
        };
        fail_point!("spool/describe");
        self.file
            .write_all_at(&front, 0)
            .map_err(WriteError::system("write", &self.temporary))?;
        fail_point!("spool/described");
        Ok(true)
    }

    /// Writes the final description, the end marker and the checksum, and puts the file in its place. A small file, and one
    /// whose description does not fit any more, is copied without the room for growing.
    ///
    /// # Errors
    /// When it cannot be written or renamed. The frames are then still in [`Self::temporary_path`].
    pub fn finish(mut self, description: &Description) -> Result<(), WriteError> {
        self.window = None;
        let room = self
            .frames_start
            .saturating_sub(description.as_bytes().len() as u64);
        let small = self.frame_bytes() <= COPIED && room > LEFT;
        fail_point!("spool/finish");
        let copied = if small {
            self.copy(description)
        } else {
            Ok(false)
        };
        if !matches!(copied, Ok(true)) {
            if self.describe(description)? {
                self.cut()
                    .and_then(|()| self.seal())
                    .map_err(WriteError::system("write", &self.temporary))?;
                fail_point!("spool/sealed");
                put_in_place(&self.temporary, &self.path)
                    .map_err(WriteError::system("write", &self.path))?;
            } else if small {
                copied?;
            } else {
                self.copy(description)?;
            }
        }
        fail_point!("spool/in-place");
        self.finished = true;
        Ok(())
    }

    /// As [`Self::finish`], for a file without a name: puts it at `path`. Nothing is copied, however large the file
    /// is. Gives whether the description fits; where it does not, there is no file.
    ///
    /// # Errors
    /// When it cannot be written or named, as in a folder of another file system.
    pub fn finish_as(
        mut self,
        path: impl AsRef<Path>,
        description: &Description,
    ) -> Result<bool, WriteError> {
        let path = path.as_ref();
        self.window = None;
        if !self.describe(description)? {
            return Ok(false);
        }
        self.cut()
            .and_then(|()| self.seal())
            .map_err(WriteError::system("write", path))?;
        let temporary = name_beside(&self.file, path, ".part")?;
        let named = put_in_place(&temporary, path);
        if named.is_err() {
            // It is there only if the renaming has failed.
            let _ = fs::remove_file(&temporary);
        }
        named.map_err(WriteError::system("write", path))?;
        self.finished = true;
        Ok(true)
    }

    /// Puts a finished file in its place that has the frames from `skipped` bytes of them on, and removes this one.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub(crate) fn finish_from(
        mut self,
        skipped: u64,
        description: &Description,
    ) -> Result<(), WriteError> {
        self.window = None;
        fail_point!("spool/finish-newest");
        self.copy_from(skipped, description)?;
        self.finished = true;
        Ok(())
    }

    /// Writes the whole file again and removes this one.
    fn copy(&self, description: &Description) -> Result<bool, WriteError> {
        self.copy_from(0, description)
    }

    fn copy_from(&self, skipped: u64, description: &Description) -> Result<bool, WriteError> {
        let skipped = skipped.min(self.frame_bytes());
        let mut writer = TraceFileWriter::create(&self.path, description)?;
        let mut file = &self.file;
        fail_point!("spool/copy-begun");
        file.seek(SeekFrom::Start(self.frames_start + skipped))
            .map_err(WriteError::system("read", &self.temporary))?;
        writer.append_from(&mut io::Read::take(file, self.frame_bytes() - skipped))?;
        fail_point!("spool/copy-filled");
        writer.finish()?;
        fail_point!("spool/copied");
        // The file is in its place; one that cannot be removed does no harm.
        let _ = fs::remove_file(&self.temporary);
        Ok(true)
    }

    /// Cuts off what is reserved beyond the end marker. The marker is there before: a tracer that is killed leaves a whole file.
    fn cut(&self) -> io::Result<()> {
        self.file.write_all_at(&END_MARKER, self.end)?;
        fail_point!("spool/cut");
        self.file.set_len(self.end + END_MARKER.len() as u64)
    }

    /// Writes the checksum after the end marker.
    fn seal(&self) -> io::Result<()> {
        let front = usize::try_from(self.frames_start).map_err(io::Error::other)?;
        let mut bytes = vec![0; front];
        self.file.read_exact_at(&mut bytes, 0)?;
        fail_point!("spool/seal");
        let mut sum = Hasher::new();
        sum.update(&bytes);
        debug_assert!(self.sum.is_some(), "the frames are copied");
        if let Some(of_frames) = &self.sum {
            sum.combine(of_frames);
        }
        sum.update(&END_MARKER);
        let line = format!("{}\n", Checksum(sum.finalize()));
        self.file
            .write_all_at(line.as_bytes(), self.end + END_MARKER.len() as u64)
    }
}

/// Shows those who follow a file that it grows.
fn lock(file: &File) {
    // Where a file system has no locks, the recording is a good one, and only those who follow it cannot.
    let _ = file.try_lock();
}

/// A spool that is not finished stays where it is, as a good file.
impl Drop for Spool {
    fn drop(&mut self) {
        if !self.finished {
            self.window = None;
            // It reads well with the reserved zeros too.
            let _ = self.cut();
        }
    }
}

/// Makes sure that the disk has room for a part of the file, which reads as zero where it is new.
fn allocate(file: &File, start: u64, size: u64) -> io::Result<()> {
    let offsets = i64::try_from(start).ok().zip(i64::try_from(size).ok());
    let (start, size) = offsets.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    loop {
        match posix_fallocate(file, start, size) {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The header, the description and the empty line, without room.
fn plain(description: &Description) -> Vec<u8> {
    [HEADER, description.as_bytes(), b"\n"].concat()
}

/// The shortest line that takes up room.
const SHORTEST: u64 = "tdesc \n".len() as u64;

/// The longest one.
const LONGEST: u64 = crate::description::MAX_LINE as u64 + 1;

/// The header, the description and the empty line in exactly `size` bytes, room filled with blank lines, every
/// page starting with a new line; none when they do not fit. A `size` of `u64::MAX` takes what is needed.
fn lay_out(description: &Description, size: u64) -> Option<Vec<u8>> {
    if description.target_xml().is_none() {
        let front = plain(description);
        return (size == u64::MAX || size == front.len() as u64).then_some(front);
    }
    let mut front = HEADER.to_vec();
    let last = size - 1;
    for line in description.lines() {
        let length = line.text.len() as u64 + 1;
        loop {
            let at = front.len() as u64;
            let page_end = (at + 1).next_multiple_of(PAGE).min(last);
            let left = page_end.checked_sub(at)?;
            if length == left || length + SHORTEST <= left {
                break;
            }
            if left < SHORTEST || length > PAGE - SHORTEST {
                return None;
            }
            fill(&mut front, left);
        }
        front.extend_from_slice(line.text);
        front.push(b'\n');
    }
    while size != u64::MAX && (front.len() as u64) < last {
        let at = front.len() as u64;
        let page_end = (at + 1).next_multiple_of(PAGE).min(last);
        fill(&mut front, page_end - at);
    }
    front.push(b'\n');
    Some(front)
}

/// Adds blank lines of `room` bytes in all, which is none or enough for one.
fn fill(front: &mut Vec<u8>, mut room: u64) {
    while room > 0 {
        let mut length = room.min(LONGEST);
        if (1..SHORTEST).contains(&(room - length)) {
            length -= SHORTEST;
        }
        front.extend_from_slice(b"tdesc ");
        front.resize(front.len() + (length - SHORTEST) as usize, b' ');
        front.push(b'\n');
        room -= length;
    }
}
