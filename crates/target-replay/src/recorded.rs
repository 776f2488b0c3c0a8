//! A recording of the file form, for a debugger.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

use tracewire_arch::{InstructionSet, Machine, Opcode};
use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber, Scale, Time};
use tracewire_exec_trace::recording::{
    CodeId, Need, ReadError, Recording, RegisterId, RegisterValue, Search, Step, What,
};
use tracewire_model::{Address, ByteOrder, RegisterNumber};

use crate::execution::{Direction, Executed, Execution, RegisterBlock, Watch};
use crate::played::{Direct, Played};
use crate::player::Player;

/// A recording, and the machine it is of.
#[derive(Debug)]
pub struct Recorded {
    recording: Recording,
    registers: DebuggerRegisters,
    cpus: Vec<u32>,
    /// The registers that the trace writes as wholes by one name each, by their numbers; and the other names.
    direct: Vec<Direct>,
    others: Vec<RegisterId>,
    /// The codes of instructions by their addresses: the memory that a trace without a program's file has.
    code: OnceLock<HashMap<u64, Vec<u8>>>,
    problem: OnceLock<ReadError>,
}

/// A trace that does not name its machine.
#[derive(Debug, thiserror::Error)]
#[error("the trace does not say of which machine it is")]
pub struct UnknownMachine;

impl Recorded {
    /// Takes a recording.
    ///
    /// # Errors
    /// When its machine is not known.
    pub fn new(recording: Recording) -> Result<Self, UnknownMachine> {
        let machine = Machine::of(recording.architecture().ok_or(UnknownMachine)?);
        let registers = DebuggerRegisters::new(&recording, machine);
        let (direct, others) = sort_names(&recording, &registers);
        let mut cpus: Vec<u32> = recording.summary().cpus.iter().map(|cpu| cpu.0).collect();
        if cpus.is_empty() {
            cpus.push(0);
        }
        Ok(Self {
            direct,
            others,
            registers,
            recording,
            cpus,
            code: OnceLock::new(),
            problem: OnceLock::new(),
        })
    }

    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The first read error. Data that depended on it was reported as unknown, or missing.
    #[must_use]
    pub fn problem(&self) -> Option<&ReadError> {
        self.problem.get()
    }

    /// An answer, or that there is none because the file is damaged.
    pub(crate) fn answer<T>(&self, result: Result<T, ReadError>) -> Option<T> {
        match result {
            Ok(answer) => Some(answer),
            Err(error) => {
                // The first one is kept.
                let _ = self.problem.set(error);
                None
            }
        }
    }

    fn first(&self, search: &Search, from: u64) -> Option<u64> {
        let found = self.recording.find_first(search, InstructionNumber(from));
        self.answer(found)?.map(|number| number.0)
    }

    fn last(&self, search: &Search, before: u64) -> Option<u64> {
        let found = self.recording.find_last(search, InstructionNumber(before));
        self.answer(found)?.map(|number| number.0)
    }

    /// Has a look at one instruction.
    fn step<T>(&self, number: u64, look: impl FnOnce(&Step<'_>) -> T) -> Option<T> {
        let (mut look, mut seen) = (Some(look), None);
        let end = number.checked_add(1)?;
        let visited = self
            .recording
            .for_each_instruction(number..end, &mut |step| {
                seen = look.take().map(|look| look(step));
                ControlFlow::Break(())
            });
        self.answer(visited)?;
        seen
    }

    /// At which instruction a register was last written.
    fn last_written(&self, cpu: u32, register: RegisterId, before: u64) -> u64 {
        self.last(&Search::register(register).on_cpu(CpuNumber(cpu)), before)
            .map_or(0, |number| number.saturating_add(1))
    }

    /// Whether something of a register is known at some instant.
    pub(crate) fn tells(&self, register: RegisterNumber) -> bool {
        let machine = self.machine();
        let counter = machine.layout().program_counter();
        self.registers.names_of(register).next().is_some()
            || counter.is_some_and(|counter| counter.number == register)
            || machine.zero().is_some_and(|zero| zero.number == register)
    }

    /// The registers that the trace writes as wholes.
    pub(crate) fn direct(&self) -> &[Direct] {
        &self.direct
    }

    pub(crate) fn direct_of(&self, number: RegisterNumber) -> Option<&Direct> {
        let place = self
            .direct
            .binary_search_by_key(&number, |direct| direct.number);
        self.direct.get(place.ok()?)
    }

    /// Puts the other registers into a block, some of which share bits: the last write counts.
    pub(crate) fn fill_others<'v>(
        &self,
        block: &mut RegisterBlock,
        cpu: u32,
        instant: u64,
        value: impl Fn(RegisterId) -> &'v RegisterValue,
    ) {
        if self.others.is_empty() {
            return;
        }
        let mut others: Vec<RegisterId> = self.others.clone();
        others.retain(|id| !value(*id).is_unknown());
        others.sort_by_cached_key(|id| self.last_written(cpu, *id, instant));
        let mut bytes: Vec<Option<u8>> = (block.bytes.iter().zip(&block.known))
            .map(|(byte, known)| known.then_some(*byte))
            .collect();
        for id in others {
            self.registers.put_name(&mut bytes, id, &value);
        }
        for (place, byte) in bytes.into_iter().enumerate() {
            if let Some(byte) = byte {
                block.set(place, &[byte]);
            }
        }
    }

    /// The first accessed byte of a watched range.
    fn accessed(
        &self,
        watch: Watch,
        address: Address,
        length: u64,
        number: u64,
    ) -> Option<Address> {
        use tracewire_exec_trace::record::AccessKind;
        use tracewire_exec_trace::recording::Effect;
        let end = address.0.saturating_add(length);
        let mut first: Option<u64> = None;
        self.step(number, |step| {
            step.effects(|effect| {
                let Effect::Access(access) = effect else {
                    return;
                };
                let is_selected = match watch {
                    Watch::Access => true,
                    Watch::Write => access.kind == AccessKind::Write,
                    Watch::Read => access.kind == AccessKind::Read,
                };
                let start = access.address.0;
                let behind = start.saturating_add(u64::from(access.size));
                if is_selected && start < end && address.0 < behind {
                    let touched = start.max(address.0);
                    first = Some(first.map_or(touched, |first| first.min(touched)));
                }
            });
        })?;
        Some(Address(first.unwrap_or(address.0)))
    }

    fn search(watch: Watch, address: Address, length: u64) -> Search {
        let what = match watch {
            Watch::Write => What::Write,
            Watch::Read => What::Read,
            Watch::Access => What::Access,
        };
        let last = address.0.saturating_add(length.saturating_sub(1));
        Search::new(what, address.0..=last)
    }

    /// The codes of all instructions, as bytes of memory.
    fn code(&self) -> &HashMap<u64, Vec<u8>> {
        self.code.get_or_init(|| {
            let all = 0..self.recording.len();
            let order = self.machine().byte_order();
            let seen = self.recording.scan(
                all,
                |_| HashMap::<CodeId, (u64, Vec<u8>)>::new(),
                |seen, step| {
                    seen.entry(step.code_id()).or_insert_with(|| {
                        let code = step.code().unwrap_or_default();
                        let thumb = code.set.is_some_and(InstructionSet::is_thumb);
                        let bytes = code.opcode.map(|opcode| in_memory(opcode, order, thumb));
                        (step.address().0, bytes.unwrap_or_default())
                    });
                },
            );
            let seen = self.answer(seen).unwrap_or_default();
            seen.into_iter().flat_map(HashMap::into_values).collect()
        })
    }

    /// Fills in the codes of instructions where nothing else is known, for a trace without an image of memory.
    pub(crate) fn fill_code(&self, address: Address, bytes: &mut [Option<u8>]) {
        /// No instruction is longer.
        const LONGEST: u64 = 16;
        if !self.recording.image().is_empty() || bytes.iter().all(Option::is_some) {
            return;
        }
        let code = self.code();
        let end = address.0.saturating_add(bytes.len() as u64);
        for start in address.0.saturating_sub(LONGEST - 1)..end {
            let Some(instruction) = code.get(&start) else {
                continue;
            };
            for (place, value) in (0..).zip(instruction) {
                let offset = start.saturating_add(place).checked_sub(address.0);
                let byte = offset.and_then(|offset| bytes.get_mut(usize::try_from(offset).ok()?));
                if let Some(byte) = byte {
                    byte.get_or_insert(*value);
                }
            }
        }
    }
}

/// An instruction's code as it is in memory. The halves of Thumb's long ones are written first half first.
fn in_memory(opcode: Opcode, order: ByteOrder, thumb: bool) -> Vec<u8> {
    let size = usize::from(opcode.size()).min(16);
    let bytes = opcode.value.to_be_bytes();
    let mut bytes = bytes.get(16 - size..).unwrap_or_default().to_vec();
    if order == ByteOrder::Little {
        if thumb && size == 4 {
            bytes.chunks_mut(2).for_each(<[u8]>::reverse);
        } else {
            bytes.reverse();
        }
    }
    bytes
}

/// A time in microseconds, where it counts a unit of time.
pub(crate) fn microseconds(time: Time) -> u64 {
    let ticks = u128::from(time.ticks);
    let unit = 10_u128.pow(u32::from(time.decimals).min(18));
    let scaled = match time.scale {
        Scale::Picoseconds => ticks / 1_000_000 / unit,
        Scale::Nanoseconds => ticks / 1_000 / unit,
        Scale::Milliseconds => ticks * 1_000 / unit,
        _ => ticks / unit,
    };
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

pub(crate) fn executed(step: &Step<'_>) -> Executed {
    Executed {
        address: step.address(),
        cpu: step.cpu().0,
        time: microseconds(step.time()),
    }
}

impl Execution for Recorded {
    fn machine(&self) -> &Machine {
        self.registers.machine()
    }

    fn instructions(&self) -> u64 {
        self.recording.len()
    }

    fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    fn instruction(&self, number: u64) -> Option<Executed> {
        if number >= self.recording.len() {
            return None;
        }
        self.step(number, executed)
    }

    fn time(&self, number: u64) -> Option<String> {
        self.step(number, |step| step.time().to_string())
    }

    fn at_time(&self, text: &str) -> Option<u64> {
        let time = Time::parse(text)?;
        // A unit, where one is given, must be the recording's: times of another are not converted.
        let first = self.recording.summary().first_time?;
        if time.scale != Scale::None && time.scale != first.scale {
            return None;
        }
        let ticks = time.ticks_with(first.decimals)?;
        let found = self.recording.at_time(ticks, None);
        self.answer(found)?.map(|number| number.0)
    }

    fn next_of(&self, cpu: u32, from: u64) -> Option<u64> {
        if let [only] = self.cpus[..] {
            return (only == cpu && from < self.recording.len()).then_some(from);
        }
        let search = Search::new(What::Visit, 0..=u64::MAX).on_cpu(CpuNumber(cpu));
        self.first(&search, from)
    }

    fn last_of(&self, cpu: u32, before: u64) -> Option<u64> {
        if let [only] = self.cpus[..] {
            let last = before.min(self.recording.len()).checked_sub(1);
            return last.filter(|_| only == cpu);
        }
        let search = Search::new(What::Visit, 0..=u64::MAX).on_cpu(CpuNumber(cpu));
        self.last(&search, before)
    }

    fn next_visit(&self, address: Address, from: u64) -> Option<u64> {
        self.first(&Search::new(What::Visit, address.0..=address.0), from)
    }

    fn last_visit(&self, address: Address, before: u64) -> Option<u64> {
        self.last(&Search::new(What::Visit, address.0..=address.0), before)
    }

    fn unwatchable(&self) -> Option<String> {
        let required = self.recording.require(Need::Accesses);
        required.err().map(|lacking| lacking.to_string())
    }

    fn access(
        &self,
        direction: Direction,
        watch: Watch,
        address: Address,
        length: u64,
        range: Range<u64>,
    ) -> Option<(u64, Address)> {
        let search = Self::search(watch, address, length);
        let number = match direction {
            Direction::Forward => self.first(&search, range.start),
            Direction::Backward => self.last(&search, range.end),
        }
        .filter(|number| range.contains(number))?;
        Some((number, self.accessed(watch, address, length, number)?))
    }

    fn registers(&self, cpu: u32, instant: u64) -> RegisterBlock {
        let block =
            self.registers
                .block(&self.recording, CpuNumber(cpu), InstructionNumber(instant));
        match self.answer(block) {
            Some(block) => RegisterBlock {
                bytes: block.iter().map(|byte| byte.unwrap_or(0)).collect(),
                known: block.iter().map(Option::is_some).collect(),
            },
            None => RegisterBlock::unknown(self.machine().layout()),
        }
    }

    fn memory(&self, _: u32, instant: u64, address: Address, bytes: &mut [Option<u8>]) {
        let read = self
            .recording
            .memory_at(InstructionNumber(instant), address, bytes);
        if self.answer(read).is_none() {
            bytes.fill(None);
        }
        self.fill_code(address, bytes);
    }

    fn player(&self, from: u64) -> Box<dyn Player + '_> {
        Box::new(Played::new(self, from))
    }
}

/// The names of whole registers that share them with no other name, and the rest.
fn sort_names(
    recording: &Recording,
    registers: &DebuggerRegisters,
) -> (Vec<Direct>, Vec<RegisterId>) {
    let machine = registers.machine();
    let (mut direct, mut others) = (Vec::new(), Vec::new());
    for (id, name) in (0..).map(RegisterId).zip(recording.register_names()) {
        let parts = machine.locate(name.as_bytes()).unwrap_or_default();
        let whole = match parts {
            [part] => machine
                .layout()
                .by_number(part.register)
                .filter(|register| {
                    let plain = (part.register_bit, part.value_bit) == (0, 0);
                    let all = u32::from(part.bits) == register.bits && register.bits <= 64;
                    plain && all && registers.names_of(part.register).count() == 1
                }),
            _ => None,
        };
        match whole {
            Some(register) => direct.push(Direct {
                number: register.number,
                id,
                offset: register.offset as usize,
                size: register.size() as usize,
            }),
            None if parts.is_empty() => {}
            None => others.push(id),
        }
    }
    direct.sort_by_key(|direct| direct.number);
    (direct, others)
}
