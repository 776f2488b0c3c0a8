//! The program's memory that was read during one hit.

use tracewire_model::{Address, ByteOrder};

use crate::target::{MemoryRead, StoppedThread};

/// All memory read during a hit, and the pieces to read next. The pieces keep their memory from hit to hit.
#[derive(Debug)]
pub(crate) struct Fetched {
    order: ByteOrder,
    pool: Vec<MemoryRead>,
    /// The number of pieces at the start of the pool that are read.
    read: usize,
    /// The number of requested pieces, including those already read.
    asked: usize,
    /// The capacity of all pieces in bytes.
    room: usize,
    /// Whether the target found readable memory after an unreadable part.
    behind: bool,
}

/// With a larger capacity than this the pieces are freed after the hit: a rare large collect must not hold its memory for ever.
pub(crate) const ROOM_KEPT: usize = 1 << 20;

/// The most pieces that are read for one hit because they follow others.
const MOST_PIECES: usize = 1 << 16;

/// The state of a byte of memory.
enum Known<'f> {
    /// The byte and those after it.
    Good(&'f [u8]),
    /// It cannot be read.
    Bad,
    /// It was not read.
    Unknown,
}

/// Whether all of a range is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coverage {
    /// Every byte is.
    Whole,
    /// The number of known bytes; the next one cannot be read.
    Ends(u64),
    /// The number of known bytes; the next one was not read.
    Unknown(u64),
}

impl Fetched {
    pub(crate) const fn new(order: ByteOrder) -> Self {
        Self {
            order,
            pool: Vec::new(),
            read: 0,
            asked: 0,
            room: 0,
            behind: false,
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.read = 0;
        self.asked = 0;
        self.behind = false;
        if self.room > ROOM_KEPT {
            self.pool.clear();
            self.room = 0;
        }
    }

    /// Looks the byte up in the pieces that are read.
    fn known(&self, address: u64) -> Known<'_> {
        for piece in self.pool.iter().take(self.read) {
            let Some(offset) = address.checked_sub(piece.address.0) else {
                continue;
            };
            let Ok(offset) = usize::try_from(offset) else {
                continue;
            };
            let filled = piece.filled.min(piece.bytes.len());
            if offset < filled {
                return Known::Good(piece.bytes.get(offset..filled).unwrap_or_default());
            }
            if offset == filled && filled < piece.bytes.len() {
                return Known::Bad;
            }
        }
        Known::Unknown
    }

    /// Walks over the range and passes each known piece of it to `each`, up to the first unknown byte.
    pub(crate) fn walk(&self, address: u64, length: u64, mut each: impl FnMut(&[u8])) -> Coverage {
        let mut done = 0_u64;
        while done < length {
            // Memory ends with the address space.
            let Some(at) = address.checked_add(done) else {
                return Coverage::Ends(done);
            };
            match self.known(at) {
                Known::Good(bytes) => {
                    let wanted = usize::try_from(length - done).unwrap_or(usize::MAX);
                    let bytes = bytes.get(..wanted).unwrap_or(bytes);
                    each(bytes);
                    done += bytes.len() as u64;
                }
                Known::Bad => return Coverage::Ends(done),
                Known::Unknown => return Coverage::Unknown(done),
            }
        }
        Coverage::Whole
    }

    /// The bytes of a range up to the first that is not known, joined in `joined` if they were read in parts.
    pub(crate) fn bytes<'f>(
        &'f self,
        address: u64,
        length: u64,
        joined: &'f mut Vec<u8>,
    ) -> (&'f [u8], Coverage) {
        if let Known::Good(bytes) = self.known(address)
            && let Some(whole) = usize::try_from(length)
                .ok()
                .and_then(|end| bytes.get(..end))
        {
            return (whole, Coverage::Whole);
        }
        joined.clear();
        let coverage = self.walk(address, length, |bytes| joined.extend_from_slice(bytes));
        (joined, coverage)
    }

    /// A number of at most eight bytes; `Ok(None)` when it is not readable, an error when it has not been read.
    pub(crate) fn number(&self, address: u64, size: u8) -> Result<Option<u64>, NotRead> {
        let mut number = 0_u64;
        let mut shift = 0_u32;
        let coverage = self.walk(address, u64::from(size.min(8)), |bytes| {
            for byte in bytes {
                match self.order {
                    ByteOrder::Little => number |= u64::from(*byte) << shift,
                    ByteOrder::Big => number = number << 8 | u64::from(*byte),
                }
                shift += 8;
            }
        });
        match coverage {
            Coverage::Whole => Ok(Some(number)),
            Coverage::Ends(_) => Ok(None),
            Coverage::Unknown(_) => Err(NotRead),
        }
    }

    /// Forgets, and overwrites, what follows an address in the pieces that are read: it is more than the hit needs, and may be secret.
    pub(crate) fn forget_from(&mut self, address: u64) {
        for piece in self.pool.iter_mut().take(self.read) {
            let offset = address.checked_sub(piece.address.0);
            let offset = offset.and_then(|offset| usize::try_from(offset).ok());
            let Some(offset) = offset.filter(|offset| *offset < piece.bytes.len()) else {
                continue;
            };
            if let Some(rest) = piece.bytes.get_mut(offset..) {
                rest.fill(0);
            }
            piece.bytes.truncate(offset);
            piece.filled = piece.filled.min(offset);
        }
    }

    /// Requests the unknown parts of a range, unless they have just been requested. Returns true when something must be read
    /// before more of the range is known.
    pub(crate) fn ask(&mut self, address: u64, length: u64) -> bool {
        let Coverage::Unknown(known) = self.walk(address, length, |_| {}) else {
            return false;
        };
        let start = address.wrapping_add(known);
        // At least one byte, at most to the end of the address space.
        let length = (length - known).min((u64::MAX - start).saturating_add(1));
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        let asked_already = self
            .pool
            .iter()
            .take(self.asked)
            .skip(self.read)
            .any(|piece| {
                start.checked_sub(piece.address.0).is_some_and(|offset| {
                    usize::try_from(offset)
                        .ok()
                        .and_then(|offset| piece.bytes.len().checked_sub(offset))
                        .is_some_and(|rest| rest >= wanted)
                })
            });
        if asked_already {
            return true;
        }
        if self.asked == self.pool.len() {
            self.pool.push(MemoryRead {
                address: Address(0),
                bytes: Vec::new(),
                filled: 0,
            });
        }
        if let Some(piece) = self.pool.get_mut(self.asked) {
            piece.address = Address(start);
            let room = piece.bytes.capacity();
            piece.bytes.resize(wanted, 0);
            self.room += piece.bytes.capacity() - room;
            piece.filled = 0;
            self.asked += 1;
        }
        true
    }

    /// Reads all requested pieces in one call; no call when there are none. If there is more after an unreadable part, that is
    /// read too.
    pub(crate) fn read(&mut self, thread: &mut dyn StoppedThread) {
        while self.read < self.asked {
            let from = self.read;
            if let Some(pieces) = self.pool.get_mut(from..self.asked) {
                thread.read_memory(pieces);
            }
            self.read = self.asked;
            for index in from..self.read {
                self.ask_behind(index, thread);
            }
        }
    }

    /// Requests the readable rest of a piece after its first unreadable byte.
    fn ask_behind(&mut self, index: usize, thread: &mut dyn StoppedThread) {
        let Some(piece) = self.pool.get(index) else {
            return;
        };
        let length = piece.bytes.len();
        if piece.filled >= length || self.asked >= MOST_PIECES {
            return;
        }
        let bad = piece.address.0.wrapping_add(piece.filled as u64);
        let end = piece.address.0.saturating_add(length as u64);
        if let Some(next) = thread.readable_from(Address(bad), Address(end))
            && (bad..end).contains(&next.0)
        {
            self.behind = true;
            self.ask(next.0, end - next.0);
        }
    }

    /// Passes on the readable runs of a range whose first byte is unreadable; none if the target does not look further.
    pub(crate) fn runs_behind(&self, bad: u64, length: u64, mut each: impl FnMut(u64, &[u8])) {
        if !self.behind {
            return;
        }
        let end = bad.saturating_add(length);
        let mut at = bad;
        while at < end {
            match self.known(at) {
                Known::Good(bytes) => {
                    let wanted = usize::try_from(end - at).unwrap_or(usize::MAX);
                    let bytes = bytes.get(..wanted).unwrap_or(bytes);
                    each(at, bytes);
                    at = at.saturating_add(bytes.len() as u64);
                }
                Known::Bad | Known::Unknown => {
                    let pieces = self.pool.iter().take(self.read);
                    let starts = pieces.filter(|piece| piece.filled > 0 && piece.address.0 > at);
                    match starts.map(|piece| piece.address.0).min() {
                        Some(next) => at = next,
                        None => return,
                    }
                }
            }
        }
    }
}

/// A value that must be read first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotRead;
