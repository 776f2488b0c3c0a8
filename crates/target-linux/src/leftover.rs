//! What a tracer that was killed has left in a program: jumps, and frames in the rings that nobody has read.

use std::io;
use std::ptr::NonNull;

use tracewire_jump_pad::{PadFrame, RingReader, Shared};

use crate::fast::{JOURNAL_SIZE, Reading};
use crate::maps;
use crate::process::Process;

/// The name of the memory, as `/proc/PID/maps` shows it.
const NAME: &str = "/memfd:tracewire";
/// No larger memory is looked at, in bytes: rings have 2 GiB at most.
const LARGEST: u64 = 1 << 32;

/// What one killed tracer has left.
#[derive(Debug)]
pub struct Leftover {
    /// When it began, in microseconds since 1970-01-01 00:00 UTC.
    pub began: u64,
    /// The lines of the trace file's description, as it knew them last; empty if it did not say.
    pub description: Vec<u8>,
    copy: Copied,
    reading: Reading,
    address: u64,
    journal: u64,
}

impl Leftover {
    /// Gives out the frames that were in its rings, by time, and tells how many were begun and never finished.
    pub fn frames(&self, take: &mut dyn FnMut(&[u8])) -> u64 {
        // SAFETY: the copy is mapped as long as `self`, from the start of a page, and nobody else knows of it.
        let Ok(shared) = (unsafe { Shared::open(self.copy.start, self.copy.size as u64) }) else {
            return 0;
        };
        let mut reader = RingReader::new(&shared);
        let mut give = |frame: PadFrame<'_>| take(frame.bytes);
        reader.finish(&shared, &mut give).torn
    }
}

/// Memory of our own, from the start of a page.
#[derive(Debug)]
struct Copied {
    start: NonNull<u8>,
    size: usize,
}

impl Copied {
    fn new(size: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, size })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: it was mapped with this size, and nobody else has it while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

impl Process {
    /// What killed tracers have left here, the newest first. Their pads rest: nothing changes any more but by threads that are
    /// inside at this moment.
    ///
    /// # Errors
    /// When the mappings cannot be read, or there is no memory for a copy of theirs.
    pub fn leftovers(&mut self) -> io::Result<Vec<Leftover>> {
        let mut found = Vec::new();
        for mapping in maps::mappings(self.any_thread())? {
            let length = mapping.end - mapping.start;
            if mapping.path.as_os_str() != NAME || mapping.offset != 0 || length > LARGEST {
                continue;
            }
            let mut copy = Copied::new(length as usize)?;
            if self.memory.read(mapping.start, copy.bytes()) < copy.size {
                continue;
            }
            // SAFETY: as in `Leftover::frames`.
            let Ok(shared) = (unsafe { Shared::open(copy.start, length) }) else {
                continue;
            };
            let journal = shared.layout().size();
            let bytes = copy.bytes();
            let Some(reading) = bytes.get(journal as usize..).and_then(Reading::of) else {
                continue;
            };
            found.push(Leftover {
                began: reading.made,
                description: reading.note.clone(),
                copy,
                reading,
                address: mapping.start,
                journal: mapping.start + journal,
            });
        }
        found.sort_by_key(|leftover| std::cmp::Reverse(leftover.began));
        Ok(found)
    }

    /// Takes the jumps out that a killed tracer has left, and gives its rings' memory back; how many they were. To be done for
    /// the newest first, whose jumps may stand over older ones.
    ///
    /// A jump that is not there as it was written is left alone: its memory has become something else. The pads stay mapped, for
    /// a thread may be inside, or come back there from a signal handler; nothing leads there any more.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub fn clear(&mut self, leftover: &Leftover) -> io::Result<usize> {
        let mut count = 0;
        for told in &leftover.reading.jumps {
            let mut present = vec![0; told.written.len()];
            let read = self.memory.read(told.site, &mut present);
            if read < present.len() || present != told.written {
                continue;
            }
            self.memory.write(told.site, &told.original)?;
            count += 1;
        }
        self.memory.write(leftover.journal, &Reading::closed())?;
        // The head of the memory stays as it is, for who is inside a pad; the rings are what is large.
        let rings = leftover.address + HEAD..leftover.journal + JOURNAL_SIZE;
        self.system_call(
            libc::SYS_madvise,
            [
                rings.start,
                (rings.end - rings.start) & !(HEAD - 1),
                libc::MADV_REMOVE as u64,
                0,
                0,
                0,
            ],
        );
        Ok(count)
    }
}

/// The page with what pads ask first.
const HEAD: u64 = 4096;
