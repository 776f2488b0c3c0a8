#![doc = include_str!("../README.md")]
//!
//! A user without privileges gets the kernel's answer to faults of the program alone (`UFFD_USER_MODE_ONLY`). A system call that reads a page
//! that is not there, such as `write`, fails with `EFAULT` then. A page is there after the program has read a byte of its
//! [extent](Pager::extent), as long as no others take its place. So bytes of which many are to be written are copied first.
#![deny(missing_docs)]

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod userfaultfd;

use std::ops::Range;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::PagedMemory;
#[cfg(target_os = "linux")]
pub use memory::PagedMemory;

/// What has the content of a [`PagedMemory`]. It is asked by one thread.
pub trait Pager: Send {
    /// The bytes that are made at once with the one at a place: a range with that place in it. Whole pages are made, so the first and the last
    /// one may belong to the neighbours, too.
    fn extent(&mut self, place: usize) -> Range<usize>;

    /// Puts the content from a place on into zeroed bytes. It must be the same each time: pages that were not read lately are made again.
    fn read(&mut self, place: usize, bytes: &mut [u8]);
}
