//! The numbers of an aggregate.

use std::collections::BTreeMap;

use crate::aggregate::{Aggregate, AggregateFunction, Buckets, KEY_TEXT, KeyKind};
use crate::hex::Hex;
use crate::number::TracepointNumber;
use crate::text::{Expected, Scanner, TextError};

/// A key, or one of several.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A number, extended to 64 bits.
    Number(u64),
    /// A text up to its NUL, or its first [`KEY_TEXT`] bytes.
    Text(Vec<u8>),
}

impl Key {
    /// As words of 64 bits, in which a text is padded with zeros.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        match self {
            Self::Number(number) => vec![*number],
            Self::Text(text) => {
                let mut bytes = [0; KEY_TEXT];
                for (to, from) in bytes.iter_mut().zip(text) {
                    *to = *from;
                }
                let (words, _) = bytes.as_chunks();
                words.iter().map(|word| u64::from_le_bytes(*word)).collect()
            }
        }
    }

    /// The text of words.
    #[must_use]
    pub fn from_words(words: &[u64]) -> Self {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        Self::Text(bytes.take_while(|byte| *byte != 0).collect())
    }
}

/// The numbers for the hits of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AggregateCell {
    /// How many, or their sum.
    Number(u64),
    /// The least or the greatest of their values.
    Extreme(u64),
    /// Their sum, and how many.
    Average(u64, u64),
    /// How many are in each bucket.
    Histogram(BTreeMap<u64, u64>),
}

/// Which aggregate of a run: the tracepoint, and the place among its aggregates.
pub type AggregateKey = (TracepointNumber, u16);

/// The numbers of an aggregate, and the hits without a row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AggregateTable {
    /// By the keys.
    pub cells: BTreeMap<Vec<Key>, AggregateCell>,
    /// The hits whose key found no room.
    pub without_room: u64,
    /// The hits whose key or value could not be read.
    pub unreadable: u64,
}

impl AggregateTable {
    /// Adds a hit. This is what every mechanism does.
    pub fn add(&mut self, aggregate: &Aggregate, keys: Vec<Key>, value: u64) {
        let cell = AggregateCell::of(aggregate, value);
        self.merge_cell(aggregate, keys, cell);
    }

    /// Adds the counts of a key from another table.
    pub fn merge_cell(&mut self, aggregate: &Aggregate, keys: Vec<Key>, cell: AggregateCell) {
        match self.cells.entry(keys) {
            std::collections::btree_map::Entry::Occupied(known) => {
                known.into_mut().merge(aggregate, cell);
            }
            std::collections::btree_map::Entry::Vacant(free) => _ = free.insert(cell),
        }
    }

    /// Adds the counts of another table.
    pub fn merge(&mut self, aggregate: &Aggregate, other: Self) {
        for (keys, cell) in other.cells {
            self.merge_cell(aggregate, keys, cell);
        }
        self.without_room = self.without_room.saturating_add(other.without_room);
        self.unreadable = self.unreadable.saturating_add(other.unreadable);
    }

    /// Adds a hit to the table of a pick, and returns whether it makes a frame.
    pub fn pick(&mut self, aggregate: &Aggregate, keys: Vec<Key>) -> bool {
        let before = self.cells.get(&keys).map_or(0, AggregateCell::count);
        self.add(aggregate, keys, 0);
        aggregate.function.picks(before)
    }

    /// Whether no hit has been seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.without_room == 0 && self.unreadable == 0
    }

    /// The number of hits, if the aggregate has it.
    #[must_use]
    pub fn hits(&self, aggregate: &Aggregate) -> Option<u64> {
        let counted: Option<u64> = match aggregate.function {
            AggregateFunction::Sum | AggregateFunction::Minimum | AggregateFunction::Maximum => {
                None
            }
            _ => Some(self.cells.values().map(AggregateCell::count).sum()),
        };
        Some(counted? + self.without_room + self.unreadable)
    }
}

impl AggregateCell {
    /// That of a single hit.
    #[must_use]
    pub fn of(aggregate: &Aggregate, value: u64) -> Self {
        match aggregate.function {
            AggregateFunction::Count
            | AggregateFunction::Top(_)
            | AggregateFunction::Sample(_)
            | AggregateFunction::First(_) => Self::Number(1),
            AggregateFunction::Sum => Self::Number(value),
            AggregateFunction::Minimum | AggregateFunction::Maximum => Self::Extreme(value),
            AggregateFunction::Average => Self::Average(value, 1),
            AggregateFunction::Histogram(buckets) => {
                let bucket = buckets.of(value, aggregate.is_unsigned);
                Self::Histogram(BTreeMap::from([(bucket, 1)]))
            }
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Number(count) | Self::Average(_, count) => *count,
            Self::Extreme(_) => 0,
            Self::Histogram(buckets) => buckets.values().sum(),
        }
    }

    fn merge(&mut self, aggregate: &Aggregate, other: Self) {
        match (self, other) {
            (Self::Number(number), Self::Number(more)) => *number = number.wrapping_add(more),
            (Self::Extreme(known), Self::Extreme(other)) => {
                let is_less = if aggregate.is_unsigned {
                    other < *known
                } else {
                    other.cast_signed() < known.cast_signed()
                };
                let is_least = aggregate.function == AggregateFunction::Minimum;
                if other != *known && is_less == is_least {
                    *known = other;
                }
            }
            (Self::Average(sum, count), Self::Average(more, hits)) => {
                *sum = sum.wrapping_add(more);
                *count = count.wrapping_add(hits);
            }
            (Self::Histogram(buckets), Self::Histogram(more)) => {
                for (bucket, count) in more {
                    *buckets.entry(bucket).or_default() += count;
                }
            }
            (this, other) => debug_assert!(false, "{this:?} and {other:?} are of one aggregate"),
        }
    }
}

/// The numbers of a cell as a line has them: a number and 0, a sum and a count, or buckets and their counts.
pub type CellParts = Vec<(u64, u64)>;

/// A `count` line: some of the rows of an aggregate. The rows of several lines are added to each other, as those of several files
/// are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregateLine {
    /// Which aggregate.
    pub of: AggregateKey,
    /// Rows, and hits without a row.
    pub without_room: u64,
    /// As in the table.
    pub unreadable: u64,
    /// Keys, and the numbers of the cell as they are written.
    pub rows: Vec<(Vec<Key>, CellParts)>,
}

impl AggregateLine {
    /// Reads what follows `count `: `NUMBER:INDEX:WITHOUT_ROOM:UNREADABLE`, then `,KEY.KEY=CELL` for each row. A key is a number, or `x` and
    /// a text in hexadecimal; a cell is `NUMBER` or `NUMBER*NUMBER`, several with `+` between them.
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(text: &[u8]) -> Result<Self, TextError> {
        Self::scan(&mut Scanner::new(text)).map_err(|expected| expected.in_text(text))
    }

    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let number = scanner.hex_up_to(i32::MAX as u64, "the number of a tracepoint")?;
        scanner.colon()?;
        let index = scanner.hex_up_to(u16::MAX.into(), "the number of an aggregate")?;
        scanner.colon()?;
        let without_room = scanner.hex()?;
        scanner.colon()?;
        let unreadable = scanner.hex()?;
        let mut rows = Vec::new();
        while scanner.take(",") {
            let mut keys = Vec::new();
            while !scanner.take("=") {
                if !keys.is_empty() {
                    scanner.expect(".", "a key or `=`")?;
                }
                if scanner.take("x") {
                    let digits = Scanner::new(scanner.rest()).digits().len() as u64;
                    keys.push(Key::Text(scanner.hex_bytes(digits / 2)?));
                } else {
                    keys.push(Key::Number(scanner.hex()?));
                }
            }
            let mut cell = Vec::new();
            loop {
                let first = scanner.hex()?;
                let second = if scanner.take("*") { scanner.hex()? } else { 0 };
                cell.push((first, second));
                if !scanner.take("+") {
                    break;
                }
            }
            rows.push((keys, cell));
        }
        scanner.end("the end")?;
        Ok(Self {
            of: (TracepointNumber(number as i32), index as u16),
            without_room,
            unreadable,
            rows,
        })
    }

    /// Adds the line to a table. A row that does not fit the aggregate is left out.
    pub fn add_to(&self, aggregate: &Aggregate, table: &mut AggregateTable) {
        for (keys, cell) in &self.rows {
            let fits = keys.len() == aggregate.keys.len()
                && keys
                    .iter()
                    .zip(&aggregate.keys)
                    .all(|(key, kind)| match key {
                        Key::Text(text) => *kind == KeyKind::Text && text.len() <= KEY_TEXT,
                        Key::Number(_) => *kind != KeyKind::Text,
                    });
            if !fits {
                continue;
            }
            for (first, second) in cell {
                let part = match aggregate.function {
                    AggregateFunction::Count
                    | AggregateFunction::Sum
                    | AggregateFunction::Top(_)
                    | AggregateFunction::Sample(_)
                    | AggregateFunction::First(_) => AggregateCell::Number(*first),
                    AggregateFunction::Minimum | AggregateFunction::Maximum => {
                        AggregateCell::Extreme(*first)
                    }
                    AggregateFunction::Average => AggregateCell::Average(*first, *second),
                    AggregateFunction::Histogram(buckets) if *first < buckets.count() => {
                        AggregateCell::Histogram(BTreeMap::from([(*first, *second)]))
                    }
                    AggregateFunction::Histogram(Buckets::Powers | Buckets::Linear { .. }) => {
                        continue;
                    }
                };
                table.merge_cell(aggregate, keys.clone(), part);
            }
        }
        table.without_room = table.without_room.saturating_add(self.without_room);
        table.unreadable = table.unreadable.saturating_add(self.unreadable);
    }

    /// The lines of a table, each of at most `limit` bytes: `count `, and what [`parse`](Self::parse) reads.
    #[must_use]
    pub fn lines(
        (number, index): AggregateKey,
        table: &AggregateTable,
        limit: usize,
    ) -> Vec<String> {
        let head = |without_room: u64, unreadable: u64| {
            format!(
                "count {:x}:{index:x}:{without_room:x}:{unreadable:x}",
                number.0
            )
        };
        let mut lines = vec![head(table.without_room, table.unreadable)];
        let mut put = |row: &str| match lines.last_mut() {
            Some(line) if line.len() + row.len() <= limit => line.push_str(row),
            _ => lines.push(head(0, 0) + row),
        };
        for (keys, cell) in &table.cells {
            let keys: Vec<String> = (keys.iter())
                .map(|key| match key {
                    Key::Number(number) => format!("{number:x}"),
                    Key::Text(text) => format!("x{}", Hex(text)),
                })
                .collect();
            let keys = format!(",{}=", keys.join("."));
            match cell {
                AggregateCell::Number(number) | AggregateCell::Extreme(number) => {
                    put(&format!("{keys}{number:x}"));
                }
                AggregateCell::Average(sum, count) => put(&format!("{keys}{sum:x}*{count:x}")),
                AggregateCell::Histogram(buckets) => {
                    let parts: Vec<String> = (buckets.iter())
                        .map(|(bucket, count)| format!("{bucket:x}*{count:x}"))
                        .collect();
                    // A row of many buckets takes several lines, whose rows are added.
                    for parts in parts.chunks(16) {
                        put(&format!("{keys}{}", parts.join("+")));
                    }
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers that are the same in each run.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            let spread = self.0 ^ self.0 >> 32;
            spread >> (self.0 >> 58)
        }
    }

    fn aggregate(function: AggregateFunction, keys: Vec<KeyKind>) -> Aggregate {
        Aggregate {
            index: 7,
            text: String::new(),
            function,
            is_unsigned: false,
            is_time: false,
            keys,
        }
    }

    const FUNCTIONS: [AggregateFunction; 7] = [
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Minimum,
        AggregateFunction::Maximum,
        AggregateFunction::Average,
        AggregateFunction::Histogram(Buckets::Powers),
        AggregateFunction::Histogram(Buckets::Linear {
            low: -100,
            high: 1000,
            step: 3,
        }),
    ];

    #[test]
    fn lines_give_the_table_back_and_parts_add_up() {
        let mut chance = Chance(1);
        for turn in 0..200_usize {
            let keys = match turn % 4 {
                0 => vec![],
                1 => vec![KeyKind::Signed],
                2 => vec![KeyKind::Text],
                _ => vec![KeyKind::Text, KeyKind::Unsigned, KeyKind::Text],
            };
            let aggregate = aggregate(FUNCTIONS[turn % FUNCTIONS.len()], keys.clone());
            let mut whole = AggregateTable::default();
            let mut parts = [AggregateTable::default(), AggregateTable::default()];
            for hit in 0..turn * 3 {
                let list: Vec<Key> = (keys.iter())
                    .map(|kind| match kind {
                        KeyKind::Text => {
                            let text = format!("{:x}", chance.next() % 50);
                            Key::Text(text.repeat(1 + hit % 20).into_bytes())
                        }
                        _ => Key::Number(chance.next()),
                    })
                    .collect();
                let value = chance.next();
                whole.add(&aggregate, list.clone(), value);
                parts[hit % 2].add(&aggregate, list, value);
            }
            parts[1].without_room = chance.next() >> 8;
            whole.without_room = parts[1].without_room;
            let mut read = AggregateTable::default();
            for part in &parts {
                for line in AggregateLine::lines((TracepointNumber(3), 7), part, 999) {
                    assert!(line.len() <= 999, "{} bytes", line.len());
                    let line = line.strip_prefix("count ").unwrap();
                    let line = AggregateLine::parse(line.as_bytes()).unwrap();
                    assert_eq!(line.of, (TracepointNumber(3), 7));
                    line.add_to(&aggregate, &mut read);
                }
            }
            assert_eq!(read, whole);
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
        let mut chance = Chance(7);
        let good = b"3:7:0:2,1.x41.ff=10*2+3*4,0.x.2=5";
        assert!(AggregateLine::parse(good).is_ok());
        for _ in 0..20_000 {
            let mut text = good.to_vec();
            for _ in 0..=chance.next() % 3 {
                let at = chance.next() as usize % text.len();
                text[at] = b"0123456789abcdefx,.:=*+- g"[chance.next() as usize % 26];
                text.truncate(1 + chance.next() as usize % text.len().max(1));
            }
            if let Ok(line) = AggregateLine::parse(&text) {
                for function in FUNCTIONS {
                    let kinds = vec![KeyKind::Signed, KeyKind::Text, KeyKind::Signed];
                    line.add_to(&aggregate(function, kinds), &mut AggregateTable::default());
                }
            }
        }
    }
}
