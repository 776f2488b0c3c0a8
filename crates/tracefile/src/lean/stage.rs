//! The frames of one shape that are in no block yet, each value in its column.
//!
//! Most columns have one number in all rows, or follow an earlier column, as the addresses of two members of an object do. What a column
//! was in the last block is expected of the next one, and its numbers are only compared as long as that is right. So few columns take
//! memory, which the caches have room for, and few are looked through when the block ends.

use std::ops::Range;

use super::LONGEST_COLUMNS;
use super::column::{self, Earlier, Numbers};
use super::shape::{self, Item};

/// The frames of a shape.
#[derive(Debug)]
pub(super) struct Stage {
    tracepoint: u16,
    items: Vec<Item>,
    rows: usize,
    columns: Vec<Column>,
    bytes: Vec<Vec<u8>>,
    /// What is expected of the number of each column, as the columns say.
    checks: Vec<Check>,
    /// The columns that have their own numbers.
    any: Vec<usize>,
    /// The numbers of the latest frame, and zero.
    row: Vec<u64>,
    /// Where in the latest frame the bytes are.
    parts: Vec<Range<usize>>,
}

/// A number of a row is to be another one of that row plus this. All columns are checked in one way, which has no branches.
#[derive(Clone, Copy, Debug)]
struct Check {
    other: usize,
    added: u64,
}

/// A column while its block fills.
#[derive(Debug)]
struct Column {
    /// What its numbers are so far, or are expected to be while there are none. An earlier column that it is like is none that is like
    /// another one.
    expected: Numbers,
    /// Its numbers, where they are of any kind.
    numbers: Vec<u64>,
}

impl Stage {
    pub(super) fn new(tracepoint: u16, items: Vec<Item>) -> Self {
        let columns = items.iter().map(|item| item.columns()).sum();
        let bytes = items.iter().filter(|item| item.has_bytes()).count();
        let column = || Column {
            expected: Numbers::One(0),
            numbers: Vec::new(),
        };
        Self {
            tracepoint,
            items,
            rows: 0,
            columns: std::iter::repeat_with(column).take(columns).collect(),
            bytes: vec![Vec::new(); bytes],
            checks: Vec::new(),
            any: Vec::new(),
            row: vec![0; columns + 1],
            parts: Vec::new(),
        }
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// How many frames there are.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Whether any bytes may be at the end of its frames. What cannot be told apart is not looked at for another frame.
    pub(super) fn is_open_ended(&self) -> bool {
        self.items.last() == Some(&Item::Rest)
    }

    /// Adds a frame, whose tracepoint is the right one, if it has this shape.
    pub(super) fn push(&mut self, frame: &[u8]) -> bool {
        if shape::read(&self.items, frame, &mut self.row, &mut self.parts).is_none() {
            return false;
        }
        if self.rows == 0 {
            self.begin_columns();
        } else {
            self.extend_columns();
        }
        for (bytes, part) in self.bytes.iter_mut().zip(&self.parts) {
            bytes.extend_from_slice(frame.get(part.clone()).unwrap_or_default());
        }
        self.rows += 1;
        true
    }

    /// Adds the first row to the columns.
    fn begin_columns(&mut self) {
        for (column, number) in self.columns.iter_mut().zip(&self.row) {
            match &mut column.expected {
                Numbers::One(one) => *one = *number,
                Numbers::Like { place, added } => {
                    let other = self.row.get(*place).copied().unwrap_or_default();
                    *added = number.wrapping_sub(other);
                }
                Numbers::Any => column.numbers.push(*number),
            }
        }
        self.make_checks();
    }

    /// Finds out what is expected of the next row.
    fn make_checks(&mut self) {
        let zero = self.columns.len();
        self.checks.clear();
        self.any.clear();
        for (place, column) in self.columns.iter().enumerate() {
            let (other, added) = match column.expected {
                Numbers::One(one) => (zero, one),
                Numbers::Like { place, added } => (place, added),
                Numbers::Any => {
                    self.any.push(place);
                    (place, 0)
                }
            };
            self.checks.push(Check { other, added });
        }
    }

    /// Whether a number of the latest row is what is expected of its column.
    fn is_expected(&self, check: Check, number: u64) -> bool {
        let other = self.row.get(check.other).copied().unwrap_or_default();
        other.wrapping_add(check.added) == number
    }

    /// Adds another row to the columns.
    fn extend_columns(&mut self) {
        for place in &self.any {
            if let Some(column) = self.columns.get_mut(*place) {
                column.numbers.extend(self.row.get(*place));
            }
        }
        let checks = self.checks.iter().zip(&self.row);
        let are_expected = checks.fold(true, |all, (check, number)| {
            all & self.is_expected(*check, *number)
        });
        if !are_expected {
            // The last one first: an earlier one that it is like is still what it was.
            for place in (0..self.columns.len()).rev() {
                let check = self.checks.get(place).zip(self.row.get(place));
                if check.is_some_and(|(check, number)| !self.is_expected(*check, *number)) {
                    self.make_any(place);
                }
            }
            self.make_checks();
        }
    }

    /// Gives a column its own numbers, the latest one among them.
    fn make_any(&mut self, place: usize) {
        let Some(expected) = self.columns.get(place).map(|column| column.expected) else {
            return;
        };
        let mut numbers = match expected {
            Numbers::One(one) => vec![one; self.rows],
            Numbers::Like { place, added } => {
                let other = self.columns.get(place);
                debug_assert!(
                    other.is_some_and(|other| !matches!(other.expected, Numbers::Like { .. }))
                );
                match other.map(|other| (other.expected, other.numbers.get(..self.rows))) {
                    Some((Numbers::Any, Some(numbers))) => {
                        let added = numbers.iter().map(|number| number.wrapping_add(added));
                        added.collect()
                    }
                    Some((Numbers::One(one), _)) => vec![one.wrapping_add(added); self.rows],
                    _ => return,
                }
            }
            Numbers::Any => return,
        };
        numbers.extend(self.row.get(place));
        if let Some(column) = self.columns.get_mut(place) {
            *column = Column {
                expected: Numbers::Any,
                numbers,
            };
        }
    }

    /// Writes the tracepoint and the items.
    pub(super) fn write_shape(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.tracepoint.to_le_bytes());
        out.extend_from_slice(&(self.items.len() as u32).to_le_bytes());
        for item in &self.items {
            out.push(item.letter());
            match *item {
                Item::Registers { set, .. } => out.extend_from_slice(&set.to_le_bytes()),
                Item::Variable(number) => out.extend_from_slice(&number.to_le_bytes()),
                Item::Number(length) => out.push(length),
                Item::Nanoseconds | Item::Memory | Item::Rest => {}
            }
        }
    }

    /// Writes the columns, and begins them again.
    pub(super) fn write_columns(&mut self, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
        let (mut place, mut blob) = (0, 0);
        for at in 0..self.items.len() {
            let Some(item) = self.items.get(at).copied() else {
                continue;
            };
            let columns = place..place + item.columns();
            for place in columns.clone() {
                let written = self.write_column(place, scratch, out);
                if let Some(column) = self.columns.get_mut(place) {
                    column.expected = written;
                }
            }
            if item.has_bytes() {
                self.write_bytes(blob, columns.end.saturating_sub(1), scratch, out);
                blob += 1;
            }
            place = columns.end;
        }
        self.rows = 0;
        for column in &mut self.columns {
            column.numbers.clear();
        }
        self.bytes.iter_mut().for_each(Vec::clear);
    }

    /// Writes a column after those before it.
    fn write_column(&self, place: usize, scratch: &mut Vec<u64>, out: &mut Vec<u8>) -> Numbers {
        let (before, column) = match self.columns.split_at_checked(place) {
            Some((before, [column, ..])) => (before, column),
            _ => return Numbers::One(0),
        };
        let one = |number: u64, out: &mut Vec<u8>| {
            column::write_one(number, out);
            Numbers::One(number)
        };
        match column.expected {
            Numbers::One(number) => one(number, out),
            Numbers::Like { place, added } => {
                let like = match before.get(place).map(|other| other.expected) {
                    Some(Numbers::One(number)) => return one(number.wrapping_add(added), out),
                    Some(Numbers::Like { place, added: more }) => Numbers::Like {
                        place,
                        added: added.wrapping_add(more),
                    },
                    _ => column.expected,
                };
                if let Numbers::Like { place, added } = like {
                    let is_written = column::write_like(place, added, out);
                    debug_assert!(is_written, "its place was written in an earlier block");
                }
                like
            }
            Numbers::Any => {
                let earlier = before.iter().enumerate().filter_map(|(place, other)| {
                    let is_any = other.expected == Numbers::Any;
                    is_any.then_some(Earlier {
                        place,
                        numbers: &other.numbers,
                    })
                });
                column::write(&column.numbers, earlier, scratch, out)
            }
        }
    }

    /// Writes the bytes of an item, whose lengths are in a column.
    fn write_bytes(&self, blob: usize, lengths: usize, scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
        let bytes = self.bytes.get(blob).map_or(&[][..], Vec::as_slice);
        let length = match self.columns.get(lengths).map(|column| column.expected) {
            Some(Numbers::One(length)) => short_length(length),
            _ => None,
        };
        let Some(length) = length else {
            out.extend_from_slice(bytes);
            return;
        };
        let mut numbers = Vec::with_capacity(self.rows);
        for part in parts(length) {
            numbers.clear();
            let rows = bytes.chunks_exact(length);
            numbers.extend(
                rows.map(|row| shape::number_of(row.get(part.clone()).unwrap_or_default())),
            );
            column::write(&numbers, std::iter::empty(), scratch, out);
        }
    }
}

/// The length that all pieces of memory have, where they are columns.
pub(super) fn one_length(lengths: &[u64]) -> Option<usize> {
    let (first, others) = lengths.split_first()?;
    short_length(*first).filter(|_| others.iter().all(|other| other == first))
}

/// A length of memory, where pieces of it are columns.
fn short_length(length: u64) -> Option<usize> {
    usize::try_from(length)
        .ok()
        .filter(|_| (1..=LONGEST_COLUMNS).contains(&length))
}

/// The parts of a piece of memory that are columns.
pub(super) fn parts(length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length)
        .step_by(8)
        .map(move |start| start..(start + 8).min(length))
}
