//! Programs made in code, by a compiler of source expressions.

use crate::instruction::PROGRAM_LIMIT;
use crate::opcode::{Opcode, OperandKind};

/// A place in a program under construction, made by [`Builder::label`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label(usize);

/// Puts a program together. Mistakes are kept and reported by [`finish`](Self::finish).
///
/// ```
/// use tracewire_agent_expr::{Builder, Opcode, disassemble};
///
/// let mut builder = Builder::new();
/// let otherwise = builder.label();
/// builder.reg(6).constant(-28).op(Opcode::Add).load(4).ext(32);
/// builder.op(Opcode::Dup).constant(3).op(Opcode::LessSigned);
/// builder.if_goto(otherwise).constant(0).op(Opcode::End);
/// builder.place(otherwise).op(Opcode::End);
/// println!("{}", disassemble(&builder.finish()?));
/// # Ok::<(), tracewire_agent_expr::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    code: Vec<u8>,
    /// Where each label is, once that is known.
    labels: Vec<Option<usize>>,
    /// Where in the code the offset of a label is missing.
    wanted: Vec<(usize, Label)>,
    mistake: Option<BuildError>,
}

/// Why no program came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A jump to a label that is not placed, or of another builder.
    #[error("the jump at offset {offset} goes to a label that was never placed")]
    UnplacedLabel {
        /// Where the jump's operand is.
        offset: usize,
    },
    /// A label in two places.
    #[error("a label is placed a second time at offset {offset}")]
    PlacedTwice {
        /// The second place.
        offset: usize,
    },
    /// An operation without its operand.
    #[error("`{opcode}` at offset {offset} needs an operand")]
    OperandMissing {
        /// Where.
        offset: usize,
        /// Which.
        opcode: Opcode,
    },
    /// A size that no `ref` has.
    #[error("no value of {size} bytes can be loaded, at offset {offset}")]
    BadSize {
        /// Where.
        offset: usize,
        /// The requested size.
        size: u8,
    },
    /// Longer than jumps reach.
    #[error("the program is longer than {PROGRAM_LIMIT} bytes")]
    TooLong,
}

impl Builder {
    /// A program without an instruction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How long the program is by now, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.code.len()
    }

    /// An operation without an operand.
    pub fn op(&mut self, opcode: Opcode) -> &mut Self {
        if opcode.operand() != OperandKind::None {
            let offset = self.offset();
            self.mistake(BuildError::OperandMissing { offset, opcode });
        }
        self.emit(opcode, &[])
    }

    /// Pushes a number, in the fewest bytes: zero-extended where it is small, sign-extended by `ext` where it is
    /// small and negative.
    pub fn constant(&mut self, number: i64) -> &mut Self {
        let bytes = number.to_be_bytes();
        match number {
            0..=0xff => self.emit(Opcode::Const8, &bytes[7..]),
            0x100..=0xffff => self.emit(Opcode::Const16, &bytes[6..]),
            0x1_0000..=0xffff_ffff => self.emit(Opcode::Const32, &bytes[4..]),
            -0x80..0 => self.emit(Opcode::Const8, &bytes[7..]).ext(8),
            -0x8000..-0x80 => self.emit(Opcode::Const16, &bytes[6..]).ext(16),
            -0x8000_0000..-0x8000 => self.emit(Opcode::Const32, &bytes[4..]).ext(32),
            _ => self.emit(Opcode::Const64, &bytes),
        }
    }

    /// Pushes the value of a register.
    pub fn reg(&mut self, register: u16) -> &mut Self {
        self.emit(Opcode::Reg, &register.to_be_bytes())
    }

    /// Replaces the address on the stack by the number of `size` bytes in memory there: 1, 2, 4 or 8.
    pub fn load(&mut self, size: u8) -> &mut Self {
        let opcode = match size {
            1 => Opcode::Ref8,
            2 => Opcode::Ref16,
            4 => Opcode::Ref32,
            8 => Opcode::Ref64,
            _ => {
                let offset = self.offset();
                self.mistake(BuildError::BadSize { offset, size });
                return self;
            }
        };
        self.op(opcode)
    }

    /// Sign-extends the top of the stack from so many bits.
    pub fn ext(&mut self, bits: u8) -> &mut Self {
        self.emit(Opcode::Ext, &[bits])
    }

    /// Zero-extends the top of the stack from so many bits.
    pub fn zero_ext(&mut self, bits: u8) -> &mut Self {
        self.emit(Opcode::ZeroExt, &[bits])
    }

    /// Pushes a copy of the cell so many below the top.
    pub fn pick(&mut self, below: u8) -> &mut Self {
        self.emit(Opcode::Pick, &[below])
    }

    /// Collects `length` bytes at the address on the stack, which stays there.
    pub fn trace_quick(&mut self, length: u16) -> &mut Self {
        match u8::try_from(length) {
            Ok(length) => self.emit(Opcode::TraceQuick, &[length]),
            Err(_) => self.emit(Opcode::Trace16, &length.to_be_bytes()),
        }
    }

    /// Pushes the value of a trace state variable.
    pub fn getv(&mut self, variable: u16) -> &mut Self {
        self.emit(Opcode::GetV, &variable.to_be_bytes())
    }

    /// Sets a trace state variable to the value on the stack, which stays there.
    pub fn setv(&mut self, variable: u16) -> &mut Self {
        self.emit(Opcode::SetV, &variable.to_be_bytes())
    }

    /// Collects a trace state variable.
    pub fn tracev(&mut self, variable: u16) -> &mut Self {
        self.emit(Opcode::TraceV, &variable.to_be_bytes())
    }

    /// Prints with the function and channel on the stack, and so many arguments below them. The format comes without
    /// its NUL.
    pub fn printf(&mut self, format: &[u8], arguments: u8) -> &mut Self {
        let Ok(length) = u16::try_from(format.len() + 1) else {
            self.mistake(BuildError::TooLong);
            return self;
        };
        let [high, low] = length.to_be_bytes();
        self.emit(Opcode::Printf, &[arguments, high, low]);
        self.code.extend_from_slice(format);
        self.code.push(0);
        self
    }

    /// A new label without a place.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places the label before the next instruction.
    pub fn place(&mut self, label: Label) -> &mut Self {
        let offset = self.offset();
        match self.labels.get_mut(label.0) {
            Some(place @ None) => *place = Some(offset),
            Some(Some(_)) => self.mistake(BuildError::PlacedTwice { offset }),
            None => self.mistake(BuildError::UnplacedLabel { offset }),
        }
        self
    }

    /// Jumps to the label.
    pub fn goto(&mut self, label: Label) -> &mut Self {
        self.jump(Opcode::Goto, label)
    }

    /// Takes the top of the stack, and jumps to the label if it is not zero.
    pub fn if_goto(&mut self, label: Label) -> &mut Self {
        self.jump(Opcode::IfGoto, label)
    }

    /// An operation with a number of the width that it has, as the assembler reads it.
    pub(crate) fn numbered(&mut self, opcode: Opcode, number: u64, width: usize) -> &mut Self {
        let bytes = number.to_be_bytes();
        let first = bytes.len().saturating_sub(width);
        self.emit(opcode, bytes.get(first..).unwrap_or(&bytes))
    }

    pub(crate) fn jump(&mut self, opcode: Opcode, label: Label) -> &mut Self {
        self.wanted.push((self.offset() + 1, label));
        self.emit(opcode, &[0, 0])
    }

    fn emit(&mut self, opcode: Opcode, operand: &[u8]) -> &mut Self {
        self.code.push(opcode as u8);
        self.code.extend_from_slice(operand);
        self
    }

    fn mistake(&mut self, mistake: BuildError) {
        self.mistake.get_or_insert(mistake);
    }

    /// The program, its jumps filled in. Whether it makes sense is for [`verify`](crate::verify()) to say.
    ///
    /// # Errors
    /// The first mistake made; see [`BuildError`].
    pub fn finish(&mut self) -> Result<Vec<u8>, BuildError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        if self.code.len() > PROGRAM_LIMIT {
            return Err(BuildError::TooLong);
        }
        let mut code = self.code.clone();
        for &(offset, label) in &self.wanted {
            let target = self
                .labels
                .get(label.0)
                .copied()
                .flatten()
                .ok_or(BuildError::UnplacedLabel { offset })?;
            // The length was checked above, and labels lie within.
            let target = u16::try_from(target).map_err(|_| BuildError::TooLong)?;
            if let Some(bytes) = code.get_mut(offset..offset + 2) {
                bytes.copy_from_slice(&target.to_be_bytes());
            }
        }
        Ok(code)
    }
}
