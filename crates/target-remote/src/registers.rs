//! The registers of a stopped thread, as far as they are known, and as an experiment wants them.

use tracewire_arch::{Register, RegisterLayout};
use tracewire_model::RegisterNumber;

use crate::machine::RemoteMachine;

/// The registers that an experiment gets: those of the stub's register block, or those of a layout of one's own, which are
/// found in the stub's by their names.
#[derive(Clone, Debug)]
pub struct RegisterView {
    layout: RegisterLayout,
    /// Of each register of the layout, its number at the stub.
    numbers: Vec<Option<RegisterNumber>>,
    /// Whether the layout is the stub's own.
    is_own: bool,
}

impl RegisterView {
    /// The registers of the stub's register block.
    #[must_use]
    pub fn of_stub(machine: &RemoteMachine) -> Self {
        let layout = machine.block().clone();
        let numbers = layout.registers().iter();
        Self {
            numbers: numbers.map(|register| Some(register.number)).collect(),
            layout,
            is_own: true,
        }
    }

    /// Those of another layout. What the stub does not have is unavailable.
    #[must_use]
    pub fn named(layout: RegisterLayout, machine: &RemoteMachine) -> Self {
        let numbers = layout.registers().iter().map(|register| {
            let there = machine.registers().by_name(&register.name)?;
            (there.bits == register.bits).then_some(there.number)
        });
        Self {
            numbers: numbers.collect(),
            layout,
            is_own: false,
        }
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> &RegisterLayout {
        &self.layout
    }

    /// A register, and its number at the stub.
    pub(crate) fn at_stub(
        &self,
        number: RegisterNumber,
        machine: &RemoteMachine,
    ) -> Option<RegisterNumber> {
        if self.is_own {
            // An expression may name one that is not in the register block.
            return machine.registers().by_number(number).map(|_| number);
        }
        let registers = self.layout.registers();
        let at = registers.binary_search_by_key(&number, |register| register.number);
        *self.numbers.get(at.ok()?)?
    }

    /// The registers with their numbers at the stub.
    pub(crate) fn registers(&self) -> impl Iterator<Item = (&Register, Option<RegisterNumber>)> {
        self.layout
            .registers()
            .iter()
            .zip(self.numbers.iter().copied())
    }
}

/// What is known of the registers of a stopped thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegisterCache {
    /// The bytes of the stub's register block that are known.
    block: Vec<Option<u8>>,
    /// Whether the block has been read.
    is_read: bool,
    /// Registers that are not in the block.
    others: Vec<(RegisterNumber, Option<Vec<u8>>)>,
}

impl RegisterCache {
    /// Nothing but what came with a stop.
    pub(crate) fn with(expedited: &[(RegisterNumber, Vec<u8>)], machine: &RemoteMachine) -> Self {
        let mut cache = Self {
            block: vec![None; machine.block().size() as usize],
            ..Self::default()
        };
        for (number, bytes) in expedited {
            cache.add(*number, bytes.iter().copied().map(Some).collect(), machine);
        }
        cache
    }

    /// Whether the block has been read.
    pub(crate) const fn is_read(&self) -> bool {
        self.is_read
    }

    /// The block has been read.
    pub(crate) fn read(&mut self, bytes: &[Option<u8>]) {
        for (known, byte) in self.block.iter_mut().zip(bytes) {
            *known = byte.or(*known);
        }
        self.is_read = true;
    }

    /// A register has been read; no bytes for one that cannot be.
    pub(crate) fn add(
        &mut self,
        number: RegisterNumber,
        bytes: Vec<Option<u8>>,
        machine: &RemoteMachine,
    ) {
        match machine.block().by_number(number) {
            Some(register) => {
                let place = self.block.iter_mut().skip(register.offset as usize);
                for (known, byte) in place.zip(bytes).take(register.size() as usize) {
                    *known = byte.or(*known);
                }
            }
            None => self.others.push((number, bytes.into_iter().collect())),
        }
    }

    /// A register; none when it has not been read, and no bytes when it cannot be.
    pub(crate) fn get(
        &self,
        number: RegisterNumber,
        machine: &RemoteMachine,
    ) -> Option<Option<Vec<u8>>> {
        if let Some(register) = machine.block().by_number(number) {
            let start = register.offset as usize;
            let bytes = self.block.get(start..start + register.size() as usize)?;
            let known: Option<Vec<u8>> = bytes.iter().copied().collect();
            return (known.is_some() || self.is_read).then_some(known);
        }
        let mut others = self.others.iter();
        others
            .find(|(other, _)| *other == number)
            .map(|(_, bytes)| bytes.clone())
    }
}
