//! Actions as GDB's QTDP packets spell them: `R`, `M`, `X` and `L`, one after the other without separators.

use std::fmt;

use crate::definition::{Action, RegisterMask};
use crate::hex::Hex;
use crate::number::RegisterNumber;
use crate::text::{Expected, Scanner, TextError};

/// The most digits a register mask can have: one bit for each possible [`RegisterNumber`].
const MASK_DIGITS: usize = (u16::MAX as usize + 1) / 4;

impl Action {
    /// Whether any of these actions collects registers.
    #[must_use]
    pub fn any_of_registers(actions: &[Self]) -> bool {
        let asks = |action: &Self| matches!(action, Self::Registers(mask) if !mask.is_empty());
        actions.iter().any(asks)
    }

    /// Reads a string of actions, such as `R0fM-1,401000,4X3,2a2a27`. Numbers are hexadecimal; the grammar is
    /// the manual's (Tracepoint Packets, QTDP), and gdbserver's `L`, which the manual does not have.
    ///
    /// # Errors
    /// Where something else is, with its place. A leading `S` and a trailing `-` are no part of the list.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, TextError> {
        let mut scanner = Scanner::new(text.as_bytes());
        Self::scan_list(&mut scanner)
            .and_then(|actions| scanner.end("an action: R, M, X or L").map(|()| actions))
            .map_err(|expected| expected.in_text(text.as_bytes()))
    }

    /// Reads a string of actions up to the end, or up to a `-` there.
    ///
    /// # Errors
    /// Where the text has something else.
    pub fn scan_list(scanner: &mut Scanner<'_>) -> Result<Vec<Self>, Expected> {
        let mut actions = Vec::new();
        while !matches!(scanner.rest(), [] | [b'-']) {
            actions.push(Self::scan(scanner)?);
        }
        Ok(actions)
    }

    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        match scanner.byte() {
            Some(b'R') => {
                let digits = scanner.digits();
                RegisterMask::from_digits(digits)
                    .map(Self::Registers)
                    .ok_or_else(|| start.expected("a register mask of at most 65536 bits"))
            }
            Some(b'M') => {
                let base = if scanner.take("-") {
                    scanner.expect("1", "-1 or a register number")?;
                    None
                } else {
                    let at = *scanner;
                    let number = u16::try_from(scanner.hex()?)
                        .map_err(|_| at.expected("a register number of at most ffff"))?;
                    Some(RegisterNumber(number))
                };
                scanner.expect(",", "a comma")?;
                let offset = scanner.hex()?;
                scanner.expect(",", "a comma")?;
                let length = scanner.hex()?;
                Ok(Self::Memory {
                    base,
                    offset,
                    length,
                })
            }
            Some(b'X') => {
                let length = scanner.hex()?;
                scanner.expect(",", "a comma")?;
                scanner.hex_bytes(length).map(Self::Expression)
            }
            Some(b'L') => Ok(Self::StaticData),
            _ => Err(start.expected("an action: R, M, X or L")),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registers(mask) => write!(f, "R{mask}"),
            Self::Memory {
                base: None,
                offset,
                length,
            } => write!(f, "M-1,{offset:x},{length:x}"),
            Self::Memory {
                base: Some(base),
                offset,
                length,
            } => {
                write!(f, "M{:x},{offset:x},{length:x}", base.0)
            }
            Self::Expression(bytecode) => write!(f, "X{:x},{}", bytecode.len(), Hex(bytecode)),
            Self::StaticData => f.write_str("L"),
        }
    }
}

impl RegisterMask {
    /// The set for hexadecimal digits, most significant first.
    fn from_digits(digits: &[u8]) -> Option<Self> {
        let leading_zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        let significant = &digits[leading_zeros..];
        if digits.is_empty() || significant.len() > MASK_DIGITS {
            return None;
        }
        let bytes = significant
            .rchunks(2)
            .map(|pair| crate::hex::number(pair).map(|byte| byte as u8))
            .collect::<Option<Vec<u8>>>()?;
        Some(Self::from_bytes(bytes))
    }
}

/// Hexadecimal, most significant byte first, an even number of digits, as GDB writes it.
impl fmt::Display for RegisterMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("00");
        }
        self.bytes()
            .iter()
            .rev()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
