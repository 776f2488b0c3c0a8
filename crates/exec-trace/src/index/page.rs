//! Pages: the accesses of all of the trace in the order of their addresses, and of time within each granule.
//!
//! `docs/formats/execution-index.md` has the form.

use crate::compact::bytes::{Damaged, Reader, put};
use crate::compact::frame::has_sum;
use crate::compact::part::bytes_mask;

/// How many entries a page has at most.
pub(crate) const ENTRIES: usize = 128;

/// An access to a part of a granule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// From which instruction on it is seen.
    pub(crate) slot: u64,
    pub(crate) offset: u8,
    pub(crate) length: u8,
    pub(crate) is_write: bool,
    /// None where the bytes are not known.
    pub(crate) data: Option<u64>,
}

/// What an access did to what was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A read of what was known.
    Agrees = 0,
    /// A read of bytes of which some were not known.
    Reveals = 1,
    /// A read that differs from what was known.
    Contradicts = 2,
    /// A write.
    Writes = 3,
    /// A write of what was there.
    Rewrites = 4,
    /// A write of unknown bytes.
    Invalidates = 5,
    /// A read of unknown bytes, of which nothing is learned.
    NoInfo = 6,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Agrees,
        Self::Reveals,
        Self::Contradicts,
        Self::Writes,
        Self::Rewrites,
        Self::Invalidates,
        Self::NoInfo,
    ];

    const fn has_data(self) -> bool {
        matches!(self, Self::Reveals | Self::Contradicts | Self::Writes)
    }

    pub(crate) const fn is_write(self) -> bool {
        matches!(self, Self::Writes | Self::Rewrites | Self::Invalidates)
    }
}

/// What is known of a granule at some time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct State {
    /// A one for each byte that was accessed.
    pub(crate) touched: u8,
    /// A one for each byte that is known by that.
    pub(crate) known: u8,
    pub(crate) value: u64,
}

/// The bits of a row of bytes in a mask of bytes.
pub(crate) const fn byte_bits(offset: u8, length: u8) -> u8 {
    (((1u16 << length) - 1) << offset) as u8
}

impl State {
    /// What an access does, and what it is.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Kind {
        let bytes = byte_bits(entry.offset, entry.length);
        let shift = entry.offset * 8;
        let mask = bytes_mask(u64::from(entry.length)) << shift;
        let is_known = self.known & bytes == bytes;
        let Some(data) = entry.data else {
            if !entry.is_write {
                // Bytes that nothing was known of stay as they were before.
                return Kind::NoInfo;
            }
            self.touched |= bytes;
            self.known &= !bytes;
            self.value &= !mask;
            return Kind::Invalidates;
        };
        let data = data << shift & mask;
        let known_mask = spread(self.known & bytes);
        let kind = match (entry.is_write, self.value & mask == data) {
            (true, true) if is_known => Kind::Rewrites,
            (true, _) => Kind::Writes,
            (false, true) if is_known => Kind::Agrees,
            (false, _) if (self.value ^ data) & known_mask != 0 => Kind::Contradicts,
            (false, _) => Kind::Reveals,
        };
        self.touched |= bytes;
        self.known |= bytes;
        self.value = self.value & !mask | data;
        kind
    }

    fn replay(&mut self, item: &Item) {
        let bytes = byte_bits(item.offset, item.length);
        let shift = item.offset * 8;
        let mask = bytes_mask(u64::from(item.length)) << shift;
        match item.kind {
            Kind::Agrees | Kind::Rewrites | Kind::NoInfo => {}
            Kind::Invalidates => {
                self.touched |= bytes;
                self.known &= !bytes;
                self.value &= !mask;
            }
            Kind::Reveals | Kind::Contradicts | Kind::Writes => {
                self.touched |= bytes;
                self.known |= bytes;
                self.value = self.value & !mask | item.data << shift & mask;
            }
        }
    }
}

/// A byte of ones for each bit.
pub(crate) const fn spread(bits: u8) -> u64 {
    let mut mask = 0;
    let mut at = 0;
    while at < 8 {
        if bits >> at & 1 == 1 {
            mask |= 0xff << (at * 8);
        }
        at += 1;
    }
    mask
}

/// An entry as it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    pub(crate) granule: u64,
    pub(crate) slot: u64,
    pub(crate) kind: Kind,
    pub(crate) offset: u8,
    pub(crate) length: u8,
    /// Where the kind has data.
    pub(crate) data: u64,
}

/// Makes one page.
#[derive(Debug, Default)]
pub(crate) struct PageWriter {
    pub(crate) granule: u64,
    pub(crate) slot: u64,
    state: State,
    last_granule: u64,
    last_slot: u64,
    pub(crate) count: usize,
    entries: Vec<u8>,
}

impl PageWriter {
    pub(crate) fn push(&mut self, granule: u64, before: State, kind: Kind, entry: &Entry) {
        if self.count == 0 {
            (self.granule, self.slot) = (granule, entry.slot);
            self.state = before;
            (self.last_granule, self.last_slot) = (granule, entry.slot);
        }
        let place = row_number(entry.offset, entry.length);
        self.entries.push(kind as u8 * 36 + place);
        if granule == self.last_granule {
            put(&mut self.entries, (entry.slot - self.last_slot) << 1);
        } else {
            put(&mut self.entries, entry.slot << 1 | 1);
            put(&mut self.entries, granule - self.last_granule);
        }
        (self.last_granule, self.last_slot) = (granule, entry.slot);
        if kind.has_data() {
            let data = entry.data.unwrap_or(0).to_le_bytes();
            self.entries
                .extend_from_slice(&data[..usize::from(entry.length)]);
        }
        self.count += 1;
    }

    /// Appends the page, and is empty again.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        put(out, self.granule);
        put(out, self.slot);
        out.extend_from_slice(&[self.state.touched, self.state.known]);
        out.extend_from_slice(&self.state.value.to_le_bytes());
        put(out, self.count as u64);
        out.extend_from_slice(&self.entries);
        let sum = crc32fast::hash(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        self.entries.clear();
        self.count = 0;
    }
}

/// The rows of bytes of a granule, numbered.
const fn row_number(offset: u8, length: u8) -> u8 {
    // Those of offset 0 first, of which there are 8, then 7, and so on.
    offset * (17 - offset) / 2 + length - 1
}

const fn row_of(number: u8) -> (u8, u8) {
    let (mut offset, mut left) = (0, number);
    while left >= 8 - offset {
        left -= 8 - offset;
        offset += 1;
    }
    (offset, left + 1)
}

static ROWS: [(u8, u8); 36] = {
    let mut rows = [(0, 0); 36];
    let mut at = 0;
    while at < 36 {
        rows[at as usize] = row_of(at);
        at += 1;
    }
    rows
};

/// A page, entry by entry.
#[derive(Clone, Debug)]
pub(crate) struct Page<'a> {
    reader: Reader<'a>,
    granule: u64,
    slot: u64,
    left: usize,
    /// What is known of the granule of the entry that comes next, before it.
    state: State,
}

impl<'a> Page<'a> {
    /// A page that is said to begin with this granule and slot.
    pub(crate) fn read(bytes: &'a [u8], granule: u64, slot: u64) -> Result<Self, Damaged> {
        let (sum, rest) = bytes.split_first_chunk::<4>().ok_or(Damaged)?;
        if !has_sum(rest, u32::from_le_bytes(*sum)) {
            return Err(Damaged);
        }
        let mut reader = Reader::new(rest);
        if (reader.number()?, reader.number()?) != (granule, slot) {
            return Err(Damaged);
        }
        let state = State {
            touched: reader.byte()?,
            known: reader.byte()?,
            value: reader.fixed(8)?,
        };
        Ok(Self {
            left: reader.count()?,
            reader,
            granule,
            slot,
            state,
        })
    }

    /// What was known of the first entry's granule before the page.
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// The next entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Item>, Damaged> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let code = self.reader.byte()?;
        let kind = *Kind::ALL.get(usize::from(code / 36)).ok_or(Damaged)?;
        let (offset, length) = ROWS[usize::from(code % 36)];
        let number = self.reader.number()?;
        if number & 1 == 0 {
            self.slot = self.slot.checked_add(number >> 1).ok_or(Damaged)?;
        } else {
            self.slot = number >> 1;
            let step = self.reader.number()?;
            self.granule = self.granule.checked_add(step).ok_or(Damaged)?;
        }
        let data = if kind.has_data() {
            self.reader.fixed(usize::from(length))?
        } else {
            0
        };
        Ok(Some(Item {
            granule: self.granule,
            slot: self.slot,
            kind,
            offset,
            length,
            data,
        }))
    }
}

/// Follows one granule through entries.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Follower {
    pub(crate) state: State,
    /// The bytes that were read before they were written, and what was read.
    pub(crate) first: State,
}

impl Follower {
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            first: State {
                touched: state.touched,
                ..State::default()
            },
        }
    }

    /// Goes over an entry of the granule.
    pub(crate) fn pass(&mut self, item: &Item) {
        self.state.replay(item);
        self.note_first(item);
    }

    /// Notes what an entry says of the granule's bytes before any access.
    pub(crate) fn note_first(&mut self, item: &Item) {
        let bytes = byte_bits(item.offset, item.length);
        let new = bytes & !self.first.touched;
        match item.kind {
            Kind::Reveals | Kind::Contradicts if new != 0 => {
                let mask = spread(new);
                self.first.touched |= new;
                self.first.known |= new;
                self.first.value |= item.data << (item.offset * 8) & mask;
            }
            Kind::Writes | Kind::Invalidates => self.first.touched |= new,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_of_bytes_have_numbers() {
        let mut number = 0;
        for offset in 0..8 {
            for length in 1..=8 - offset {
                assert_eq!(row_number(offset, length), number);
                assert_eq!(ROWS[usize::from(number)], (offset, length));
                number += 1;
            }
        }
    }

    proptest! {
        /// What a page gives is what went in, and the state it has is that of single bytes.
        #[test]
        fn pages_come_back(accesses in proptest::collection::vec(
            (0..3u64, 0..3u64, 0..36usize, any::<bool>(), proptest::option::weighted(0.9, 0..4u64)), 1..100,
        )) {
            let mut writer = PageWriter::default();
            let mut entries = Vec::new();
            let (mut granule, mut slot) = (5, 0);
            let mut state = State::default();
            let mut bytes: [Option<u8>; 8] = [None; 8];
            for (step, wait, row, is_write, data) in accesses {
                if step > 0 {
                    granule += step;
                    slot = 0;
                    state = State::default();
                    bytes = [None; 8];
                }
                slot += wait;
                let (offset, length) = ROWS[row];
                let data = data.map(|data| (data * 0x0101_0101_0101_0101) & bytes_mask(u64::from(length)));
                let entry = Entry { slot, offset, length, is_write, data };
                let before = state;
                let kind = state.apply(&entry);
                let old = bytes;
                for at in 0..usize::from(length) {
                    let byte = data.map(|data| (data >> (at * 8)) as u8);
                    if byte.is_some() || is_write {
                        bytes[usize::from(offset) + at] = byte;
                    }
                }
                let contradicts = !is_write && data.is_some()
                    && old.iter().zip(bytes).any(|(old, new)| old.is_some() && *old != new);
                prop_assert_eq!(kind == Kind::Contradicts, contradicts);
                for (at, byte) in bytes.iter().enumerate() {
                    let known = state.known >> at & 1 == 1;
                    prop_assert_eq!(known.then_some((state.value >> (at * 8)) as u8), *byte);
                }
                writer.push(granule, before, kind, &entry);
                entries.push((granule, entry, kind, state));
            }
            let mut out = Vec::new();
            let (first_granule, first_slot) = (writer.granule, writer.slot);
            writer.finish(&mut out);
            let mut page = Page::read(&out, first_granule, first_slot).unwrap();
            let mut follower = Follower::new(page.state());
            let mut last = first_granule;
            for (granule, entry, kind, state) in entries {
                let item = page.next().unwrap().unwrap();
                if granule != last {
                    follower = Follower::default();
                    last = granule;
                }
                prop_assert_eq!((item.granule, item.slot, item.kind, item.offset, item.length),
                    (granule, entry.slot, kind, entry.offset, entry.length));
                follower.pass(&item);
                prop_assert_eq!(follower.state, state);
            }
            prop_assert_eq!(page.next().unwrap(), None);
            for cut in 0..out.len() {
                prop_assert!(Page::read(&out[..cut], first_granule, first_slot).is_err());
            }
        }
    }
}
