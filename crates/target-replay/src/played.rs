//! A recording of the file form played forward, instruction by instruction, from one place of interest to the next.

use std::collections::BTreeSet;

use tracewire_arch::{Machine, Register, RegisterLayout};
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{CodeLocations, RegisterId, Visits};
use tracewire_experiment::{MemoryRead, StoppedThread, TargetError};
use tracewire_model::{Address, ByteOrder, RegisterNumber, ThreadId};
use tracewire_tracefile::unknown_masks;

use crate::execution::{Executed, Execution, RegisterBlock, canonical};
use crate::player::Player;
use crate::recorded::{Recorded, executed};
use crate::replay::{set_constant_registers, thread_of};

/// How far unknown memory is looked through at once, in bytes.
const STRIDE: u64 = 4096;

/// A register that the trace writes as a whole, by one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    pub(crate) number: RegisterNumber,
    pub(crate) id: RegisterId,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

/// The recording, being played.
pub(crate) struct Played<'e> {
    recorded: &'e Recorded,
    visits: Visits<'e>,
    /// The addresses that were looked for last, and where their code is.
    code: (BTreeSet<Address>, CodeLocations),
    /// The instruction that is about to be executed, once it has been found.
    here: Option<Executed>,
    block: RegisterBlock,
    /// Whether the block is that of this instruction.
    is_filled: bool,
    /// The offsets of the block's parts in the requested one.
    wanted: Wanted,
    /// Memory as it was read last, used again.
    bytes: Vec<Option<u8>>,
}

/// The requested register block, which has fewer registers than the machine, or others.
struct Wanted {
    registers: Vec<Register>,
    block: RegisterBlock,
    /// From where, to where, how many bytes.
    pieces: Vec<(usize, usize, usize)>,
    /// The registers with unknown parts, and the known bytes when that was computed.
    unknown: Vec<u64>,
    unknown_of: Vec<bool>,
}

impl Wanted {
    /// Of a layout, down to a size in bytes.
    fn new(machine: &Machine, layout: &RegisterLayout, size: u32) -> Self {
        let mut pieces: Vec<(usize, usize, usize)> = Vec::new();
        let fits = |register: &&Register| register.offset.saturating_add(register.size()) <= size;
        for register in layout.registers().iter().filter(fits) {
            let known = machine.layout().by_number(register.number);
            let Some(known) = known.filter(|known| known.bits == register.bits) else {
                continue;
            };
            let size = register.size() as usize;
            let (from, to) = (known.offset as usize, register.offset as usize);
            match pieces.last_mut() {
                Some((start, place, length))
                    if *start + *length == from && *place + *length == to =>
                {
                    *length += size;
                }
                _ => pieces.push((from, to, size)),
            }
        }
        let size = size as usize;
        Self {
            registers: layout.registers().to_vec(),
            block: RegisterBlock {
                bytes: vec![0; size],
                known: vec![false; size],
            },
            pieces,
            unknown: Vec::new(),
            unknown_of: Vec::new(),
        }
    }
}

impl<'e> Played<'e> {
    pub(crate) fn new(recorded: &'e Recorded, from: u64) -> Self {
        let machine = recorded.machine();
        let layout = machine.layout();
        Self {
            recorded,
            visits: recorded
                .recording()
                .visits(InstructionNumber(from), CodeLocations::none()),
            code: (BTreeSet::new(), CodeLocations::none()),
            here: None,
            block: RegisterBlock::unknown(layout),
            is_filled: false,
            wanted: Wanted::new(machine, layout, layout.size()),
            bytes: Vec::new(),
        }
    }

    /// Gives register blocks of this layout from now on, of so many bytes.
    pub(crate) fn set_layout(&mut self, layout: &RegisterLayout, size: u32) {
        self.wanted = Wanted::new(self.recorded.machine(), layout, size);
    }

    fn cpu(&self) -> CpuNumber {
        CpuNumber(self.here.map_or(0, |here| here.cpu))
    }

    fn fill(&mut self) {
        if self.is_filled {
            return;
        }
        self.is_filled = true;
        let (Some(here), Some(step)) = (self.here, self.visits.step()) else {
            return;
        };
        let instant = step.number().0;
        let visits = &self.visits;
        let recorded = self.recorded;
        let machine = recorded.machine();
        let order = machine.byte_order();
        let cpu = CpuNumber(here.cpu);
        self.block.clear();
        for direct in recorded.direct() {
            if let Some(value) = visits.register(cpu, direct.id).known() {
                self.block
                    .set_number(direct.offset, direct.size, value, order);
            }
        }
        recorded.fill_others(&mut self.block, here.cpu, instant, |id| {
            visits.register(cpu, id)
        });
        set_constant_registers(machine, &mut self.block, Some(here.address));
        let wanted = &mut self.wanted;
        for (from, to, size) in &wanted.pieces {
            copy(
                &self.block.bytes,
                *from,
                &mut wanted.block.bytes,
                *to,
                *size,
            );
            copy(
                &self.block.known,
                *from,
                &mut wanted.block.known,
                *to,
                *size,
            );
        }
        if wanted.unknown_of != wanted.block.known {
            wanted.unknown_of.clone_from(&wanted.block.known);
            wanted.unknown = unknown_masks(&wanted.registers, &wanted.unknown_of);
        }
    }

    /// The requested block.
    fn wanted(&mut self) -> &Wanted {
        self.fill();
        &self.wanted
    }

    fn read(&mut self, address: Address, length: usize) -> &[Option<u8>] {
        self.bytes.clear();
        self.bytes.resize(length, None);
        let address = canonical(self.recorded.machine(), address);
        let read = self.visits.memory(address, &mut self.bytes);
        if self.recorded.answer(read).is_none() {
            self.bytes.fill(None);
        }
        self.recorded.fill_code(address, &mut self.bytes);
        &self.bytes
    }
}

impl Player for Played<'_> {
    fn look_for(&mut self, addresses: &BTreeSet<Address>, cpus: &BTreeSet<u32>) {
        // Cpus change with each step, and addresses seldom do.
        if self.code.0 != *addresses {
            let found = (self.recorded.recording()).locate(addresses.iter().copied().collect());
            // Where the file is damaged, no visit is found either.
            let code = self.recorded.answer(found);
            self.code = (addresses.clone(), code.unwrap_or_else(CodeLocations::none));
        }
        let cpus = cpus.iter().map(|cpu| CpuNumber(*cpu)).collect();
        self.visits.look_for(self.code.1.clone(), cpus);
    }

    fn advance_to(&mut self, to: u64) -> Option<(u64, Executed)> {
        self.here = None;
        self.is_filled = false;
        let found = self.visits.advance(InstructionNumber(to));
        if !self.recorded.answer(found)? {
            return None;
        }
        let step = self.visits.step()?;
        let here = executed(&step);
        self.here = Some(here);
        Some((step.number().0, here))
    }

    fn thread(&mut self) -> &mut dyn StoppedThread {
        self
    }
}

impl StoppedThread for Played<'_> {
    fn id(&self) -> ThreadId {
        thread_of(self.cpu().0)
    }

    fn cpu(&mut self) -> u32 {
        Played::cpu(self).0
    }

    fn timestamp(&self) -> u64 {
        self.here.map_or(0, |here| here.time)
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        if let Some(direct) = self.recorded.direct_of(register) {
            return self.visits.register(Played::cpu(self), direct.id).known();
        }
        self.fill();
        let machine = self.recorded.machine();
        let place = machine.layout().by_number(register)?;
        let bytes = self
            .block
            .get(place.offset as usize, place.size() as usize)?;
        place.number(bytes, machine.byte_order())
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        Ok(&self.wanted().block.bytes)
    }

    fn known_registers(&mut self) -> Option<&[bool]> {
        let known = &self.wanted().block.known;
        (!known.iter().all(|known| *known)).then_some(known)
    }

    fn unknown_registers(&mut self) -> &[u64] {
        &self.wanted().unknown
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        for piece in pieces {
            let known = self.read(piece.address, piece.bytes.len());
            let mut filled = 0;
            for (byte, known) in piece.bytes.iter_mut().zip(known) {
                let Some(known) = known else { break };
                *byte = *known;
                filled += 1;
            }
            piece.filled = filled;
        }
    }

    fn readable_from(&mut self, address: Address, end: Address) -> Option<Address> {
        let mut at = address.0;
        while at < end.0 {
            let length = STRIDE.min(end.0 - at);
            let bytes = self.read(Address(at), length as usize);
            if let Some(place) = bytes.iter().position(Option::is_some) {
                return Some(Address(at.saturating_add(place as u64)));
            }
            at = at.saturating_add(length);
        }
        None
    }

    fn is_unknown(&mut self, register: RegisterNumber) -> bool {
        let place = self.recorded.machine().layout().by_number(register);
        place.is_some_and(|place| place.bits <= 64)
    }
}

fn copy<T: Copy>(from: &[T], start: usize, to: &mut [T], place: usize, size: usize) {
    if let (Some(from), Some(to)) = (
        from.get(start..start + size),
        to.get_mut(place..place + size),
    ) {
        to.copy_from_slice(from);
    }
}

impl RegisterBlock {
    /// Puts a number of at most 64 bits in.
    pub(crate) fn set_number(&mut self, start: usize, size: usize, value: u64, order: ByteOrder) {
        let bytes = order.u64_bytes(value);
        let size = size.min(bytes.len());
        let bytes = match order {
            ByteOrder::Little => bytes.get(..size),
            ByteOrder::Big => bytes.get(bytes.len() - size..),
        };
        self.set(start, bytes.unwrap_or_default());
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.bytes.fill(0);
        self.known.fill(false);
    }
}
