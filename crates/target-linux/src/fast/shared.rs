//! Memory that the program and the tracer share.
//!
//! The program creates a memory file by a remote system call, maps it and closes it. The tracer opens it through
//! `/proc`, which needs only the permission to trace: no name, no rights of the program, and nothing in the file
//! system.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracewire_model::Address;

use super::child_memory::Taken;
use crate::ptrace::{PAGE_SIZE, Tid};

/// Memory that the program has mapped too.
///
/// It stays mapped here as long as a clone of this exists, even after the program ends.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    mapping: Arc<Mapping>,
    /// Which part of it.
    start: usize,
    size: usize,
    address: Address,
    /// Keeps the part from being another child's.
    _taken: Option<Arc<Taken>>,
}

/// A memory file of the program, mapped here.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    size: usize,
    /// Kept so that the file has an owner as long as we use it.
    file: File,
}

// SAFETY: the mapping is plain memory that belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: only a pointer is given out, and its users must expect concurrent writes by the program anyway.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Opens a descriptor of the program, makes its file this long, and maps it.
    pub(crate) fn open(thread: Tid, descriptor: u64, size: usize) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{thread}/fd/{descriptor}"))?;
        file.set_len(size as u64)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, size, file })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and no pointer outlives this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

impl SharedMemory {
    /// Wraps memory that the program has at this address.
    pub(crate) fn new(mapping: Mapping, address: Address) -> Self {
        Self {
            start: 0,
            size: mapping.size,
            mapping: Arc::new(mapping),
            address,
            _taken: None,
        }
    }

    /// A part of it, whole pages, that a child has taken.
    pub(super) fn part(&self, range: Range<u64>, taken: Arc<Taken>) -> Self {
        debug_assert!(range.end <= self.size as u64);
        Self {
            mapping: Arc::clone(&self.mapping),
            start: self.start + range.start as usize,
            size: (range.end - range.start) as usize,
            address: Address(self.address.0 + range.start),
            _taken: Some(taken),
        }
    }

    /// Makes whole pages zeros, and frees them.
    pub(super) fn clear(&self, range: Range<u64>) -> io::Result<()> {
        debug_assert!(range.end <= self.size as u64);
        let start = (self.start as u64 + range.start) as libc::off_t;
        let length = (range.end - range.start) as libc::off_t;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open; the numbers are plain. Pointers into the mapping stay valid, to other bytes.
        match unsafe { libc::fallocate(self.mapping.file.as_raw_fd(), mode, start, length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The start of our mapping. The program changes the memory at any time: use atomics and volatile accesses only.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: the part is in the mapping.
        unsafe { self.mapping.start.add(self.start) }
    }

    /// Its size, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Where it starts in the program's memory.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Makes the 32-bit word at this offset show that the tracer lives. It holds the number of the calling thread until
    /// that thread ends for any reason; then the kernel sets `FUTEX_OWNER_DIED` in it. The four bytes must be aligned.
    /// The next 24 to 40 bytes must have no other use.
    ///
    /// Dropping the returned value sets the word to 0; the same thread must drop it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn own(&self, offset: usize) -> io::Result<Ownership> {
        Ownership::new(self, offset)
    }
}

/// Memory that the program has mapped for pads before they are set up, and of which nothing is used yet.
#[derive(Clone, Debug)]
pub struct PreparedPads {
    memory: SharedMemory,
    /// The parts that every run uses.
    busy: Vec<Range<u64>>,
}

impl PreparedPads {
    pub(super) const fn new(memory: SharedMemory, busy: Vec<Range<u64>>) -> Self {
        Self { memory, busy }
    }

    pub(super) fn into_memory(self) -> SharedMemory {
        self.memory
    }

    pub(super) fn size(&self) -> u64 {
        self.memory.size() as u64
    }

    /// Has the pages of all parts that every run uses, while the program runs. Where the kernel refuses, they come with the first
    /// use.
    pub fn fill(&self) {
        for part in &self.busy {
            let start = part.start.next_multiple_of(PAGE_SIZE);
            let end = part.end.next_multiple_of(PAGE_SIZE).min(self.size());
            if start < end {
                // SAFETY: the range is in the mapping, whose content does not change.
                unsafe {
                    libc::madvise(
                        self.memory.as_ptr().as_ptr().add(start as usize).cast(),
                        (end - start) as usize,
                        libc::MADV_POPULATE_WRITE,
                    )
                };
            }
        }
    }
}

/// The kernel's `struct robust_list_head`.
#[repr(C)]
#[derive(Debug)]
struct RobustHead {
    first: *mut RobustNode,
    /// From a node to its word.
    offset: libc::c_long,
    pending: *mut RobustNode,
}

/// The kernel's `struct robust_list`.
#[repr(C)]
#[derive(Debug)]
struct RobustNode {
    next: *mut RobustNode,
}

/// The distance from a word to its node, as the C library of x86-64 Linux has it: from `__lock` to `__list.__next` in
/// `pthread_mutex_t`.
const NODE: usize = 32;

/// See [`SharedMemory::own`].
#[derive(Debug)]
pub struct Ownership {
    memory: SharedMemory,
    offset: usize,
    head: *mut RobustHead,
}

impl Ownership {
    fn new(memory: &SharedMemory, offset: usize) -> io::Result<Self> {
        if !offset.is_multiple_of(8) || offset + NODE + size_of::<RobustNode>() > memory.size() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut head: *mut RobustHead = std::ptr::null_mut();
        let mut length = 0_usize;
        // SAFETY: both pointers are to live variables of the kernel's types; 0 is the calling thread.
        let got =
            unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a head that is registered is there as long as its thread.
        if head.is_null() || unsafe { (*head).offset } != -(NODE as libc::c_long) {
            head = Self::register()?;
        }
        let owned = Self {
            memory: memory.clone(),
            offset,
            head,
        };
        // SAFETY: gettid cannot fail and touches nothing.
        let own = unsafe { libc::gettid() };
        owned.word().store(own.cast_unsigned(), Ordering::Release);
        // SAFETY: head and node are live; the list belongs to this thread, and the kernel reads it only once the
        // thread has ended.
        unsafe {
            (*owned.node()).next = (*head).first;
            (*head).first = owned.node();
        }
        Ok(owned)
    }

    /// Registers a robust list for the thread, whose C library has none in the expected form.
    fn register() -> io::Result<*mut RobustHead> {
        let head = Box::leak(Box::new(RobustHead {
            first: std::ptr::null_mut(),
            offset: -(NODE as libc::c_long),
            pending: std::ptr::null_mut(),
        }));
        // An empty list's head is its only node.
        head.first = std::ptr::from_mut(head).cast();
        // SAFETY: the head is of the kernel's form and lives as long as the process.
        let set = unsafe {
            libc::syscall(
                libc::SYS_set_robust_list,
                std::ptr::from_mut(head),
                size_of::<RobustHead>(),
            )
        };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(head)
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: within the mapping and aligned, as checked; the mapping lives as long as `self`.
        unsafe {
            &*self
                .memory
                .as_ptr()
                .as_ptr()
                .add(self.offset)
                .cast::<AtomicU32>()
        }
    }

    fn node(&self) -> *mut RobustNode {
        // SAFETY: within the mapping, as checked.
        unsafe {
            self.memory
                .as_ptr()
                .as_ptr()
                .add(self.offset + NODE)
                .cast::<RobustNode>()
        }
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        /// The most nodes that are followed.
        const MOST: usize = 4096;
        let node = self.node();
        // SAFETY: the list belongs to this thread, and all nodes on it are live: the C library takes its own out
        // before it frees them, and so do we.
        unsafe {
            let mut link: *mut *mut RobustNode = &raw mut (*self.head).first;
            for _ in 0..MOST {
                if *link == node {
                    *link = (*node).next;
                    break;
                }
                if (*link).is_null() || (*link).cast() == self.head {
                    break;
                }
                link = &raw mut (**link).next;
            }
        }
        self.word().store(0, Ordering::Release);
    }
}
