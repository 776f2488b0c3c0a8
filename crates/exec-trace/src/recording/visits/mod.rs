//! Going from one execution of some instructions to the next, with registers and memory there.
//!
//! A [`Replay`](super::Replay) executes all that lies between. This passes over it. Blocks without a visit are not read. Of the others the
//! templates and their order are read, then the writes to the wanted registers up to the visit; memory is asked of the
//! index, granule by granule, and what it answers kept as long as it holds.

mod granule;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;

use tracewire_model::Address;

use self::granule::Granule;
use self::writes::{Wanted, Writes, cpu_place};
use super::candidates::Candidates;
use super::code_locations::{CodeLocations, Meant};
use super::memory::by_granules;
use super::registers::value_of;
use super::scan::{OpenBlock, Step};
use super::{ReadError, Recording, RegisterId, ReportedWrites};
use crate::compact::RegisterValue;
use crate::compact::block::GroupPlace;
use crate::compact::bytes::Damaged;
use crate::compact::map::Map;
use crate::index::{Store, Table};
use crate::record::{CpuNumber, InstructionNumber};

/// Of how many granules it is kept what they held.
const MOST_GRANULES: usize = 1 << 16;

/// A way forward through a recording, from one instruction that is meant to the next.
pub struct Visits<'a> {
    recording: &'a Recording,
    meant: Meant,
    /// The first instruction that was not passed.
    next: u64,
    /// The first block that may have a visit and was not opened, where that is known.
    following: Option<usize>,
    block: Option<Visited>,
    candidates: Candidates,
    wanted: Wanted,
    registers: Vec<(u32, Vec<RegisterValue>)>,
    granules: Map<u64, Granule>,
}

/// A block with an instruction that is meant.
struct Visited {
    number: usize,
    open: OpenBlock,
    /// The instructions that are meant, in order, and which of them is the current one.
    found: Vec<GroupPlace>,
    at: usize,
    writes: Writes,
}

impl Visited {
    /// Finds the instructions of the templates that are meant.
    fn find(&mut self, is_selected: Vec<bool>) {
        self.found.clear();
        self.at = 0;
        let at = &self.open.at;
        let mut groups = at.groups_of(is_selected);
        self.found.extend(std::iter::from_fn(|| groups.next(at)));
    }
}

impl std::fmt::Debug for Visits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visits")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// A way forward from an instruction on, which counts, to those of some code.
    #[must_use]
    pub fn visits(&self, from: InstructionNumber, code: CodeLocations) -> Visits<'_> {
        Visits {
            recording: self,
            meant: Meant::new(code, BTreeSet::new()),
            next: from.0,
            following: None,
            block: None,
            candidates: Candidates::default(),
            wanted: Wanted::All,
            registers: Vec::new(),
            granules: Map::default(),
        }
    }
}

impl Visits<'_> {
    /// Gives the values of some registers only, those whose numbers have a `true`. Others are unknown. Code that writes none of them is
    /// not decoded.
    #[must_use]
    pub fn with_registers(mut self, wanted: &[bool]) -> Self {
        debug_assert!(self.block.is_none(), "it has not begun");
        self.wanted = Wanted::Some(wanted.to_vec());
        self
    }

    /// Looks for other instructions from now on: those of some code, and all of some cpus.
    pub fn look_for(&mut self, code: CodeLocations, cpus: BTreeSet<CpuNumber>) {
        self.meant = Meant::new(code, cpus);
        self.candidates = Candidates::default();
        // Blocks may have been passed over that have none of the others.
        self.following = self.block.as_ref().map(|block| block.number + 1);
        // Of the block that is open the rest is looked at again.
        if let Some(block) = &mut self.block {
            let templates = block.open.at.block.templates();
            let is_selected: Vec<bool> = templates
                .map(|(_, template)| self.meant.has(template))
                .collect();
            block.find(is_selected);
        }
    }

    /// Goes on to the next instruction that is meant, of those before `end`. False where there is none.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn advance(&mut self, end: InstructionNumber) -> Result<bool, ReadError> {
        let end = end.0.min(self.recording.len());
        while self.next < end {
            if let Some(block) = &mut self.block {
                let first = block.open.at.row.first;
                let before = |place: &GroupPlace| first + u64::from(place.before);
                let passed = block.found[block.at..]
                    .iter()
                    .take_while(|place| before(place) < self.next)
                    .count();
                block.at += passed;
                if let Some(place) = block.found.get(block.at) {
                    let number = before(place);
                    if number >= end {
                        self.next = end;
                        return Ok(false);
                    }
                    self.next = number + 1;
                    let (at, registers) = (&block.open.at, &mut self.registers);
                    block.writes.catch_up(at, place.before, registers);
                    return Ok(true);
                }
                self.block = None;
            }
            let from = match self.following {
                Some(number) => number,
                None => self.recording.block_of(InstructionNumber(self.next))?,
            };
            let (meant, candidates) = (&self.meant, &mut self.candidates);
            let number = self.recording.ask(|store| {
                let can_be = |template: &_| meant.has(template);
                let next = candidates.next(store, meant.segments(), can_be, from..usize::MAX)?;
                Ok(next.unwrap_or(store.rows(Table::Blocks)))
            })?;
            self.following = Some(number);
            // A block that begins at the end or after it is not opened: the next visit may be far behind. A later call with a greater
            // end continues at this block.
            if number >= self.recording.block_count()
                || self.recording.ask(|store| store.block_row(number))?.first >= end
            {
                self.next = end;
                break;
            }
            self.following = Some(number + 1);
            self.open(number)?;
        }
        Ok(false)
    }

    /// Opens a block, if an instruction in it is meant.
    fn open(&mut self, number: usize) -> Result<(), ReadError> {
        let recording = self.recording;
        let store = recording.store();
        let opened = self.open_in(Arc::clone(&store), number);
        self.block = opened.or_else(|Damaged| {
            self.open_in(recording.rebuild(&store)?, number)
                .map_err(|Damaged| ReadError::Damaged {
                    path: recording.path.clone(),
                })
        })?;
        Ok(())
    }

    fn open_in(&mut self, store: Arc<Store>, number: usize) -> Result<Option<Visited>, Damaged> {
        let at = store.read_block(number)?;
        let templates = self.candidates.templates(at.row.segment).ok_or(Damaged)?;
        let is_selected =
            |local| templates.get(at.block.template_number(local) as usize) == Some(&true);
        let meant: Vec<bool> = at
            .block
            .templates()
            .map(|(local, _)| is_selected(local))
            .collect();
        if !meant.contains(&true) {
            return Ok(None);
        }
        let names = self.recording.names.len();
        for (_, values) in &mut self.registers {
            values.fill(RegisterValue::UNKNOWN);
        }
        let at_start = match self.wanted.is_empty() {
            true => &[],
            false => store.registers_at(&at)?,
        };
        for (cpu, register, value) in at_start {
            if !self.wanted.has(*register) {
                continue;
            }
            let cpu = cpu_place(&mut self.registers, *cpu, names);
            let values = self.registers.get_mut(cpu).map(|(_, values)| values);
            if let Some(place) = values.and_then(|values| values.get_mut(*register as usize)) {
                value.clone_into(place);
            }
        }
        let writes = Writes::new(&store, &at, &self.wanted, &mut self.registers, names)?;
        let mut visited = Visited {
            number,
            open: OpenBlock {
                store,
                at: Arc::new(at),
            },
            found: Vec::new(),
            at: 0,
            writes,
        };
        visited.find(meant);
        Ok(Some(visited))
    }

    /// The instruction at which it is; none before the first and after the last.
    #[must_use]
    pub fn step(&self) -> Option<Step<'_>> {
        let block = self.block.as_ref()?;
        let place = *block.found.get(block.at)?;
        Some(Step {
            recording: self.recording,
            block: &block.open,
            place,
        })
    }

    /// What a register of a cpu holds before the current instruction.
    #[must_use]
    pub fn register(&self, cpu: CpuNumber, register: RegisterId) -> &RegisterValue {
        value_of(&self.registers, cpu, register)
    }

    /// What memory holds before the current instruction, `None` for a byte that is not known.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn memory(&mut self, address: Address, bytes: &mut [Option<u8>]) -> Result<(), ReadError> {
        let now = self.next.saturating_sub(1);
        by_granules(address, bytes, |granule| self.granule(now, granule))
    }

    fn granule(&mut self, now: u64, granule: u64) -> Result<[Option<u8>; 8], ReadError> {
        if self.recording.reported != ReportedWrites::All {
            return self.recording.granule_at(now, granule);
        }
        if let Some(bytes) = self
            .granules
            .get_mut(&granule)
            .and_then(|known| known.at(now))
        {
            return Ok(bytes);
        }
        if self.granules.len() >= MOST_GRANULES {
            self.granules.clear();
        }
        let mut known = self
            .recording
            .ask(|store| Granule::read(store, now, granule))?;
        if known.before.touched != 0xff {
            known.untouched = self.recording.untouched(granule)?;
        }
        let bytes = known.bytes(&known.before);
        self.granules.insert(granule, known);
        Ok(bytes)
    }
}
