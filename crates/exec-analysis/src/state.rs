//! Registers before an instruction, moved on instruction by instruction.

use tracewire_exec_trace::debugger::DebuggerRegisters;
use tracewire_exec_trace::record::{CpuNumber, InstructionNumber};
use tracewire_exec_trace::recording::{Executed, ReadError, Recording, RegisterId, RegisterValue};

struct Cpu {
    number: CpuNumber,
    /// By the trace's names.
    values: Vec<RegisterValue>,
    /// As GDB has them; empty without a machine.
    block: Vec<Option<u8>>,
}

/// The registers of all cpus before an instruction.
pub struct Registers<'a> {
    recording: &'a Recording,
    machine: Option<&'a DebuggerRegisters>,
    cpus: Vec<Cpu>,
}

impl<'a> Registers<'a> {
    /// Before an instruction.
    ///
    /// # Errors
    /// When the recording's file is damaged.
    pub fn at(
        recording: &'a Recording,
        machine: Option<&'a DebuggerRegisters>,
        before: InstructionNumber,
    ) -> Result<Self, ReadError> {
        let cpus = recording.summary().cpus.iter().map(|number| {
            Ok(Cpu {
                number: *number,
                values: recording.registers_at(*number, before)?,
                block: match machine {
                    Some(machine) => machine.block(recording, *number, before)?,
                    None => Vec::new(),
                },
            })
        });
        Ok(Self {
            recording,
            machine,
            cpus: cpus.collect::<Result<_, _>>()?,
        })
    }

    /// After an instruction, the one that was next.
    pub fn apply(&mut self, executed: &Executed) {
        for write in &executed.register_writes {
            let Some(cpu) = self.cpus.iter_mut().find(|cpu| cpu.number == write.cpu) else {
                continue;
            };
            let Some(value) = cpu.values.get_mut(write.register.0 as usize) else {
                continue;
            };
            let before = value.clone();
            match write.part {
                Some(part) => value.write_part(part, &write.value),
                None => value.write(&write.value),
            }
            if let Some(machine) = self.machine {
                let values = &cpu.values;
                machine.put_written(&mut cpu.block, write.register, &before, |id| {
                    &values[id.0 as usize]
                });
            }
        }
    }

    /// The values of a cpu's registers, by the trace's names for them, without unknown ones.
    pub fn by_name(&self, cpu: CpuNumber) -> impl Iterator<Item = (&str, &RegisterValue)> {
        let values = self.cpus.iter().find(|one| one.number == cpu);
        let values = values.map_or(&[][..], |cpu| &cpu.values);
        self.recording
            .register_names()
            .iter()
            .zip(values)
            .filter(|(_, value)| !value.is_unknown())
            .map(|(name, value)| (&**name, value))
    }

    /// The value of a cpu's register; `None` if it is unknown.
    #[must_use]
    pub fn value(&self, cpu: CpuNumber, register: RegisterId) -> Option<&RegisterValue> {
        let cpu = self.cpus.iter().find(|one| one.number == cpu)?;
        let value = cpu.values.get(register.0 as usize)?;
        (!value.is_unknown()).then_some(value)
    }

    /// A cpu's register block as GDB has it; empty without a machine.
    #[must_use]
    pub fn block(&self, cpu: CpuNumber) -> &[Option<u8>] {
        let cpu = self.cpus.iter().find(|one| one.number == cpu);
        cpu.map_or(&[], |cpu| &cpu.block)
    }
}
