//! The processor.

use crate::instruction::{Function, Instruction, Operation, Width, branch_target, jump_target};
use crate::{MEMORY, Options, Program};

/// A memory access of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Whether memory is written.
    pub is_write: bool,
    /// The address of the first byte.
    pub address: u32,
    /// How many bytes: 1, 2 or 4.
    pub size: u32,
    /// The number that is read or written.
    pub data: u32,
}

/// The effects of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its address.
    pub address: u32,
    /// Its code.
    pub word: u32,
    /// The access, for a load or a store.
    pub access: Option<Access>,
    /// The registers it wrote, by number, with their values; 32 is `lo`, 33 is `hi`.
    pub writes: [Option<(u8, u32)>; 2],
}

/// Registers and memory. Memory is zero at the start, but for the program.
#[derive(Clone, Debug)]
pub struct Machine {
    program: Program,
    big_endian: bool,
    registers: [u32; 34],
    program_counter: u32,
    /// The address that is executed after the instruction at the program counter: a branch's target if that is a delay slot.
    next: u32,
    memory: Vec<u8>,
}

const LO: u8 = 32;
const HI: u8 = 33;

impl Machine {
    /// A machine at the start of its program. Registers are zero.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self::of_cpu(options, 0)
    }

    /// One of several processors: `k0` holds its number at the start.
    pub(crate) fn of_cpu(options: &Options, cpu: u32) -> Self {
        assert!(
            options.footprint.is_power_of_two() && (1 << 12..=1 << 30).contains(&options.footprint),
            "a footprint is a power of two from 4 KiB to 1 GiB"
        );
        let program = Program::of(options);
        let mut machine = Self {
            big_endian: options.big_endian,
            registers: [0; 34],
            program_counter: program.base(),
            next: program.base() + 4,
            memory: vec![0; (options.stack() - MEMORY) as usize],
            program,
        };
        let words: Vec<u32> = machine.program.words().collect();
        for (word, address) in words.into_iter().zip((machine.program.base()..).step_by(4)) {
            machine.store(address, 4, word);
        }
        machine.registers[26] = cpu;
        machine
    }

    /// Executes one instruction on memory of another processor.
    pub(crate) fn step_on_memory_of(&mut self, other: &mut Self) -> Step {
        std::mem::swap(&mut self.memory, &mut other.memory);
        let step = self.step();
        std::mem::swap(&mut self.memory, &mut other.memory);
        step
    }

    /// Gives memory up: the processor works on that of another from now on.
    pub(crate) fn without_memory(mut self) -> Self {
        self.memory = Vec::new();
        self
    }

    /// The program.
    #[must_use]
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// The address of the instruction that is next.
    #[must_use]
    pub const fn program_counter(&self) -> u32 {
        self.program_counter
    }

    /// The value of a register, by number; 32 is `lo`, 33 is `hi`.
    #[must_use]
    pub fn register(&self, number: u8) -> u32 {
        self.registers[usize::from(number)]
    }

    /// Bytes of memory; none where there is no memory.
    #[must_use]
    pub fn memory(&self, address: u32, length: u32) -> Option<&[u8]> {
        let start = address.checked_sub(MEMORY)? as usize;
        self.memory.get(start..start.checked_add(length as usize)?)
    }

    fn load(&self, address: u32, size: u32) -> u32 {
        let bytes = self
            .memory(address, size)
            .expect("the program stays in memory");
        let push = |value: u32, byte: &u8| value << 8 | u32::from(*byte);
        if self.big_endian {
            bytes.iter().fold(0, push)
        } else {
            bytes.iter().rev().fold(0, push)
        }
    }

    fn store(&mut self, address: u32, size: u32, value: u32) {
        let start = (address - MEMORY) as usize;
        let size = size as usize;
        let place = &mut self.memory[start..start + size];
        if self.big_endian {
            place.copy_from_slice(&value.to_be_bytes()[4 - size..]);
        } else {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    /// Executes one instruction.
    pub fn step(&mut self) -> Step {
        let address = self.program_counter;
        let instruction = self
            .program
            .at(address)
            .expect("the program stays in its text");
        let mut step = Step {
            address,
            word: instruction.word(),
            access: None,
            writes: [None; 2],
        };
        let after_next = self.next.wrapping_add(4);
        let target = self.execute(instruction, &mut step);
        self.program_counter = self.next;
        self.next = target.unwrap_or(after_next);
        for (register, value) in step.writes.iter().flatten() {
            self.registers[usize::from(*register)] = *value;
        }
        step
    }

    /// Executes an instruction. Returns the address after the delay slot, if it branches.
    fn execute(&mut self, instruction: Instruction, step: &mut Step) -> Option<u32> {
        let get = |register: u8| self.registers[usize::from(register)];
        let address = step.address;
        let mut write = |register: u8, value: u32| {
            if register != 0 {
                step.writes[0] = Some((register, value));
            }
        };
        match instruction {
            Instruction::Register(function, rd, rs, rt) => {
                let (a, b) = (get(rs), get(rt));
                let value = match function {
                    Function::AddUnsigned => a.wrapping_add(b),
                    Function::SubtractUnsigned => a.wrapping_sub(b),
                    Function::And => a & b,
                    Function::Or => a | b,
                    Function::Xor => a ^ b,
                    Function::SetLess => u32::from((a as i32) < b as i32),
                };
                write(rd, value);
            }
            Instruction::Shift(true, rd, rt, amount) => write(rd, get(rt) << amount),
            Instruction::Shift(false, rd, rt, amount) => write(rd, get(rt) >> amount),
            Instruction::Multiply(rs, rt) => {
                let product = i64::from(get(rs) as i32) * i64::from(get(rt) as i32);
                step.writes = [
                    Some((LO, product as u32)),
                    Some((HI, (product >> 32) as u32)),
                ];
            }
            Instruction::MoveFrom(high, rd) => write(rd, get(if high { HI } else { LO })),
            Instruction::Immediate(operation, rt, rs, immediate) => {
                let signed = immediate as i16 as i32;
                let value = match operation {
                    Operation::AddUnsigned => get(rs).wrapping_add(signed as u32),
                    Operation::SetLess => u32::from((get(rs) as i32) < signed),
                    Operation::And => get(rs) & u32::from(immediate),
                    Operation::Or => get(rs) | u32::from(immediate),
                };
                write(rt, value);
            }
            Instruction::LoadUpper(rt, immediate) => write(rt, u32::from(immediate) << 16),
            Instruction::Memory(width, rt, base, offset) => {
                let place = get(base).wrapping_add(offset as i32 as u32);
                self.access(width, rt, place, step);
            }
            Instruction::Branch(equal, rs, rt, offset) => {
                return ((get(rs) == get(rt)) == equal).then(|| branch_target(address, offset));
            }
            Instruction::Jump(links, index) => {
                if links {
                    write(31, address.wrapping_add(8));
                }
                return Some(jump_target(address, index));
            }
            Instruction::JumpRegister(rs) => return Some(get(rs)),
            Instruction::CallRegister(rs) => {
                write(31, address.wrapping_add(8));
                return Some(get(rs));
            }
        }
        None
    }

    fn access(&mut self, width: Width, register: u8, address: u32, step: &mut Step) {
        let size = width.size();
        let data = if width.is_store() {
            let mask = u32::MAX >> (32 - 8 * size);
            let data = self.registers[usize::from(register)] & mask;
            self.store(address, size, data);
            data
        } else {
            let data = self.load(address, size);
            let value = match width {
                Width::LoadByte => data as u8 as i8 as i32 as u32,
                Width::LoadHalf => data as u16 as i16 as i32 as u32,
                _ => data,
            };
            if register != 0 {
                step.writes[0] = Some((register, value));
            }
            data
        };
        step.access = Some(Access {
            is_write: width.is_store(),
            address,
            size,
            data,
        });
    }
}
