//! The kernel's interface: `userfaultfd(2)`, `ioctl_userfaultfd(2)`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use nix::errno::Errno;

/// `UFFD_API`.
const API: u64 = 0xaa;

/// `UFFDIO`, the type of the requests.
const REQUESTS: u8 = 0xaa;

/// `UFFDIO_REGISTER_MODE_MISSING`.
const MISSING: u64 = 1;

/// `UFFD_USER_MODE_ONLY`.
const USER_MODE_ONLY: i32 = 1;

/// `UFFD_EVENT_PAGEFAULT`.
const PAGE_FAULT: u8 = 0x12;

/// `struct uffdio_api`.
#[repr(C)]
pub struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
pub struct Range {
    start: u64,
    length: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
pub struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy`.
#[repr(C)]
pub struct Copy {
    to: u64,
    from: u64,
    length: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffd_msg`, of a page fault.
#[repr(C)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}

/// `USERFAULTFD_IOC_NEW`, of `/dev/userfaultfd`.
const NEW: libc::Ioctl = nix::request_code_none!(REQUESTS, 0x00) as libc::Ioctl;

nix::ioctl_readwrite!(announce, REQUESTS, 0x3f, Api);
nix::ioctl_readwrite!(register, REQUESTS, 0x00, Register);
nix::ioctl_read!(wake, REQUESTS, 0x02, Range);
nix::ioctl_readwrite!(copy, REQUESTS, 0x03, Copy);

/// The page faults of registered memory, each of which waits for an answer.
#[derive(Debug)]
pub struct PageFaults {
    descriptor: OwnedFd,
}

impl PageFaults {
    /// Asks for all faults where that is allowed, else for those of the program itself.
    ///
    /// # Errors
    /// When the kernel has no such faults, or does not give them to this user.
    pub fn new() -> io::Result<Self> {
        let descriptor = system_call(0)
            .or_else(|_| of_device())
            .or_else(|_| system_call(USER_MODE_ONLY))?;
        let mut api = Api {
            api: API,
            features: 0,
            ioctls: 0,
        };
        // SAFETY: the structure is whole and lives during the call.
        unsafe { announce(descriptor.as_raw_fd(), &raw mut api) }?;
        Ok(Self { descriptor })
    }

    /// Has each first access to a page of a range reported.
    ///
    /// # Errors
    /// When the kernel refuses it.
    ///
    /// # Safety
    /// Nothing may have read or written the pages, whose content comes from [`fill`](Self::fill) then. They must stay mapped as long as this
    /// value lives.
    pub unsafe fn register(&self, start: usize, length: usize) -> io::Result<()> {
        let mut request = Register {
            range: range(start, length),
            mode: MISSING,
            ioctls: 0,
        };
        // SAFETY: the structure is whole and lives during the call.
        unsafe { register(self.descriptor.as_raw_fd(), &raw mut request) }?;
        Ok(())
    }

    /// The address of a fault that waits; none if there is none.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub fn next(&self) -> io::Result<Option<usize>> {
        let mut message = [0; size_of::<Message>()];
        loop {
            match nix::unistd::read(&self.descriptor, &mut message) {
                Ok(length) if length == message.len() => {}
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if message.first() != Some(&PAGE_FAULT) {
                continue;
            }
            let at = std::mem::offset_of!(Message, address);
            let address = message.get(at..).and_then(<[u8]>::first_chunk);
            return Ok(address.map(|address| usize::from_ne_bytes(*address)));
        }
    }

    /// Makes pages that are not there with their content, and lets the threads go on that wait for one. Gives how many bytes were made before a
    /// page that was there.
    ///
    /// # Errors
    /// When the kernel has no memory, or the range is not registered.
    ///
    /// # Safety
    /// The content of a page must be the same each time that it is made.
    pub unsafe fn fill(&self, start: usize, content: &[u8]) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = content.get(filled..).filter(|rest| !rest.is_empty()) {
            let mut request = Copy {
                to: (start + filled) as u64,
                from: rest.as_ptr().addr() as u64,
                length: rest.len() as u64,
                mode: 0,
                copied: 0,
            };
            // SAFETY: the kernel reads `rest`, which lives during the call, and makes new pages.
            let result = unsafe { copy(self.descriptor.as_raw_fd(), &raw mut request) };
            filled += usize::try_from(request.copied).unwrap_or(0);
            match result {
                // It was interrupted, or the mappings of the process change just now.
                Ok(_) | Err(Errno::EAGAIN) => {}
                Err(Errno::EEXIST) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    /// Lets the threads go on that wait for a page of a range, which is there.
    ///
    /// # Errors
    /// When the range is not registered.
    pub fn wake(&self, start: usize, length: usize) -> io::Result<()> {
        let mut range = range(start, length);
        // SAFETY: the structure is whole and lives during the call.
        unsafe { wake(self.descriptor.as_raw_fd(), &raw mut range) }?;
        Ok(())
    }
}

impl AsFd for PageFaults {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

const fn range(start: usize, length: usize) -> Range {
    Range {
        start: start as u64,
        length: length as u64,
    }
}

fn system_call(flags: i32) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the call has no preconditions.
    let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    owned(descriptor as RawFd)
}

/// From the device that an administrator can give to users.
fn of_device() -> io::Result<OwnedFd> {
    let device = File::open("/dev/userfaultfd")?;
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the request takes flags and makes a descriptor.
    owned(unsafe { libc::ioctl(device.as_raw_fd(), NEW, flags) })
}

fn owned(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
