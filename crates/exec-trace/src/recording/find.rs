//! Searches, forwards and backwards.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range, RangeInclusive};

use rayon::prelude::*;
use tracewire_model::Address;

use super::candidates::Candidates;
use super::memory::{each_entry, page_before};
use super::{ReadError, Recording, RegisterId};
use crate::compact::bytes::Damaged;
use crate::compact::effect::{Effect, EffectKind, Offset};
use crate::compact::part::GRANULE;
use crate::compact::template::{Class, Template};
use crate::index::{BlockAt, Item, Segments, Store, Table};
use crate::record::{CpuNumber, InstructionNumber};

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Instructions at the addresses, skipped ones too.
    Visit,
    /// Instructions that read any of the bytes at the addresses.
    Read,
    /// Instructions that wrote any of the bytes at the addresses.
    Write,
    /// Instructions that read or wrote any of the bytes at the addresses.
    Access,
    /// Instructions that wrote a register, or a part of it.
    Register(RegisterId),
}

/// A search for instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    what: What,
    addresses: RangeInclusive<u64>,
    cpu: Option<CpuNumber>,
}

impl Search {
    /// For something at some addresses, both ends included.
    #[must_use]
    pub const fn new(what: What, addresses: RangeInclusive<u64>) -> Self {
        Self {
            what,
            addresses,
            cpu: None,
        }
    }

    /// For writes to a register.
    #[must_use]
    pub const fn register(register: RegisterId) -> Self {
        Self::new(What::Register(register), 0..=u64::MAX)
    }

    /// Only on this cpu.
    #[must_use]
    pub const fn on_cpu(mut self, cpu: CpuNumber) -> Self {
        self.cpu = Some(cpu);
        self
    }

    fn is_at(&self, template: &Template) -> bool {
        template.instruction.is_some_and(|of| {
            self.addresses.contains(&of.address) && self.cpu.is_none_or(|cpu| cpu.0 == of.cpu)
        })
    }

    fn is_write(&self, register: RegisterId, effect: &Effect) -> bool {
        matches!(effect.kind, EffectKind::Register { register: is, .. } if is == register.0)
            && self.cpu.is_none_or(|cpu| cpu.0 == effect.cpu)
    }

    /// Whether executions of a template can be meant.
    fn can_be(&self, template: &Template) -> bool {
        match self.what {
            What::Visit => self.is_at(template),
            What::Register(register) => template
                .shape
                .effects
                .iter()
                .any(|effect| self.is_write(register, effect)),
            What::Read | What::Write | What::Access => false,
        }
    }

    /// Whether an entry of memory is meant.
    fn matches(&self, item: &Item) -> bool {
        let kind = match self.what {
            What::Read => !item.kind.is_write(),
            What::Write => item.kind.is_write(),
            _ => true,
        };
        let first = item.granule.wrapping_mul(GRANULE) + u64::from(item.offset);
        let last = first + u64::from(item.length - 1);
        // What happened before the first instruction has no instruction.
        kind && item.slot > 0 && first <= *self.addresses.end() && last >= *self.addresses.start()
    }

    fn granules(&self) -> RangeInclusive<u64> {
        self.addresses.start() / GRANULE..=self.addresses.end() / GRANULE
    }

    fn is_of_memory(&self) -> bool {
        matches!(self.what, What::Read | What::Write | What::Access)
    }

    /// The instructions of a block that are meant, by their numbers, in order.
    fn in_block(&self, at: &BlockAt, found: &mut Vec<u64>) {
        let meant: Vec<bool> = at
            .block
            .templates()
            .map(|(_, template)| self.can_be(template))
            .collect();
        if !meant.contains(&true) {
            return;
        }
        let start = found.len();
        let mut groups = at.groups_of(meant);
        while let Some(place) = groups.next(at) {
            match self.what {
                What::Visit => found.push(at.row.first + u64::from(place.before)),
                What::Register(register) => {
                    for effect in &at.template(place).shape.effects {
                        if self.is_write(register, effect) {
                            let slot = u64::from(at.block.slot(effect, place.before));
                            found.extend((at.row.first + slot).checked_sub(1));
                        }
                    }
                }
                What::Read | What::Write | What::Access => {}
            }
        }
        if !found[start..].is_sorted() {
            found[start..].sort_unstable();
        }
    }
}

/// More granules than these are not looked at one by one.
const MANY: u64 = 1 << 12;

impl Recording {
    /// The first instruction from `from` on that is meant.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn find_first(
        &self,
        search: &Search,
        from: InstructionNumber,
    ) -> Result<Option<InstructionNumber>, ReadError> {
        if !search.is_of_memory() {
            let (segments, mut candidates) = (self.segments_of(search)?, Candidates::default());
            let mut rest = self.blocks_of(&(from.0..u64::MAX))?;
            let can_be = |template: &Template| search.can_be(template);
            while let Some(number) =
                self.ask(|store| candidates.next(store, segments.as_ref(), can_be, rest.clone()))?
            {
                let found = self.found_in(search, number)?;
                let at = found.partition_point(|found| *found < from.0);
                if let Some(found) = found.get(at) {
                    return Ok(Some(InstructionNumber(*found)));
                }
                rest.start = number + 1;
            }
            return Ok(None);
        }
        let mut from = from.0;
        loop {
            let found = self.ask(|store| next_access(store, search, from))?;
            match found {
                Some(number) if !self.is_on(search, number)? => from = number + 1,
                found => return Ok(found.map(InstructionNumber)),
            }
        }
    }

    /// The last instruction before `before` that is meant.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn find_last(
        &self,
        search: &Search,
        before: InstructionNumber,
    ) -> Result<Option<InstructionNumber>, ReadError> {
        if !search.is_of_memory() {
            let (segments, mut candidates) = (self.segments_of(search)?, Candidates::default());
            let mut block = self.blocks_of(&(0..before.0))?.end;
            let can_be = |template: &Template| search.can_be(template);
            while let Some(number) =
                self.ask(|store| candidates.last(store, segments.as_ref(), can_be, block))?
            {
                let found = self.found_in(search, number)?;
                let count = found.partition_point(|found| *found < before.0);
                if let Some(found) = count.checked_sub(1).and_then(|at| found.get(at)) {
                    return Ok(Some(InstructionNumber(*found)));
                }
                block = number;
            }
            return Ok(None);
        }
        let mut before = before.0;
        loop {
            let found = self.ask(|store| last_access(store, search, before))?;
            match found {
                Some(number) if !self.is_on(search, number)? => before = number,
                found => return Ok(found.map(InstructionNumber)),
            }
        }
    }

    /// Visits every instruction of a range that is meant, in order, until the visitor breaks.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn find_all(
        &self,
        search: &Search,
        range: Range<u64>,
        visit: &mut dyn FnMut(InstructionNumber) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let mut tell = |found: &[u64]| {
            for number in found {
                if range.contains(number) {
                    visit(InstructionNumber(*number))?;
                }
            }
            ControlFlow::Continue(())
        };
        if !search.is_of_memory() {
            let blocks = self.blocks_of(&range)?;
            let parts = self.parts_of(search, &blocks)?;
            // In pieces, so that a caller who wants few does not wait for all.
            for piece in parts.chunks(64) {
                let found = piece
                    .par_iter()
                    .map(|part| self.found_in_part(search, part.clone()))
                    .collect::<Result<Vec<_>, _>>()?;
                if found.iter().try_for_each(|found| tell(found)).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let mut found = self.ask(|store| {
            let mut found = Vec::new();
            let granules = search.granules();
            each_entry(store, *granules.start(), *granules.end(), |item| {
                let number = item.slot.wrapping_sub(1);
                if search.matches(item) && range.contains(&number) {
                    found.push(number);
                }
                Ok(true)
            })?;
            Ok(found)
        })?;
        found.sort_unstable();
        found.dedup();
        if search.cpu.is_some() {
            let mut on = Vec::new();
            for number in found {
                if self.is_on(search, number)? {
                    on.push(number);
                }
            }
            found = on;
        }
        // Who breaks wants no more.
        let _ = tell(&found);
        Ok(())
    }

    /// The instruction at a time, of a cpu or of any: the first that has the time, else the first that did something
    /// at it, else the first that is later or did something later.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn at_time(
        &self,
        ticks: u64,
        cpu: Option<CpuNumber>,
    ) -> Result<Option<InstructionNumber>, ReadError> {
        let found = self.ask(|store| {
            let mut doing = None;
            for number in blocks_at(store, ticks..=ticks) {
                let number = number?;
                let at = store.block(number)?;
                if let Some(found) = executed_at(&at, ticks..=ticks, cpu) {
                    return Ok(Some(found));
                }
                if doing.is_none() {
                    doing = doing_at(store, &at, ticks..=ticks, cpu)?;
                }
            }
            if doing.is_some() {
                return Ok(doing);
            }
            let later = ticks..=u64::MAX;
            for number in blocks_at(store, later.clone()) {
                let at = store.block(number?)?;
                let found = executed_at(&at, later.clone(), cpu);
                if found.is_some() {
                    return Ok(found);
                }
                if doing.is_none() {
                    doing = doing_at(store, &at, later.clone(), cpu)?;
                }
            }
            Ok(doing)
        })?;
        Ok(found.map(InstructionNumber))
    }

    /// The addresses of all instructions, skipped ones too, in order.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn addresses(&self) -> Result<BTreeSet<Address>, ReadError> {
        let addresses = self.ask(Store::code_addresses)?;
        Ok(addresses.into_iter().map(Address).collect())
    }

    /// The segments in which code is that is looked for, where that is less than all.
    fn segments_of(&self, search: &Search) -> Result<Option<Segments>, ReadError> {
        match search.what {
            What::Visit => {
                let addresses = std::slice::from_ref(&search.addresses);
                self.ask(|store| store.segments_with(addresses))
            }
            _ => Ok(None),
        }
    }

    /// Some blocks, cut where segments end, without those of segments that have nothing of what is looked for.
    fn parts_of(
        &self,
        search: &Search,
        blocks: &Range<usize>,
    ) -> Result<Vec<Range<usize>>, ReadError> {
        let segments = self.segments_of(search)?;
        self.ask(|store| {
            let mut parts = Vec::new();
            let mut block = blocks.start;
            while block < blocks.end {
                let segment = store.segment_number(block)?;
                let next = match &segments {
                    Some(segments) => segments.next(segment),
                    None => Some(segment),
                };
                let Some(next) = next else { break };
                let of = store.blocks_of(next)?;
                let part = of.start.max(block)..of.end.min(blocks.end);
                if of.end <= block {
                    return Err(Damaged);
                }
                block = of.end;
                if !part.is_empty() {
                    parts.push(part);
                }
            }
            Ok(parts)
        })
    }

    /// The instructions of some blocks of a segment.
    fn found_in_part(&self, search: &Search, blocks: Range<usize>) -> Result<Vec<u64>, ReadError> {
        let mut candidates = Candidates::default();
        let can_be = |template: &Template| search.can_be(template);
        let mut found = Vec::new();
        let mut rest = blocks;
        while let Some(number) =
            self.ask(|store| candidates.next(store, None, can_be, rest.clone()))?
        {
            found.extend(self.found_in(search, number)?);
            rest.start = number + 1;
        }
        Ok(found)
    }

    fn found_in(&self, search: &Search, block: usize) -> Result<Vec<u64>, ReadError> {
        self.ask(|store| {
            let mut found = Vec::new();
            search.in_block(&store.read_block(block)?, &mut found);
            Ok(found)
        })
    }

    /// Whether an instruction is of the cpu that is meant.
    fn is_on(&self, search: &Search, number: u64) -> Result<bool, ReadError> {
        let Some(cpu) = search.cpu else {
            return Ok(true);
        };
        self.ask(|store| {
            let Some(block) = store.block_of(number)? else {
                return Ok(false);
            };
            let at = store.block(block)?;
            let place = at.group_of((number - at.row.first) as u32);
            let instruction = place.and_then(|place| at.template(place).instruction);
            Ok(instruction.is_some_and(|of| of.cpu == cpu.0))
        })
    }
}

/// The blocks that have a time of a range. Times may go backwards, so that no block is left out by those before it.
fn blocks_at(
    store: &Store,
    times: RangeInclusive<u64>,
) -> impl Iterator<Item = Result<usize, Damaged>> + '_ {
    (0..store.rows(Table::Blocks)).filter_map(move |number| {
        let overlaps = || {
            let first = store.number(Table::Blocks, number, 2)?;
            let last = store.number(Table::Blocks, number, 3)?;
            Ok(first <= *times.end() && last >= *times.start())
        };
        match overlaps() {
            Ok(true) => Some(Ok(number)),
            Ok(false) => None,
            Err(damaged) => Some(Err(damaged)),
        }
    })
}

/// The first instruction of a block, of a cpu or of any, whose time is in a range.
fn executed_at(at: &BlockAt, times: RangeInclusive<u64>, cpu: Option<CpuNumber>) -> Option<u64> {
    let place = at.places().iter().find(|place| {
        times.contains(&at.block.ticks(place.index))
            && at
                .template(**place)
                .instruction
                .is_some_and(|of| cpu.is_none_or(|cpu| cpu.0 == of.cpu))
    })?;
    Some(at.row.first + u64::from(place.before))
}

/// The first instruction, of a cpu or of any, of which a line in a block has a time in a range that is not its group's.
fn doing_at(
    store: &Store,
    at: &BlockAt,
    times: RangeInclusive<u64>,
    cpu: Option<CpuNumber>,
) -> Result<Option<u64>, Damaged> {
    let has_other = |effect: &Effect| effect.time.is_some() && effect.offset != Offset::START;
    if !at.block.has_other_times {
        return Ok(None);
    }
    let column = store.column(at, Class::Text)?;
    let mut first: Option<u64> = None;
    for place in at.places() {
        for effect in &at.template(*place).shape.effects {
            let Some(time) = effect.time.filter(|_| has_other(effect)) else {
                continue;
            };
            let ticks = at.block.other_time(column, *place, &time).ticks;
            let slot = u64::from(at.block.slot(effect, place.before));
            if times.contains(&ticks)
                && cpu.is_none_or(|cpu| cpu.0 == effect.cpu)
                && let Some(number) = (at.row.first + slot).checked_sub(1)
            {
                first = Some(first.map_or(number, |first| first.min(number)));
            }
        }
    }
    Ok(first)
}

/// The first access that is meant, of the instructions from `from` on.
fn next_access(store: &Store, search: &Search, from: u64) -> Result<Option<u64>, Damaged> {
    let mut best: Option<u64> = None;
    let granules = search.granules();
    let mut note = |item: &Item| {
        let number = item.slot.wrapping_sub(1);
        if search.matches(item) && number >= from && best.is_none_or(|best| number < best) {
            best = Some(number);
            return true;
        }
        false
    };
    if granules.end() - granules.start() >= MANY {
        each_entry(store, *granules.start(), *granules.end(), |item| {
            note(item);
            Ok(true)
        })?;
        return Ok(best);
    }
    for granule in granules {
        let start = page_before(store, granule, from)?.unwrap_or(0);
        'pages: for number in start..store.page_count() {
            if store.number(Table::Pages, number, 0)? > granule {
                break;
            }
            let mut page = store.page(number)?;
            while let Some(item) = page.next()? {
                if item.granule > granule || item.granule == granule && note(&item) {
                    break 'pages;
                }
            }
        }
    }
    Ok(best)
}

/// The last access that is meant, of the instructions before `before`.
fn last_access(store: &Store, search: &Search, before: u64) -> Result<Option<u64>, Damaged> {
    let mut best: Option<u64> = None;
    let granules = search.granules();
    let mut note = |item: &Item| {
        let number = item.slot.wrapping_sub(1);
        let is_found = search.matches(item) && number < before;
        if is_found && best.is_none_or(|best| number > best) {
            best = Some(number);
        }
        is_found
    };
    if granules.end() - granules.start() >= MANY {
        each_entry(store, *granules.start(), *granules.end(), |item| {
            note(item);
            Ok(true)
        })?;
        return Ok(best);
    }
    for granule in granules {
        let Some(start) = page_before(store, granule, before)? else {
            continue;
        };
        for number in (0..=start).rev() {
            let mut page = store.page(number)?;
            let mut is_found = false;
            while let Some(item) = page.next()? {
                if item.granule > granule {
                    break;
                }
                is_found |= item.granule == granule && note(&item);
            }
            if is_found || store.number(Table::Pages, number, 0)? < granule {
                break;
            }
        }
    }
    Ok(best)
}
