//! Memory before an instruction.

use std::sync::Arc;

use tracewire_model::Address;

use super::{ReadError, Recording, Summary};
use crate::compact::bytes::{Damaged, Reader};
use crate::compact::part::GRANULE;
use crate::index::{Follower, Item, PageState, Store, Table, read_contradictions};
use crate::record::InstructionNumber;
use crate::text::Format;

/// What memory held before the trace: pieces at addresses, such as the segments of a program's file.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// In the order of their addresses.
    pieces: Arc<[Piece]>,
}

#[derive(Debug)]
struct Piece {
    start: u64,
    bytes: Box<[u8]>,
    is_writable: bool,
}

/// A piece of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImagePiece {
    /// The first byte.
    pub address: Address,
    /// What is there.
    pub bytes: Vec<u8>,
    /// Whether the program may write it.
    pub is_writable: bool,
}

impl Image {
    /// Of pieces. Where two overlap, the later one counts.
    pub fn new(pieces: impl IntoIterator<Item = ImagePiece>) -> Self {
        let mut all: Vec<(u64, Vec<u8>, bool)> = Vec::new();
        for piece in pieces {
            let ImagePiece {
                address: Address(start),
                bytes,
                is_writable,
            } = piece;
            let length = (bytes.len() as u64).min(u64::MAX - start);
            let end = start + length;
            let mut kept = Vec::with_capacity(all.len() + 2);
            for (old, mut old_bytes, old_writable) in all {
                let old_end = old + old_bytes.len() as u64;
                if old_end <= start || old >= end {
                    kept.push((old, old_bytes, old_writable));
                    continue;
                }
                if old_end > end {
                    let behind = old_bytes.split_off((end - old) as usize);
                    kept.push((end, behind, old_writable));
                }
                if old < start {
                    old_bytes.truncate((start - old) as usize);
                    kept.push((old, old_bytes, old_writable));
                }
            }
            kept.push((start, bytes, is_writable));
            all = kept;
        }
        all.retain(|(_, bytes, _)| !bytes.is_empty());
        all.sort_unstable_by_key(|(start, ..)| *start);
        let pieces = all.into_iter().map(|(start, bytes, is_writable)| Piece {
            start,
            bytes: bytes.into(),
            is_writable,
        });
        Self {
            pieces: pieces.collect(),
        }
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Its pieces, in the order of their addresses: where each begins, and its bytes.
    pub fn pieces(&self) -> impl Iterator<Item = (Address, &[u8])> {
        let pieces = self.pieces.iter();
        pieces.map(|piece| (Address(piece.start), &*piece.bytes))
    }

    /// The byte at an address, where the image has one.
    #[must_use]
    pub fn byte(&self, address: Address) -> Option<u8> {
        self.found(address).map(|(byte, _)| byte)
    }

    /// The byte at an address, where the image has one that the program may not write.
    #[must_use]
    pub fn constant_byte(&self, address: Address) -> Option<u8> {
        self.found(address)
            .and_then(|(byte, is_writable)| (!is_writable).then_some(byte))
    }

    fn found(&self, Address(address): Address) -> Option<(u8, bool)> {
        let after = self.pieces.partition_point(|piece| piece.start <= address);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        let place = usize::try_from(address - piece.start).ok()?;
        piece
            .bytes
            .get(place)
            .map(|byte| (*byte, piece.is_writable))
    }
}

/// How many of the writes to memory a recording reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReportedWrites {
    /// All of them, as far as instructions and accesses show: no instruction writes memory, or accesses are reported.
    All,
    /// Less than half of those that its instructions make.
    Some,
    /// None, though instructions make or may make some.
    None,
}

impl ReportedWrites {
    pub(super) const fn of(format: Format, summary: &Summary) -> Self {
        Self::of_counts(
            format,
            summary.memory_writes,
            summary.stores,
            summary.possible_stores,
        )
    }

    /// Of so many writes that are reported, of so many executed instructions that write memory, and of so many that may. A format
    /// without the data of accesses reports none.
    #[must_use]
    pub const fn of_counts(format: Format, writes: u64, stores: u64, possible: u64) -> Self {
        // A store writes once at least, unless it faults.
        let none = writes == 0 && (stores > 0 || possible > 0);
        if none || !format.reports_data() {
            Self::None
        } else if writes < stores / 2 {
            Self::Some
        } else {
            Self::All
        }
    }
}

/// A read that differs from what was known of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// The instruction that read; none for an access before the first instruction.
    pub instruction: Option<InstructionNumber>,
    /// The first byte. An access over several rows of 8 bytes is given row by row.
    pub address: Address,
    /// What was known of the bytes.
    pub known: Vec<Option<u8>>,
    /// What was read.
    pub read: Vec<u8>,
}

/// The reads that differ from what was known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Contradictions {
    /// How many there are.
    pub count: u64,
    /// The first of them in the order of time; where there are very many, some are left out.
    pub list: Vec<Contradiction>,
}

impl Recording {
    /// What memory holds before an instruction executes, `None` for a byte that is not known. See the
    /// [module](super) for what is known. Addresses wrap at the end of the address space.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn memory_at(
        &self,
        before: InstructionNumber,
        address: Address,
        bytes: &mut [Option<u8>],
    ) -> Result<(), ReadError> {
        let mut found = vec![None; bytes.len()];
        by_granules(address, &mut found, |granule| {
            self.granule_at(before.0, granule)
        })?;
        bytes.copy_from_slice(&found);
        Ok(())
    }

    /// The bytes of a granule before an instruction.
    pub(super) fn granule_at(
        &self,
        before: u64,
        granule: u64,
    ) -> Result<[Option<u8>; 8], ReadError> {
        if self.reported == ReportedWrites::None {
            return Ok(self.image_at(before, granule));
        }
        self.ask(|store| {
            let state = state_at(store, before, granule)?;
            let mut bytes = known_bytes(&state);
            if state.touched == 0xff {
                return Ok(bytes);
            }
            let untouched = self.untouched_in(store, before, granule, !state.touched)?;
            for (place, byte) in bytes.iter_mut().enumerate() {
                if state.touched >> place & 1 == 0 {
                    *byte = untouched[place];
                }
            }
            Ok(bytes)
        })
    }

    /// What the image says of a granule before an instruction: of bytes that the program may write nothing after the
    /// start, where writes to them are not all reported.
    fn image_at(&self, before: u64, granule: u64) -> [Option<u8>; 8] {
        let holds_on = before == 0 || self.reported == ReportedWrites::All;
        std::array::from_fn(|place| {
            let address = Address(granule * GRANULE + place as u64);
            match holds_on {
                true => self.image.byte(address),
                false => self.image.constant_byte(address),
            }
        })
    }

    /// What the bytes of a granule hold until an access touches them, in a recording that reports all writes.
    pub(super) fn untouched(&self, granule: u64) -> Result<[Option<u8>; 8], ReadError> {
        self.ask(|store| self.untouched_in(store, 0, granule, 0xff))
    }

    /// What the bytes of a granule that have their bit set, and that no access touched, hold before an instruction.
    fn untouched_in(
        &self,
        store: &Store,
        before: u64,
        granule: u64,
        wanted: u8,
    ) -> Result<[Option<u8>; 8], Damaged> {
        let mut bytes = self.image_at(before, granule);
        if self.reported != ReportedWrites::All {
            return Ok(bytes);
        }
        let is_missing =
            |(place, byte): (usize, &Option<u8>)| wanted >> place & 1 == 1 && byte.is_none();
        if bytes.iter().enumerate().any(is_missing) {
            let first = known_bytes(&first_of(store, granule)?);
            for (byte, first) in bytes.iter_mut().zip(first) {
                *byte = byte.or(first);
            }
        }
        Ok(bytes)
    }

    /// The reads that differ from what was known.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn contradictions(&self) -> Result<Contradictions, ReadError> {
        self.ask(|store| {
            let raw = store.contradictions()?;
            let (count, list) = read_contradictions(&mut Reader::new(&raw))?;
            let list = list
                .into_iter()
                .map(|found| {
                    let places = 0..found.length.min(8);
                    let byte = |of: u64, place: u8| (of >> (place * 8)) as u8;
                    Contradiction {
                        instruction: found.slot.checked_sub(1).map(InstructionNumber),
                        address: Address(found.address),
                        known: places
                            .clone()
                            .map(|place| {
                                (found.known >> place & 1 == 1).then(|| byte(found.was, place))
                            })
                            .collect(),
                        read: places.map(|place| byte(found.read, place)).collect(),
                    }
                })
                .collect();
            Ok(Contradictions { count, list })
        })
    }
}

/// The bytes of a state that are known.
pub(super) fn known_bytes(state: &PageState) -> [Option<u8>; 8] {
    std::array::from_fn(|place| {
        (state.known >> place & 1 == 1).then_some((state.value >> (place * 8)) as u8)
    })
}

/// The last page that begins at or before an entry; none where all begin after it.
pub(super) fn page_before(
    store: &Store,
    granule: u64,
    slot: u64,
) -> Result<Option<usize>, Damaged> {
    let after = store.partition(Table::Pages, |row| {
        let first = store.number(Table::Pages, row, 0)?;
        Ok(first < granule || first == granule && store.number(Table::Pages, row, 1)? <= slot)
    })?;
    // The row of the end is no page.
    Ok(after.min(store.page_count()).checked_sub(1))
}

/// Fills in bytes from an address on, granule by granule.
pub(super) fn by_granules(
    address: Address,
    bytes: &mut [Option<u8>],
    mut granule_of: impl FnMut(u64) -> Result<[Option<u8>; 8], ReadError>,
) -> Result<(), ReadError> {
    let mut at = 0;
    while at < bytes.len() {
        let Address(first) = address.offset(at as i64);
        let granule = granule_of(first / GRANULE)?;
        for place in first % GRANULE..GRANULE {
            let Some(byte) = bytes.get_mut(at) else {
                break;
            };
            *byte = granule[place as usize];
            at += 1;
        }
    }
    Ok(())
}

/// What accesses say about a granule before an instruction.
fn state_at(store: &Store, before: u64, granule: u64) -> Result<PageState, Damaged> {
    let Some(number) = page_before(store, granule, before)? else {
        return Ok(PageState::default());
    };
    let mut page = store.page(number)?;
    let mut follower = if store.number(Table::Pages, number, 0)? == granule {
        Follower::new(page.state())
    } else {
        Follower::default()
    };
    while let Some(item) = page.next()? {
        if item.granule == granule && item.slot <= before {
            follower.pass(&item);
        } else if item.granule >= granule {
            break;
        }
    }
    Ok(follower.state)
}

/// What the first accesses to a granule say about it, where they are reads.
fn first_of(store: &Store, granule: u64) -> Result<PageState, Damaged> {
    let row = store.partition(Table::Spanning, |row| {
        Ok(store.number(Table::Spanning, row, 0)? < granule)
    })?;
    if row < store.rows(Table::Spanning) {
        let [found, known, value] = store.row(Table::Spanning, row)?;
        if found == granule {
            return Ok(PageState {
                touched: 0xff,
                known: known as u8,
                value,
            });
        }
    }
    let mut follower = Follower::default();
    each_entry(store, granule, granule, |item| {
        follower.note_first(item);
        Ok(true)
    })?;
    Ok(follower.first)
}

/// Visits every entry of the granules from `first` to `last`, until the answer is false.
pub(super) fn each_entry(
    store: &Store,
    first: u64,
    last: u64,
    mut each: impl FnMut(&Item) -> Result<bool, Damaged>,
) -> Result<(), Damaged> {
    // The first page that begins with the granule may have one before it that ends with it.
    let start = store.partition(Table::Pages, |row| {
        Ok(store.number(Table::Pages, row, 0)? < first)
    })?;
    for number in start.saturating_sub(1)..store.page_count() {
        if store.number(Table::Pages, number, 0)? > last {
            break;
        }
        let mut page = store.page(number)?;
        while let Some(item) = page.next()? {
            if item.granule > last {
                return Ok(());
            }
            if item.granule >= first && !each(&item)? {
                return Ok(());
            }
        }
    }
    Ok(())
}
