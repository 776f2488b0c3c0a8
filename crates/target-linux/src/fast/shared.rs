//! Memory that the program and we share.
//!
//! The program makes it (a memory file, by a system call that we have it make), maps it and closes it again; we open it
//! through `/proc` as whoever may trace may. So it needs no name, no rights of the program's, and nothing in the file
//! system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracewire_fail_point::fail_point;
use tracewire_model::Address;

use super::NoJump;
use crate::address_space::{NoMemory, PAGE_SIZE, error_of};
use crate::process::Process;

/// Memory that the program has mapped too.
///
/// It stays mapped here as long as there is a copy of this, whatever becomes of the program.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    mapping: Arc<Mapping>,
    address: Address,
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    size: usize,
    /// Kept so that the file has an owner as long as we use it.
    _file: File,
}

// SAFETY: the mapping is plain memory that belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: all that is handed out is a pointer, whose users have the program to reckon with anyway.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nobody has a pointer that outlives this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

impl SharedMemory {
    /// Where it starts in our memory. What is behind it changes at any time: atomics and volatile accesses only.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.start
    }

    /// Its size, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.mapping.size
    }

    /// Where it starts in the program's memory.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Makes the 32-bit word at this offset say that we are there: it holds the number of the calling thread until that
    /// thread has ended, however it does; then the kernel sets `FUTEX_OWNER_DIED` in it. The four bytes must be
    /// aligned, and the 24 to 40 bytes behind them nobody else's.
    ///
    /// Dropping what is given back sets the word to 0; it must be dropped by the same thread.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn own(&self, offset: usize) -> io::Result<Ownership> {
        Ownership::new(self, offset)
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

    /// Gives the thread a list of its own, where its C library has none like ours.
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
        /// No thread holds more.
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

impl Process {
    /// Has the process map memory that we map too, zeroes, of this size, rounded up to whole pages. It stays with the
    /// program until [`detach`](Self::detach), or for good if some thread may still come back to a pad then.
    ///
    /// # Errors
    /// Why the process cannot be had to, in words for the user.
    pub fn share_memory_of(&mut self, size: u64) -> Result<SharedMemory, String> {
        self.share_memory_partly(size, size)
    }

    /// As [`share_memory_of`](Self::share_memory_of). The first `busy` bytes are there at once, so that no access to them is a
    /// page fault; the others take no memory until they are used.
    pub(super) fn share_memory_partly(
        &mut self,
        size: u64,
        busy: u64,
    ) -> Result<SharedMemory, String> {
        self.make_shared(size, busy)
            .map_err(|error| error.to_string())
    }

    pub(super) fn make_shared(&mut self, size: u64, busy: u64) -> Result<SharedMemory, NoJump> {
        const NAME: &[u8] = b"tracewire\0";
        const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let size = size.next_multiple_of(PAGE_SIZE);
        let length = usize::try_from(size).map_err(|_| NoMemory::NoRoom)?;
        let thread = self.volunteer().ok_or_else(|| self.why_no_call())?;
        fail_point!("share/begun");
        let name = self.call_for_us(
            libc::SYS_mmap,
            [0, PAGE_SIZE, READ_WRITE, PRIVATE, u64::MAX, 0],
        )?;
        let named = self.memory.write(name, NAME);
        fail_point!("share/named");
        let descriptor = self.call_for_us(
            libc::SYS_memfd_create,
            [name, u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0],
        );
        self.unmap_page(name, PAGE_SIZE);
        named.map_err(|error| NoJump::Write(error.to_string()))?;
        let descriptor = descriptor?;
        fail_point!("share/made");
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{thread}/fd/{descriptor}"))
            .and_then(|file| file.set_len(size).map(|()| file))
            .and_then(|file| Ok((map(&file, length)?, file)));
        let place = match &opened {
            Ok(_) => self
                .map_fixed(
                    &mut |space| space.room_for_data(size),
                    [READ_WRITE, libc::MAP_SHARED as u64, descriptor],
                )
                .inspect(|place| {
                    // The same once more, as one mapping. Where it is refused, there are page faults.
                    let populated = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_POPULATE;
                    let busy = busy.next_multiple_of(PAGE_SIZE).min(size);
                    let at = [
                        place.start,
                        busy,
                        READ_WRITE,
                        populated as u64,
                        descriptor,
                        0,
                    ];
                    self.system_call(libc::SYS_mmap, at);
                }),
            Err(_) => Err(NoMemory::Unreadable),
        };
        fail_point!("share/mapped");
        self.system_call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]);
        fail_point!("share/closed");
        let (start, file) = opened.map_err(|error| NoJump::Write(error.to_string()))?;
        let mapping = Arc::new(Mapping {
            start,
            size: length,
            _file: file,
        });
        let address = place?.start;
        self.fast.shared.push((address, size));
        Ok(SharedMemory {
            mapping,
            address: Address(address),
        })
    }

    /// A system call that the process is to make, and its result.
    fn call_for_us(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, NoMemory> {
        let result = self
            .system_call(number, arguments)
            .ok_or_else(|| self.why_no_call())?;
        error_of(result).map_or(Ok(result), |error| Err(NoMemory::Refused(error)))
    }

    pub(super) fn unmap_shared(&mut self) {
        fail_point!("share/unmap");
        for (address, size) in std::mem::take(&mut self.fast.shared) {
            self.unmap_page(address, size);
        }
    }
}

fn map(file: &File, length: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}
