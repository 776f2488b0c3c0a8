//! Instructions by their codes.

use std::fmt;

use tracewire_model::Address;

/// The code of an instruction, and how many hex digits it was written with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opcode {
    /// The number.
    pub value: u128,
    /// Hex digits: 4, 8 or 16 for 16, 32 or 64 bits; other machines may have other numbers up to 32.
    pub digits: u8,
}

impl Opcode {
    /// How long the instruction is, in bytes.
    #[must_use]
    pub const fn size(self) -> u8 {
        self.digits.div_ceil(2)
    }

    /// How wide it is, in bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.digits as u32 * 4
    }
}

/// As it was written: all digits, no prefix.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.digits);
        write!(f, "{:0digits$x}", self.value)
    }
}

/// The instruction set an instruction is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum InstructionSet {
    /// `A`: Arm; QEMU4V and MicroTESK write it for every machine's usual set.
    A = 0,
    /// `T`: Thumb, or a compressed set.
    T = 1,
    /// `X`.
    X = 2,
    /// `T16`: a Thumb instruction of 16 bits.
    T16 = 3,
    /// `T32`: a Thumb instruction of 32 bits.
    T32 = 4,
    /// `O`: A64.
    O = 5,
}

impl InstructionSet {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::T => "T",
            Self::X => "X",
            Self::T16 => "T16",
            Self::T32 => "T32",
            Self::O => "O",
        }
    }

    /// The set of this name.
    #[must_use]
    pub const fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            b"A" => Some(Self::A),
            b"T" => Some(Self::T),
            b"X" => Some(Self::X),
            b"T16" => Some(Self::T16),
            b"T32" => Some(Self::T32),
            b"O" => Some(Self::O),
            _ => None,
        }
    }

    /// Whether it is one of the Thumb sets.
    #[must_use]
    pub const fn is_thumb(self) -> bool {
        matches!(self, Self::T | Self::T16 | Self::T32)
    }
}

/// An instruction in a program: its code and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstructionCode {
    /// Its virtual address.
    pub address: Address,
    /// With how many hex digits a trace writes the address, which gives the 32-bit state of an AArch64 processor.
    pub address_digits: u8,
    /// Its code.
    pub opcode: Opcode,
    /// The instruction set, where that is known.
    pub set: Option<InstructionSet>,
}
