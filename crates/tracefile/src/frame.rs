//! One trace frame: what one hit, or one step of `while-stepping`, saw.

use std::ops::Range;

use crate::encode::FRAME_HEADER;
use crate::file::TraceFile;
use crate::memory::{self, CollectedMemory};
use crate::register_set::{SET_HEADER, VARIABLE_BLOCK};
use crate::unknown::{UnknownRegisters, tells_unknown_registers};
use tracewire_arch::{Register, RegisterLayout};
use tracewire_model::{
    Address, ByteOrder, FrameNumber, RegisterNumber, ThreadId, TracepointNumber, VariableNumber,
};

/// One block of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block<'a> {
    /// `R`: the registers, in the order and sizes of a `g` packet.
    Registers(&'a [u8]),
    /// `M`: a piece of memory.
    Memory {
        /// Where it starts.
        address: Address,
        /// The bytes there, in the target's order.
        bytes: &'a [u8],
    },
    /// `V`: the value of a trace state variable; or which registers are not known
    /// ([`crate::describes_frame`]).
    Variable {
        /// Which variable.
        number: VariableNumber,
        /// Its value.
        value: i64,
    },
    /// `S`: data of a static tracepoint.
    StaticData(&'a [u8]),
    /// Everything from a block of a kind whose length is not known, or one that does not fit into the frame,
    /// to the end of the frame; its letter is the first byte.
    Unknown(&'a [u8]),
}

/// What must be known to take a frame apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameShape {
    /// The order of numbers' bytes.
    pub order: ByteOrder,
    /// The size of a register block, where that is known.
    pub register_block: Option<u32>,
}

/// The blocks of a frame, in order.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    data: &'a [u8],
    at: usize,
    shape: FrameShape,
}

impl<'a> Blocks<'a> {
    /// The blocks of these bytes.
    #[must_use]
    pub const fn new(data: &'a [u8], shape: FrameShape) -> Self {
        Self { data, at: 0, shape }
    }

    /// Where the next block starts, in bytes from the first block.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// The block that starts here and its length with the letter; none when it does not fit.
    fn parse(&self) -> Option<(Block<'a>, usize)> {
        let order = self.shape.order;
        let (letter, body) = self.data.get(self.at..)?.split_first()?;
        Some(match letter {
            b'R' => {
                let registers = body.get(..usize::try_from(self.shape.register_block?).ok()?)?;
                (Block::Registers(registers), 1 + registers.len())
            }
            b'M' => {
                let address = Address(order.u64_at(body, 0)?);
                let bytes = body.get(10..)?.get(..usize::from(order.u16_at(body, 8)?))?;
                (Block::Memory { address, bytes }, 11 + bytes.len())
            }
            b'V' => {
                let number = VariableNumber(order.u32_at(body, 0)?.cast_signed());
                let value = order.u64_at(body, 4)?.cast_signed();
                (Block::Variable { number, value }, 13)
            }
            b'S' => {
                let bytes = body.get(2..)?.get(..usize::from(order.u16_at(body, 0)?))?;
                (Block::StaticData(bytes), 3 + bytes.len())
            }
            _ => return None,
        })
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let rest = self.data.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (block, length) = self.parse().unwrap_or((Block::Unknown(rest), rest.len()));
        self.at += length;
        Some(block)
    }
}

/// The bytes at a register's place in a register block.
fn place_of<'b>(register: &Register, block: &'b [u8]) -> Option<&'b [u8]> {
    let start = usize::try_from(register.offset).ok()?;
    let size = usize::try_from(register.size()).ok()?;
    block.get(start..)?.get(..size)
}

/// Whether every block is of a known kind and the last ends where the frame ends.
#[must_use]
pub fn blocks_fit(data: &[u8], shape: FrameShape) -> bool {
    Blocks::new(data, shape).all(|block| !matches!(block, Block::Unknown(_)))
}

/// A time in nanoseconds, of microseconds and of what a frame says of the part of one.
fn nanoseconds(timestamp: Option<u64>, fraction: Option<i64>) -> Option<u64> {
    let part = crate::fraction::nanoseconds_of(fraction?.cast_unsigned());
    timestamp?.checked_mul(1000)?.checked_add(part)
}

/// The saved state in a frame and the frame's time, found in one pass over its blocks.
#[derive(Clone, Debug)]
pub struct SavedState<'a> {
    layout: Option<&'a RegisterLayout>,
    order: ByteOrder,
    registers: Option<&'a [u8]>,
    /// Whether the frame says of some registers that the block does not tell them.
    has_unknown_registers: bool,
    memory: Vec<(Address, &'a [u8])>,
    timestamp: Option<i64>,
    fraction: Option<i64>,
    thread: Option<i64>,
    cpu: Option<i64>,
}

impl<'a> SavedState<'a> {
    /// The bytes of a register, in the target's order; none also where the frame says of any register that it is not known.
    #[must_use]
    pub fn register(&self, number: RegisterNumber) -> Option<&'a [u8]> {
        if self.has_unknown_registers {
            return None;
        }
        place_of(self.layout?.by_number(number)?, self.registers?)
    }

    /// As [`Frame::register_block`].
    #[must_use]
    pub const fn register_block(&self) -> Option<&'a [u8]> {
        self.registers
    }

    /// Whether the frame says of any register that the block does not tell it.
    #[must_use]
    pub const fn has_unknown_registers(&self) -> bool {
        self.has_unknown_registers
    }

    /// The collected pieces of memory, in the order of their blocks.
    #[must_use]
    pub fn memory_blocks(&self) -> &[(Address, &'a [u8])] {
        &self.memory
    }

    /// The number of at most eight bytes at an address, where the first block that has the address has all of them.
    #[must_use]
    pub fn load(&self, address: u64, size: usize) -> Option<u64> {
        let found = self.memory.iter().find_map(|(start, bytes)| {
            let skipped = usize::try_from(address.wrapping_sub(start.0)).ok()?;
            bytes.get(skipped..).filter(|rest| !rest.is_empty())
        })?;
        self.order.unsigned(found.get(..size)?)
    }

    /// As [`Frame::timestamp`].
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.timestamp.map(i64::cast_unsigned)
    }

    /// As [`Frame::nanoseconds`].
    #[must_use]
    pub fn nanoseconds(&self) -> Option<u64> {
        nanoseconds(self.timestamp(), self.fraction)
    }

    /// As [`Frame::thread`].
    #[must_use]
    pub fn thread(&self) -> Option<ThreadId> {
        u32::try_from(self.thread?).ok().map(ThreadId)
    }

    /// As [`Frame::cpu`].
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        u32::try_from(self.cpu?).ok()
    }

    /// Whether a block has some of the bytes.
    #[must_use]
    pub fn has_memory(&self, address: u64, length: u64) -> bool {
        length > 0
            && self.memory.iter().any(|(start, bytes)| {
                let (after, before) =
                    (address.wrapping_sub(start.0), start.0.wrapping_sub(address));
                after < bytes.len() as u64 || !bytes.is_empty() && before < length
            })
    }
}

/// One frame of a [`TraceFile`].
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    file: &'a TraceFile,
    number: FrameNumber,
    tracepoint: TracepointNumber,
    offset: u64,
    bytes: &'a [u8],
    data: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(crate) const fn new(
        file: &'a TraceFile,
        number: FrameNumber,
        tracepoint: TracepointNumber,
        offset: u64,
        bytes: &'a [u8],
    ) -> Self {
        Self {
            file,
            number,
            tracepoint,
            offset,
            bytes,
            data: bytes.split_at(FRAME_HEADER).1,
        }
    }

    /// The frame's number, from 0.
    #[must_use]
    pub const fn number(&self) -> FrameNumber {
        self.number
    }

    /// The tracepoint it was made by.
    #[must_use]
    pub const fn tracepoint(&self) -> TracepointNumber {
        self.tracepoint
    }

    /// Where in the file it starts: its tracepoint number, 2 bytes, its size, 4 bytes, then its blocks.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes of its blocks.
    #[must_use]
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Where in the file its blocks start.
    #[must_use]
    pub const fn data_offset(&self) -> u64 {
        self.offset + FRAME_HEADER as u64
    }

    /// The frame as it is in the file: its tracepoint number, its size and its blocks.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes it takes in a buffer, which need not keep the registers that it does not know
    /// ([`crate::RegisterSets`]).
    #[must_use]
    pub fn kept_size(&self) -> usize {
        let tells = |block: &Block<'_>| matches!(block, Block::Variable { number, .. } if tells_unknown_registers(*number));
        let masks = self.blocks().filter(tells).count();
        let known = self.registers().filter_map(|(_, bytes)| bytes);
        match self.register_block() {
            Some(block) if masks > 0 => {
                let known: usize = known.map(<[u8]>::len).sum();
                let others = 1 + block.len() + masks * VARIABLE_BLOCK;
                (self.bytes.len() + SET_HEADER + known).saturating_sub(others)
            }
            _ => self.bytes.len(),
        }
    }

    /// The byte order of registers and memory.
    #[must_use]
    pub const fn byte_order(&self) -> ByteOrder {
        self.file.byte_order()
    }

    /// Its blocks, in order.
    #[must_use]
    pub const fn blocks(&self) -> Blocks<'a> {
        Blocks::new(self.data, self.file.shape())
    }

    /// The register block; the first one, as for GDB, where there are several.
    #[must_use]
    pub fn register_block(&self) -> Option<&'a [u8]> {
        self.blocks().find_map(|block| match block {
            Block::Registers(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// The saved state, found in one pass over the blocks.
    #[must_use]
    pub fn saved_state(&self) -> SavedState<'a> {
        let mut state = SavedState {
            layout: self.file.layout(),
            order: self.byte_order(),
            registers: None,
            has_unknown_registers: false,
            memory: Vec::new(),
            timestamp: None,
            fraction: None,
            thread: None,
            cpu: None,
        };
        let clock = self.file.clock();
        for block in self.blocks() {
            match block {
                Block::Registers(bytes) => state.registers = state.registers.or(Some(bytes)),
                Block::Memory { address, bytes } => state.memory.push((address, bytes)),
                // The last value counts, as for [`Frame::variable`].
                Block::Variable { number, value } => {
                    let is = |variable: Option<VariableNumber>| variable == Some(number);
                    if is(clock.timestamp) {
                        state.timestamp = Some(value);
                    } else if is(clock.thread) {
                        state.thread = Some(value);
                    } else if is(clock.cpu) {
                        state.cpu = Some(value);
                    } else if number == crate::fraction::FRACTION {
                        state.fraction = Some(value);
                    } else {
                        state.has_unknown_registers |= tells_unknown_registers(number);
                    }
                }
                Block::StaticData(_) | Block::Unknown(_) => {}
            }
        }
        state
    }

    /// Every register of the layout, with its bytes in the target's order; none for one that is not known. Nothing where
    /// no register block was collected, or where the layout is not known.
    pub fn registers(&self) -> impl Iterator<Item = (&'a Register, Option<&'a [u8]>)> {
        let frame = *self;
        let block = frame.register_block();
        let layout = frame.file.layout().filter(|_| block.is_some());
        let unknown = frame.unknown_registers();
        layout
            .map_or(&[][..], RegisterLayout::registers)
            .iter()
            .enumerate()
            .map(move |(place, register)| {
                let bytes = block.and_then(|block| place_of(register, block));
                (register, bytes.filter(|_| !unknown.contains(place)))
            })
    }

    fn bytes_of(&self, register: &Register) -> Option<&'a [u8]> {
        place_of(register, self.register_block()?).filter(|_| !self.is_unknown(register))
    }

    /// The registers that the frame says the register block does not tell. Few frames have any.
    fn unknown_registers(&self) -> UnknownRegisters {
        let mut unknown = UnknownRegisters::default();
        for block in self.blocks() {
            if let Block::Variable { number, value } = block {
                unknown.add(number, value);
            }
        }
        unknown
    }

    /// Whether the frame says that the register block does not tell this register.
    fn is_unknown(&self, register: &Register) -> bool {
        let unknown = self.unknown_registers();
        let place = |layout: &RegisterLayout| {
            let registers = layout.registers();
            registers
                .binary_search_by_key(&register.number, |one| one.number)
                .ok()
        };
        // It is looked up where the register is only if there is need.
        !unknown.is_empty()
            && self
                .file
                .layout()
                .and_then(place)
                .is_some_and(|place| unknown.contains(place))
    }

    /// The bytes of the register block, none for those of a register that the frame says is not known.
    #[must_use]
    pub fn known_register_block(&self) -> Option<Vec<Option<u8>>> {
        let mut bytes: Vec<Option<u8>> = self.register_block()?.iter().copied().map(Some).collect();
        let unknown = self.unknown_registers();
        let layout = self.file.layout().filter(|_| !unknown.is_empty());
        let registers = layout.map_or(&[][..], RegisterLayout::registers);
        for (place, register) in registers.iter().enumerate() {
            if unknown.contains(place) {
                let end = register.offset.saturating_add(register.size()) as usize;
                let places = register.offset as usize..end.min(bytes.len());
                bytes.get_mut(places).unwrap_or_default().fill(None);
            }
        }
        Some(bytes)
    }

    /// The bytes of a register, in the target's order; none when it was not collected or is not known.
    #[must_use]
    pub fn register(&self, number: RegisterNumber) -> Option<&'a [u8]> {
        self.bytes_of(self.file.layout()?.by_number(number)?)
    }

    /// A register as a number, zero-extended; none also for one wider than 64 bits.
    #[must_use]
    pub fn register_value(&self, number: RegisterNumber) -> Option<u64> {
        self.byte_order().unsigned(self.register(number)?)
    }

    /// A register as an agent expression gets it ([`Register::number`]).
    #[must_use]
    pub fn register_number(&self, number: RegisterNumber) -> Option<u64> {
        let register = self.file.layout()?.by_number(number)?;
        register.number(self.bytes_of(register)?, self.byte_order())
    }

    /// A register as a number, zero-extended; none also for one wider than 64 bits.
    #[must_use]
    pub fn register_value_named(&self, name: &str) -> Option<u64> {
        let register = self.file.layout()?.by_name(name)?;
        self.byte_order().unsigned(self.bytes_of(register)?)
    }

    /// Where the thread was: the program counter in the register block where the layout is known, else the
    /// tracepoint's address where it has only one and the frame is of no step. (GDB's own reader takes the tracepoint's
    /// address always, which is wrong for the frames of steps.)
    #[must_use]
    pub fn program_counter(&self) -> Option<Address> {
        self.collected_program_counter().or_else(|| {
            let address = self.file.tracepoint_address(self.tracepoint)?;
            (self.is_step() == Some(false)).then_some(address)
        })
    }

    fn collected_program_counter(&self) -> Option<Address> {
        let register = self.file.layout()?.program_counter()?;
        // It is always known: a search looks at it in frame after frame.
        self.byte_order()
            .unsigned(place_of(register, self.register_block()?)?)
            .map(Address)
    }

    /// Whether it was made by a step of `while-stepping` and not by a hit; none when that cannot be known. The
    /// format does not say: a frame whose program counter is none of its tracepoint's addresses is of a step, and so is one
    /// that says it ([`crate::FrameEncoder::step`]). A frame without registers is what none are collected for. In files of
    /// others, a step that came back to its tracepoint's address is taken for a hit.
    #[must_use]
    pub fn is_step(&self) -> Option<bool> {
        match self.file.locations(self.tracepoint) {
            Some(locations) if locations.steps() => match self.collected_program_counter() {
                Some(at) if locations.at(at).is_none() => Some(true),
                Some(_) => Some(self.variable(crate::step::STEP).is_some()),
                None => locations.is_step_without_registers(),
            },
            _ => Some(false),
        }
    }

    /// The value of a variable; the last one, as for GDB, where it was collected more than once.
    #[must_use]
    pub fn variable(&self, wanted: VariableNumber) -> Option<i64> {
        self.blocks()
            .filter_map(|block| match block {
                Block::Variable { number, value } if number == wanted => Some(value),
                _ => None,
            })
            .last()
    }

    /// When it was made, in microseconds (`$trace_timestamp`).
    #[must_use]
    pub fn timestamp(&self) -> Option<u64> {
        self.variable(self.file.clock().timestamp?)
            .map(i64::cast_unsigned)
    }

    /// When it was made, in nanoseconds: `$trace_timestamp`, and what the frame says of the part of a microsecond. None where it
    /// does not say that.
    #[must_use]
    pub fn nanoseconds(&self) -> Option<u64> {
        nanoseconds(self.timestamp(), self.variable(crate::fraction::FRACTION))
    }

    /// Which thread made it (`$trace_thread`).
    #[must_use]
    pub fn thread(&self) -> Option<ThreadId> {
        let value = self.variable(self.file.clock().thread?)?;
        u32::try_from(value).ok().map(ThreadId)
    }

    /// On which cpu it was made (`$trace_cpu`).
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        u32::try_from(self.variable(self.file.clock().cpu?)?).ok()
    }

    /// Reads collected memory into `bytes`, which says how much is wanted: a byte that was not collected
    /// becomes `None`. Where blocks overlap, the first one that holds the address serves as far as it
    /// reaches, as for GDB.
    ///
    /// On a machine of 32 bits that many of an address count: GDB extends MIPS's with their sign.
    pub fn read_memory(&self, address: Address, bytes: &mut [Option<u8>]) {
        bytes.fill(None);
        let mask = self.file.address_mask();
        let from_address = |(start, block): (Address, &'a [u8])| {
            let skipped = usize::try_from(address.0.wrapping_sub(start.0) & mask).ok()?;
            block.get(skipped..).filter(|rest| !rest.is_empty())
        };
        let first = self.memory_blocks().find_map(from_address);
        // Most of what is asked for is in one block.
        if let Some(found) = first.and_then(|found| found.get(..bytes.len())) {
            for (to, from) in bytes.iter_mut().zip(found) {
                *to = Some(*from);
            }
            return;
        }
        let length = bytes.len() as u64;
        let within = |start: Address| start.0.wrapping_sub(address.0) & mask < length;
        let blocks = self.memory_blocks();
        let blocks = blocks.filter(|one| within(one.0) || from_address(*one).is_some());
        CollectedMemory::new(mask, blocks).read(address, bytes);
    }

    /// The collected memory, put in order once for many reads.
    #[must_use]
    pub fn collected_memory(&self) -> CollectedMemory<'a> {
        CollectedMemory::new(self.file.address_mask(), self.memory_blocks())
    }

    /// The addresses of which two blocks hold different bytes, rising. A program that runs may write memory between two
    /// readings of it.
    #[must_use]
    pub fn differing_memory(&self) -> Vec<Range<u64>> {
        memory::differing(self.memory_blocks())
    }

    /// Collected memory, when every byte of it is there.
    #[must_use]
    pub fn memory(&self, address: Address, length: usize) -> Option<Vec<u8>> {
        // Every byte is in some block of the frame.
        if length > self.data.len() {
            return None;
        }
        let mut bytes = vec![None; length];
        self.read_memory(address, &mut bytes);
        bytes.into_iter().collect()
    }

    /// The collected pieces of memory, in the order of their blocks.
    pub fn memory_blocks(&self) -> impl Iterator<Item = (Address, &'a [u8])> + use<'a> {
        self.blocks().filter_map(|block| match block {
            Block::Memory { address, bytes } => Some((address, bytes)),
            _ => None,
        })
    }
}
