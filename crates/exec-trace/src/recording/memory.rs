//! Memory before an instruction.

use std::sync::Arc;

use tracewire_tracefile::Address;

use super::{ReadError, Recording};
use crate::compact::bytes::{Damaged, Reader};
use crate::compact::part::GRANULE;
use crate::index::{Follower, Item, PageState, Store, Table, read_contradictions};
use crate::record::InstructionNumber;

/// What memory held before the trace: pieces at addresses, such as the segments of a program's file.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// In the order of their addresses.
    pieces: Arc<[(u64, Box<[u8]>)]>,
}

impl Image {
    /// Of pieces. Where two overlap, the later one counts.
    pub fn new(pieces: impl IntoIterator<Item = (Address, Vec<u8>)>) -> Self {
        let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
        for (Address(start), bytes) in pieces {
            let length = (bytes.len() as u64).min(u64::MAX - start);
            let end = start + length;
            let mut kept = Vec::with_capacity(all.len() + 2);
            for (old, mut old_bytes) in all {
                let old_end = old + old_bytes.len() as u64;
                if old_end <= start || old >= end {
                    kept.push((old, old_bytes));
                    continue;
                }
                if old_end > end {
                    kept.push((end, old_bytes.split_off((end - old) as usize)));
                }
                if old < start {
                    old_bytes.truncate((start - old) as usize);
                    kept.push((old, old_bytes));
                }
            }
            kept.push((start, bytes));
            all = kept;
        }
        all.retain(|(_, bytes)| !bytes.is_empty());
        all.sort_unstable_by_key(|(start, _)| *start);
        Self {
            pieces: all
                .into_iter()
                .map(|(start, bytes)| (start, bytes.into()))
                .collect(),
        }
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The byte at an address, where the image has one.
    #[must_use]
    pub fn byte(&self, Address(address): Address) -> Option<u8> {
        let after = self.pieces.partition_point(|(start, _)| *start <= address);
        let (start, bytes) = self.pieces.get(after.checked_sub(1)?)?;
        bytes.get(usize::try_from(address - start).ok()?).copied()
    }
}

/// A read that differs from what was known of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// The instruction that read; none for an access before the first instruction.
    pub instruction: Option<InstructionNumber>,
    /// The first byte. An access over several rows of 8 bytes is told row by row.
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
    /// When the file is damaged and cannot be made anew.
    pub fn memory_at(
        &self,
        before: InstructionNumber,
        address: Address,
        bytes: &mut [Option<u8>],
    ) -> Result<(), ReadError> {
        let mut found = vec![None; bytes.len()];
        let mut at = 0;
        while at < bytes.len() {
            let Address(first) = address.offset(at as i64);
            let granule = self.granule_at(before.0, first / GRANULE)?;
            for place in first % GRANULE..GRANULE {
                let Some(byte) = found.get_mut(at) else {
                    break;
                };
                *byte = granule[place as usize];
                at += 1;
            }
        }
        bytes.copy_from_slice(&found);
        Ok(())
    }

    /// The bytes of a granule before an instruction.
    pub(super) fn granule_at(
        &self,
        before: u64,
        granule: u64,
    ) -> Result<[Option<u8>; 8], ReadError> {
        self.ask(|store| {
            let state = state_at(store, before, granule)?;
            let mut bytes = known_bytes(&state);
            if state.touched == 0xff {
                return Ok(bytes);
            }
            let untouched = self.untouched_in(store, granule, !state.touched)?;
            for (place, byte) in bytes.iter_mut().enumerate() {
                if state.touched >> place & 1 == 0 {
                    *byte = untouched[place];
                }
            }
            Ok(bytes)
        })
    }

    /// What the bytes of a granule hold until an access touches them.
    pub(super) fn untouched(&self, granule: u64) -> Result<[Option<u8>; 8], ReadError> {
        self.ask(|store| self.untouched_in(store, granule, 0xff))
    }

    /// As [`Self::untouched`], of the bytes that have their bit set.
    fn untouched_in(
        &self,
        store: &Store,
        granule: u64,
        wanted: u8,
    ) -> Result<[Option<u8>; 8], Damaged> {
        let mut bytes: [Option<u8>; 8] =
            std::array::from_fn(|place| self.image.byte(Address(granule * GRANULE + place as u64)));
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
    /// When the file is damaged and cannot be made anew.
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

/// The last page that begins at or before an entry; none where all begin behind it.
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

/// What accesses tell of a granule before an instruction.
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

/// What the first accesses to a granule tell of it, where they are reads.
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

/// Tells of every entry of the granules from `first` to `last`, until the answer is false.
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
