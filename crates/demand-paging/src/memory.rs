//! The memory, and the thread that makes its pages.

use std::alloc::{Layout, handle_alloc_error};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread::JoinHandle;

use memmap2::{MmapMut, MmapOptions};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MmapAdvise, madvise};

use crate::Pager;
use crate::userfaultfd::PageFaults;

/// How much of the memory is there at most, besides the newest extent.
const MOST_PRESENT: usize = 256 << 20;

/// Bytes that a [`Pager`] has, in pages that are made when they are read first. At most 256 MiB of them take space, and one extent.
pub struct PagedMemory {
    map: MmapMut,
    length: usize,
    /// Closed to end the thread.
    end: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl PagedMemory {
    /// Memory of a length in bytes.
    ///
    /// # Errors
    /// When the kernel does not report page faults to this user, or has no address space of this length.
    pub fn new(length: usize, pager: impl Pager + 'static) -> io::Result<Self> {
        let page = page_size()?;
        let whole = (length.checked_next_multiple_of(page))
            .filter(|whole| *whole > 0)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let map = MmapOptions::new().len(whole).no_reserve_swap().map_anon()?;
        let start = map.as_ptr().addr();
        let faults = PageFaults::new()?;
        // SAFETY: the map is new, and the thread that has `faults` ends before it is unmapped.
        unsafe { faults.register(start, whole) }?;
        let (ended, end) = nix::unistd::pipe()?;
        let mut maker = PageMaker {
            pager,
            faults,
            ended,
            start,
            length,
            page,
            present: BTreeMap::new(),
            oldest: VecDeque::new(),
            bytes_present: 0,
            buffer: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("demand-paging".to_owned())
            .spawn(move || {
                // Whoever reads would get zeros, or wait for ever.
                let abort = AbortOnUnwind;
                maker.run();
                std::mem::forget(abort);
            })?;
        Ok(Self {
            map,
            length,
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Deref for PagedMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.get(..self.length).unwrap_or_default()
    }
}

impl fmt::Debug for PagedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedMemory")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Drop for PagedMemory {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "a panic has aborted the program");
        }
    }
}

struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

fn page_size() -> io::Result<usize> {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
    size.and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// The thread's state.
struct PageMaker<P> {
    pager: P,
    faults: PageFaults,
    /// Hangs up when the memory is to go.
    ended: OwnedFd,
    /// The address of the memory.
    start: usize,
    length: usize,
    page: usize,
    /// The ranges of bytes that are there: their ends by their starts. They consist of whole pages.
    present: BTreeMap<usize, usize>,
    /// Their starts, in the order in which they were made.
    oldest: VecDeque<usize>,
    bytes_present: usize,
    buffer: Vec<u8>,
}

impl<P: Pager> PageMaker<P> {
    fn run(&mut self) {
        loop {
            let mut descriptors = [
                PollFd::new(self.faults.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.ended.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut descriptors, PollTimeout::NONE) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => panic!("cannot wait for page faults: {error}"),
            }
            let [_, ended] = &descriptors;
            if ended.any() == Some(true) {
                return;
            }
            while let Some(address) = self.faults.next().expect("page faults can be read") {
                self.answer(address);
            }
        }
    }

    /// Makes the page of an address, with its extent.
    fn answer(&mut self, address: usize) {
        let place = address.wrapping_sub(self.start);
        debug_assert!(place < self.length.next_multiple_of(self.page));
        let place = place - place % self.page;
        let before = self.present.range(..=place).next_back();
        let before_end = before.map_or(0, |(_, end)| *end);
        if place < before_end {
            // Two threads have waited for it.
            let woken = self.faults.wake(self.start + place, self.page);
            return woken.expect("the range is registered");
        }
        let after = self.present.range(place..).next();
        let after_start = after.map_or(usize::MAX, |(start, _)| *start);
        let extent = self.pager.extent(place);
        debug_assert!(extent.contains(&place), "{extent:?} of {place}");
        let first = extent.start.min(place);
        let start = (first - first % self.page).max(before_end);
        let end = (extent.end.max(place + self.page))
            .next_multiple_of(self.page)
            .min(after_start)
            .min(self.length.next_multiple_of(self.page));
        self.make_room(end - start);
        self.fill(start..end);
    }

    /// Takes the oldest pages away, for so many bytes.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes_present + bytes > MOST_PRESENT
            && let Some(start) = self.oldest.pop_front()
            && let Some(end) = self.present.remove(&start)
        {
            self.bytes_present -= end - start;
            let address = std::ptr::without_provenance_mut(self.start + start);
            let address = std::ptr::NonNull::new(address).expect("memory is not at 0");
            // SAFETY: the pages are of the memory, which is mapped as long as this thread runs. Whoever reads one gets the same content again.
            let advised = unsafe { madvise(address, end - start, MmapAdvise::MADV_DONTNEED) };
            advised.expect("the pages are mapped");
        }
    }

    fn fill(&mut self, range: Range<usize>) {
        let length = range.len();
        self.buffer.clear();
        self.buffer.resize(length, 0);
        let content = self.length.saturating_sub(range.start).min(length);
        if let Some(content) = self.buffer.get_mut(..content) {
            self.pager.read(range.start, content);
        }
        // SAFETY: a pager gives the same bytes each time.
        let filled = unsafe { self.faults.fill(self.start + range.start, &self.buffer) };
        match filled {
            Ok(filled) => debug_assert_eq!(filled, length, "nobody else makes pages"),
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                let layout = Layout::array::<u8>(length);
                handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()))
            }
            Err(error) => panic!("cannot make pages: {error}"),
        }
        self.present.insert(range.start, range.end);
        self.oldest.push_back(range.start);
        self.bytes_present += length;
    }
}
