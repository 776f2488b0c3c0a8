//! The writer of the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::key::data_order_code;
use crate::compact::bytes::{put, put_slice};
use crate::compact::encode::put_names;
use crate::data_order::DataOrderEvidence;
use crate::record::{DataOrder, Time};

/// The first bytes of every file, and the last ones.
pub(crate) const MAGIC: [u8; 8] = *b"\x89TWX\r\n\x1a\n";
/// Changed whenever the form of the file, or what is read out of a trace, is.
pub(crate) const VERSION: u32 = 9;
/// What is at the very end: where the description starts, how long it is, its checksum, version, length of
/// the file, magic.
pub(crate) const TRAILER: usize = 8 + 8 + 4 + 4 + 8 + 8;
/// How much of a table has a checksum of its own.
pub(crate) const CHECKED: usize = 1 << 16;

/// A table of rows of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Table {
    /// A row a block, see [`BlockRow`].
    Blocks = 0,
    /// A row a segment: where its frames start, how long the frame of templates and that of skeletons are, its first
    /// block.
    Segments = 1,
    /// A row a page, see [`super::merge::Merged`].
    Pages = 2,
    /// A row for each granule with entries in several pages.
    Spanning = 3,
    /// A row a piece of the lists of code: the first address, where it starts, how long it is. See [`mod@super::code`].
    Code = 4,
}

pub(crate) const TABLES: usize = 5;
pub(crate) const COLUMNS: [usize; TABLES] = [BlockRow::COLUMNS, 4, 3, 3, 3];

/// Where a block is and what is known without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct BlockRow {
    pub(crate) first: u64,
    /// Lines of the trace before it.
    pub(crate) lines: u64,
    /// The least and the greatest time of its instructions and of what they did; all ones and zero where it has none.
    pub(crate) min_time: u64,
    pub(crate) max_time: u64,
    /// Where its frames start.
    pub(crate) offset: u64,
    /// How long the four frames and the registers at its start are.
    pub(crate) lengths: [u32; 5],
    pub(crate) instructions: u32,
    pub(crate) groups: u32,
    pub(crate) unparsed: u32,
    pub(crate) segment: u32,
    pub(crate) is_unordered: bool,
}

impl BlockRow {
    pub(crate) const COLUMNS: usize = 10;

    pub(crate) fn to_row(self) -> [u64; Self::COLUMNS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let [a, b, c, d, e] = self.lengths;
        [
            self.first,
            self.lines,
            self.min_time,
            self.max_time,
            self.offset,
            pair(a, b),
            pair(c, d),
            pair(e, self.instructions),
            pair(self.groups, self.unparsed),
            pair(self.segment, u32::from(self.is_unordered)),
        ]
    }

    pub(crate) fn from_row(row: &[u64; Self::COLUMNS]) -> Self {
        let low = |at: usize| row[at] as u32;
        let high = |at: usize| (row[at] >> 32) as u32;
        Self {
            first: row[0],
            lines: row[1],
            min_time: row[2],
            max_time: row[3],
            offset: row[4],
            lengths: [low(5), high(5), low(6), high(6), low(7)],
            instructions: high(7),
            groups: low(8),
            unparsed: high(8),
            segment: low(9),
            is_unordered: high(9) != 0,
        }
    }
}

/// What is said of the whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Facts {
    pub(crate) key: super::key::Key,
    pub(crate) format: String,
    pub(crate) is_big: bool,
    /// The machine that the content looks like.
    pub(crate) architecture: String,
    /// How the digits of data are written; none where the types of the lines say.
    pub(crate) data_order: Option<DataOrder>,
    /// What registers say of that at the start of the text.
    pub(crate) data_evidence: DataOrderEvidence,
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    /// Those of them that write.
    pub(crate) writes: u64,
    /// Executed instructions that write memory, and those that may.
    pub(crate) stores: u64,
    pub(crate) perhaps_stores: u64,
    pub(crate) register_writes: u64,
    /// Exceptions and other records that are kept as text.
    pub(crate) events: u64,
    pub(crate) lines: u64,
    pub(crate) unparsed: u64,
    /// Of the first and the last instruction.
    pub(crate) first_time: Option<Time>,
    pub(crate) last_time: Option<Time>,
    pub(crate) cpus: Vec<u32>,
    pub(crate) registers: Vec<Box<[u8]>>,
    /// Why the text ends before its end, empty where it does not.
    pub(crate) cut: String,
    /// Bytes of text.
    pub(crate) text: u64,
    /// How many bytes the indexes take that only searching needs.
    pub(crate) search: u64,
}

/// A place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

/// Where the file goes.
pub(crate) enum Target {
    File(BufWriter<File>),
    Memory(Vec<u8>),
}

/// Writes a file from start to end.
pub(crate) struct StoreWriter {
    target: Target,
    length: u64,
}

impl StoreWriter {
    pub(crate) fn new(target: Target) -> io::Result<Self> {
        let mut writer = Self { target, length: 0 };
        writer.append(&MAGIC)?;
        Ok(writer)
    }

    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<Extent> {
        match &mut self.target {
            Target::File(file) => file.write_all(bytes)?,
            Target::Memory(all) => all.extend_from_slice(bytes),
        }
        let start = self.length;
        self.length += bytes.len() as u64;
        Ok(Extent {
            start,
            length: bytes.len() as u64,
        })
    }

    /// Appends a table, and gives what the description says of it.
    fn table(&mut self, rows: &[u64]) -> io::Result<Vec<u8>> {
        let start = self.length;
        let mut sums = Vec::new();
        for piece in rows.chunks(CHECKED / 8) {
            let bytes: Vec<u8> = piece
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect();
            sums.push(crc32fast::hash(&bytes));
            self.append(&bytes)?;
        }
        let mut description = Vec::new();
        put(&mut description, start);
        put(&mut description, rows.len() as u64);
        put(&mut description, sums.len() as u64);
        for sum in sums {
            description.extend_from_slice(&sum.to_le_bytes());
        }
        Ok(description)
    }

    /// Writes the tables, the description and the end.
    pub(crate) fn finish(
        mut self,
        tables: [&[u64]; TABLES],
        pages: Extent,
        contradictions: Extent,
        facts: &Facts,
    ) -> io::Result<Target> {
        let mut description = Vec::new();
        facts.key.put(&mut description);
        put_slice(&mut description, facts.format.as_bytes());
        description.push(u8::from(facts.is_big));
        put_slice(&mut description, facts.architecture.as_bytes());
        put_slice(&mut description, facts.cut.as_bytes());
        description.push(data_order_code(facts.data_order));
        put(&mut description, facts.data_evidence.number);
        put(&mut description, facts.data_evidence.memory);
        for number in [
            facts.instructions,
            facts.accesses,
            facts.writes,
            facts.stores,
            facts.perhaps_stores,
            facts.register_writes,
            facts.events,
            facts.lines,
            facts.unparsed,
            facts.text,
            facts.search,
        ] {
            put(&mut description, number);
        }
        for time in [facts.first_time, facts.last_time] {
            description.push(u8::from(time.is_some()));
            let time = time.unwrap_or(Time::ZERO);
            put(&mut description, time.ticks);
            description.extend([time.decimals, time.scale as u8]);
        }
        put(&mut description, facts.cpus.len() as u64);
        for cpu in &facts.cpus {
            put(&mut description, u64::from(*cpu));
        }
        put_names(&mut description, &facts.registers);
        for extent in [pages, contradictions] {
            put(&mut description, extent.start);
            put(&mut description, extent.length);
        }
        for table in tables {
            let place = self.table(table)?;
            description.extend_from_slice(&place);
        }
        let Extent { start, length } = self.append(&description)?;
        let mut trailer = Vec::new();
        trailer.extend_from_slice(&start.to_le_bytes());
        trailer.extend_from_slice(&length.to_le_bytes());
        trailer.extend_from_slice(&crc32fast::hash(&description).to_le_bytes());
        trailer.extend_from_slice(&VERSION.to_le_bytes());
        let all = self.length + TRAILER as u64;
        trailer.extend_from_slice(&all.to_le_bytes());
        trailer.extend_from_slice(&MAGIC);
        self.append(&trailer)?;
        if let Target::File(file) = &mut self.target {
            file.flush()?;
        }
        Ok(self.target)
    }
}
