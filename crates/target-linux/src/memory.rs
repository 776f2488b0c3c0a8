//! Reading and writing the program's memory.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use tracewire_experiment::MemoryRead;
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::relocate::JUMP_LENGTH;

use crate::ptrace::{PAGE_SIZE, Tid};
use crate::staged_page::{ChangedPage, StagedPage};

/// The most vectors that the kernel takes in one call.
const MAX_VECTORS: usize = 1024;

/// Reads the memory of a process.
pub(crate) trait ReadMemory {
    /// Reads as many of the bytes as there are, and tells how many.
    fn read(&self, address: u64, bytes: &mut [u8]) -> usize;
}

/// The memory of a process. Bytes that we have put there do not show.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `/proc/TID/mem`, which reads and writes regardless of protection.
    file: File,
    /// The bytes of the program where ours are now, by their address.
    displaced: BTreeMap<u64, u8>,
    /// The page of code that is being changed, until it is written.
    staged: Option<StagedPage>,
    /// Pages that are not used, for the next ones that are changed: thousands in turn.
    spare: Vec<Vec<u8>>,
    batch: Batch,
}

impl Memory {
    /// Opens the memory of the process that a thread belongs to. It stays that of the program which runs now:
    /// after an exec it must be opened anew.
    pub(crate) fn open(thread: Tid) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{thread}/mem"))?;
        Ok(Self {
            file,
            displaced: BTreeMap::new(),
            staged: None,
            spare: Vec::new(),
            batch: Batch::default(),
        })
    }

    /// Reads all the pieces in as few calls as can be, through a thread that has not ended.
    ///
    /// A `word` of 4 bytes can be fetched by the same call; it is left alone where it cannot be read.
    pub(crate) fn read_pieces(
        &mut self,
        thread: Tid,
        pieces: &mut [MemoryRead],
        word: Option<(u64, &mut u32)>,
    ) {
        debug_assert!(self.staged.is_none(), "the program has not all of its pads");
        let mut batch = std::mem::take(&mut self.batch);
        batch.group(pieces);
        let mut word = word;
        let mut next = 0;
        while next < batch.groups.len() || word.is_some() {
            next = self.read_groups(thread, pieces, &mut batch, next, word.take());
        }
        // It has the bytes between pieces, too, and they may be of a redacted variable.
        batch.scratch.fill(0);
        self.batch = batch;
        for piece in pieces {
            self.hide(piece.address.0, &mut piece.bytes);
        }
    }

    /// Reads groups from `start` on with one call, up to one that is not wholly there, which is read piece by
    /// piece. Tells which group is next.
    fn read_groups(
        &self,
        thread: Tid,
        pieces: &mut [MemoryRead],
        batch: &mut Batch,
        start: usize,
        word: Option<(u64, &mut u32)>,
    ) -> usize {
        let mut number = 0_u32;
        batch.vectors(
            pieces,
            start,
            word.as_ref()
                .map(|(address, _)| (*address, &raw mut number)),
        );
        let mut got = match (batch.local.as_slice(), batch.remote.as_slice()) {
            // One piece alone comes cheaper through the file.
            ([local], [remote]) => {
                // SAFETY: the vector is of a live buffer, exclusively borrowed, of this length.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(local.iov_base.cast::<u8>(), local.iov_len)
                };
                self.read_forced(remote.iov_base as u64, bytes)
            }
            (local, remote) => read_vectors(thread, local, remote),
        };
        if let Some((_, value)) = word {
            if got < size_of::<u32>() {
                // Not there: once more without it.
                return start;
            }
            *value = number;
            got -= size_of::<u32>();
        }
        let mut next = start;
        for group in batch.groups.iter().skip(start).take(MAX_VECTORS - 1) {
            next += 1;
            let members = batch
                .order
                .get(group.first..group.first + group.count)
                .unwrap_or_default();
            let whole = got >= group.length;
            for piece in members {
                let Some(piece) = pieces.get_mut(*piece) else {
                    continue;
                };
                if !whole {
                    piece.filled = self.read_forced(piece.address.0, &mut piece.bytes);
                } else {
                    piece.filled = piece.bytes.len();
                    if let Some(scratch) = group.scratch {
                        let offset = scratch + (piece.address.0 - group.start) as usize;
                        if let Some(bytes) = batch.scratch.get(offset..offset + piece.filled) {
                            piece.bytes.copy_from_slice(bytes);
                        }
                    }
                }
            }
            if !whole {
                break;
            }
            got -= group.length;
        }
        next
    }

    /// Reads as many of the bytes as there are, and tells how many.
    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let filled = self.read_forced(address, bytes);
        self.hide(address, bytes);
        filled
    }

    /// Reads bytes as they are in the process, ours included, and returns how many there are.
    pub(crate) fn read_present(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.read_forced(address, bytes)
    }

    /// Reads bytes as they are in the process, and gives the program's own beside them.
    pub(crate) fn read_both<const N: usize>(
        &self,
        address: u64,
        present: &mut [u8; N],
        original: &mut [u8; N],
    ) -> usize {
        let filled = self.read_forced(address, present);
        *original = *present;
        self.hide(address, original);
        filled
    }

    /// Reads exactly `N` bytes.
    pub(crate) fn read_array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.read(address, &mut bytes) == N).then_some(bytes)
    }

    /// Reads a number of 64 bits.
    pub(crate) fn read_u64(&self, address: u64) -> Option<u64> {
        self.read_array(address).map(u64::from_le_bytes)
    }

    /// Writes bytes, even where the program itself may not.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }

    /// Lets the changes to a page of code wait until [`write_staged`](Self::write_staged), which makes them with one write. Its jumps may
    /// not be needed before: no thread runs, and none is moved to a pad.
    ///
    /// # Errors
    /// When the page cannot be read or written: then nothing waits.
    pub(crate) fn stage(&mut self, page: u64) -> io::Result<()> {
        if self
            .staged
            .as_ref()
            .is_some_and(|staged| staged.is_at(page))
        {
            return Ok(());
        }
        self.write_staged()?;
        let mut bytes = empty_page(&mut self.spare);
        if read_file(&self.file, page, &mut bytes) < bytes.len() {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        // A page that takes a byte takes all: what waits is not refused later.
        self.write(page, bytes.get(..1).unwrap_or_default())?;
        self.staged = Some(StagedPage::new(ChangedPage::new(page, bytes)));
        Ok(())
    }

    /// Writes what waits: what jumps lead to first.
    ///
    /// # Errors
    /// When it cannot be written, because the process has ended.
    pub(crate) fn write_staged(&mut self) -> io::Result<()> {
        let Some(staged) = self.staged.take() else {
            return Ok(());
        };
        for (address, bytes) in staged.writes() {
            self.write(address, bytes)?;
            fail_point!("stage/written");
        }
        self.spare.extend(staged.into_buffers());
        Ok(())
    }

    /// Writes bytes that a jump is to lead to, before the jump.
    pub(crate) fn write_target(&mut self, address: u64, bytes: &[u8]) -> io::Result<()> {
        match &mut self.staged {
            Some(staged) => {
                staged.write_ahead(address, bytes);
                Ok(())
            }
            None => self.write(address, bytes),
        }
    }

    /// The same for a few bytes among others of ours: those on a page are written at once. `others` gives the runs of bytes on a page
    /// that starts at an address. What is between them is not used any more.
    pub(crate) fn write_target_among_others<I>(
        &mut self,
        address: u64,
        bytes: [u8; JUMP_LENGTH],
        others: impl FnOnce(u64) -> I,
    ) -> io::Result<()>
    where
        I: Iterator<Item = (u64, [u8; JUMP_LENGTH])>,
    {
        let Self { staged, spare, .. } = self;
        let Some(staged) = staged else {
            return self.write(address, &bytes);
        };
        staged.scatter_ahead(address, &bytes, |start| {
            let mut page = ChangedPage::new(start, empty_page(spare));
            for (at, run) in others(start) {
                page.know(at, &run);
            }
            page
        });
        Ok(())
    }

    /// Writes bytes over the program's code.
    fn write_code(&mut self, address: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(staged) = &mut self.staged {
            if staged.write(address, bytes).is_some() {
                return Ok(());
            }
            // Jumps of another page may be made of the bytes of this one, or lead to what waits.
            self.write_staged()?;
        }
        self.write(address, bytes)
    }

    /// Writes bytes as the program's own: where there is a byte of ours, it stays, over the new one.
    pub(crate) fn write_through(&mut self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut shown = bytes.to_vec();
        for (byte, place) in shown.iter_mut().zip(address..) {
            if self.displaced.contains_key(&place) {
                let mut ours = [0];
                if self.read_forced(place, &mut ours) == 1 {
                    *byte = ours[0];
                }
            }
        }
        self.write_code(address, &shown)?;
        for (byte, place) in bytes.iter().zip(address..) {
            if let Some(original) = self.displaced.get_mut(&place) {
                *original = *byte;
            }
        }
        Ok(())
    }

    /// Puts a byte of ours over one of the program's, which readers go on to see.
    pub(crate) fn cover(&mut self, address: u64, byte: u8) -> io::Result<u8> {
        let [original] = self
            .read_array::<1>(address)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))?;
        self.write_code(address, &[byte])?;
        self.displaced.insert(address, original);
        Ok(original)
    }

    /// The same, unless it is covered already.
    pub(crate) fn cover_once(&mut self, address: u64, byte: u8) -> io::Result<()> {
        if !self.displaced.contains_key(&address) {
            self.cover(address, byte)?;
        }
        Ok(())
    }

    /// Puts bytes of ours over the program's, with one write. None of them is covered yet; `original` is what is there.
    pub(crate) fn cover_all(
        &mut self,
        address: u64,
        original: &[u8],
        bytes: &[u8],
    ) -> io::Result<()> {
        debug_assert_eq!(original.len(), bytes.len(), "each byte covers one");
        self.write_code(address, bytes)?;
        self.displaced
            .extend((address..).zip(original.iter().copied()));
        fail_point!("patch/covered");
        Ok(())
    }

    /// Gives covered bytes back, with one write.
    pub(crate) fn uncover_all(&mut self, addresses: Range<u64>) -> io::Result<()> {
        let covered = self.displaced.range(addresses.clone());
        let original: Vec<u8> = covered.map(|(_, byte)| *byte).collect();
        self.write_code(addresses.start, &original)?;
        fail_point!("patch/uncovered");
        for address in addresses {
            self.displaced.remove(&address);
        }
        Ok(())
    }

    /// Gives a covered byte back.
    pub(crate) fn uncover(&mut self, address: u64) -> io::Result<()> {
        if let Some(original) = self.displaced.get(&address).copied() {
            self.write_code(address, &[original])?;
            self.displaced.remove(&address);
        }
        Ok(())
    }

    /// Forgets that a byte was covered, where its memory is gone.
    pub(crate) fn forget(&mut self, address: u64) {
        self.displaced.remove(&address);
    }

    /// Puts the original bytes shown here over their places in another process, a copy of this one.
    pub(crate) fn uncover_copy(&self, copy: Tid) -> io::Result<()> {
        if self.displaced.is_empty() {
            return Ok(());
        }
        let file = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{copy}/mem"))?;
        let mut run: (u64, Vec<u8>) = (0, Vec::new());
        for (address, original) in &self.displaced {
            if *address != run.0 + run.1.len() as u64 {
                file.write_all_at(&run.1, run.0)?;
                run = (*address, Vec::new());
            }
            run.1.push(*original);
        }
        file.write_all_at(&run.1, run.0)
    }

    /// Reads through `/proc`, which also reads what the program itself may not.
    fn read_forced(&self, address: u64, bytes: &mut [u8]) -> usize {
        let staged = self.staged.as_ref();
        if staged.is_some_and(|staged| staged.read(address, bytes).is_some()) {
            return bytes.len();
        }
        let filled = read_file(&self.file, address, bytes);
        if let Some(staged) = staged {
            staged.overlay(address, bytes.get_mut(..filled).unwrap_or_default());
        }
        filled
    }

    /// Replaces bytes of ours by what they displaced.
    fn hide(&self, address: u64, bytes: &mut [u8]) {
        let Some(last) = (bytes.len() as u64).checked_sub(1) else {
            return;
        };
        for (place, original) in self.displaced.range(address..=address.saturating_add(last)) {
            if let Some(byte) = bytes.get_mut((place - address) as usize) {
                *byte = *original;
            }
        }
    }
}

/// A page of zeros.
fn empty_page(spare: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut page = spare.pop().unwrap_or_default();
    page.clear();
    page.resize(PAGE_SIZE as usize, 0);
    page
}

fn read_file(file: &File, address: u64, bytes: &mut [u8]) -> usize {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, address.wrapping_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    filled
}

impl ReadMemory for Memory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.read(address, bytes)
    }
}

/// What is to be read, put in groups: small pieces on one page are read as one.
#[derive(Debug, Default)]
struct Batch {
    /// The pieces by their addresses.
    order: Vec<usize>,
    groups: Vec<Group>,
    /// Where groups of several pieces are read to.
    scratch: Vec<u8>,
    local: Vec<libc::iovec>,
    remote: Vec<libc::iovec>,
}

/// Pieces that are read as one.
#[derive(Debug)]
struct Group {
    start: u64,
    length: usize,
    /// Its first piece, by the place in the order, and how many there are.
    first: usize,
    count: usize,
    /// Where it is in the scratch; none for a piece by itself, which is read straight to its place.
    scratch: Option<usize>,
}

/// The longest piece that is worth copying, in bytes.
const SMALL: usize = 512;

impl Batch {
    fn group(&mut self, pieces: &[MemoryRead]) {
        const PAGE: u64 = 4096;
        self.order.clear();
        self.order.extend(0..pieces.len());
        let address = |index: &usize| pieces.get(*index).map_or(0, |piece| piece.address.0);
        if !self.order.is_sorted_by_key(address) {
            self.order.sort_by_key(address);
        }
        self.groups.clear();
        for (place, piece) in self.order.iter().enumerate() {
            let Some(piece) = pieces.get(*piece) else {
                continue;
            };
            let (start, length) = (piece.address.0, piece.bytes.len());
            if let Some(group) = self.groups.last_mut()
                && length <= SMALL
                && group.length <= PAGE as usize
                && (group.count > 1 || group.length <= SMALL)
                && group.length > 0
                // Nothing but bytes of the same page lies between: if it is readable, so are they.
                && let Some(last) = group.start.checked_add(group.length as u64 - 1)
                && last / PAGE == start / PAGE
                && let Some(end) = start.checked_add(length as u64)
            {
                group.length = group.length.max((end - group.start) as usize);
                group.count += 1;
                continue;
            }
            self.groups.push(Group {
                start,
                length,
                first: place,
                count: 1,
                scratch: None,
            });
        }
        let mut used = 0;
        for group in self.groups.iter_mut().filter(|group| group.count > 1) {
            group.scratch = Some(used);
            used += group.length;
        }
        self.scratch.resize(used, 0);
    }

    /// Makes the vectors for one call.
    fn vectors(&mut self, pieces: &mut [MemoryRead], start: usize, word: Option<(u64, *mut u32)>) {
        self.local.clear();
        self.remote.clear();
        if let Some((address, number)) = word {
            self.local.push(vector(number as u64, size_of::<u32>()));
            self.remote.push(vector(address, size_of::<u32>()));
        }
        for group in self.groups.iter().skip(start).take(MAX_VECTORS - 1) {
            let buffer = match group.scratch {
                Some(offset) => self.scratch.get_mut(offset..offset + group.length),
                None => self
                    .order
                    .get(group.first)
                    .and_then(|piece| pieces.get_mut(*piece))
                    .map(|piece| piece.bytes.as_mut_slice()),
            };
            let buffer = buffer.unwrap_or_default();
            self.local
                .push(vector(buffer.as_mut_ptr() as u64, buffer.len()));
            self.remote.push(vector(group.start, buffer.len()));
        }
    }
}

/// One `process_vm_readv` of all the vectors; how many bytes from the start are good.
fn read_vectors(thread: Tid, local: &[libc::iovec], remote: &[libc::iovec]) -> usize {
    // SAFETY: each local vector is a live, exclusively borrowed buffer of its length; the kernel checks the remote
    // ones.
    let got = unsafe {
        libc::process_vm_readv(
            thread,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(got).unwrap_or(0)
}

fn vector(address: u64, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: length,
    }
}
