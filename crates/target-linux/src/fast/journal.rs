//! What the next tracer has to know if this one is killed: in which bytes of the program there are jumps,
//! which counters of markers are one too high, what the frames in the rings mean, and which file the others are in.
//!
//! It is behind the rings, in the memory that the program and we share, and so lives as long as the program does.
//! An entry is complete before its jump is written, and goes when the jump is out. A counter's comes after it is raised and
//! goes before it is lowered: one that stays too high costs some time, one that is too low takes a marker from others.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::SharedMemory;
use crate::maps::own_number;
use crate::ptrace::Tid;
use tracewire_fail_point::fail_point;
use tracewire_tracefile::lean::{LEAN_HEADER, LeanFile, is_lean};

/// The first word of the journal.
const MAGIC: u64 = u64::from_le_bytes(*b"TWLEFT\x03\0");
/// The first word of a journal that nobody is to read.
const CLOSED: u64 = 0;
/// The first word of the journal of memory that no pad uses.
const UNUSED: u64 = u64::from_le_bytes(*b"TWREADY\0");
/// How many jumps there may be; more are not written.
pub(super) const JUMPS: u64 = 262_142;
/// The longest note, in bytes; a longer one is not written.
const NOTE: u64 = 1 << 20;
/// The most bytes that a jump is written over: its opcode and displacement, and prefixes.
const MOST_BYTES: usize = 15;

mod header {
    pub(super) const MAGIC: u64 = 0;
    /// In microseconds since 1970.
    pub(super) const MADE: u64 = 8;
    /// The length of the note in each of two places, so that one is whole at every moment; and which one that is.
    pub(super) const LENGTHS: u64 = 16;
    pub(super) const CURRENT: u64 = 32;
    /// Which of the two places for files is current.
    pub(super) const CURRENT_FILE: u64 = 40;
    /// Whose it is: a child by fork has the memory, too. The number of the process in its own namespace, which every tracer knows.
    pub(super) const PROCESS: u64 = 48;
}

/// An entry: the site, how many bytes, what was there, what is there. For a counter: its address, no bytes, and the
/// process in their place, for a child has the journal, too, but counters of its own.
mod entry {
    pub(super) const START: u64 = 80;
    pub(super) const SIZE: u64 = 40;
    pub(super) const SITE: u64 = 0;
    pub(super) const LENGTH: u64 = 8;
    pub(super) const ORIGINAL: u64 = 9;
    pub(super) const WRITTEN: u64 = 24;
}

const NOTES: u64 = entry::START + JUMPS * entry::SIZE;
const FILES: u64 = NOTES + 2 * NOTE;
/// The room for the name of a file and what it is; there are two places.
const FILE_SIZE: u64 = 4096;
/// The size of a journal, in bytes: whole pages.
pub(crate) const SIZE: u64 = FILES + 2 * FILE_SIZE;

/// The file that frames go to.
mod file {
    pub(super) const LENGTH: u64 = 0;
    pub(super) const DEVICE: u64 = 8;
    pub(super) const INODE: u64 = 16;
    pub(super) const NAME: u64 = 24;
}
const _: () = assert!(SIZE.is_multiple_of(4096));

/// The journal of the jumps of a process, in the tracer that makes them.
#[derive(Debug)]
pub(super) struct Journal {
    part: Part,
    /// The entries of jumps by their sites.
    places: HashMap<u64, u64>,
    /// The entries of counters by their markers, several of which may have one counter.
    counters: HashMap<u64, u64>,
    free: Vec<u64>,
    fresh: u64,
}

impl Journal {
    /// Begins one at an offset, which is a multiple of 8.
    pub(super) fn create(memory: &SharedMemory, start: u64, process: Tid) -> Self {
        let part = Part {
            memory: memory.clone(),
            start,
        };
        let journal = Self {
            part,
            places: HashMap::new(),
            counters: HashMap::new(),
            free: Vec::new(),
            fresh: 0,
        };
        let made = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64);
        journal.set(header::MADE, made);
        journal.set(header::PROCESS, own_number(process));
        fail_point!("journal/dated");
        journal.set(header::MAGIC, MAGIC);
        fail_point!("journal/begun");
        journal
    }

    /// Notes in memory that ends with room for a journal that no pad uses it.
    pub(super) fn note_unused(memory: &SharedMemory) {
        let part = Part {
            memory: memory.clone(),
            start: memory.size() as u64 - SIZE,
        };
        part.set(header::MAGIC, UNUSED);
    }

    /// The memory that it is in.
    pub(super) const fn memory(&self) -> &SharedMemory {
        &self.part.memory
    }

    /// The counter of a marker, at this address of a process, has been raised.
    pub(super) fn add_counter(&mut self, marker: u64, address: u64, process: u32) {
        if let Some(place) = self.add_entry(address, 0, &process.to_le_bytes(), &[]) {
            self.counters.insert(marker, place);
        }
    }

    /// The counter of a marker is about to be lowered.
    pub(super) fn remove_counter(&mut self, marker: u64) {
        let place = self.counters.remove(&marker);
        self.remove_entry(place);
    }

    /// A jump is about to be written.
    pub(super) fn add(&mut self, site: u64, original: &[u8], written: &[u8]) {
        let length = original.len().min(MOST_BYTES);
        let [original, written] =
            [original, written].map(|bytes| bytes.get(..length).unwrap_or_default());
        if let Some(place) = self.add_entry(site, length as u8, original, written) {
            self.places.insert(site, place);
        }
    }

    /// The place of the new entry; none where there is no room for it.
    fn add_entry(
        &mut self,
        address: u64,
        length: u8,
        original: &[u8],
        written: &[u8],
    ) -> Option<u64> {
        let fresh = self.fresh;
        let place = self.free.pop().or((fresh < JUMPS).then_some(fresh))?;
        if place == fresh {
            self.fresh += 1;
        }
        let at = entry::START + place * entry::SIZE;
        self.put(at + entry::LENGTH, &[length]);
        self.put(at + entry::ORIGINAL, original);
        self.put(at + entry::WRITTEN, written);
        fail_point!("journal/entry-filled");
        self.set(at + entry::SITE, address);
        fail_point!("journal/entry-made");
        Some(place)
    }

    /// A jump is out.
    pub(super) fn remove(&mut self, site: u64) {
        let place = self.places.remove(&site);
        self.remove_entry(place);
    }

    fn remove_entry(&mut self, place: Option<u64>) {
        if let Some(place) = place {
            self.set(entry::START + place * entry::SIZE + entry::SITE, 0);
            fail_point!("journal/entry-struck");
            self.free.push(place);
        }
    }

    /// Says what the frames mean.
    pub(super) fn note(&self, text: &[u8]) {
        if text.len() as u64 > NOTE {
            return;
        }
        let other = 1 - self.word(header::CURRENT).load(Ordering::Acquire).min(1);
        self.put(NOTES + other * NOTE, text);
        fail_point!("journal/note-written");
        self.set(header::LENGTHS + 8 * other, text.len() as u64);
        self.set(header::CURRENT, other);
        fail_point!("journal/noted");
    }

    /// What says which file frames go to.
    pub(super) fn frames_file(&self) -> FramesFileNote {
        FramesFileNote(self.part.clone())
    }

    /// Nobody reads it again, unless it has a jump or a counter that could not be taken out.
    pub(super) fn close(&self) {
        if self.places.is_empty() && self.counters.is_empty() {
            self.set(header::MAGIC, CLOSED);
        }
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        self.part.word(at)
    }

    fn set(&self, at: u64, value: u64) {
        self.part.set(at, value);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.part.put(at, bytes);
    }
}

/// Where a process has its journal.
#[derive(Clone, Debug)]
struct Part {
    memory: SharedMemory,
    start: u64,
}

impl Part {
    fn word(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= SIZE);
        // SAFETY: the memory has a journal's size behind `start`, and stays mapped as long as `self`; all accesses of both sides
        // are atomic.
        unsafe {
            let start = self.memory.as_ptr().as_ptr().add(self.start as usize);
            AtomicU64::from_ptr(start.add(at as usize).cast())
        }
    }

    fn set(&self, at: u64, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        debug_assert!(at + bytes.len() as u64 <= SIZE);
        for (offset, byte) in bytes.iter().enumerate() {
            // SAFETY: as in `word`.
            let to = unsafe {
                let start = self.memory.as_ptr().as_ptr().add(self.start as usize);
                AtomicU8::from_ptr(start.add(at as usize + offset))
            };
            to.store(*byte, Ordering::Relaxed);
        }
    }
}

/// The place in the memory of a program for the name of the file that frames go to.
#[derive(Clone, Debug)]
pub struct FramesFileNote(Part);

impl FramesFileNote {
    /// Says which file frames go to from now on, for a tracer that comes after us. No frame is on its way into a file meanwhile.
    pub fn name(&self, path: &Path) {
        if let Ok(metadata) = path.metadata() {
            self.announce(path, &metadata);
            self.confirm();
        }
    }

    /// Says that another file will take the place at this path. Until [`Self::confirm`], the one that is there is meant: the last one,
    /// or this one.
    pub fn announce(&self, path: &Path, metadata: &Metadata) {
        let name = path.as_os_str().as_bytes();
        let place = FILES + self.other() * FILE_SIZE;
        self.0.set(place + file::LENGTH, 0);
        if name.len() as u64 > FILE_SIZE - file::NAME {
            return;
        }
        self.0.set(place + file::DEVICE, metadata.dev());
        self.0.set(place + file::INODE, metadata.ino());
        self.0.put(place + file::NAME, name);
        fail_point!("journal/file-named");
        self.0.set(place + file::LENGTH, name.len() as u64);
        fail_point!("journal/file-announced");
    }

    /// Says that the file that was announced last has taken its place.
    pub fn confirm(&self) {
        self.0.set(header::CURRENT_FILE, self.other());
        fail_point!("journal/file-confirmed");
    }

    /// The place that is not current.
    fn other(&self) -> u64 {
        1 - self
            .0
            .word(header::CURRENT_FILE)
            .load(Ordering::Acquire)
            .min(1)
    }
}

/// A jump in a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JournaledJump {
    pub(crate) site: u64,
    pub(crate) original: Vec<u8>,
    pub(crate) written: Vec<u8>,
}

/// A counter that is one too high.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counter {
    pub(crate) address: u64,
    pub(crate) process: u32,
    /// Where its entry is in the journal: zeros there remove it.
    pub(crate) entry: u64,
}

/// The file that a killed tracer wrote frames to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FramesFile {
    /// Its name when the tracer ran.
    pub path: PathBuf,
    device: u64,
    inode: u64,
}

impl FramesFile {
    /// The one of two files that is there. The tracer may have been killed when one was taking the place of the other.
    fn of(journal: &[u8], current: u64) -> Option<Self> {
        let current = current.min(1);
        let [current, other] = [current, 1 - current].map(|place| Self::at(journal, place));
        match (current, other) {
            (None, other) => other,
            (Some(current), Some(other)) if current.open().is_none() && other.open().is_some() => {
                Some(other)
            }
            (current, _) => current,
        }
    }

    fn at(journal: &[u8], place: u64) -> Option<Self> {
        let start = FILES + place * FILE_SIZE;
        let word = |at: u64| {
            let bytes = journal.get((start + at) as usize..)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let length = word(file::LENGTH)?.min(FILE_SIZE - file::NAME) as usize;
        let name = journal
            .get((start + file::NAME) as usize..)?
            .get(..length)?;
        (length > 0).then_some(())?;
        Some(Self {
            path: PathBuf::from(OsStr::from_bytes(name)),
            device: word(file::DEVICE)?,
            inode: word(file::INODE)?,
        })
    }

    /// Opens the file; `None` if it is not there any more. The name is what a program's memory says, so nothing but a plain file is
    /// opened, and only if it is the very one.
    #[must_use]
    pub fn open(&self) -> Option<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&self.path)
            .ok()?;
        let metadata = file.metadata().ok()?;
        let is_same = (metadata.dev(), metadata.ino()) == (self.device, self.inode);
        (metadata.is_file() && is_same).then_some(file)
    }

    /// Whether a frame begins at this place of the file; `None` if it is not there any more. In a lean recording the place of a frame
    /// is its number.
    #[must_use]
    pub fn has_frame(&self, offset: u64) -> Option<bool> {
        let mut file = self.open()?;
        let mut header = [0; LEAN_HEADER.len()];
        if file.read_exact_at(&mut header, 0).is_ok() && is_lean(&header) {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).ok()?;
            return Some(LeanFile::parse(&bytes).is_ok_and(|lean| offset < lean.frames()));
        }
        let mut number = [0; 2];
        match file.read_exact_at(&mut number, offset) {
            Ok(()) => Some(number != [0; 2]),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Some(false),
            Err(_) => None,
        }
    }
}

/// The first words of a journal.
pub(crate) type JournalHead = [u8; header::PROCESS as usize + 8];

fn word_of(head: JournalHead, at: u64) -> u64 {
    let bytes = head.get(at as usize..).and_then(<[u8]>::first_chunk);
    debug_assert!(bytes.is_some(), "the head has the word");
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}

/// What a journal says, read by another tracer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    pub(crate) made: u64,
    process: u64,
    pub(crate) jumps: Vec<JournaledJump>,
    pub(crate) counters: Vec<Counter>,
    pub(crate) note: Vec<u8>,
    pub(crate) file: Option<FramesFile>,
}

impl Reading {
    /// Reads the bytes of a journal; `None` if they are none.
    pub(crate) fn of(journal: &[u8]) -> Option<Self> {
        let word = |at: u64| {
            let bytes = journal.get(at as usize..)?.first_chunk::<8>()?;
            Some(u64::from_le_bytes(*bytes))
        };
        if word(header::MAGIC)? != MAGIC {
            return None;
        }
        let (mut jumps, mut counters) = (Vec::new(), Vec::new());
        for place in 0..JUMPS {
            let at = entry::START + place * entry::SIZE;
            let Some(bytes) = journal.get(at as usize..(at + entry::SIZE) as usize) else {
                break;
            };
            let part = |start: u64, length: usize| &bytes[start as usize..][..length];
            let site = u64::from_le_bytes(*bytes.first_chunk()?);
            let length = usize::from(bytes[entry::LENGTH as usize]).min(MOST_BYTES);
            if site == 0 {
                continue;
            }
            if length == 0 {
                counters.push(Counter {
                    address: site,
                    process: u32::from_le_bytes(*part(entry::ORIGINAL, 4).first_chunk()?),
                    entry: at,
                });
                continue;
            }
            jumps.push(JournaledJump {
                site,
                original: part(entry::ORIGINAL, length).to_vec(),
                written: part(entry::WRITTEN, length).to_vec(),
            });
        }
        let current = word(header::CURRENT)?.min(1);
        let length = word(header::LENGTHS + 8 * current)?.min(NOTE);
        let note = (NOTES + current * NOTE) as usize;
        Some(Self {
            made: word(header::MADE)?,
            process: word(header::PROCESS)?,
            jumps,
            counters,
            note: journal.get(note..note + length as usize)?.to_vec(),
            file: FramesFile::of(journal, word(header::CURRENT_FILE)?),
        })
    }

    /// Whether it is of this process.
    pub(crate) fn is_of(&self, process: Tid) -> bool {
        self.process == own_number(process)
    }

    /// Whether these are the first words of a journal.
    pub(crate) fn is_begun(head: JournalHead) -> bool {
        word_of(head, header::MAGIC) == MAGIC
    }

    /// Whether these are the first words of the journal of a process.
    pub(crate) fn is_begun_by(head: JournalHead, process: Tid) -> bool {
        Self::is_begun(head) && word_of(head, header::PROCESS) == own_number(process)
    }

    /// Whether these are the first words of a journal of memory that no pad uses.
    pub(crate) fn is_of_unused(head: JournalHead) -> bool {
        word_of(head, header::MAGIC) == UNUSED
    }

    /// What to write over the start of a journal so that nobody reads it again.
    pub(crate) const fn closed() -> [u8; 8] {
        CLOSED.to_le_bytes()
    }
}
