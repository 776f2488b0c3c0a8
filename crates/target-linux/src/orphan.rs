//! What a killed tracer left in a program: jumps, and frames in the rings that were not read.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use tracewire_jump_pad::{RingReader, Shared, TimedFrame};

use crate::fast::{FramesFile, JOURNAL_SIZE, Reading, parts_of};
use crate::maps;
use crate::memory::Memory;
use crate::ptrace::Tid;
use crate::semaphore;

/// The name of the memory, as `/proc/PID/maps` shows it.
const NAME: &str = "/memfd:tracewire";
/// No larger memory is looked at, in bytes: rings have 2 GiB at most.
const LARGEST: u64 = 1 << 32;

/// What one killed tracer has left.
#[derive(Debug)]
pub struct Orphan {
    /// When it began, in microseconds since 1970-01-01 00:00 UTC.
    pub began: u64,
    /// The lines of the trace file's description, as it knew them last; empty if it did not say.
    pub description: Vec<u8>,
    /// The file that it wrote frames to; `None` where it has said none.
    pub file: Option<FramesFile>,
    copy: Copied,
    range: Range<u64>,
}

/// What became of the hits of a killed tracer's run, beside the frames that were in the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Frames that it had taken out of the shared memory: into its file, or nowhere that is known.
    pub taken: u64,
    /// Whether oldest frames made room for new ones, in its file too.
    pub circular: bool,
    /// Whether the first frame that was given out may be the last one in its file, which is not where it was.
    pub maybe_twice: bool,
    /// Begun and never finished.
    pub torn: u64,
    /// There was no room for them in their ring.
    pub no_room: u64,
    /// Longer than pads make them.
    pub too_long: u64,
    /// Their threads had no stack left.
    pub without_stack: u64,
    /// Given up for newer ones.
    pub given_up: u64,
    /// Hits that pads made no frames of, because their tracepoints have rates, or the run a budget.
    pub skipped: u64,
    /// Whether the run had a budget: tracepoints may have been out of the program at times.
    pub had_budget: bool,
}

impl Orphan {
    /// Closes its journal, so that nobody reads it again, and gives where the memory of its rings is.
    pub(crate) fn close(&self, memory: &Memory) -> io::Result<Range<u64>> {
        let Range { start, end } = self.range;
        memory.write(end - JOURNAL_SIZE, &Reading::closed())?;
        Ok(start + HEAD..end)
    }

    /// Gives out the frames that it had not moved into its file yet, by time, and tells what became of the others.
    pub fn frames(&self, take: &mut dyn FnMut(&[u8])) -> Tally {
        // SAFETY: the copy is mapped as long as `self`, from the start of a page, and nobody else knows of it.
        let Ok(shared) = (unsafe { Shared::open(self.copy.start, self.copy.size as u64) }) else {
            return Tally::default();
        };
        let mut reader = RingReader::new(&shared);
        let (mut moved, mut maybe_twice) = (true, false);
        if let Some(moving) = shared.moving()
            && reader.is_left(&shared, moving.origin)
        {
            let arrived = match (&self.file, moving.offset) {
                (Some(file), Some(offset)) => file.has_frame(offset),
                _ => Some(false),
            };
            moved = arrived == Some(true);
            maybe_twice = arrived.is_none();
            if moved {
                reader.leave_out(moving.origin);
            }
        }
        // Before the reader says the same of itself.
        let taken = shared.moved(moved);
        let mut give = |frame: TimedFrame<'_>| take(frame.bytes);
        let torn = reader.finish(&shared, &mut give).torn;
        let losses = shared.losses();
        let (torn_before, without_stack) = shared.recorded_losses();
        Tally {
            taken,
            circular: shared.layout().sizes().when_full.overwrites(),
            maybe_twice,
            torn: torn.saturating_add(torn_before),
            no_room: losses.lost,
            too_long: losses.too_long,
            without_stack,
            given_up: losses.dropped,
            skipped: shared.all_skipped(),
            had_budget: shared.has_budget(),
        }
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

    /// Fills a part of it from the memory of a process at `start`. `false` if that cannot be read.
    fn fill(&mut self, memory: &Memory, start: u64, part: Range<u64>) -> bool {
        let length = self.size as u64;
        let part = part.start.min(length)..part.end.min(length);
        let bytes = self.bytes().get_mut(part.start as usize..part.end as usize);
        bytes.is_none_or(|bytes| memory.read(start + part.start, bytes) == bytes.len())
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

/// What killed tracers have left of a process, the newest first. A child by fork has the memory of its parent, too, and that is given
/// out where it has none of its own: there may be no parent any more.
pub(crate) fn all(memory: &Memory, thread: Tid, process: Tid) -> io::Result<Vec<Orphan>> {
    let mut journals = journals(memory, thread)?;
    let has_own = journals
        .iter()
        .any(|journal| journal.reading.is_of(process));
    journals.retain(|journal| match has_own {
        true => journal.reading.is_of(process),
        false => !journal.is_of_child,
    });
    let mut found = Vec::new();
    for Journal { range, reading, .. } in journals {
        let length = range.end - range.start;
        if length > LARGEST {
            continue;
        }
        let mut copy = Copied::new(length as usize)?;
        if !copy_frames(memory, range.start, &mut copy) {
            continue;
        }
        // SAFETY: the copy is mapped, from the start of a page, and nobody else knows of it.
        if unsafe { Shared::open(copy.start, copy.size as u64) }.is_err() {
            // Without rings: that of the dynamic linker's hook.
            continue;
        }
        found.push(Orphan {
            began: reading.made,
            description: reading.note,
            file: reading.file,
            copy,
            range,
        });
    }
    Ok(found)
}

/// Copies what there is of rings and of frames outside of them: most of the memory was never used, and takes none. `false`
/// if it is none of ours.
fn copy_frames(memory: &Memory, start: u64, copy: &mut Copied) -> bool {
    if !copy.fill(memory, start, 0..HEAD) {
        return false;
    }
    // SAFETY: the copy is mapped from the start of a page as long as this is used, and nobody else knows of it.
    let Ok(shared) = (unsafe { Shared::open(copy.start, copy.size as u64) }) else {
        return false;
    };
    let (rings, behind) = shared.layout().rings();
    let heads = shared.layout().ring_heads();
    let hold = behind..(behind + HEAD).min(shared.layout().size());
    copy.fill(memory, start, HEAD..rings)
        && heads.into_iter().all(|head| copy.fill(memory, start, head))
        && copy.fill(memory, start, hold)
        && shared
            .in_rings()
            .into_iter()
            .all(|part| copy.fill(memory, start, part))
        && shared
            .in_hold()
            .into_iter()
            .all(|part| copy.fill(memory, start, part))
}

/// Takes the jumps out that killed tracers have left, those of the newest first: they may be over older ones. One that
/// is not there as it was written is left alone, for its memory has become something else. The counters of markers that
/// they raised are lowered. All threads are stopped. Gives how many jumps there were, without the one at the dynamic linker's
/// hook.
///
/// Another jump over one that is punned would be made of the instructions behind it, where its pad leads back to.
pub(crate) fn take_over(
    memory: &mut Memory,
    thread: Tid,
    process: Tid,
    linker_hook: Option<u64>,
) -> usize {
    let mut jumps = 0;
    for Journal { range, reading, .. } in journals(memory, thread).unwrap_or_default() {
        for jump in reading.jumps {
            let mut present = vec![0; jump.written.len()];
            let read = memory.read(jump.site, &mut present);
            if read == present.len()
                && present == jump.written
                && memory.write(jump.site, &jump.original).is_ok()
                && Some(jump.site) != linker_hook
            {
                jumps += 1;
            }
        }
        for counter in reading.counters {
            let entry = range.end - JOURNAL_SIZE + counter.entry;
            if counter.process == process.cast_unsigned() && memory.write(entry, &[0; 8]).is_ok() {
                semaphore::add(memory, counter.address, -1);
            }
        }
    }
    jumps
}

/// A journal of a killed tracer.
struct Journal {
    /// The memory that it is at the end of.
    range: Range<u64>,
    reading: Reading,
    /// Whether it is in memory for children.
    is_of_child: bool,
}

/// The journals of killed tracers, the newest first.
fn journals(memory: &Memory, thread: Tid) -> io::Result<Vec<Journal>> {
    let mappings = shared_mappings(thread)?.into_iter();
    let ranges = mappings.flat_map(|mapping| match parts_of(memory, &mapping) {
        Some(parts) => parts.into_iter().map(|part| (part, true)).collect(),
        None => vec![(mapping, false)],
    });
    let read = ranges.filter_map(|(range, is_of_child)| {
        let start = range.end.checked_sub(JOURNAL_SIZE)?.max(range.start);
        if is_of_child && !memory.read_array(start).is_some_and(Reading::is_begun) {
            return None;
        }
        let mut bytes = vec![0; JOURNAL_SIZE as usize];
        let read = memory.read(start, &mut bytes);
        Some(Journal {
            reading: Reading::of(bytes.get(..read)?)?,
            range,
            is_of_child,
        })
    });
    let mut found: Vec<Journal> = read.collect();
    found.sort_by_key(|journal| std::cmp::Reverse(journal.reading.made));
    Ok(found)
}

/// The memory that a process shares with tracers, or has shared.
fn shared_mappings(thread: Tid) -> io::Result<Vec<Range<u64>>> {
    let mut mappings = maps::mappings(thread)?;
    mappings.retain(|mapping| mapping.path.as_os_str() == NAME && mapping.offset == 0);
    let ranges = mappings.iter().map(|mapping| mapping.start..mapping.end);
    Ok(ranges.collect())
}

/// The memory of killed tracers that a process does not use: for pads that were not set up, or for those of its children.
pub(crate) fn unused(memory: &Memory, thread: Tid, process: Tid) -> Vec<Range<u64>> {
    let mut mappings = shared_mappings(thread).unwrap_or_default();
    let head = |range: &Range<u64>| memory.read_array(range.end.checked_sub(JOURNAL_SIZE)?);
    let is_own =
        |part: &Range<u64>| head(part).is_some_and(|head| Reading::is_begun_by(head, process));
    mappings.retain(|mapping| match parts_of(memory, mapping) {
        Some(parts) => !parts.iter().any(is_own),
        None => head(mapping).is_some_and(Reading::is_of_unused),
    });
    mappings
}

/// The page with what pads ask first.
const HEAD: u64 = 4096;
