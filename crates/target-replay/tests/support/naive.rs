//! A recording as plain lists, asked by looking through them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use tracewire_arch::{Architecture, Machine, UpperBits};
use tracewire_exec_trace::record::{Access, AccessKind, Instruction, Line, Owner, RegisterWrite};
use tracewire_exec_trace::text::{Format, Piece, Sink, read};
use tracewire_model::{Address, ByteOrder};
use tracewire_target_replay::{
    Direction, Executed, Execution, Player, RegisterBlock, Seeker, Watch,
};

#[derive(Debug)]
struct Touch {
    number: u64,
    kind: AccessKind,
    address: u64,
    bytes: Vec<u8>,
}

/// The lists.
#[derive(Debug)]
pub struct Naive {
    machine: &'static Machine,
    executed: Vec<Executed>,
    touches: Vec<Touch>,
    /// The history of each byte: instruction, value, whether it was read.
    bytes: HashMap<u64, Vec<(u64, u8, bool)>>,
    registers: BTreeMap<u64, RegisterBlock>,
    block: RegisterBlock,
    image: HashMap<u64, u8>,
}

impl Naive {
    /// Of one cpu.
    pub fn new(architecture: Architecture, text: &[u8], image: HashMap<u64, u8>) -> Self {
        let machine = Machine::of(architecture);
        let mut naive = Self {
            machine,
            executed: Vec::new(),
            touches: Vec::new(),
            bytes: HashMap::new(),
            registers: BTreeMap::new(),
            block: RegisterBlock::unknown(machine.layout()),
            image,
        };
        let format = Format::detect(text).unwrap();
        read(format, text, &Piece::whole(text), &mut naive);
        for touch in &naive.touches {
            for (address, byte) in (touch.address..).zip(&touch.bytes) {
                let is_read = touch.kind == AccessKind::Read;
                let history = naive.bytes.entry(address).or_default();
                history.push((touch.number, *byte, is_read));
            }
        }
        naive
    }

    /// An address that is accessed.
    pub fn touched(&self, random: u64) -> Address {
        Address(self.touches[random as usize % self.touches.len()].address)
    }

    fn latest(&self) -> u64 {
        self.executed.len() as u64 - 1
    }

    fn touching(
        &self,
        watch: Watch,
        address: Address,
        length: u64,
        range: Range<u64>,
    ) -> impl DoubleEndedIterator<Item = (u64, Address)> + '_ {
        let wanted = move |touch: &&Touch| {
            let kind = match watch {
                Watch::Write => touch.kind == AccessKind::Write,
                Watch::Read => touch.kind == AccessKind::Read,
                Watch::Access => true,
            };
            let end = touch.address + touch.bytes.len() as u64;
            kind && range.contains(&touch.number)
                && touch.address < address.0 + length
                && address.0 < end
        };
        let place = move |touch: &Touch| (touch.number, Address(touch.address.max(address.0)));
        self.touches.iter().filter(wanted).map(place)
    }
}

impl Sink for Naive {
    fn instruction(&mut self, _: Line, instruction: &Instruction<'_>) {
        self.executed.push(Executed {
            address: instruction.address,
            cpu: instruction.cpu.map_or(0, |cpu| cpu.0),
            time: instruction.time.ticks,
        });
    }

    fn access(&mut self, _: Line, owner: Owner, access: &Access<'_>) {
        assert_eq!(owner, Owner::Latest);
        let mut bytes = Vec::new();
        access.memory_bytes(self.machine.byte_order(), &mut bytes);
        self.touches.push(Touch {
            number: self.latest(),
            kind: access.kind,
            address: access.address.0,
            bytes: bytes.iter().map(|byte| byte.bits).collect(),
        });
    }

    fn register(&mut self, _: Line, owner: Owner, write: &RegisterWrite<'_>) {
        assert_eq!(owner, Owner::Latest);
        let value = write.value.known().unwrap();
        for part in self.machine.locate(write.register).unwrap() {
            let register = self.machine.layout().by_number(part.register).unwrap();
            assert!(part.register_bit == 0 && part.value_bit == 0);
            assert!(u32::from(part.bits) == register.bits || part.upper == UpperBits::Zero);
            let size = register.size() as usize;
            let bytes = self.machine.byte_order().u64_bytes(value);
            let bytes = match self.machine.byte_order() {
                ByteOrder::Little => &bytes[..size],
                ByteOrder::Big => &bytes[8 - size..],
            };
            self.block.set(register.offset as usize, bytes);
        }
        let latest = self.latest();
        self.registers.insert(latest, self.block.clone());
    }
}

impl Execution for Naive {
    fn machine(&self) -> &Machine {
        self.machine
    }

    fn instructions(&self) -> u64 {
        self.executed.len() as u64
    }

    fn cpus(&self) -> &[u32] {
        &[0]
    }

    fn instruction(&self, number: u64) -> Option<Executed> {
        self.executed.get(number as usize).copied()
    }

    fn time(&self, number: u64) -> Option<String> {
        Some(self.instruction(number)?.time.to_string())
    }

    fn at_time(&self, text: &str) -> Option<u64> {
        let time: u64 = text.split(' ').next()?.parse().ok()?;
        (0..self.instructions()).find(|number| self.executed[*number as usize].time >= time)
    }

    fn next_of(&self, cpu: u32, from: u64) -> Option<u64> {
        (from..self.instructions()).find(|number| self.executed[*number as usize].cpu == cpu)
    }

    fn last_of(&self, cpu: u32, before: u64) -> Option<u64> {
        (0..before.min(self.instructions()))
            .rev()
            .find(|number| self.executed[*number as usize].cpu == cpu)
    }

    fn next_visit(&self, address: Address, from: u64) -> Option<u64> {
        (from..self.instructions())
            .find(|number| self.executed[*number as usize].address == address)
    }

    fn last_visit(&self, address: Address, before: u64) -> Option<u64> {
        (0..before.min(self.instructions()))
            .rev()
            .find(|number| self.executed[*number as usize].address == address)
    }

    fn access(
        &self,
        direction: Direction,
        watch: Watch,
        address: Address,
        length: u64,
        range: Range<u64>,
    ) -> Option<(u64, Address)> {
        let mut touching = self.touching(watch, address, length, range);
        let (number, _) = match direction {
            Direction::Forward => touching.next(),
            Direction::Backward => touching.next_back(),
        }?;
        self.touching(watch, address, length, number..number + 1)
            .min()
    }

    fn registers(&self, _: u32, instant: u64) -> RegisterBlock {
        match self.registers.range(..instant).next_back() {
            Some((_, block)) => block.clone(),
            None => RegisterBlock::unknown(self.machine.layout()),
        }
    }

    fn player(&self, from: u64) -> Box<dyn Player + '_> {
        Box::new(Seeker::new(self, from))
    }

    fn memory(&self, _: u32, instant: u64, address: Address, bytes: &mut [Option<u8>]) {
        for (offset, byte) in (0..).zip(bytes) {
            let address = address.0.wrapping_add(offset);
            let history = self
                .bytes
                .get(&address)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let after = history.partition_point(|(number, ..)| *number < instant);
            *byte = match (
                after.checked_sub(1).map(|last| history[last]),
                history.first(),
            ) {
                (Some((_, value, _)), _) => Some(value),
                (None, first) => self.image.get(&address).copied().or(match first {
                    Some((_, value, true)) => Some(*value),
                    _ => None,
                }),
            };
        }
    }
}

/// The contents of a program's loadable segments.
pub fn segments(elf: &[u8]) -> Vec<(u64, Vec<u8>)> {
    use object::{Object, ObjectSegment};
    let file = object::File::parse(elf).unwrap();
    let content = |segment: object::Segment<'_, '_>| {
        let mut bytes = segment.data().unwrap().to_vec();
        bytes.resize(segment.size() as usize, 0);
        (segment.address(), bytes)
    };
    file.segments().map(content).collect()
}

/// The same, byte by byte.
pub fn image(elf: &[u8]) -> HashMap<u64, u8> {
    let segments = segments(elf).into_iter();
    segments
        .flat_map(|(start, bytes)| (start..).zip(bytes))
        .collect()
}
