//! A recording of the file form played forward, instruction by instruction, from one place of interest to the next.

use std::collections::BTreeSet;

use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{RegisterId, Replay};
use tracewire_experiment::{MemoryRead, StoppedThread, TargetError};
use tracewire_tracefile::{Address, ByteOrder, RegisterLayout, RegisterNumber, ThreadId};

use crate::execution::{Executed, Execution, RegisterBlock, canonical};
use crate::player::Player;
use crate::recorded::{Recorded, executed};
use crate::replay::{set_constant_registers, thread_of};

/// After so many instructions without a place of interest the index is asked where the next is.
const NEAR: u64 = 1 << 14;

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
    /// None where the file is damaged.
    replay: Option<Replay<'e>>,
    /// The instruction that is about to be executed, once it has been found.
    here: Option<Executed>,
    block: RegisterBlock,
    /// Whether the block is that of this instruction.
    is_filled: bool,
    /// Where pieces of the block go in the one that is wanted, which has fewer registers or others; none where all of it
    /// is wanted.
    cut: Option<Cut>,
    /// Memory as it was read last, used again.
    bytes: Vec<Option<u8>>,
}

/// A register block of other registers.
struct Cut {
    block: RegisterBlock,
    /// From where, to where, how many bytes.
    pieces: Vec<(usize, usize, usize)>,
}

impl<'e> Played<'e> {
    pub(crate) fn new(recorded: &'e Recorded, from: u64) -> Self {
        let replay = recorded.recording().replay(InstructionNumber(from));
        Self {
            recorded,
            replay: recorded.answer(replay),
            here: None,
            block: RegisterBlock::unknown(recorded.machine().layout()),
            is_filled: false,
            cut: None,
            bytes: Vec::new(),
        }
    }

    /// Gives register blocks of this layout from now on.
    pub(crate) fn set_layout(&mut self, layout: &RegisterLayout) {
        let mut pieces: Vec<(usize, usize, usize)> = Vec::new();
        for register in layout.registers() {
            let known = self.recorded.machine().layout().by_number(register.number);
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
        self.cut = Some(Cut {
            block: RegisterBlock::unknown(layout),
            pieces,
        });
    }

    /// Where the next place of interest is, as the index tells.
    fn next_by_index(&self, addresses: &BTreeSet<Address>, from: u64) -> Option<u64> {
        let visits = addresses
            .iter()
            .filter_map(|address| self.recorded.next_visit(*address, from));
        visits.min()
    }

    fn cpu(&self) -> CpuNumber {
        CpuNumber(self.here.map_or(0, |here| here.cpu))
    }

    fn fill(&mut self) {
        if self.is_filled {
            return;
        }
        self.is_filled = true;
        let (Some(replay), Some(here)) = (&self.replay, self.here) else {
            return;
        };
        let recorded = self.recorded;
        let machine = recorded.machine();
        let order = machine.byte_order();
        let cpu = CpuNumber(here.cpu);
        self.block.clear();
        for direct in recorded.direct() {
            if let Some(value) = replay.register(cpu, direct.id).known() {
                self.block
                    .set_number(direct.offset, direct.size, value, order);
            }
        }
        recorded.fill_others(&mut self.block, here.cpu, replay.number().0, |id| {
            replay.register(cpu, id)
        });
        set_constant_registers(machine, &mut self.block, Some(here.address));
        if let Some(cut) = &mut self.cut {
            for (from, to, size) in &cut.pieces {
                copy(&self.block.bytes, *from, &mut cut.block.bytes, *to, *size);
                copy(&self.block.known, *from, &mut cut.block.known, *to, *size);
            }
        }
    }

    /// The block that is wanted.
    fn wanted(&mut self) -> &RegisterBlock {
        self.fill();
        self.cut.as_ref().map_or(&self.block, |cut| &cut.block)
    }

    fn read(&mut self, address: Address, length: usize) -> &[Option<u8>] {
        self.bytes.clear();
        self.bytes.resize(length, None);
        let address = canonical(self.recorded.machine(), address);
        if let Some(replay) = &mut self.replay {
            let told = replay.memory(address, &mut self.bytes);
            if self.recorded.answer(told).is_none() {
                self.bytes.fill(None);
            }
            self.recorded.fill_code(address, &mut self.bytes);
        }
        &self.bytes
    }
}

impl Player for Played<'_> {
    fn advance_to(
        &mut self,
        to: u64,
        addresses: &BTreeSet<Address>,
        cpus: &BTreeSet<u32>,
    ) -> Option<(u64, Executed)> {
        let recorded = self.recorded;
        let skip = self.here.take().is_some();
        self.is_filled = false;
        let replay = self.replay.as_mut()?;
        if skip {
            recorded.answer(replay.advance())?;
        }
        let mut far = replay.number().0.saturating_add(NEAR);
        let (one, many) = match addresses.first() {
            Some(first) => (first.0, addresses.len() > 1),
            None => (0, false),
        };
        let any = !addresses.is_empty();
        loop {
            let replay = self.replay.as_mut()?;
            let number = replay.number().0;
            if number >= to {
                return None;
            }
            if number >= far && cpus.is_empty() {
                let next = self.next_by_index(addresses, number)?;
                if next >= to {
                    return None;
                }
                if next - number > NEAR {
                    let replay = recorded.recording().replay(InstructionNumber(next));
                    self.replay = recorded.answer(replay);
                }
                far = u64::MAX;
                continue;
            }
            let step = replay.step()?;
            let address = step.address();
            let is_meant = any && (address.0 == one || many && addresses.contains(&address));
            if is_meant || !cpus.is_empty() && cpus.contains(&step.cpu().0) {
                let here = executed(&step);
                self.here = Some(here);
                return Some((number, here));
            }
            recorded.answer(replay.advance())?;
        }
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
        if let Some(direct) = self.recorded.direct_of(register)
            && let Some(replay) = &self.replay
        {
            return replay.register(Played::cpu(self), direct.id).known();
        }
        self.fill();
        let machine = self.recorded.machine();
        let place = machine.layout().by_number(register)?;
        let bytes = self
            .block
            .get(place.offset as usize, place.size() as usize)?;
        machine.byte_order().unsigned(bytes)
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        Ok(&self.wanted().bytes)
    }

    fn known_registers(&mut self) -> Option<&[bool]> {
        let known = &self.wanted().known;
        (!known.iter().all(|known| *known)).then_some(known)
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
