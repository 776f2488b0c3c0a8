//! Registers as a debugger has them: GDB's registers of the machine, put together from what a trace calls them.
//!
//! A trace may write `w3` here and `x3` there, or the two halves of what GDB has as one register. What was written
//! last counts. Of the two stack pointers of a Cortex-M the one counts that is in use, as CONTROL and the program status
//! say; where they do not, the one that was written last.

use tracewire_model::{ByteOrder, RegisterNumber};

use crate::record::{CpuNumber, InstructionNumber};
use crate::recording::{ReadError, Recording, RegisterId, RegisterValue, Search};
use tracewire_arch::{Machine, RegisterPart, StackBank, UpperBits, stack_bank};

/// Which of a recording's registers make which of GDB's.
#[derive(Debug)]
pub struct DebuggerRegisters {
    machine: &'static Machine,
    /// The parts of GDB's registers that each name of the trace stands for, in the order of
    /// [`Recording::register_names`]; names that GDB does not know have none.
    parts: Vec<&'static [RegisterPart]>,
    /// The names that share a register with another one: when each was written must be known.
    shared: Vec<bool>,
    /// The two stack pointers of a Cortex-M, where the trace writes both.
    stacks: Option<Stacks>,
}

/// The names of a Cortex-M's two stack pointers, and what says which of them is the one in use.
#[derive(Debug)]
struct Stacks {
    banks: Vec<(RegisterId, StackBank)>,
    /// CONTROL, which selects.
    control: Vec<RegisterId>,
    /// The program status: in a handler it has the exception's number.
    status: Vec<RegisterId>,
}

impl Stacks {
    fn new(names: &[Box<str>], parts: &[&[RegisterPart]]) -> Option<Self> {
        let ids = || {
            let names = names.iter().zip(parts).zip(0..);
            names.map(|((name, parts), at)| (RegisterId(at), &**name, parts))
        };
        let banks: Vec<_> = ids()
            .filter(|(_, _, parts)| !parts.is_empty())
            .filter_map(|(id, name, _)| Some((id, stack_bank(name)?)))
            .collect();
        let has = |bank| banks.iter().any(|(_, of)| *of == bank);
        let named = |meant: &[&str]| {
            ids()
                .filter(|(_, name, _)| meant.iter().any(|of| of.eq_ignore_ascii_case(name)))
                .map(|(id, ..)| id)
                .collect()
        };
        (has(StackBank::Main) && has(StackBank::Process)).then(|| Self {
            control: named(&["control", "control_s", "control_ns"]),
            status: named(&["xpsr", "psr", "ipsr"]),
            banks,
        })
    }

    fn bank(&self, name: RegisterId) -> Option<StackBank> {
        let mut banks = self.banks.iter();
        banks.find(|(id, _)| *id == name).map(|(_, bank)| *bank)
    }

    /// The bank in use; none where the registers do not tell.
    fn selected<'v>(&self, value: impl Fn(RegisterId) -> &'v RegisterValue) -> Option<StackBank> {
        // The lowest byte of a register, where all that are given agree.
        let latest = |names: &[RegisterId]| {
            let mut bytes = names
                .iter()
                .filter_map(|id| value(*id).bytes().next().flatten());
            let first = bytes.next()?;
            bytes.all(|byte| byte == first).then_some(first)
        };
        let selects_process = latest(&self.control).map(|control| control & 2 != 0);
        let is_handler = latest(&self.status).map(|exception| exception != 0);
        match (selects_process, is_handler) {
            (Some(false), _) | (_, Some(true)) => Some(StackBank::Main),
            (Some(true), Some(false)) => Some(StackBank::Process),
            _ => None,
        }
    }
}

impl DebuggerRegisters {
    /// For a recording of this machine.
    #[must_use]
    pub fn new(recording: &Recording, machine: &'static Machine) -> Self {
        let parts: Vec<&[RegisterPart]> = recording
            .register_names()
            .iter()
            .map(|name| machine.locate(name.as_bytes()).unwrap_or_default())
            .collect();
        let touches = |at: usize, register: RegisterNumber| {
            parts[at].iter().any(|part| part.register == register)
        };
        let shared = (0..parts.len())
            .map(|at| {
                parts[at].iter().any(|part| {
                    (0..parts.len()).any(|other| other != at && touches(other, part.register))
                })
            })
            .collect();
        Self {
            machine,
            stacks: Stacks::new(recording.register_names(), &parts),
            parts,
            shared,
        }
    }

    /// The machine.
    #[must_use]
    pub const fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// The names of the trace that GDB's register is made of.
    pub fn names_of(&self, register: RegisterNumber) -> impl Iterator<Item = RegisterId> + '_ {
        self.parts
            .iter()
            .enumerate()
            .filter(move |(_, parts)| parts.iter().any(|part| part.register == register))
            .map(|(at, _)| RegisterId(at as u32))
    }

    /// Whether a name of the trace says nothing that GDB's registers do not say: it is another name of one of them, or of
    /// a part, and no other name of the trace is. Of several, such as banked ones, each may hold a value of its own.
    #[must_use]
    pub fn is_covered(&self, name: RegisterId, text: &str) -> bool {
        let at = name.0 as usize;
        let parts = self.parts.get(at).copied().unwrap_or_default();
        let is_name_of = |part: &RegisterPart| {
            let register = self.machine.layout().by_number(part.register);
            register.is_some_and(|register| register.name.eq_ignore_ascii_case(text))
        };
        let is_shared = self.shared.get(at).copied().unwrap_or_default();
        !parts.is_empty() && (!is_shared || parts.iter().any(is_name_of))
    }

    /// A cpu's registers before an instruction executes, as GDB's register block: each register's bytes at its place
    /// in the layout, in the target's byte order, none for a byte that is not known. The program counter is known
    /// only where the trace writes it as a register.
    ///
    /// # Errors
    /// When the file is damaged and cannot be made again.
    pub fn block(
        &self,
        recording: &Recording,
        cpu: CpuNumber,
        before: InstructionNumber,
    ) -> Result<Vec<Option<u8>>, ReadError> {
        let values = recording.registers_at(cpu, before)?;
        let mut block = vec![None; self.machine.layout().size() as usize];
        for at in self.in_order(recording, cpu, before, 0..self.parts.len(), &values)? {
            for part in self.parts[at] {
                self.put(&mut block, part, &values[at]);
            }
        }
        Ok(block)
    }

    /// One of GDB's registers before an instruction executes: its bytes in the target's byte order, none for one that
    /// is not known. Nothing for a number that the machine does not have.
    ///
    /// # Errors
    /// When the file is damaged and cannot be made again.
    pub fn register(
        &self,
        recording: &Recording,
        cpu: CpuNumber,
        register: RegisterNumber,
        before: InstructionNumber,
    ) -> Result<Vec<Option<u8>>, ReadError> {
        let Some(place) = self.machine.layout().by_number(register) else {
            return Ok(Vec::new());
        };
        let names: Vec<usize> = self.names_of(register).map(|id| id.0 as usize).collect();
        let mut values = vec![RegisterValue::UNKNOWN; self.parts.len()];
        let selecting = self.stacks.iter().flat_map(|stacks| {
            let all = stacks.control.iter().chain(&stacks.status);
            all.map(|id| id.0 as usize)
        });
        for at in names.iter().copied().chain(selecting) {
            values[at] = recording.register_at(cpu, RegisterId(at as u32), before)?;
        }
        let mut block = vec![None; self.machine.layout().size() as usize];
        for at in self.in_order(recording, cpu, before, names, &values)? {
            for part in self.parts[at]
                .iter()
                .filter(|part| part.register == register)
            {
                self.put(&mut block, part, &values[at]);
            }
        }
        let start = place.offset as usize;
        Ok(block[start..start + place.size() as usize].to_vec())
    }

    /// Puts what a name of the trace holds now into a register block, as [`Self::block`] makes them, given what all names
    /// hold. The stack pointer of a Cortex-M that is not in use is none of GDB's registers.
    pub fn put_name<'v>(
        &self,
        block: &mut [Option<u8>],
        name: RegisterId,
        value: impl Fn(RegisterId) -> &'v RegisterValue,
    ) {
        if !self.is_hidden(name, &value) {
            self.put_parts(block, name, value(name));
        }
    }

    /// Puts what a name of the trace holds into a register block, once it was written; `before` is what it held. What
    /// it selects is put too.
    pub fn put_written<'v>(
        &self,
        block: &mut [Option<u8>],
        name: RegisterId,
        before: &'v RegisterValue,
        value: impl Fn(RegisterId) -> &'v RegisterValue,
    ) {
        self.put_name(block, name, &value);
        let Some(stacks) = &self.stacks else { return };
        if !stacks.control.contains(&name) && !stacks.status.contains(&name) {
            return;
        }
        let was = stacks.selected(|id| if id == name { before } else { value(id) });
        let now = stacks.selected(&value);
        if now.is_some() && now != was {
            for (id, bank) in &stacks.banks {
                if Some(*bank) == now && !value(*id).is_unknown() {
                    self.put_parts(block, *id, value(*id));
                }
            }
        }
    }

    /// Whether a name is that of a stack pointer that is not in use.
    fn is_hidden<'v>(
        &self,
        name: RegisterId,
        value: impl Fn(RegisterId) -> &'v RegisterValue,
    ) -> bool {
        self.stacks.as_ref().is_some_and(|stacks| {
            let bank = stacks.bank(name);
            bank.is_some() && stacks.selected(value).is_some_and(|of| bank != Some(of))
        })
    }

    fn put_parts(&self, block: &mut [Option<u8>], name: RegisterId, value: &RegisterValue) {
        for part in self.parts.get(name.0 as usize).copied().unwrap_or_default() {
            self.put(block, part, value);
        }
    }

    /// The names that have a value, those that share registers in the order in which they were written.
    fn in_order(
        &self,
        recording: &Recording,
        cpu: CpuNumber,
        before: InstructionNumber,
        names: impl IntoIterator<Item = usize>,
        values: &[RegisterValue],
    ) -> Result<Vec<usize>, ReadError> {
        let mut written = Vec::new();
        for at in names {
            let id = RegisterId(at as u32);
            if self.parts[at].is_empty()
                || values[at].is_unknown()
                || self.is_hidden(id, |id| &values[id.0 as usize])
            {
                continue;
            }
            let when = if self.shared[at] {
                let search = Search::register(id).on_cpu(cpu);
                recording.find_last(&search, before)?
            } else {
                None
            };
            written.push((when, at));
        }
        written.sort_by_key(|(when, _)| *when);
        Ok(written.into_iter().map(|(_, at)| at).collect())
    }

    /// Puts a value to the part of a register that its name stands for.
    fn put(&self, block: &mut [Option<u8>], part: &RegisterPart, value: &RegisterValue) {
        let Some(register) = self.machine.layout().by_number(part.register) else {
            return;
        };
        let (start, size) = (register.offset as usize, register.size() as usize);
        let Some(bytes) = block.get_mut(start..start + size) else {
            return;
        };
        // From here on the least significant byte is first.
        let is_big = self.machine.byte_order() == ByteOrder::Big;
        if is_big {
            bytes.reverse();
        }
        if part.register_bit.is_multiple_of(8) && part.bits.is_multiple_of(8) {
            let (low, count) = (
                usize::from(part.register_bit / 8),
                usize::from(part.bits / 8),
            );
            let value = value
                .bytes()
                .chain(std::iter::repeat(Some(0)))
                .skip(usize::from(part.value_bit / 8));
            for (byte, value) in bytes.iter_mut().skip(low).take(count).zip(value) {
                *byte = value;
            }
            if part.upper == UpperBits::Zero {
                for byte in bytes.iter_mut().skip(low + count) {
                    *byte = Some(0);
                }
            }
        } else if let (Some(value), Some(byte)) = (
            value.low(),
            bytes.get_mut(usize::from(part.register_bit / 8)),
        ) {
            // A field of a few bits, such as one of PowerPC's condition register.
            let shift = part.register_bit % 8;
            let mask = (((1u32 << part.bits) - 1) << shift) as u8;
            *byte = Some(byte.unwrap_or(0) & !mask | (value << shift) as u8 & mask);
        }
        if is_big {
            bytes.reverse();
        }
    }
}
