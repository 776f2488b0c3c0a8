//! A page of the program's code that is changed here first, and written to the process with one call.

use std::ops::Range;

use crate::ptrace::PAGE_SIZE;

/// A page of code, as it is to be in the process, and what must be in the process before it: what its jumps lead to.
#[derive(Debug)]
pub(crate) struct StagedPage {
    code: ChangedPage,
    /// Runs of bytes in the order in which they were written: an address, and what is there.
    ahead: Vec<(u64, Vec<u8>)>,
    /// Pages that have a few bytes here and there. They are of the tracer's own, and none of `ahead` is between these bytes.
    scattered: Vec<ChangedPage>,
}

/// A page, and what differs from the process's.
#[derive(Debug)]
pub(crate) struct ChangedPage {
    start: u64,
    bytes: Vec<u8>,
    /// The offsets of the first byte that differs from the process's, and of the one after the last.
    changed: Range<usize>,
}

impl ChangedPage {
    /// A page that begins at this address and has these bytes now.
    pub(crate) fn new(start: u64, bytes: Vec<u8>) -> Self {
        debug_assert_eq!(
            (start % PAGE_SIZE, bytes.len() as u64),
            (0, PAGE_SIZE),
            "one page"
        );
        Self {
            start,
            bytes,
            changed: 0..0,
        }
    }

    /// Reads bytes that are all on the page; none if they are not.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let range = self.offsets(address, bytes.len())?;
        bytes.copy_from_slice(self.bytes.get(range)?);
        Some(())
    }

    /// Changes bytes of the page; none if they are not all on it.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let range = self.offsets(address, bytes.len())?;
        self.bytes.get_mut(range.clone())?.copy_from_slice(bytes);
        self.changed = if self.changed.is_empty() {
            range
        } else {
            self.changed.start.min(range.start)..self.changed.end.max(range.end)
        };
        Some(())
    }

    /// Puts a run of bytes there that is no change: the process has it, or gets it before the page. It may be partly on other pages.
    pub(crate) fn know(&mut self, address: u64, run: &[u8]) {
        overlay(address, run, self.start, &mut self.bytes);
    }

    /// What is to be written: an address, and what is there.
    fn change(&self) -> (u64, &[u8]) {
        let changed = self.bytes.get(self.changed.clone()).unwrap_or_default();
        (self.start + self.changed.start as u64, changed)
    }

    fn offsets(&self, address: u64, length: usize) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

impl StagedPage {
    /// A page of code as it is now.
    pub(crate) const fn new(code: ChangedPage) -> Self {
        Self {
            code,
            ahead: Vec::new(),
            scattered: Vec::new(),
        }
    }

    /// Reads bytes that are all on the page; none if they are not.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.code.read(address, bytes)
    }

    /// Puts what differs here over bytes that were read from the process at an address.
    pub(crate) fn overlay(&self, address: u64, bytes: &mut [u8]) {
        for (start, run) in self.writes() {
            overlay(start, run, address, bytes);
        }
    }

    /// Changes bytes of the page; none if they are not all on it.
    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.code.write(address, bytes)
    }

    /// Notes bytes elsewhere that must be in the process before the page. They are added to a run that ends where they begin.
    pub(crate) fn write_ahead(&mut self, address: u64, bytes: &[u8]) {
        let end = address + bytes.len() as u64;
        // What was noted later is written later.
        let latest_first = self.ahead.iter_mut().rev();
        let run = latest_first
            .take_while(|(start, run)| *start >= end || *start + run.len() as u64 <= address)
            .find(|(start, run)| *start + run.len() as u64 == address);
        match run {
            Some((_, run)) => run.extend_from_slice(bytes),
            None => self.ahead.push((address, bytes.to_vec())),
        }
    }

    /// The same for a few bytes on a page of the tracer's own. `page` gives what is on a page that starts at an address. What changes on
    /// it is written at once.
    pub(crate) fn scatter_ahead(
        &mut self,
        address: u64,
        bytes: &[u8],
        page: impl FnOnce(u64) -> ChangedPage,
    ) {
        let known = (self.scattered.iter_mut()).find_map(|page| page.write(address, bytes));
        if known.is_some() {
            return;
        }
        let within = address % PAGE_SIZE;
        if within + bytes.len() as u64 > PAGE_SIZE {
            self.write_ahead(address, bytes);
            return;
        }
        let mut page = page(address - within);
        let written = page.write(address, bytes);
        debug_assert!(written.is_some(), "the page that the bytes are on");
        self.scattered.push(page);
    }

    /// Whether this is the page at an address.
    pub(crate) const fn is_at(&self, page: u64) -> bool {
        self.code.start == page
    }

    /// What is to be written to the process, in this order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let ahead = (self.ahead.iter()).map(|(address, run)| (*address, run.as_slice()));
        let pages = self.scattered.iter().chain(std::iter::once(&self.code));
        let changed = pages.map(ChangedPage::change);
        ahead.chain(changed.filter(|(_, bytes)| !bytes.is_empty()))
    }

    /// The memory of its pages, for other pages.
    pub(crate) fn into_buffers(self) -> impl Iterator<Item = Vec<u8>> {
        let pages = self.scattered.into_iter().chain(std::iter::once(self.code));
        pages.map(|page| page.bytes)
    }
}

/// Puts a run of bytes at an address over others.
fn overlay(start: u64, run: &[u8], address: u64, bytes: &mut [u8]) {
    let first = start.max(address);
    let end = (start + run.len() as u64).min(address.saturating_add(bytes.len() as u64));
    if first >= end {
        return;
    }
    let length = (end - first) as usize;
    let from = (first - start) as usize;
    let to = (first - address) as usize;
    if let (Some(from), Some(to)) = (run.get(from..from + length), bytes.get_mut(to..to + length)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 0x7000;

    fn page_at(address: u64) -> ChangedPage {
        ChangedPage::new(address, vec![0x90; PAGE_SIZE as usize])
    }

    fn page() -> StagedPage {
        StagedPage::new(page_at(PAGE))
    }

    #[test]
    fn a_page_is_written_last_and_only_where_it_has_changed() {
        let mut page = page();
        assert_eq!(page.writes().count(), 0);
        page.write(PAGE + 20, &[1, 2]).expect("on the page");
        page.write(PAGE + 10, &[3]).expect("on the page");
        page.write_ahead(0x100, &[7, 8]);
        page.write_ahead(0x200, &[5]);
        page.write_ahead(0x102, &[9]);
        page.write_ahead(0x101, &[6]);
        page.write_ahead(0x103, &[4]);
        let mut changed = vec![0x90; 12];
        changed[0] = 3;
        changed[10..].copy_from_slice(&[1, 2]);
        let expected: [(u64, &[u8]); 4] = [
            (0x100, &[7, 8, 9, 4]),
            (0x200, &[5]),
            (0x101, &[6]),
            (PAGE + 10, &changed),
        ];
        assert!(page.writes().eq(expected));
    }

    #[test]
    fn what_is_scattered_on_a_page_is_written_at_once() {
        const OURS: u64 = 0x20_0000;
        let mut page = page();
        page.write(PAGE, &[1]).expect("on the page");
        page.scatter_ahead(OURS + 9, &[7, 8], page_at);
        page.scatter_ahead(OURS + 6, &[5], |_| panic!("it is known"));
        // On two pages.
        page.scatter_ahead(OURS + PAGE_SIZE - 1, &[3, 4], page_at);
        let mut read = [0; 3];
        page.overlay(OURS + 8, &mut read);
        assert_eq!(read, [0x90, 7, 8]);
        let expected: [(u64, &[u8]); 3] = [
            (OURS + PAGE_SIZE - 1, &[3, 4]),
            (OURS + 6, &[5, 0x90, 0x90, 7, 8]),
            (PAGE, &[1]),
        ];
        assert!(page.writes().eq(expected));
    }

    #[test]
    fn what_is_known_is_no_change() {
        let mut page = page_at(PAGE);
        page.know(PAGE - 1, &[1, 2]);
        page.know(PAGE + 3, &[3, 4]);
        page.know(PAGE + PAGE_SIZE - 1, &[5, 6]);
        let mut expected = vec![0x90; PAGE_SIZE as usize];
        expected[0] = 2;
        expected[3..5].copy_from_slice(&[3, 4]);
        expected[PAGE_SIZE as usize - 1] = 5;
        assert_eq!(page.bytes, expected);
        assert!(page.change().1.is_empty());
    }

    #[test]
    fn what_is_read_is_what_will_be_there() {
        let mut page = page();
        page.write(PAGE, &[1]).expect("on the page");
        page.write_ahead(0x100, &[7, 8]);
        page.write_ahead(0x101, &[9]);
        let mut bytes = [0; 2];
        page.read(PAGE, &mut bytes).expect("on the page");
        assert_eq!(bytes, [1, 0x90]);
        for outside in [PAGE - 1, PAGE + PAGE_SIZE - 1] {
            assert_eq!(page.read(outside, &mut bytes), None);
            assert_eq!(page.write(outside, &bytes), None);
        }
        let mut across = [0; 3];
        page.overlay(PAGE - 1, &mut across);
        assert_eq!(across, [0, 1, 0]);
        let mut ahead = [0; 4];
        page.overlay(0xff, &mut ahead);
        assert_eq!(ahead, [0, 7, 9, 0]);
    }
}
