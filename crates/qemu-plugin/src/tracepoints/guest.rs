//! The guest as a target of tracepoints: its code, its registers, its memory.

use std::collections::HashMap;

use tracewire_arch::{Architecture, Machine, Register, RegisterLayout};
use tracewire_experiment::{MemoryRead, StoppedThread, Target, TargetError};
use tracewire_model::{Address, ByteOrder, RegisterNumber, ThreadId};

use crate::api::{Api, RegisterHandle};
use crate::machine::Peculiarities;

/// Which instructions have tracepoints.
#[derive(Debug)]
pub struct Sites {
    /// By the address of the instruction, as QEMU has it; as the tracepoints have it.
    addresses: HashMap<u64, Address>,
    /// The bits of an address that count.
    mask: u64,
}

impl Sites {
    /// None, on a machine with these registers.
    pub fn new(layout: &RegisterLayout) -> Self {
        let bits = layout
            .program_counter()
            .map_or(64, |register| register.bits);
        Self {
            addresses: HashMap::new(),
            mask: if bits > 32 {
                u64::MAX
            } else {
                u64::from(u32::MAX)
            },
        }
    }

    /// An address as QEMU has it. Expressions extend what 32-bit registers have with its sign.
    pub fn in_guest(&self, address: u64) -> u64 {
        address & self.mask
    }

    /// No instruction has one any more.
    pub fn clear(&mut self) {
        self.addresses.clear();
    }

    /// The address of the tracepoints at an instruction.
    pub fn tracepoints_at(&self, address: u64) -> Option<Address> {
        self.addresses.get(&self.in_guest(address)).copied()
    }
}

impl Target for Sites {
    fn insert(&mut self, address: Address) -> Result<(), TargetError> {
        self.addresses.insert(self.in_guest(address.0), address);
        Ok(())
    }

    fn remove(&mut self, address: Address) -> Result<(), TargetError> {
        self.addresses.remove(&self.in_guest(address.0));
        Ok(())
    }
}

/// The registers of frames, and how QEMU has them.
#[derive(Debug)]
pub struct GuestRegisters {
    layout: RegisterLayout,
    /// How many bytes the register block has: it may end before the last of them.
    block_size: u32,
    order: ByteOrder,
    /// Of each register of the layout; none before a cpu is there.
    sources: Vec<Source>,
}

/// Where the value of a register comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// The address of the instruction: QEMU does not keep the register up to date within a block.
    Instruction,
    /// QEMU.
    Qemu(RegisterHandle),
    /// It is not known.
    Nothing,
}

impl GuestRegisters {
    /// The registers of a layout, of which the first are in register blocks of this size.
    pub fn new(layout: RegisterLayout, block_size: u32, order: ByteOrder) -> Self {
        Self {
            layout,
            block_size,
            order,
            sources: Vec::new(),
        }
    }

    /// A cpu is there, which QEMU describes so. All cpus have the same registers.
    pub fn find(&mut self, architecture: Architecture, described: &[(RegisterHandle, String)]) {
        if !self.sources.is_empty() {
            return;
        }
        let machine = Machine::of(architecture);
        let unavailable = Peculiarities::of(architecture).unavailable;
        let counter = self
            .layout
            .program_counter()
            .map(|register| register.number);
        let source = |register: &Register| {
            if Some(register.number) == counter {
                return Source::Instruction;
            }
            if unavailable.contains(&register.name.as_str()) {
                return Source::Nothing;
            }
            if described.is_empty() {
                // QEMU does not describe the registers of this machine. They have GDB's numbers.
                let there = machine.layout().by_name(&register.name);
                return there.map_or(Source::Nothing, |there| {
                    Source::Qemu(RegisterHandle::of_number(there.number.0))
                });
            }
            let mut all = described.iter();
            let found = all.find(|(_, name)| name.eq_ignore_ascii_case(&register.name));
            found.map_or(Source::Nothing, |(handle, _)| Source::Qemu(*handle))
        };
        self.sources = self.layout.registers().iter().map(source).collect();
    }

    fn place(&self, number: RegisterNumber) -> Option<(&Register, Source)> {
        let registers = self.layout.registers();
        let at = registers.binary_search_by_key(&number, |register| register.number);
        let at = at.ok()?;
        Some((registers.get(at)?, *self.sources.get(at)?))
    }
}

/// The bytes of an address as a register has them.
fn address_bytes(address: u64, size: usize, order: ByteOrder) -> Vec<u8> {
    let mut bytes: Vec<u8> = address.to_le_bytes().into_iter().take(size).collect();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

/// A register block that is used again.
#[derive(Debug, Default)]
pub struct RegisterBlock {
    bytes: Vec<u8>,
    known: Vec<bool>,
    /// A bit for each register that is not known.
    unknown: Vec<u64>,
    /// Whether it was read at this stop.
    is_read: bool,
}

impl RegisterBlock {
    /// The next stop begins.
    pub const fn forget(&mut self) {
        self.is_read = false;
    }
}

/// A cpu at an instruction that it is about to execute.
pub struct GuestCpu<'g> {
    api: &'g mut Api,
    registers: &'g GuestRegisters,
    block: &'g mut RegisterBlock,
    sites: &'g Sites,
    number: u32,
    address: u64,
    time: u64,
}

/// The instruction that a cpu is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestPosition {
    /// The number of the cpu, from 0.
    pub cpu: u32,
    /// The address of the instruction.
    pub address: u64,
    /// In microseconds since 1970.
    pub time: u64,
}

impl<'g> GuestCpu<'g> {
    /// The cpu of a callback.
    ///
    /// # Safety
    /// The caller is in an [`InstructionCallback`](crate::api::InstructionCallback) that reads registers, and the value does not outlive it.
    pub unsafe fn of_callback(
        api: &'g mut Api,
        registers: &'g GuestRegisters,
        block: &'g mut RegisterBlock,
        sites: &'g Sites,
        position: GuestPosition,
    ) -> Self {
        Self {
            api,
            registers,
            block,
            sites,
            number: position.cpu,
            address: position.address,
            time: position.time,
        }
    }

    /// Appends the bytes of a register, or zeros; whether they are known.
    fn append(&mut self, register: &Register, source: Source) -> bool {
        let size = register.size() as usize;
        let bytes = &mut self.block.bytes;
        match source {
            Source::Instruction => {
                bytes.extend(address_bytes(self.address, size, self.registers.order));
                return true;
            }
            Source::Qemu(handle) => {
                // SAFETY: the value was made in a callback that reads registers, and is used only in it.
                let read = unsafe { self.api.read_register(handle) };
                if read.len() == size {
                    bytes.extend_from_slice(read);
                    return true;
                }
            }
            Source::Nothing => {}
        }
        bytes.resize(bytes.len() + size, 0);
        false
    }
}

impl StoppedThread for GuestCpu<'_> {
    /// The number that QEMU's stub gives the cpu, too.
    fn id(&self) -> ThreadId {
        ThreadId(self.number.saturating_add(1))
    }

    fn cpu(&mut self) -> u32 {
        self.number
    }

    fn timestamp(&self) -> u64 {
        self.time
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        let (described, source) = self.registers.place(register)?;
        match source {
            Source::Instruction => Some(self.address),
            Source::Qemu(handle) => {
                // SAFETY: the value was made in a callback that reads registers, and is used only in it.
                let bytes = unsafe { self.api.read_register(handle) };
                let is_whole = bytes.len() == described.size() as usize;
                is_whole
                    .then(|| described.number(bytes, self.registers.order))
                    .flatten()
            }
            Source::Nothing => None,
        }
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        if !self.block.is_read {
            self.block.bytes.clear();
            self.block.known.clear();
            self.block.unknown.clear();
            let registers = self.registers;
            let all = registers.layout.registers().iter().zip(&registers.sources);
            let is_in = |one: &(&Register, _)| one.0.offset + one.0.size() <= registers.block_size;
            let all = all.filter(is_in);
            for (place, (register, source)) in all.enumerate() {
                let is_known = self.append(register, *source);
                let block = &mut *self.block;
                block.known.resize(block.bytes.len(), is_known);
                if !is_known {
                    let mask = place / 64;
                    block.unknown.resize(block.unknown.len().max(mask + 1), 0);
                    if let Some(bits) = block.unknown.get_mut(mask) {
                        *bits |= 1 << (place % 64);
                    }
                }
            }
            self.block.is_read = true;
        }
        Ok(&self.block.bytes)
    }

    fn known_registers(&mut self) -> Option<&[bool]> {
        let known = &self.block.known;
        known.contains(&false).then_some(known.as_slice())
    }

    fn unknown_registers(&mut self) -> &[u64] {
        &self.block.unknown
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        for piece in pieces {
            let address = self.sites.in_guest(piece.address.0);
            // SAFETY: the value was made in a callback of the cpu, and is used only in it.
            piece.filled = unsafe { self.api.read_memory(address, &mut piece.bytes) };
        }
    }

    /// A register that the machine has and QEMU does not give.
    fn is_unknown(&mut self, register: RegisterNumber) -> bool {
        self.registers.layout.by_number(register).is_some()
    }
}
