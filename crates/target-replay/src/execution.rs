//! The interface of a recording.

use tracewire_arch::{Architecture, Machine, RegisterLayout};
use tracewire_experiment::AddressForm;
use tracewire_model::Address;

use crate::player::Player;

/// An instruction of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Executed {
    /// Where it was.
    pub address: Address,
    /// Which cpu executed it.
    pub cpu: u32,
    /// The time, in microseconds if the recording has a unit of time, else in its own unit.
    pub time: u64,
}

/// Which accesses a watchpoint is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Watch {
    /// Writes.
    Write,
    /// Reads.
    Read,
    /// Both.
    Access,
}

/// A register block at an instant: the bytes of a `g` packet, any of which may be unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterBlock {
    /// The bytes in target order, 0 where they are not known.
    pub bytes: Vec<u8>,
    /// Which bytes are known.
    pub known: Vec<bool>,
}

impl RegisterBlock {
    /// A block of unknown bytes.
    #[must_use]
    pub fn unknown(layout: &RegisterLayout) -> Self {
        let size = layout.size() as usize;
        Self {
            bytes: vec![0; size],
            known: vec![false; size],
        }
    }

    /// The bytes from `start` on, where all of them are known.
    #[must_use]
    pub fn get(&self, start: usize, size: usize) -> Option<&[u8]> {
        let end = start.checked_add(size)?;
        let all = self.known.get(start..end)?.iter().all(|known| *known);
        self.bytes.get(start..end).filter(|_| all)
    }

    /// Puts known bytes in. What lies beyond the end of the block is left out.
    pub fn set(&mut self, start: usize, bytes: &[u8]) {
        let start = start.min(self.bytes.len());
        let size = bytes.len().min(self.bytes.len() - start);
        self.bytes[start..start + size].copy_from_slice(&bytes[..size]);
        self.known[start..start + size].fill(true);
    }
}

/// Which way time runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// As it was recorded.
    Forward,
    /// Backwards.
    Backward,
}

/// A recording that can be read at any instant. Instructions are numbered from 0, all cpus together. The instant of a number is
/// before that instruction is executed, and the one after the last is the end.
pub trait Execution {
    /// The machine.
    fn machine(&self) -> &Machine;

    /// How many instructions there are.
    fn instructions(&self) -> u64;

    /// The cpus, by rising number.
    fn cpus(&self) -> &[u32];

    /// An instruction.
    fn instruction(&self, number: u64) -> Option<Executed>;

    /// When an instruction was executed, in the recording's own words.
    fn time(&self, number: u64) -> Option<String>;

    /// The first instruction at this time or after it; none where the text is no time, or there is none.
    fn at_time(&self, text: &str) -> Option<u64>;

    /// The first instruction of a cpu from `from` on.
    fn next_of(&self, cpu: u32, from: u64) -> Option<u64>;

    /// The last instruction of a cpu before `before`.
    fn last_of(&self, cpu: u32, before: u64) -> Option<u64>;

    /// The first instruction at this very address from `from` on.
    fn next_visit(&self, address: Address, from: u64) -> Option<u64>;

    /// The last instruction at this very address before `before`.
    fn last_visit(&self, address: Address, before: u64) -> Option<u64>;

    /// Why accesses to memory cannot be watched; none where they can.
    fn unwatchable(&self) -> Option<String> {
        None
    }

    /// The first instruction of a range, in a direction, that accesses a byte of `length` from `address` on, and the first of
    /// these bytes that it accesses.
    fn access(
        &self,
        direction: Direction,
        watch: Watch,
        address: Address,
        length: u64,
        range: std::ops::Range<u64>,
    ) -> Option<(u64, Address)>;

    /// The registers of a cpu at an instant, but for the program counter.
    fn registers(&self, cpu: u32, instant: u64) -> RegisterBlock;

    /// Fills in the known memory at an instant.
    fn memory(&self, cpu: u32, instant: u64, address: Address, bytes: &mut [Option<u8>]);

    /// A way forward from an instruction on.
    fn player(&self, from: u64) -> Box<dyn Player + '_>;
}

/// An address as the recording has it: GDB extends those of 32-bit MIPS with their sign.
#[must_use]
pub fn canonical(machine: &Machine, address: Address) -> Address {
    if machine.pointer_size() == 4 {
        Address(address.0 & 0xffff_ffff)
    } else {
        address
    }
}

/// The form of addresses in trace frames of the machine.
#[must_use]
pub fn address_form(machine: &Machine) -> AddressForm {
    let bits = u32::from(machine.pointer_size()) * 8;
    AddressForm::of_machine(Some(machine.architecture()), bits)
}

/// Whether GDB expects a watchpoint to stop before the instruction that accesses the memory, and then steps over it to see the
/// effect (`have_nonsteppable_watchpoint` in its tables).
pub(crate) const fn watches_before(machine: &Machine) -> bool {
    !matches!(
        machine.architecture(),
        Architecture::X86_64 | Architecture::I386 | Architecture::Nios2
    )
}

impl<E: Execution + ?Sized> Execution for &E {
    fn machine(&self) -> &Machine {
        (**self).machine()
    }

    fn instructions(&self) -> u64 {
        (**self).instructions()
    }

    fn cpus(&self) -> &[u32] {
        (**self).cpus()
    }

    fn instruction(&self, number: u64) -> Option<Executed> {
        (**self).instruction(number)
    }

    fn time(&self, number: u64) -> Option<String> {
        (**self).time(number)
    }

    fn at_time(&self, text: &str) -> Option<u64> {
        (**self).at_time(text)
    }

    fn next_of(&self, cpu: u32, from: u64) -> Option<u64> {
        (**self).next_of(cpu, from)
    }

    fn last_of(&self, cpu: u32, before: u64) -> Option<u64> {
        (**self).last_of(cpu, before)
    }

    fn next_visit(&self, address: Address, from: u64) -> Option<u64> {
        (**self).next_visit(address, from)
    }

    fn last_visit(&self, address: Address, before: u64) -> Option<u64> {
        (**self).last_visit(address, before)
    }

    fn unwatchable(&self) -> Option<String> {
        (**self).unwatchable()
    }

    fn access(
        &self,
        direction: Direction,
        watch: Watch,
        address: Address,
        length: u64,
        range: std::ops::Range<u64>,
    ) -> Option<(u64, Address)> {
        (**self).access(direction, watch, address, length, range)
    }

    fn registers(&self, cpu: u32, instant: u64) -> RegisterBlock {
        (**self).registers(cpu, instant)
    }

    fn memory(&self, cpu: u32, instant: u64, address: Address, bytes: &mut [Option<u8>]) {
        (**self).memory(cpu, instant, address, bytes);
    }

    fn player(&self, from: u64) -> Box<dyn Player + '_> {
        (**self).player(from)
    }
}
