//! A recording played: a state that moves on, instruction by instruction.

use tracewire_model::Address;

use super::memory::{by_granules, known_bytes};
use super::registers::{registers_at, value_of};
use super::scan::{Effect, OpenBlock, Step};
use super::{ReadError, Recording, RegisterId, ReportedWrites};
use crate::compact::RegisterValue;
use crate::compact::map::Map;
use crate::compact::part::{Part, parts};
use crate::index::{Entry, PageState};
use crate::record::{AccessKind, CpuNumber, InstructionNumber};

/// How many granules are remembered before the state is taken from the recording again.
const MOST: usize = 1 << 20;

/// Registers and memory before an instruction, and the way to the next.
pub struct Replay<'a> {
    recording: &'a Recording,
    /// The instruction that is about to execute.
    next: u64,
    block: Option<OpenBlock>,
    cpus: Vec<(u32, Vec<RegisterValue>)>,
    /// Where memory was taken from the recording.
    base: u64,
    /// What accesses since then did.
    accessed: Map<u64, PageState>,
    /// What the recording has of memory there.
    recorded: Map<u64, [Option<u8>; 8]>,
    /// Room for the parts of an access.
    parts: Vec<Part>,
}

impl Recording {
    /// A state before an instruction, that can move on from there.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn replay(&self, from: InstructionNumber) -> Result<Replay<'_>, ReadError> {
        let from = from.0.min(self.len());
        let mut replay = Replay {
            recording: self,
            next: from,
            block: None,
            cpus: Vec::new(),
            base: from,
            accessed: Map::default(),
            recorded: Map::default(),
            parts: Vec::new(),
        };
        let cpus = self.ask(|store| {
            let mut cpus = Vec::new();
            registers_at(store, from, |cpu, register, write| {
                let values = registers_of(&mut cpus, cpu, self.register_names().len());
                if let Some(value) = values.get_mut(register as usize) {
                    write.apply(value);
                }
            })?;
            Ok(cpus)
        })?;
        replay.cpus = cpus;
        replay.open()?;
        Ok(replay)
    }
}

/// The registers of a cpu.
fn registers_of(
    cpus: &mut Vec<(u32, Vec<RegisterValue>)>,
    cpu: u32,
    count: usize,
) -> &mut Vec<RegisterValue> {
    let at = match cpus.iter().position(|(of, _)| *of == cpu) {
        Some(at) => at,
        None => {
            cpus.push((cpu, vec![RegisterValue::UNKNOWN; count]));
            cpus.len() - 1
        }
    };
    &mut cpus[at].1
}

impl<'a> Replay<'a> {
    /// The instruction that is about to execute; the number after the last one at the end.
    #[must_use]
    pub const fn number(&self) -> InstructionNumber {
        InstructionNumber(self.next)
    }

    /// The instruction that is about to execute, with what it will do; none at the end.
    #[must_use]
    pub fn step(&self) -> Option<Step<'_>> {
        let block = self.block.as_ref()?;
        let place = block.at.group_of((self.next - block.at.row.first) as u32)?;
        Some(Step {
            recording: self.recording,
            block,
            place,
        })
    }

    /// Executes the instruction. False at the end.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn advance(&mut self) -> Result<bool, ReadError> {
        let Some(block) = &self.block else {
            return Ok(false);
        };
        let slot = (self.next - block.at.row.first) as u32 + 1;
        let order = self.recording.order;
        let count = self.recording.names.len();
        let (cpus, accessed, cut) = (&mut self.cpus, &mut self.accessed, &mut self.parts);
        block.effects(slot, order, |effect| match effect {
            Effect::Register(write) => {
                let values = registers_of(cpus, write.cpu.0, count);
                let Some(value) = values.get_mut(write.register.0 as usize) else {
                    return;
                };
                match write.part {
                    None => value.write(&write.value()),
                    Some(part) => value.write_part(part, &write.value()),
                }
            }
            Effect::Access(access) => {
                parts(access.template(), 0, order, |row| access.row(row), cut);
                for part in cut.drain(..) {
                    let entry = Entry {
                        slot: 0,
                        offset: part.offset,
                        length: part.length,
                        is_write: part.kind == AccessKind::Write,
                        data: part.is_known.then_some(part.data),
                    };
                    accessed.entry(part.granule).or_default().apply(&entry);
                }
            }
        });
        self.next += 1;
        if u64::from(slot) >= u64::from(block.at.row.instructions) {
            self.open()?;
        }
        if self.accessed.len() > MOST || self.recorded.len() > MOST {
            self.accessed.clear();
            self.recorded.clear();
            self.base = self.next;
        }
        Ok(true)
    }

    /// Executes instructions until the next to execute is one that is meant, of those before `end`. The instruction
    /// that is about to execute now counts. False where none came: then it is at `end`, or at the end.
    ///
    /// `is_selected` is not asked each time: its answer is to depend on [`Step::code_id`] only.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn run_to(
        &mut self,
        end: InstructionNumber,
        mut is_selected: impl FnMut(&Step<'_>) -> bool,
    ) -> Result<bool, ReadError> {
        // What is known of the templates of the block.
        let mut meant: Vec<Option<bool>> = Vec::new();
        let mut first = None;
        while self.next < end.0 {
            let Some(step) = self.step() else {
                return Ok(false);
            };
            let row = &step.block.at.row;
            if first != Some(row.first) {
                first = Some(row.first);
                meant.clear();
            }
            let local = usize::from(step.place.local);
            if meant.len() <= local {
                meant.resize(local + 1, None);
            }
            if *meant[local].get_or_insert_with(|| is_selected(&step)) {
                return Ok(true);
            }
            self.advance()?;
        }
        Ok(false)
    }

    /// What a register of a cpu holds.
    #[must_use]
    pub fn register(&self, cpu: CpuNumber, register: RegisterId) -> &RegisterValue {
        value_of(&self.cpus, cpu, register)
    }

    /// What memory holds, `None` for a byte that is not known.
    ///
    /// # Errors
    ///
    /// When the file is damaged and cannot be made again.
    pub fn memory(&mut self, address: Address, bytes: &mut [Option<u8>]) -> Result<(), ReadError> {
        by_granules(address, bytes, |granule| self.granule(granule))
    }

    fn granule(&mut self, granule: u64) -> Result<[Option<u8>; 8], ReadError> {
        if self.recording.reported != ReportedWrites::All {
            return self.recording.granule_at(self.next, granule);
        }
        let state = self.accessed.get(&granule).copied().unwrap_or_default();
        let mut bytes = known_bytes(&state);
        if state.touched == 0xff {
            return Ok(bytes);
        }
        let recorded = match self.recorded.get(&granule) {
            Some(recorded) => *recorded,
            None => {
                let recorded = self.recording.granule_at(self.base, granule)?;
                self.recorded.insert(granule, recorded);
                recorded
            }
        };
        for (place, byte) in bytes.iter_mut().enumerate() {
            if state.touched >> place & 1 == 0 {
                *byte = recorded[place];
            }
        }
        Ok(bytes)
    }

    /// The block of the instruction that is about to execute.
    fn open(&mut self) -> Result<(), ReadError> {
        self.block = None;
        let blocks = self.recording.blocks_of(&(self.next..self.next + 1))?;
        if let Some(number) = blocks.into_iter().next() {
            self.block = Some(self.recording.open_block(number, false)?);
        }
        Ok(())
    }
}
