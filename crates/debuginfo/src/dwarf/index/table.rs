//! The names of a module in the stored form: tables of little-endian numbers.
//! `docs/formats/module-cache.md` describes them. Every number from a table is checked where it is used.

use std::ops::Range;

use gimli::UnitOffset;

use super::{Name, NameKind};
use crate::dwarf::Die;
use crate::module::kept::Kept;

/// The tables, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Table {
    /// Each name: text, unit, offset, parent, the one before of the same plain name (4 bytes each), kind and bits (1 each), zeros (2).
    Names,
    /// For the hash of each plain name (8), by hash: its last name (4), zeros (4).
    PlainNames,
    /// Each text: where it begins among the texts (4), its length (4).
    TextPlaces,
    /// For each function that was inlined, its unit and offset (4 each): where its units begin among those of copies (4), their number (4).
    Copies,
    /// Units with copies (4).
    CopyUnits,
    /// For each enumerator, its unit and offset (4 each): the offset of the enumeration (4).
    Enumerators,
    Texts,
}

/// How long an entry of each table is.
const LENGTHS: [usize; 7] = [24, 16, 8, 16, 4, 12, 1];

/// Before the tables is the number of entries of each, in 8 bytes.
const HEADER: usize = LENGTHS.len() * 8;

/// Bits of a name.
const DECLARATION: u8 = 1;
const EXTERNAL: u8 = 2;
const LOCAL: u8 = 4;

const KINDS: [NameKind; 10] = [
    NameKind::Function,
    NameKind::AbstractFunction,
    NameKind::Variable,
    NameKind::Enumerator,
    NameKind::Structure,
    NameKind::Union,
    NameKind::Enumeration,
    NameKind::Typedef,
    NameKind::BaseType,
    NameKind::Namespace,
];

/// The contents of the tables. All lists except the names and the texts are sorted by their first parts.
pub(super) struct Content<'a> {
    pub(super) names: &'a [Name],
    pub(super) plain_names: &'a [(u64, u32)],
    pub(super) texts: &'a [Box<str>],
    pub(super) copies: &'a [(Die, Vec<usize>)],
    pub(super) enumerators: &'a [(Die, UnitOffset<usize>)],
}

/// The tables.
#[derive(Debug)]
pub(super) struct Tables {
    content: Kept,
    places: [Range<usize>; LENGTHS.len()],
}

/// A number for the tables; no module exceeds its range.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Tables that are written one after the other.
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn put<const N: usize>(&mut self, numbers: [u32; N]) {
        self.bytes
            .extend_from_slice(numbers.map(u32::to_le_bytes).as_flattened());
    }

    fn put_die(&mut self, die: Die) {
        self.put([narrow(die.unit), narrow(die.offset.0)]);
    }
}

impl Content<'_> {
    fn counts(&self) -> [usize; LENGTHS.len()] {
        [
            self.names.len(),
            self.plain_names.len(),
            self.texts.len(),
            self.copies.len(),
            self.copies.iter().map(|(_, units)| units.len()).sum(),
            self.enumerators.len(),
            self.texts.iter().map(|text| text.len()).sum(),
        ]
    }

    fn bytes(&self) -> Vec<u8> {
        let counts = self.counts();
        let lengths = counts
            .iter()
            .zip(LENGTHS)
            .map(|(count, length)| count * length);
        let mut writer = Writer {
            bytes: Vec::with_capacity(HEADER + lengths.sum::<usize>()),
        };
        for count in counts {
            writer.bytes.extend((count as u64).to_le_bytes());
        }
        for name in self.names {
            writer.put([name.text, name.unit, name.offset, name.parent, name.next]);
            let kind = KINDS.iter().position(|kind| *kind == name.kind);
            let bit = |is_set, bit| if is_set { bit } else { 0 };
            writer.bytes.extend([
                kind.and_then(|kind| u8::try_from(kind).ok())
                    .unwrap_or(u8::MAX),
                bit(name.declaration, DECLARATION)
                    | bit(name.external, EXTERNAL)
                    | bit(name.local, LOCAL),
                0,
                0,
            ]);
        }
        for (hash, last) in self.plain_names {
            writer.bytes.extend(hash.to_le_bytes());
            writer.put([*last, 0]);
        }
        let mut start = 0;
        for text in self.texts {
            writer.put([narrow(start), narrow(text.len())]);
            start += text.len();
        }
        let mut start = 0;
        for (die, units) in self.copies {
            writer.put_die(*die);
            writer.put([narrow(start), narrow(units.len())]);
            start += units.len();
        }
        for unit in self.copies.iter().flat_map(|(_, units)| units) {
            writer.put([narrow(*unit)]);
        }
        for (enumerator, enumeration) in self.enumerators {
            writer.put_die(*enumerator);
            writer.put([narrow(enumeration.0)]);
        }
        for text in self.texts {
            writer.bytes.extend_from_slice(text.as_bytes());
        }
        writer.bytes
    }
}

/// Where the tables are; none if they are not all there.
fn places(content: &[u8]) -> Option<[Range<usize>; LENGTHS.len()]> {
    let (counts, _) = content.get(..HEADER)?.as_chunks::<8>();
    let mut places = <[Range<usize>; LENGTHS.len()]>::default();
    let mut start = HEADER;
    for ((place, count), length) in places.iter_mut().zip(counts).zip(LENGTHS) {
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let end = start.checked_add(count.checked_mul(length)?)?;
        *place = start..end;
        start = end;
    }
    (start == content.len()).then_some(places)
}

/// The number in 4 bytes of an entry.
fn number(entry: &[u8], at: usize) -> u32 {
    let bytes = entry.get(at * 4..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn hash_of(entry: &[u8; 16]) -> u64 {
    u64::from(number(entry, 0)) | u64::from(number(entry, 1)) << 32
}

fn die_of(entry: &[u8]) -> Die {
    Die {
        unit: number(entry, 0) as usize,
        offset: UnitOffset(number(entry, 1) as usize),
    }
}

impl Tables {
    pub(super) fn of(content: &Content<'_>) -> Self {
        let content = Kept::from(content.bytes());
        let places = places(content.content()).unwrap_or_default();
        Self { content, places }
    }

    /// The tables that were kept, if they are all there.
    pub(super) fn of_kept(content: Kept) -> Option<Self> {
        let places = places(content.content())?;
        Some(Self { content, places })
    }

    pub(super) fn content(&self) -> &[u8] {
        self.content.content()
    }

    fn bytes(&self, table: Table) -> &[u8] {
        let range = self.places.get(table as usize).cloned();
        range
            .and_then(|range| self.content().get(range))
            .unwrap_or(&[])
    }

    fn entries<const LENGTH: usize>(&self, table: Table) -> &[[u8; LENGTH]] {
        debug_assert_eq!(LENGTHS.get(table as usize), Some(&LENGTH));
        self.bytes(table).as_chunks().0
    }

    fn names(&self) -> &[[u8; 24]] {
        self.entries(Table::Names)
    }

    pub(super) fn name(&self, index: u32) -> Option<Name> {
        self.names().get(index as usize).map(read_name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Name> {
        self.names().iter().map(read_name)
    }

    /// The name of an entry: they are in the order of their places.
    pub(super) fn name_of(&self, die: Die) -> Option<Name> {
        let place = |entry: &[u8; 24]| read_name(entry).die();
        let index = self.names().binary_search_by_key(&die, place).ok()?;
        self.names().get(index).map(read_name)
    }

    /// The last name of a plain name, by its hash.
    pub(super) fn last_of(&self, hash: u64) -> Option<u32> {
        let all = self.entries::<16>(Table::PlainNames);
        let index = all.binary_search_by_key(&hash, hash_of).ok()?;
        Some(number(all.get(index)?, 2))
    }

    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.entries::<16>(Table::PlainNames).iter().map(hash_of)
    }

    pub(super) fn text(&self, text: u32) -> Option<&str> {
        let place = self.entries::<8>(Table::TextPlaces).get(text as usize)?;
        let start = number(place, 0) as usize;
        let end = start.checked_add(number(place, 1) as usize)?;
        std::str::from_utf8(self.bytes(Table::Texts).get(start..end)?).ok()
    }

    /// The units with copies of a function.
    pub(super) fn copies_of(&self, function: Die) -> impl Iterator<Item = usize> {
        let all = self.entries::<16>(Table::Copies);
        let found = all
            .binary_search_by_key(&function, |entry| die_of(entry))
            .ok();
        let entry = found.and_then(|index| all.get(index));
        let units = entry.and_then(|entry| {
            let start = number(entry, 2) as usize;
            let end = start.checked_add(number(entry, 3) as usize)?;
            self.entries::<4>(Table::CopyUnits).get(start..end)
        });
        (units.unwrap_or(&[]).iter()).map(|unit| u32::from_le_bytes(*unit) as usize)
    }

    pub(super) fn enumeration_of(&self, enumerator: Die) -> Option<UnitOffset<usize>> {
        let all = self.entries::<12>(Table::Enumerators);
        let found = all
            .binary_search_by_key(&enumerator, |entry| die_of(entry))
            .ok();
        Some(UnitOffset(number(all.get(found?)?, 2) as usize))
    }
}

fn read_name(entry: &[u8; 24]) -> Name {
    let [.., kind, bits, _, _] = *entry;
    Name {
        text: number(entry, 0),
        unit: number(entry, 1),
        offset: number(entry, 2),
        parent: number(entry, 3),
        next: number(entry, 4),
        kind: KINDS
            .get(usize::from(kind))
            .copied()
            .unwrap_or(NameKind::Namespace),
        declaration: bits & DECLARATION != 0,
        external: bits & EXTERNAL != 0,
        local: bits & LOCAL != 0,
    }
}
