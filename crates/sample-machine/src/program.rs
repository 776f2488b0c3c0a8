//! The program that the machine runs.

use crate::assembler::Assembler;
use crate::instruction::Function as Alu;
use crate::instruction::{Instruction, Operation, Width};
use crate::{DATA, Options, TEXT};

/// A function of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The address of its first instruction.
    pub start: u32,
    /// The address after its last instruction.
    pub end: u32,
}

/// Instructions in memory, and the functions they make.
#[derive(Clone, Debug)]
pub struct Program {
    base: u32,
    instructions: Vec<Instruction>,
    texts: Vec<String>,
    functions: Vec<Function>,
}

impl Program {
    pub(crate) fn new(base: u32, instructions: Vec<Instruction>, functions: Vec<Function>) -> Self {
        let texts = instructions
            .iter()
            .zip((base..).step_by(4))
            .map(|(instruction, address)| instruction.text(address))
            .collect();
        Self {
            base,
            instructions,
            texts,
            functions,
        }
    }

    /// The functions, in the order of their addresses.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The function of this name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<Function> {
        self.functions
            .iter()
            .copied()
            .find(|function| function.name == name)
    }

    /// The address of the first instruction.
    #[must_use]
    pub const fn base(&self) -> u32 {
        self.base
    }

    /// The codes of all instructions.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u32> {
        self.instructions
            .iter()
            .map(|instruction| instruction.word())
    }

    /// The text of the instruction at this address, as binutils writes it.
    #[must_use]
    pub fn text(&self, address: u32) -> Option<&str> {
        self.texts.get(self.index(address)?).map(String::as_str)
    }

    fn index(&self, address: u32) -> Option<usize> {
        Some(address.checked_sub(self.base)? as usize / 4)
    }

    pub(crate) fn at(&self, address: u32) -> Option<Instruction> {
        self.instructions.get(self.index(address)?).copied()
    }

    /// An ELF file of the program, with a symbol for each function.
    #[must_use]
    pub fn elf(&self, options: &Options) -> Vec<u8> {
        crate::elf::write(self, options.big_endian)
    }

    /// The program for these options.
    #[must_use]
    pub fn of(options: &Options) -> Self {
        assemble(options)
    }
}

const ZERO: u8 = 0;
const V0: u8 = 2;
const A0: u8 = 4;
const A1: u8 = 5;
const A2: u8 = 6;
const T0: u8 = 8;
const T1: u8 = 9;
const T2: u8 = 10;
const S0: u8 = 16;
const S1: u8 = 17;
const S2: u8 = 18;
const S3: u8 = 19;
const S4: u8 = 20;
const S5: u8 = 21;
const S6: u8 = 22;
const T9: u8 = 25;
const K0: u8 = 26;
const SP: u8 = 29;
const RA: u8 = 31;

/// How often `scatter` goes round for each round of `main`.
const SCATTERED: u16 = 400;

fn assemble(options: &Options) -> Program {
    use Instruction as I;
    let add = |rt, rs, value: i16| I::Immediate(Operation::AddUnsigned, rt, rs, value as u16);
    let or = |rt, rs, value| I::Immediate(Operation::Or, rt, rs, value);
    let copy = |rd, rs| I::Register(Alu::Or, rd, rs, ZERO);
    let load = |rt, offset, base| I::Memory(Width::LoadWord, rt, base, offset);
    let store = |rt, offset, base| I::Memory(Width::StoreWord, rt, base, offset);
    let mut code = Assembler::new(TEXT);
    let [start, main, scatter, mix, fib, copy_bytes, sum] = std::array::from_fn(|_| code.label());

    code.function("_start", start);
    code.put(I::LoadUpper(SP, (options.stack() >> 16) as u16));
    code.put(I::LoadUpper(S4, (DATA >> 16) as u16));
    let mask = (options.footprint - 1) & !3;
    code.put(I::LoadUpper(S3, (mask >> 16) as u16));
    code.put(or(S3, S3, mask as u16));
    // The multiplier of Numerical Recipes' random numbers of 32 bits.
    code.put(I::LoadUpper(S5, 0x0019));
    code.put(or(S5, S5, 0x660d));
    code.put(I::LoadUpper(S2, (options.seed >> 16) as u16));
    code.put(or(S2, S2, options.seed as u16));
    // Each processor has separate random numbers and a separate stack.
    code.put(I::Register(Alu::AddUnsigned, S2, S2, K0));
    code.put(I::Shift(true, T0, K0, 12));
    code.put(I::Register(Alu::SubtractUnsigned, SP, SP, T0));
    code.jump(true, main);
    code.put(copy(S0, ZERO));
    let halt = code.label();
    code.place(halt);
    code.branch(true, ZERO, ZERO, halt);
    code.put(I::NOP);

    code.function("main", main);
    code.put(add(SP, SP, -24));
    code.put(store(RA, 20, SP));
    let round = code.label();
    code.place(round);
    code.jump(true, scatter);
    code.put(add(A0, ZERO, SCATTERED as i16));
    // The deepest recursion comes in the first rounds.
    code.put(add(A0, S0, 6));
    code.jump(true, fib);
    code.put(I::Immediate(Operation::And, A0, A0, 7));
    code.put(store(V0, 16, SP));
    code.put(copy(A0, S4));
    code.put(add(A1, S4, 64));
    code.jump(true, copy_bytes);
    code.put(add(A2, ZERO, 16));
    code.put(copy(A0, S4));
    code.jump(true, sum);
    code.put(add(A1, ZERO, 12));
    // The call through a pointer.
    code.load_address(T9, mix);
    code.put(I::CallRegister(T9));
    code.put(copy(A0, V0));
    code.put(store(V0, 0, S4));
    code.branch(true, ZERO, ZERO, round);
    code.put(add(S0, S0, 1));

    // Adds random numbers to words all over memory, three calls for each.
    code.function("scatter", scatter);
    code.put(add(SP, SP, -32));
    code.put(store(RA, 28, SP));
    code.put(store(S6, 24, SP));
    code.put(copy(S6, A0));
    let again = code.label();
    code.place(again);
    for from in [S2, V0, V0] {
        code.jump(true, mix);
        code.put(copy(A0, from));
    }
    code.put(copy(S2, V0));
    code.put(I::Shift(false, T0, V0, 3));
    code.put(I::Register(Alu::And, T0, T0, S3));
    code.put(I::Register(Alu::AddUnsigned, T0, T0, S4));
    code.put(load(T1, 0, T0));
    code.put(add(S6, S6, -1));
    code.put(I::Register(Alu::AddUnsigned, T1, T1, V0));
    code.branch(false, S6, ZERO, again);
    code.put(store(T1, 0, T0));
    code.put(load(S6, 24, SP));
    code.put(load(RA, 28, SP));
    code.put(I::JumpRegister(RA));
    code.put(add(SP, SP, 32));

    // The next random number.
    code.function("mix", mix);
    code.put(I::Multiply(A0, S5));
    code.put(I::MoveFrom(false, V0));
    code.put(I::JumpRegister(RA));
    code.put(add(V0, V0, 12345));

    // Fibonacci's number, by recursion.
    code.function("fib", fib);
    let [recurse, done] = std::array::from_fn(|_| code.label());
    code.put(I::Immediate(Operation::SetLess, T0, A0, 2));
    code.branch(true, T0, ZERO, recurse);
    code.put(I::NOP);
    code.put(I::JumpRegister(RA));
    code.put(copy(V0, A0));
    code.place(recurse);
    code.put(add(SP, SP, -32));
    code.put(store(RA, 28, SP));
    code.put(store(S0, 24, SP));
    code.put(store(S1, 20, SP));
    code.put(copy(S0, A0));
    code.jump(true, fib);
    code.put(add(A0, A0, -1));
    code.put(copy(S1, V0));
    code.jump(true, fib);
    code.put(add(A0, S0, -2));
    code.put(I::Register(Alu::AddUnsigned, V0, V0, S1));
    code.place(done);
    code.put(load(S1, 20, SP));
    code.put(load(S0, 24, SP));
    code.put(load(RA, 28, SP));
    code.put(I::JumpRegister(RA));
    code.put(add(SP, SP, 32));

    // Copies bytes.
    code.function("copy", copy_bytes);
    let next = code.label();
    code.place(next);
    code.put(I::Memory(Width::LoadByteUnsigned, T0, A0, 0));
    code.put(add(A0, A0, 1));
    code.put(I::Memory(Width::StoreByte, T0, A1, 0));
    code.put(add(A2, A2, -1));
    code.branch(false, A2, ZERO, next);
    code.put(add(A1, A1, 1));
    code.put(I::JumpRegister(RA));
    code.put(I::NOP);

    // Sums half-words and signed bytes, and stores the sum after them.
    code.function("sum", sum);
    let next = code.label();
    code.put(copy(V0, ZERO));
    code.place(next);
    code.put(I::Memory(Width::LoadHalf, T0, A0, 0));
    code.put(I::Memory(Width::LoadByte, T1, A0, 1));
    code.put(I::Register(Alu::AddUnsigned, V0, V0, T0));
    code.put(I::Register(Alu::SubtractUnsigned, T2, V0, T1));
    code.put(I::Register(Alu::Xor, V0, V0, T2));
    code.put(add(A1, A1, -1));
    code.put(I::Register(Alu::SetLess, T2, ZERO, A1));
    code.branch(false, T2, ZERO, next);
    code.put(add(A0, A0, 2));
    code.put(I::Multiply(V0, V0));
    code.put(I::MoveFrom(true, T2));
    code.put(I::Memory(Width::StoreHalf, V0, A0, 0));
    code.put(I::Shift(true, T2, T2, 2));
    code.put(I::JumpRegister(RA));
    code.put(I::Register(Alu::Xor, V0, V0, T2));
    code.finish()
}
