//! Random tracepoints: programs that verify, most of which access mapped memory.

use tracewire_agent_expr::{Builder, Opcode, OperandKind};
use tracewire_model::{
    Action, RegisterMask, RegisterNumber, TracepointDefinition, TracepointKind, TracepointNumber,
};

/// Numbers that are random and the same for the same seed (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// The environment of the programs.
pub struct World {
    pub start: u64,
    pub end: u64,
}

impl World {
    /// An address, mostly a mapped one, often near the end of the mapping.
    pub fn address(&self, random: &mut Random) -> u64 {
        match random.below(10) {
            0 => random.next(),
            1 => random.below(5000),
            2..5 => self.end - random.below(80),
            5 => self.end + random.below(4096),
            _ => self.start + random.below(self.end - self.start),
        }
    }

    fn number(&self, random: &mut Random) -> u64 {
        match random.below(6) {
            0 => random.next(),
            1 => random.below(1 << 32),
            2 => random.below(3).wrapping_sub(1),
            3 => self.address(random),
            _ => random.below(70),
        }
    }
}

struct Maker<'r> {
    random: &'r mut Random,
    world: &'r World,
    builder: Builder,
    depth: usize,
}

pub fn program(random: &mut Random, world: &World) -> Vec<u8> {
    let mut maker = Maker {
        random,
        world,
        builder: Builder::new(),
        depth: 0,
    };
    let length = maker.random.below(18);
    maker.parts(length, 0, 0);
    if maker.depth == 0 {
        maker.constant(1);
    }
    if maker.random.one_in(12) {
        // Two ends.
        let other = maker.builder.label();
        maker.constant(3);
        maker.builder.if_goto(other);
        maker.depth -= 1;
        maker.builder.op(Opcode::End).place(other);
    }
    maker.builder.op(Opcode::End).finish().unwrap()
}

impl Maker<'_> {
    fn constant(&mut self, number: u64) {
        self.builder.constant(number.cast_signed());
        self.depth += 1;
    }

    fn need(&mut self, count: usize, floor: usize) {
        while self.depth - floor < count {
            let number = self.world.number(self.random);
            self.constant(number);
        }
    }

    fn parts(&mut self, count: u64, floor: usize, nesting: u32) {
        for _ in 0..count {
            if self.depth > 80 {
                self.builder.op(Opcode::Pop);
                self.depth -= 1;
                continue;
            }
            self.part(floor, nesting);
        }
    }

    fn part(&mut self, floor: usize, nesting: u32) {
        match self.random.below(22) {
            0..2 => {
                let number = self.world.number(self.random);
                self.constant(number);
            }
            2..5 => {
                let register = match self.random.below(12) {
                    0 => self.random.below(200) as u16,
                    1 => 16 + self.random.below(8) as u16,
                    _ => self.random.below(16) as u16,
                };
                // The parts of the x87 unit of at most 64 bits cannot be compiled.
                if !(32..40).contains(&register) {
                    self.builder.reg(register);
                    self.depth += 1;
                }
            }
            5..9 => {
                let ops: Vec<_> = Opcode::ALL
                    .iter()
                    .copied()
                    .filter(|opcode| {
                        opcode.operand() == OperandKind::None
                            && !opcode.is_reserved()
                            && *opcode != Opcode::End
                    })
                    .collect();
                let opcode = ops[self.random.below(ops.len() as u64) as usize];
                self.need(opcode.pops(), floor);
                self.builder.op(opcode);
                self.depth = self.depth - opcode.pops() + opcode.pushes();
            }
            9..12 => {
                // A load that is mostly good.
                let address = self.world.address(self.random);
                self.constant(address);
                self.load();
            }
            12 => {
                self.need(1, floor);
                self.load();
            }
            13 => {
                self.need(1, floor);
                let bits = self.random.below(70) as u8;
                if self.random.one_in(2) {
                    self.builder.ext(bits);
                } else {
                    self.builder.zero_ext(bits);
                }
            }
            14 => {
                let below = self.random.below(5) as u8;
                self.need(usize::from(below) + 1, floor);
                self.builder.pick(below);
                self.depth += 1;
            }
            15 => self.variable(floor),
            16..19 => self.collect(floor),
            _ if nesting == 2 => {}
            19 | 20 => {
                self.need(1, floor);
                let (then, join) = (self.builder.label(), self.builder.label());
                self.builder.if_goto(then);
                self.depth -= 1;
                self.block(nesting);
                self.builder.goto(join).place(then);
                self.block(nesting);
                self.builder.place(join);
            }
            _ => {
                let again = self.builder.label();
                let mut count = self.random.below(4);
                if self.random.one_in(20) {
                    count = 1 << 40;
                }
                self.constant(count);
                self.builder.place(again);
                self.block(nesting);
                self.builder.constant(-1).op(Opcode::Add).op(Opcode::Dup);
                self.builder.constant(0).op(Opcode::LessSigned);
                self.builder.op(Opcode::LogNot).pick(1);
                self.builder.op(Opcode::BitAnd).if_goto(again);
                self.builder.op(Opcode::Pop);
                self.depth -= 1;
            }
        }
    }

    /// Parts that leave the stack as they found it.
    fn block(&mut self, nesting: u32) {
        let floor = self.depth;
        let count = self.random.below(5);
        self.parts(count, floor, nesting + 1);
        while self.depth > floor {
            self.builder.op(Opcode::Pop);
            self.depth -= 1;
        }
    }

    fn load(&mut self) {
        let size = 1 << self.random.below(4);
        self.builder.load(size);
    }

    fn variable(&mut self, floor: usize) {
        // The thread and the cpu are the same for both; the time is not.
        let number = 2 + self.random.below(6) as u16;
        match self.random.below(4) {
            0 => {
                self.builder.getv(number);
                self.depth += 1;
            }
            1 => {
                self.need(1, floor);
                self.builder.setv(number);
            }
            2 => _ = self.builder.tracev(number),
            _ => {
                let number = 4 + self.random.below(4) as u16;
                let by = self.random.below(300).cast_signed() - 150;
                self.builder.getv(number).constant(by);
                let adds = self.random.one_in(2);
                self.builder
                    .op(if adds { Opcode::Add } else { Opcode::Sub });
                if self.random.one_in(2) {
                    self.builder.ext(64);
                }
                self.builder.setv(number);
                self.depth += 1;
            }
        }
    }

    fn collect(&mut self, floor: usize) {
        let address = self.world.address(self.random);
        if !self.random.one_in(4) || self.depth == floor {
            self.constant(address);
        }
        let length = match self.random.below(8) {
            0 => self.random.below(600),
            1 => 0,
            _ => self.random.below(40),
        };
        match self.random.below(5) {
            0 => _ = self.builder.trace_quick(length as u16),
            1 => {
                self.builder.op(Opcode::Pop);
                self.depth -= 1;
            }
            2 => {
                self.constant(length);
                self.builder.op(Opcode::TraceNz);
                self.depth -= 2;
            }
            3 => {
                // A length that is unknown at compile time.
                self.builder.reg(9);
                self.depth += 1;
                self.builder.constant(127).op(Opcode::BitAnd);
                let opcode = if self.random.one_in(2) {
                    Opcode::Trace
                } else {
                    Opcode::TraceNz
                };
                self.builder.op(opcode);
                self.depth -= 2;
            }
            _ => {
                self.constant(length);
                self.builder.op(Opcode::Trace);
                self.depth -= 2;
            }
        }
    }
}

pub fn tracepoint(random: &mut Random, world: &World, number: i32) -> TracepointDefinition {
    let condition = random.one_in(2).then(|| program(random, world));
    let count = random.below(5);
    let actions = (0..count)
        .map(|_| match random.below(6) {
            0 if random.one_in(4) => Action::Registers(RegisterMask::default()),
            0..2 => {
                let base = random
                    .one_in(2)
                    .then(|| RegisterNumber(random.below(20) as u16));
                let offset = match base {
                    Some(_) => random.below(64).wrapping_sub(32),
                    None => world.address(random),
                };
                Action::Memory {
                    base,
                    offset,
                    length: random.below(100),
                }
            }
            _ => Action::Expression(program(random, world)),
        })
        .collect();
    TracepointDefinition {
        number: TracepointNumber(number),
        address: super::machine::SITE,
        enabled: !random.one_in(10),
        kind: TracepointKind::Trap,
        step_count: 0,
        pass_count: if random.one_in(4) {
            1 + random.below(3)
        } else {
            0
        },
        condition,
        actions,
        step_actions: vec![],
        counting: tracewire_model::Counting::default(),
        withholds_registers: false,
        free_stack: None,
        source: Default::default(),
    }
}
