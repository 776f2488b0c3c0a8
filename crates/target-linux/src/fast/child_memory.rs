//! Memory that a process has mapped for the pads of children that it will make.
//!
//! A child by fork has a copy of the mapping, and uses one part of it: nothing has to be mapped in the child, which would take a
//! dozen system calls. When the child ends, its part is for the next one. The last page says what the parts are, for a later tracer
//! if this one is killed.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::SharedMemory;
use super::journal;
use crate::memory::Memory;
use crate::ptrace::PAGE_SIZE;

/// How many children have a part at once. Others map memory of their own.
const PARTS: u64 = 64;
/// The first word of the last page.
const MAGIC: u64 = u64::from_le_bytes(*b"TWPARTS\x01");
/// The size of the memory for the pad at the dynamic linker's hook.
const HOOK_SIZE: u64 = PAGE_SIZE + journal::SIZE;

/// The words of the last page, in bytes from its start.
mod last_page {
    pub(super) const MAGIC: u64 = 0;
    pub(super) const PARTS: u64 = 8;
    pub(super) const PADS_SIZE: u64 = 16;
    pub(super) const HOOK_SIZE: u64 = 24;
}

/// The memory of a process and of those that it made by fork.
#[derive(Clone, Debug)]
pub(crate) struct ChildMemory(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    memory: SharedMemory,
    pads_size: u64,
    free: Mutex<Vec<u64>>,
}

/// The part of one child. Each piece of it is given out once: a second one would have what the first one has left there.
#[derive(Debug)]
pub(super) struct ChildPart {
    taken: Arc<Taken>,
    has_given_pads: bool,
    has_given_hook: bool,
}

/// A part that is taken. The next child gets it when nothing of the tracer uses it any more.
#[derive(Debug)]
pub(super) struct Taken {
    parts: Arc<Parts>,
    number: u64,
}

impl ChildMemory {
    /// The size of memory in which each child has so many bytes for its pads.
    pub(crate) const fn size(pads_size: u64) -> u64 {
        PARTS * (pads_size.next_multiple_of(PAGE_SIZE) + HOOK_SIZE) + PAGE_SIZE
    }

    /// Divides memory of this [size](Self::size).
    pub(crate) fn new(memory: SharedMemory, pads_size: u64) -> Self {
        let pads_size = pads_size.next_multiple_of(PAGE_SIZE);
        debug_assert_eq!(memory.size() as u64, Self::size(pads_size));
        let parts = Parts {
            memory,
            pads_size,
            free: Mutex::new((0..PARTS).rev().collect()),
        };
        parts.word(last_page::PARTS).store(PARTS, Ordering::Relaxed);
        let sizes = [
            (last_page::PADS_SIZE, pads_size),
            (last_page::HOOK_SIZE, HOOK_SIZE),
        ];
        for (at, size) in sizes {
            parts.word(at).store(size, Ordering::Relaxed);
        }
        parts.word(last_page::MAGIC).store(MAGIC, Ordering::Release);
        Self(Arc::new(parts))
    }

    /// Takes a part; `None` where all are taken.
    pub(super) fn take(&self) -> Option<ChildPart> {
        let number = self.0.free().pop()?;
        let taken = Taken {
            parts: Arc::clone(&self.0),
            number,
        };
        Some(ChildPart {
            taken: Arc::new(taken),
            has_given_pads: false,
            has_given_hook: false,
        })
    }
}

impl ChildPart {
    /// The memory for pads, if it has this size.
    pub(super) fn take_pads(&mut self, size: u64) -> Option<SharedMemory> {
        let Taken { parts, number } = &*self.taken;
        if size > parts.pads_size || std::mem::replace(&mut self.has_given_pads, true) {
            return None;
        }
        let start = parts.start(*number);
        Some(self.at(start..start + parts.pads_size))
    }

    /// The memory for the pad at the dynamic linker's hook.
    pub(super) fn take_hook(&mut self) -> Option<SharedMemory> {
        if std::mem::replace(&mut self.has_given_hook, true) {
            return None;
        }
        let Taken { parts, number } = &*self.taken;
        let start = parts.start(*number) + parts.pads_size;
        Some(self.at(start..start + HOOK_SIZE))
    }

    fn at(&self, range: Range<u64>) -> SharedMemory {
        self.taken.parts.memory.part(range, Arc::clone(&self.taken))
    }
}

impl Parts {
    fn free(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a part begins.
    const fn start(&self, number: u64) -> u64 {
        number * (self.pads_size + HOOK_SIZE)
    }

    /// A word of the last page.
    fn word(&self, at: u64) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= PAGE_SIZE);
        let offset = self.memory.size() - PAGE_SIZE as usize + at as usize;
        // SAFETY: the word is aligned, in the last page of the mapping, which lives as long as `self`; all accesses are atomic.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().as_ptr().add(offset).cast()) }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Self { parts, number } = self;
        let start = parts.start(*number);
        // What is not known to be zeros is for no other child.
        if parts
            .memory
            .clear(start..start + parts.pads_size + HOOK_SIZE)
            .is_ok()
        {
            parts.free().push(*number);
        }
    }
}

/// The parts of a mapping for children, each with a journal at its end; `None` where it is another one.
pub(crate) fn parts_of(memory: &Memory, mapping: &Range<u64>) -> Option<Vec<Range<u64>>> {
    let last = mapping.end.checked_sub(PAGE_SIZE)?;
    let word = |at: u64| Some(u64::from_le_bytes(memory.read_array(last + at)?));
    let parts = word(last_page::PARTS).filter(|parts| *parts <= PARTS)?;
    let (pads, hook) = (word(last_page::PADS_SIZE)?, word(last_page::HOOK_SIZE)?);
    let size = pads.checked_add(hook)?;
    if word(last_page::MAGIC)? != MAGIC
        || parts.checked_mul(size) != last.checked_sub(mapping.start)
    {
        return None;
    }
    let parts = (0..parts).map(|number| mapping.start + number * size);
    let ranges = parts.flat_map(|start| [start..start + pads, start + pads..start + size]);
    Some(ranges.collect())
}
