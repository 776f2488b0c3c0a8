//! Reading structures of many small parts, such as the dynamic linker's lists: a page at a time.
//!
//! Each read of `/proc/TID/mem` is a system call, and a program has hundreds of such parts on a few pages.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::memory::{Memory, ReadMemory};
use crate::ptrace::PAGE_SIZE;

/// How many pages are kept. A list that a broken program has can be all over its memory.
const MOST_PAGES: usize = 256;

/// The memory of a process as it is now. It is for one look: it does not see what changes later.
#[derive(Debug)]
pub(crate) struct PageReader<'m> {
    memory: &'m Memory,
    /// By address; shorter where the rest cannot be read.
    pages: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl<'m> PageReader<'m> {
    pub(crate) const fn new(memory: &'m Memory) -> Self {
        Self {
            memory,
            pages: RefCell::new(BTreeMap::new()),
        }
    }

    /// Reads a string up to its zero byte, or up to `limit` bytes.
    pub(crate) fn read_string(&self, address: u64, limit: usize) -> Vec<u8> {
        let mut string = Vec::new();
        let mut buffer = [0; 256];
        while string.len() < limit {
            let filled = self.read(address.wrapping_add(string.len() as u64), &mut buffer);
            let part = buffer.get(..filled).unwrap_or_default();
            if let Some(end) = part.iter().position(|byte| *byte == 0) {
                string.extend(part.iter().take(end));
                break;
            }
            string.extend_from_slice(part);
            if filled < buffer.len() {
                break;
            }
        }
        string.truncate(limit);
        string
    }
}

impl ReadMemory for PageReader<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut pages = self.pages.borrow_mut();
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let at = address.wrapping_add(filled as u64);
            let offset = at % PAGE_SIZE;
            let start = at - offset;
            if pages.len() >= MOST_PAGES && !pages.contains_key(&start) {
                pages.clear();
            }
            let page = pages.entry(start).or_insert_with(|| {
                let mut page = vec![0; PAGE_SIZE as usize];
                let filled = self.memory.read(start, &mut page);
                page.truncate(filled);
                page
            });
            let part = page.get(offset as usize..).unwrap_or_default();
            if part.is_empty() {
                break;
            }
            for (byte, known) in rest.iter_mut().zip(part) {
                *byte = *known;
            }
            filled += rest.len().min(part.len());
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::Tid;

    /// Three pages of which the last one cannot be read, each byte with its place.
    struct Pages(*mut u8);

    impl Pages {
        const SIZE: usize = PAGE_SIZE as usize;

        fn new() -> Self {
            // SAFETY: a new mapping anywhere.
            let start = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    3 * Self::SIZE,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(start, libc::MAP_FAILED);
            let start = start.cast::<u8>();
            for place in 0..2 * Self::SIZE {
                // SAFETY: within the mapping.
                unsafe { start.add(place).write(Self::byte(place)) };
            }
            // SAFETY: the last page of the mapping, which nothing refers to.
            let unmapped = unsafe { libc::munmap(start.add(2 * Self::SIZE).cast(), Self::SIZE) };
            assert_eq!(unmapped, 0);
            Self(start)
        }

        const fn byte(place: usize) -> u8 {
            (place % 251) as u8 + 1
        }

        fn address(&self) -> u64 {
            self.0.addr() as u64
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: the pages of the mapping that are left.
            unsafe { libc::munmap(self.0.cast(), 2 * Self::SIZE) };
        }
    }

    #[test]
    fn bytes_are_those_of_memory_across_pages_and_up_to_its_end() {
        let pages = Pages::new();
        let memory = Memory::open(std::process::id() as Tid).expect("our own memory");
        let reader = PageReader::new(&memory);
        for (place, length) in [
            (0, 16),
            (Pages::SIZE - 8, 16),
            (10, 2 * Pages::SIZE),
            (2 * Pages::SIZE - 3, 8),
            (2 * Pages::SIZE, 8),
        ] {
            let mut bytes = vec![0; length];
            let filled = reader.read(pages.address() + place as u64, &mut bytes);
            assert_eq!(filled, length.min(2 * Pages::SIZE - place), "{place}");
            let expected = (place..place + filled).map(Pages::byte);
            assert!(expected.eq(bytes[..filled].iter().copied()), "{place}");
        }
        assert_eq!(reader.read(u64::MAX - 2, &mut [0; 8]), 0);
    }

    #[test]
    fn a_string_ends_at_its_zero_byte_at_the_limit_or_where_memory_ends() {
        let pages = Pages::new();
        // SAFETY: within the mapping.
        unsafe { pages.0.add(Pages::SIZE + 2).write(0) };
        let memory = Memory::open(std::process::id() as Tid).expect("our own memory");
        let reader = PageReader::new(&memory);
        let start = pages.address() + Pages::SIZE as u64 - 4;
        let expected: Vec<u8> = (Pages::SIZE - 4..Pages::SIZE + 2)
            .map(Pages::byte)
            .collect();
        assert_eq!(reader.read_string(start, 4096), expected);
        assert_eq!(reader.read_string(start, 3), expected[..3]);
        let end = pages.address() + 2 * Pages::SIZE as u64;
        assert_eq!(reader.read_string(end - 5, 4096).len(), 5);
        assert!(reader.read_string(end, 4096).is_empty());
    }
}
