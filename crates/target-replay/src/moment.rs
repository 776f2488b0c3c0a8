//! A thread at an instant of the recording, as an experiment sees it.

use tracewire_experiment::{MemoryRead, StoppedThread, TargetError};
use tracewire_model::{Address, RegisterNumber, ThreadId};
use tracewire_tracefile::unknown_masks;

use crate::execution::{Executed, Execution, RegisterBlock, canonical};
use crate::replay::{registers_at, thread_of};

/// How far unknown memory is looked through at once, in bytes.
const STRIDE: u64 = 4096;

/// A cpu that is about to execute an instruction.
#[derive(Debug)]
pub struct Moment<'e, E> {
    execution: &'e E,
    number: u64,
    executed: Executed,
    registers: Option<RegisterBlock>,
    /// Which registers are not known.
    unknown: Vec<u64>,
}

impl<'e, E: Execution> Moment<'e, E> {
    pub(crate) const fn new(execution: &'e E, number: u64, executed: Executed) -> Self {
        Self {
            execution,
            number,
            executed,
            registers: None,
            unknown: Vec::new(),
        }
    }

    fn registers(&mut self) -> &RegisterBlock {
        let (execution, number, executed) = (self.execution, self.number, self.executed);
        self.registers.get_or_insert_with(|| {
            registers_at(execution, executed.cpu, number, Some(executed.address))
        })
    }

    fn memory(&self, address: Address, bytes: &mut [Option<u8>]) {
        let address = canonical(self.execution.machine(), address);
        self.execution
            .memory(self.executed.cpu, self.number, address, bytes);
    }
}

impl<E: Execution> StoppedThread for Moment<'_, E> {
    fn id(&self) -> ThreadId {
        thread_of(self.executed.cpu)
    }

    fn cpu(&mut self) -> u32 {
        self.executed.cpu
    }

    fn timestamp(&self) -> u64 {
        self.executed.time
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        let machine = self.execution.machine();
        let place = machine.layout().by_number(register)?;
        let (start, size) = (place.offset as usize, place.size() as usize);
        let bytes = self.registers().get(start, size)?;
        place.number(bytes, machine.byte_order())
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        Ok(&self.registers().bytes)
    }

    fn known_registers(&mut self) -> Option<&[bool]> {
        let known = &self.registers().known;
        (!known.iter().all(|known| *known)).then_some(known)
    }

    fn unknown_registers(&mut self) -> &[u64] {
        let layout = self.execution.machine().layout();
        let known = &self.registers().known;
        self.unknown = unknown_masks(layout.registers(), known);
        &self.unknown
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        let mut known = Vec::new();
        for piece in pieces {
            known.clear();
            known.resize(piece.bytes.len(), None);
            self.memory(piece.address, &mut known);
            piece.filled = 0;
            for (byte, known) in piece.bytes.iter_mut().zip(&known) {
                let Some(known) = known else { break };
                *byte = *known;
                piece.filled += 1;
            }
        }
    }

    fn readable_from(&mut self, address: Address, end: Address) -> Option<Address> {
        let mut at = address.0;
        while at < end.0 {
            let length = STRIDE.min(end.0 - at);
            let mut bytes = vec![None; length as usize];
            self.memory(Address(at), &mut bytes);
            if let Some(place) = bytes.iter().position(Option::is_some) {
                return Some(Address(at + place as u64));
            }
            at += length;
        }
        None
    }

    fn is_unknown(&mut self, register: RegisterNumber) -> bool {
        let place = self.execution.machine().layout().by_number(register);
        place.is_some_and(|place| place.bits <= 64)
    }
}
