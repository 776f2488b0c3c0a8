//! A file as it is read.

use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tracewire_tracefile::private;

use super::block::BlockAt;
use super::bytes::Bytes;
use super::key::Key;
use super::key::data_order_of;
use super::page::Page;
use super::table::TableAt;
use super::write::{BlockRow, COLUMNS, Extent, Facts, MAGIC, TABLES, TRAILER, Table, VERSION};
use crate::compact::block::{Block, Column, Counts};
use crate::compact::bytes::{Damaged, Reader};
use crate::compact::encode::read_names;
use crate::compact::frame::{has_sum, unpack};
use crate::compact::map::Map;
use crate::compact::segment::Segment;
use crate::compact::template::{Class, scale};
use crate::compact::value::RegisterValue;
use crate::data_order::DataOrderEvidence;
use crate::record::Time;

/// How many blocks are kept decoded.
const BLOCKS_KEPT: usize = 96;
/// How much memory decoded segments may take.
const SEGMENTS_KEPT: usize = 256 << 20;

/// Why a file cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unusable {
    /// It is none of these files.
    Other,
    /// It was written by another version.
    Version(u32),
    /// It is cut or changed.
    Damaged,
}

impl From<Damaged> for Unusable {
    fn from(Damaged: Damaged) -> Self {
        Self::Damaged
    }
}

/// An opened file.
pub(crate) struct Store {
    bytes: Bytes,
    pub(crate) facts: Facts,
    tables: [TableAt; TABLES],
    pages: Extent,
    contradictions: Extent,
    registers: Map<Box<[u8]>, u32>,
    blocks: Mutex<Kept<BlockAt>>,
    segments: Mutex<Kept<Segment>>,
}

/// What was decoded lately.
struct Kept<T> {
    items: Map<usize, (Arc<T>, u64)>,
    clock: u64,
    size: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            items: Map::default(),
            clock: 0,
            size: 0,
        }
    }
}

impl<T> Kept<T> {
    fn get(&mut self, at: usize) -> Option<Arc<T>> {
        self.clock += 1;
        let clock = self.clock;
        let (item, used) = self.items.get_mut(&at)?;
        *used = clock;
        Some(Arc::clone(item))
    }

    fn put(&mut self, at: usize, item: &Arc<T>, size: usize, most: usize) {
        self.size += size;
        if self.size > most {
            // The older half goes.
            let mut used: Vec<u64> = self.items.values().map(|(_, used)| *used).collect();
            used.sort_unstable();
            let middle = used.get(used.len() / 2).copied().unwrap_or(0);
            let before = self.items.len().max(1);
            self.items.retain(|_, (_, used)| *used > middle);
            self.size = size + (self.size - size) * self.items.len() / before;
        }
        self.items.insert(at, (Arc::clone(item), self.clock));
    }
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, Unusable> {
        Self::open_if(path, |_| true)
    }

    /// The index of a text: one that another user has made would have us believe anything of it.
    pub(crate) fn open_index(path: &Path) -> Result<Self, Unusable> {
        Self::open_if(path, private::is_own)
    }

    fn open_if(path: &Path, is_good: impl Fn(&Metadata) -> bool) -> Result<Self, Unusable> {
        let file = File::open(path).map_err(|_| Unusable::Other)?;
        let metadata = file.metadata().map_err(|_| Unusable::Other)?;
        if metadata.len() < MAGIC.len() as u64 || !is_good(&metadata) {
            return Err(Unusable::Other);
        }
        Self::read(Bytes::map(file, path).map_err(|_| Unusable::Other)?)
    }

    pub(crate) fn read(bytes: Bytes) -> Result<Self, Unusable> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(Unusable::Other)?;
        let trailer = rest
            .len()
            .checked_sub(TRAILER)
            .and_then(|at| rest.get(at..))
            .ok_or(Unusable::Damaged)?;
        let mut reader = Reader::new(trailer);
        let start = reader.fixed(8)? as usize;
        let length = reader.fixed(8)? as usize;
        let sum = reader.fixed(4)? as u32;
        let version = reader.fixed(4)? as u32;
        let all = reader.fixed(8)?;
        if reader.rest() != MAGIC || all != bytes.len() as u64 {
            return Err(Unusable::Damaged);
        }
        if version != VERSION {
            return Err(Unusable::Version(version));
        }
        let description = bytes.part(start, length)?;
        if !has_sum(description, sum) {
            return Err(Unusable::Damaged);
        }
        let mut reader = Reader::new(description);
        let facts = read_facts(&mut reader)?;
        let mut extent = || -> Result<Extent, Damaged> {
            Ok(Extent {
                start: reader.number()?,
                length: reader.number()?,
            })
        };
        let (pages, contradictions) = (extent()?, extent()?);
        let mut tables = Vec::new();
        for columns in COLUMNS {
            tables.push(TableAt::read(&mut reader, columns, bytes.len())?);
        }
        let Ok(tables) = <[TableAt; TABLES]>::try_from(tables) else {
            return Err(Unusable::Damaged);
        };
        let registers = facts
            .registers
            .iter()
            .cloned()
            .zip(0..)
            .collect::<Map<_, _>>();
        Ok(Self {
            bytes,
            facts,
            tables,
            pages,
            contradictions,
            registers,
            blocks: Mutex::default(),
            segments: Mutex::default(),
        })
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn extent(&self, start: u64, length: u64) -> Result<&[u8], Damaged> {
        let start = usize::try_from(start).map_err(|_| Damaged)?;
        let length = usize::try_from(length).map_err(|_| Damaged)?;
        self.bytes.part(start, length)
    }

    pub(crate) fn rows(&self, table: Table) -> usize {
        self.tables[table as usize].rows
    }

    /// A number of a table.
    #[inline]
    pub(crate) fn number(&self, table: Table, row: usize, column: usize) -> Result<u64, Damaged> {
        let columns = COLUMNS[table as usize];
        let at = &self.tables[table as usize];
        if row >= at.rows {
            return Err(Damaged);
        }
        at.number(&self.bytes, row * columns + column)
    }

    pub(crate) fn row<const N: usize>(
        &self,
        table: Table,
        row: usize,
    ) -> Result<[u64; N], Damaged> {
        let mut numbers = [0; N];
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = self.number(table, row, column)?;
        }
        Ok(numbers)
    }

    /// How many rows at the front of a table fulfil a condition, given that these all are at the front.
    pub(crate) fn partition(
        &self,
        table: Table,
        is_front: impl Fn(usize) -> Result<bool, Damaged>,
    ) -> Result<usize, Damaged> {
        let (mut low, mut high) = (0, self.rows(table));
        while low < high {
            let middle = low + (high - low) / 2;
            if is_front(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    pub(crate) fn block_row(&self, block: usize) -> Result<BlockRow, Damaged> {
        self.row(Table::Blocks, block)
            .map(|row| BlockRow::from_row(&row))
    }

    /// The block of an instruction; for the end of the trace, the last that has instructions.
    pub(crate) fn block_of(&self, instruction: u64) -> Result<Option<usize>, Damaged> {
        let after = self.partition(Table::Blocks, |row| {
            Ok(self.number(Table::Blocks, row, 0)? <= instruction)
        })?;
        Ok(after.checked_sub(1))
    }

    pub(crate) fn segment(&self, number: usize) -> Result<Arc<Segment>, Damaged> {
        let lock = || self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(segment) = lock().get(number) {
            return Ok(segment);
        }
        let [start, templates, ..] = self.row::<4>(Table::Segments, number)?;
        let segment = Arc::new(Segment::read(
            self.extent(start, templates)?,
            &self.registers,
        )?);
        lock().put(number, &segment, segment.size(), SEGMENTS_KEPT);
        Ok(segment)
    }

    /// The number of a block's segment.
    pub(crate) fn segment_number(&self, block: usize) -> Result<u32, Damaged> {
        Ok(self.block_row(block)?.segment)
    }

    /// The blocks of a segment.
    pub(crate) fn blocks_of(&self, segment: u32) -> Result<Range<usize>, Damaged> {
        let first = |segment: usize| {
            let block = self.number(Table::Segments, segment, 3)?;
            usize::try_from(block).map_err(|_| Damaged)
        };
        let segment = segment as usize;
        let end = match segment + 1 < self.rows(Table::Segments) {
            true => first(segment + 1)?,
            false => self.rows(Table::Blocks),
        };
        Ok(first(segment)?..end)
    }

    pub(crate) fn block(&self, number: usize) -> Result<Arc<BlockAt>, Damaged> {
        let lock = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = lock().get(number) {
            return Ok(block);
        }
        let block = Arc::new(self.read_block(number)?);
        lock().put(number, &block, 1, BLOCKS_KEPT);
        Ok(block)
    }

    /// A block that is not kept: for those who go over all of them.
    pub(crate) fn read_block(&self, number: usize) -> Result<BlockAt, Damaged> {
        let row = self.block_row(number)?;
        let expected = Counts {
            instructions: row.instructions,
            groups: row.groups,
        };
        let frame = self.extent(row.offset, u64::from(row.lengths[0]))?;
        let segment = self.segment(row.segment as usize)?;
        Ok(BlockAt::new(row, Block::read(frame, expected, segment)?))
    }

    #[inline]
    pub(crate) fn column<'a>(&self, at: &'a BlockAt, class: Class) -> Result<&'a Column, Damaged> {
        if let Some(column) = at.block.known_column(class) {
            return Ok(column);
        }
        at.block.column(class, self.column_frame(at, class)?)
    }

    /// The numbers of a class of some templates.
    pub(crate) fn column_of(
        &self,
        at: &BlockAt,
        class: Class,
        is_selected: &[bool],
    ) -> Result<Column, Damaged> {
        let frame = self.column_frame(at, class)?;
        let is_selected = |local: u16| is_selected[usize::from(local)];
        at.block.read_column(class, frame, is_selected)
    }

    /// The numbers of a class of some templates, or all of them where they are known already.
    pub(crate) fn with_column<T>(
        &self,
        at: &BlockAt,
        class: Class,
        is_selected: &[bool],
        mut use_it: impl FnMut(&Column) -> T,
    ) -> Result<T, Damaged> {
        if let Some(column) = at.block.known_column(class) {
            return Ok(use_it(column));
        }
        Ok(use_it(&self.column_of(at, class, is_selected)?))
    }

    fn column_frame(&self, at: &BlockAt, class: Class) -> Result<&[u8], Damaged> {
        let before: u64 = at.row.lengths[..1 + class as usize]
            .iter()
            .map(|length| u64::from(*length))
            .sum();
        let start = at.row.offset.checked_add(before).ok_or(Damaged)?;
        self.extent(start, u64::from(at.row.lengths[1 + class as usize]))
    }

    /// The registers at the start of a block: cpu, register, value.
    pub(crate) fn registers_at<'a>(
        &self,
        at: &'a BlockAt,
    ) -> Result<&'a [(u32, u32, RegisterValue)], Damaged> {
        if let Some(registers) = at.registers.get() {
            return Ok(registers);
        }
        let row = &at.row;
        let before: u64 = row.lengths[..4]
            .iter()
            .map(|length| u64::from(*length))
            .sum();
        let start = row.offset.checked_add(before).ok_or(Damaged)?;
        let raw = unpack(self.extent(start, u64::from(row.lengths[4]))?)?;
        let mut reader = Reader::new(&raw);
        let mut registers = Vec::new();
        while !reader.is_empty() {
            registers.push((
                reader.small()?,
                reader.small()?,
                RegisterValue::decode(&mut reader)?,
            ));
        }
        Ok(at.registers.get_or_init(|| registers))
    }

    /// The frame of a segment's skeletons.
    pub(crate) fn skeletons(&self, segment: u32) -> Result<&[u8], Damaged> {
        let [start, templates, skeletons, _] = self.row(Table::Segments, segment as usize)?;
        self.extent(start.checked_add(templates).ok_or(Damaged)?, skeletons)
    }

    /// Writes the text of some groups of a block.
    pub(crate) fn text(
        &self,
        at: &BlockAt,
        groups: Range<u32>,
        out: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let columns = [
            self.column(at, Class::Register)?,
            self.column(at, Class::Memory)?,
            self.column(at, Class::Text)?,
        ];
        let skeletons = self.skeletons(at.row.segment)?;
        at.block.text(at.places(), groups, columns, skeletons, out)
    }

    /// A page of accesses.
    pub(crate) fn page(&self, number: usize) -> Result<Page<'_>, Damaged> {
        let [granule, slot, start] = self.row(Table::Pages, number)?;
        let end = self.number(Table::Pages, number + 1, 2)?;
        let length = end.checked_sub(start).ok_or(Damaged)?;
        if end > self.pages.length {
            return Err(Damaged);
        }
        let start = self.pages.start.checked_add(start).ok_or(Damaged)?;
        Page::read(self.extent(start, length)?, granule, slot)
    }

    /// How many pages there are.
    pub(crate) fn page_count(&self) -> usize {
        self.rows(Table::Pages).saturating_sub(1)
    }

    pub(crate) fn contradictions(&self) -> Result<Vec<u8>, Damaged> {
        unpack(self.extent(self.contradictions.start, self.contradictions.length)?)
    }
}

fn read_facts(reader: &mut Reader<'_>) -> Result<Facts, Damaged> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Damaged);
    let key = Key::read(reader)?;
    let format = text(reader.slice()?)?;
    let is_big = reader.byte()? != 0;
    let architecture = text(reader.slice()?)?;
    let cut = text(reader.slice()?)?;
    let data_order = data_order_of(reader.byte()?)?;
    let data_evidence = DataOrderEvidence {
        number: reader.number()?,
        memory: reader.number()?,
    };
    let mut facts = Facts {
        key,
        format,
        is_big,
        architecture,
        cut,
        data_order,
        data_evidence,
        instructions: reader.number()?,
        accesses: reader.number()?,
        writes: reader.number()?,
        stores: reader.number()?,
        perhaps_stores: reader.number()?,
        register_writes: reader.number()?,
        events: reader.number()?,
        lines: reader.number()?,
        unparsed: reader.number()?,
        text: reader.number()?,
        search: reader.number()?,
        ..Facts::default()
    };
    facts.first_time = read_time(reader)?;
    facts.last_time = read_time(reader)?;
    for _ in 0..reader.count()? {
        facts.cpus.push(reader.small()?);
    }
    facts.registers = read_names(reader)?;
    Ok(facts)
}

fn read_time(reader: &mut Reader<'_>) -> Result<Option<Time>, Damaged> {
    let is_there = reader.byte()? != 0;
    let ticks = reader.number()?;
    let (decimals, scale) = (reader.byte()?, scale(reader.byte()?)?);
    Ok(is_there.then_some(Time {
        ticks,
        decimals,
        scale,
    }))
}
