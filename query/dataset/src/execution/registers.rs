//! The registers while a piece of an execution is read: what they hold, and until when.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{
    ReadError, Recording, RegisterEffect, RegisterId, RegisterValue, Search,
};

use super::selection::Selection;

/// The registers that are wanted, by their numbers.
pub(super) fn wanted(recording: &Recording, selection: &Selection) -> Vec<bool> {
    let names = recording.register_names().iter();
    names.map(|name| selection.has_register(name)).collect()
}

/// What the registers of the cpus hold.
pub(super) struct Held(Vec<(CpuNumber, Vec<RegisterValue>)>);

impl Held {
    /// Before an instruction.
    pub(super) fn before(recording: &Recording, number: u64) -> Result<Self, ReadError> {
        let of = |cpu: &CpuNumber| {
            let values = recording.registers_at(*cpu, InstructionNumber(number))?;
            Ok((*cpu, values))
        };
        recording
            .summary()
            .cpus
            .iter()
            .map(of)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Executes a write, and gives what the register holds then.
    pub(super) fn write(&mut self, write: &RegisterEffect<'_>) -> Option<&RegisterValue> {
        let (_, values) = self.0.iter_mut().find(|(cpu, _)| *cpu == write.cpu)?;
        let value = values.get_mut(write.register.0 as usize)?;
        match write.part {
            None => value.write(&write.value()),
            Some(part) => value.write_part(part, &write.value()),
        }
        Some(value)
    }
}

/// The next writes to registers, as far as they were looked for.
#[derive(Default)]
pub(super) struct NextWrites(Mutex<HashMap<(CpuNumber, RegisterId), (u64, u64)>>);

impl NextWrites {
    /// The first instruction from `from` on that writes a register of a cpu; the number of instructions where there is none.
    pub(super) fn next(
        &self,
        recording: &Recording,
        cpu: CpuNumber,
        register: RegisterId,
        from: u64,
    ) -> Result<u64, ReadError> {
        let known = |known: &HashMap<_, (u64, u64)>| known.get(&(cpu, register)).copied();
        let last = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // A register that is seldom written is looked for once, and not by each piece.
        if let Some((first, next)) = last
            && (first..=next).contains(&from)
        {
            return Ok(next);
        }
        let search = Search::register(register).on_cpu(cpu);
        let found = recording.find_first(&search, InstructionNumber(from))?;
        let next = found.map_or(recording.len(), |found| found.0);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((cpu, register), (from, next));
        Ok(next)
    }
}
