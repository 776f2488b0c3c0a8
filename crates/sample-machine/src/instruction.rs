//! MIPS instructions: their codes, and their text as binutils writes it.

/// The registers' names, as binutils has them.
pub(crate) const NAMES: [&str; 32] = [
    "zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", "t0", "t1", "t2", "t3", "t4", "t5", "t6",
    "t7", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "t8", "t9", "k0", "k1", "gp", "sp", "s8",
    "ra",
];

/// A decoded instruction. Registers are numbers, immediates are as in the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instruction {
    /// An operation on two registers: function code, destination, sources.
    Register(Function, u8, u8, u8),
    /// A shift by a constant: whether left, destination, source, amount.
    Shift(bool, u8, u8, u8),
    /// `mult`.
    Multiply(u8, u8),
    /// `mfhi` or `mflo`.
    MoveFrom(bool, u8),
    /// An operation with an immediate: destination, source, immediate.
    Immediate(Operation, u8, u8, u16),
    /// `lui`.
    LoadUpper(u8, u16),
    /// A load or a store: register, base, offset.
    Memory(Width, u8, u8, i16),
    /// `beq` (true) or `bne`: registers, offset in words from the delay slot.
    Branch(bool, u8, u8, i16),
    /// `j` or `jal`: whether it links, the word index.
    Jump(bool, u32),
    /// `jr`.
    JumpRegister(u8),
    /// `jalr`, which links in `ra`.
    CallRegister(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Function {
    AddUnsigned = 0x21,
    SubtractUnsigned = 0x23,
    And = 0x24,
    Or = 0x25,
    Xor = 0x26,
    SetLess = 0x2a,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    AddUnsigned = 0x09,
    SetLess = 0x0a,
    And = 0x0c,
    Or = 0x0d,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    LoadByte = 0x20,
    LoadHalf = 0x21,
    LoadWord = 0x23,
    LoadByteUnsigned = 0x24,
    StoreByte = 0x28,
    StoreHalf = 0x29,
    StoreWord = 0x2b,
}

impl Width {
    pub(crate) const fn size(self) -> u32 {
        match self {
            Self::LoadByte | Self::LoadByteUnsigned | Self::StoreByte => 1,
            Self::LoadHalf | Self::StoreHalf => 2,
            Self::LoadWord | Self::StoreWord => 4,
        }
    }

    pub(crate) const fn is_store(self) -> bool {
        matches!(self, Self::StoreByte | Self::StoreHalf | Self::StoreWord)
    }
}

impl Instruction {
    /// Nothing, which is a shift of `zero`.
    pub(crate) const NOP: Self = Self::Shift(true, 0, 0, 0);

    /// The code.
    pub(crate) const fn word(self) -> u32 {
        const fn three(operation: u32, rs: u8, rt: u8, low: u32) -> u32 {
            operation << 26 | (rs as u32) << 21 | (rt as u32) << 16 | low
        }
        match self {
            Self::Register(function, rd, rs, rt) => {
                three(0, rs, rt, (rd as u32) << 11 | function as u32)
            }
            Self::Shift(left, rd, rt, amount) => {
                let function = if left { 0 } else { 2 };
                three(
                    0,
                    0,
                    rt,
                    (rd as u32) << 11 | (amount as u32) << 6 | function,
                )
            }
            Self::Multiply(rs, rt) => three(0, rs, rt, 0x18),
            Self::MoveFrom(high, rd) => {
                three(0, 0, 0, (rd as u32) << 11 | if high { 0x10 } else { 0x12 })
            }
            Self::Immediate(operation, rt, rs, immediate) => {
                three(operation as u32, rs, rt, immediate as u32)
            }
            Self::LoadUpper(rt, immediate) => three(0x0f, 0, rt, immediate as u32),
            Self::Memory(width, rt, base, offset) => {
                three(width as u32, base, rt, offset as u16 as u32)
            }
            Self::Branch(equal, rs, rt, offset) => {
                three(if equal { 4 } else { 5 }, rs, rt, offset as u16 as u32)
            }
            Self::Jump(links, index) => (if links { 3 } else { 2 }) << 26 | (index & 0x3ff_ffff),
            Self::JumpRegister(rs) => three(0, rs, 0, 8),
            Self::CallRegister(rs) => three(0, rs, 0, 31 << 11 | 9),
        }
    }

    /// The text, as binutils writes it; `address` is where the instruction is.
    pub(crate) fn text(self, address: u32) -> String {
        let name = |register: u8| NAMES[usize::from(register)];
        match self {
            Self::NOP => "nop".to_owned(),
            Self::Register(Function::Or, rd, rs, 0) => format!("move {},{}", name(rd), name(rs)),
            Self::Register(function, rd, rs, rt) => {
                let operation = match function {
                    Function::AddUnsigned => "addu",
                    Function::SubtractUnsigned => "subu",
                    Function::And => "and",
                    Function::Or => "or",
                    Function::Xor => "xor",
                    Function::SetLess => "slt",
                };
                format!("{operation} {},{},{}", name(rd), name(rs), name(rt))
            }
            Self::Shift(left, rd, rt, amount) => {
                let operation = if left { "sll" } else { "srl" };
                format!("{operation} {},{},{amount:#x}", name(rd), name(rt))
            }
            Self::Multiply(rs, rt) => format!("mult {},{}", name(rs), name(rt)),
            Self::MoveFrom(high, rd) => {
                format!("{} {}", if high { "mfhi" } else { "mflo" }, name(rd))
            }
            Self::Immediate(Operation::AddUnsigned, rt, 0, value) => {
                format!("li {},{}", name(rt), value as i16)
            }
            Self::Immediate(operation, rt, rs, value) => {
                let (rt, rs) = (name(rt), name(rs));
                match operation {
                    Operation::AddUnsigned => format!("addiu {rt},{rs},{}", value as i16),
                    Operation::SetLess => format!("slti {rt},{rs},{}", value as i16),
                    Operation::And => format!("andi {rt},{rs},{value:#x}"),
                    Operation::Or => format!("ori {rt},{rs},{value:#x}"),
                }
            }
            Self::LoadUpper(rt, value) => format!("lui {},{value:#x}", name(rt)),
            Self::Memory(width, rt, base, offset) => {
                let operation = match width {
                    Width::LoadByte => "lb",
                    Width::LoadHalf => "lh",
                    Width::LoadWord => "lw",
                    Width::LoadByteUnsigned => "lbu",
                    Width::StoreByte => "sb",
                    Width::StoreHalf => "sh",
                    Width::StoreWord => "sw",
                };
                format!("{operation} {},{offset}({})", name(rt), name(base))
            }
            Self::Branch(equal, rs, rt, offset) => {
                let target = branch_target(address, offset);
                match (equal, rs, rt) {
                    (true, 0, 0) => format!("b {target:#x}"),
                    (true, rs, 0) => format!("beqz {},{target:#x}", name(rs)),
                    (false, rs, 0) => format!("bnez {},{target:#x}", name(rs)),
                    (true, rs, rt) => format!("beq {},{},{target:#x}", name(rs), name(rt)),
                    (false, rs, rt) => format!("bne {},{},{target:#x}", name(rs), name(rt)),
                }
            }
            Self::Jump(links, index) => {
                let target = jump_target(address, index);
                format!("{} {target:#x}", if links { "jal" } else { "j" })
            }
            Self::JumpRegister(rs) => format!("jr {}", name(rs)),
            Self::CallRegister(rs) => format!("jalr {}", name(rs)),
        }
    }
}

/// Where a branch goes: its offset counts words from the delay slot.
pub(crate) const fn branch_target(address: u32, offset: i16) -> u32 {
    address
        .wrapping_add(4)
        .wrapping_add((offset as i32 as u32) << 2)
}

/// Where a jump goes: within the 256 MiB of its delay slot.
pub(crate) const fn jump_target(address: u32, index: u32) -> u32 {
    (address.wrapping_add(4) & 0xf000_0000) | index << 2
}
