//! From bytes to instructions.

use crate::opcode::{Opcode, OperandKind};

/// The longest program: jumps are 16 bits wide.
pub const PROGRAM_LIMIT: usize = 65535;

/// One instruction and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction<'p> {
    /// From the start of the program, in bytes.
    pub offset: usize,
    /// Its operation.
    pub opcode: Opcode,
    /// With what.
    pub operand: Operand<'p>,
}

/// The operand after an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand<'p> {
    /// Nothing.
    None,
    /// A number, a jump's offset, a register's or a variable's number; [`Opcode::operand`] gives its kind.
    Number(u64),
    /// The format and arguments of `printf`.
    Format {
        /// How many arguments it takes from the stack.
        arguments: u8,
        /// The format, without its NUL.
        format: &'p [u8],
    },
}

impl Operand<'_> {
    /// The number, or 0 where the operand is none.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::None | Self::Format { .. } => 0,
        }
    }
}

impl Instruction<'_> {
    /// The length of the instruction, opcode and operand, in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        1 + match self.opcode.operand() {
            OperandKind::None => 0,
            OperandKind::Number(size) => size as usize,
            OperandKind::Jump | OperandKind::Register | OperandKind::Variable => 2,
            OperandKind::Format => match self.operand {
                Operand::Format { format, .. } => 3 + format.len() + 1,
                _ => 3,
            },
        }
    }

    /// How many cells it needs on the stack, and how many lie there afterwards in place of those it needs.
    pub(crate) const fn stack_effect(&self) -> (usize, usize) {
        match (self.opcode, self.operand) {
            (Opcode::Pick, Operand::Number(depth)) => {
                let needs = depth as usize + 1;
                (needs, needs + 1)
            }
            (Opcode::Printf, Operand::Format { arguments, .. }) => (2 + arguments as usize, 0),
            (opcode, _) => (opcode.pops(), opcode.pushes()),
        }
    }
}

/// Bytes that are no instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No opcode has this number.
    #[error("unknown opcode {byte:#04x} at offset {offset}")]
    UnknownOpcode {
        /// Where.
        offset: usize,
        /// The byte in the place of the opcode.
        byte: u8,
    },
    /// The program ends inside an instruction.
    #[error("`{opcode}` at offset {offset} is cut off by the end of the program")]
    Incomplete {
        /// Where the instruction starts.
        offset: usize,
        /// Its operation.
        opcode: Opcode,
    },
    /// A `printf` whose format does not end with a NUL.
    #[error("the format of `printf` at offset {offset} is not terminated")]
    UnterminatedFormat {
        /// Where the instruction starts.
        offset: usize,
    },
    /// An instruction was expected after the last one.
    #[error("no instruction at offset {offset}, where the program ends")]
    End {
        /// The length of the program.
        offset: usize,
    },
}

/// Big-endian, at most eight bytes.
pub(crate) fn big_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The instruction at `offset`.
///
/// # Errors
/// When there is none: see [`DecodeError`].
#[inline]
pub fn decode_at(program: &[u8], offset: usize) -> Result<Instruction<'_>, DecodeError> {
    let (&byte, rest) = program
        .get(offset..)
        .and_then(<[u8]>::split_first)
        .ok_or(DecodeError::End { offset })?;
    let opcode = Opcode::from_byte(byte).ok_or(DecodeError::UnknownOpcode { offset, byte })?;
    let number = |size: usize| {
        rest.get(..size)
            .map(|bytes| Operand::Number(big_endian(bytes)))
    };
    let operand = match opcode.operand() {
        OperandKind::None => Some(Operand::None),
        OperandKind::Number(size) => number(usize::from(size)),
        OperandKind::Jump | OperandKind::Register | OperandKind::Variable => number(2),
        OperandKind::Format => return decode_format(rest, offset),
    };
    match operand {
        Some(operand) => Ok(Instruction {
            offset,
            opcode,
            operand,
        }),
        None => Err(DecodeError::Incomplete { offset, opcode }),
    }
}

fn decode_format(rest: &[u8], offset: usize) -> Result<Instruction<'_>, DecodeError> {
    let opcode = Opcode::Printf;
    let incomplete = DecodeError::Incomplete { offset, opcode };
    let Some((&[arguments, high, low], rest)) = rest.split_first_chunk::<3>() else {
        return Err(incomplete);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    match rest.get(..length).ok_or(incomplete)?.split_last() {
        Some((0, format)) => Ok(Instruction {
            offset,
            opcode,
            operand: Operand::Format { arguments, format },
        }),
        _ => Err(DecodeError::UnterminatedFormat { offset }),
    }
}

/// Goes through a program from its start, instruction by instruction, not following jumps. Ends after the first
/// error.
#[derive(Clone, Debug)]
pub struct Instructions<'p> {
    program: &'p [u8],
    offset: usize,
}

/// The instructions of a program, in the order of their offsets.
#[must_use]
pub const fn instructions(program: &[u8]) -> Instructions<'_> {
    Instructions { program, offset: 0 }
}

impl<'p> Iterator for Instructions<'p> {
    type Item = Result<Instruction<'p>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.program.len() {
            return None;
        }
        let decoded = decode_at(self.program, self.offset);
        self.offset = match &decoded {
            Ok(instruction) => self.offset + instruction.length(),
            Err(_) => self.program.len(),
        };
        Some(decoded)
    }
}
