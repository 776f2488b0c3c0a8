//! Programs as people read and write them.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::builder::{BuildError, Builder, Label};
use crate::instruction::{DecodeError, Operand, decode_at};
use crate::opcode::{Opcode, OperandKind};

/// Lists a program as GDB's `maint agent` does: one line an instruction, with its offset, name and operand, all numbers decimal.
/// Any bytes can be listed: bytes that are no instruction are in angle brackets, as in GDB's listing. [`assemble`] restores the
/// bytes of every program without such a line.
#[must_use]
pub fn disassemble(program: &[u8]) -> String {
    let mut text = String::new();
    let mut offset = 0;
    while offset < program.len() {
        // Writing to a string does not fail.
        _ = match decode_at(program, offset) {
            Ok(instruction) => {
                let listed = match instruction.operand {
                    Operand::None => writeln!(text, "{offset:3}  {}", instruction.opcode),
                    Operand::Number(number) => {
                        writeln!(text, "{offset:3}  {} {number}", instruction.opcode)
                    }
                    Operand::Format { arguments, format } => {
                        let name = instruction.opcode;
                        let format = format.escape_ascii();
                        writeln!(text, "{offset:3}  {name} \"{format}\", {arguments} args")
                    }
                };
                offset += instruction.length();
                listed
            }
            Err(DecodeError::UnknownOpcode { byte, .. }) => {
                let listed = writeln!(text, "{offset:3}  <bad opcode {byte:02x}>");
                offset += 1;
                listed
            }
            Err(error) => {
                let listed = match error {
                    DecodeError::Incomplete { opcode, .. } => {
                        writeln!(text, "{offset:3}  <incomplete opcode {opcode}>")
                    }
                    error => writeln!(text, "{offset:3}  <{error}>"),
                };
                offset = program.len();
                listed
            }
        };
    }
    text
}

/// Why a text is no program, and in which line, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A name that no operation has.
    #[error("line {line}: no operation is called `{name}`")]
    UnknownName {
        /// Where.
        line: usize,
        /// The name.
        name: String,
    },
    /// An operand that is missing, too much, or of the wrong form.
    #[error("line {line}: `{opcode}` wants {wanted}, not `{found}`")]
    BadOperand {
        /// Where.
        line: usize,
        /// The opcode.
        opcode: Opcode,
        /// The expected form.
        wanted: &'static str,
        /// The text that was found.
        found: String,
    },
    /// The offset before an instruction is wrong.
    #[error("line {line}: the instruction is at offset {actual}, not {stated}")]
    WrongOffset {
        /// Where.
        line: usize,
        /// The offset in the text.
        stated: usize,
        /// The offset in the program.
        actual: usize,
    },
    /// A label that is in two lines.
    #[error("line {line}: the label `{label}` is there already")]
    LabelTwice {
        /// The second line.
        line: usize,
        /// Which.
        label: String,
    },
    /// A jump to an undefined label.
    #[error("line {line}: the label `{label}` is nowhere")]
    UnknownLabel {
        /// The line of the first jump to it.
        line: usize,
        /// Which.
        label: String,
    },
    /// The program as a whole cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Reads a listing: a line an instruction, with or without its offset in front. A line `name:` is a label that `goto`
/// and `if_goto` may name in place of an offset; `#` starts a comment; numbers are decimal, or `0x` and hexadecimal.
///
/// # Errors
/// The first line that is wrong; see [`AssembleError`].
///
/// ```
/// use tracewire_agent_expr::assemble;
///
/// let program = assemble("again: const8 1  # forever\n goto again")?;
/// assert_eq!(program, [0x22, 1, 0x21, 0, 0]);
/// # Ok::<(), tracewire_agent_expr::AssembleError>(())
/// ```
pub fn assemble(text: &str) -> Result<Vec<u8>, AssembleError> {
    let mut assembler = Assembler::default();
    for (index, line) in text.lines().enumerate() {
        assembler.line = index + 1;
        assembler.read(line)?;
    }
    if let Some((label, place)) = assembler
        .labels
        .iter()
        .filter(|(_, place)| !place.placed)
        .min_by_key(|(_, place)| place.line)
    {
        return Err(AssembleError::UnknownLabel {
            line: place.line,
            label: (*label).to_owned(),
        });
    }
    Ok(assembler.builder.finish()?)
}

#[derive(Default)]
struct Assembler<'t> {
    builder: Builder,
    labels: HashMap<&'t str, Place>,
    line: usize,
}

struct Place {
    label: Label,
    placed: bool,
    /// The line of the first use of the name.
    line: usize,
}

impl<'t> Assembler<'t> {
    fn read(&mut self, line: &'t str) -> Result<(), AssembleError> {
        let mut rest = without_comment(line).trim();
        while let Some((label, after)) = rest.split_once(':')
            && is_label(label)
        {
            self.place(label)?;
            rest = after.trim_start();
        }
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            let (stated, after) = split_word(rest);
            let actual = self.builder.offset();
            match stated.parse() {
                Ok(stated) if stated == actual => rest = after,
                Ok(stated) => {
                    return Err(AssembleError::WrongOffset {
                        line: self.line,
                        stated,
                        actual,
                    });
                }
                Err(_) => return Err(self.unknown(stated)),
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        let (name, operand) = split_word(rest);
        let opcode = Opcode::from_name(name).ok_or_else(|| self.unknown(name))?;
        self.instruction(opcode, operand)
    }

    fn unknown(&self, name: &str) -> AssembleError {
        AssembleError::UnknownName {
            line: self.line,
            name: name.to_owned(),
        }
    }

    fn instruction(&mut self, opcode: Opcode, operand: &'t str) -> Result<(), AssembleError> {
        let line = self.line;
        let bad = |wanted| AssembleError::BadOperand {
            line,
            opcode,
            wanted,
            found: operand.to_owned(),
        };
        match opcode.operand() {
            OperandKind::None if operand.is_empty() => _ = self.builder.op(opcode),
            OperandKind::None => return Err(bad("no operand")),
            OperandKind::Jump if is_label(operand) => {
                let label = self.label(operand);
                self.builder.jump(opcode, label);
            }
            kind @ (OperandKind::Number(_)
            | OperandKind::Jump
            | OperandKind::Register
            | OperandKind::Variable) => {
                let (width, wanted) = match kind {
                    OperandKind::Number(1) => (1, "a number of one byte"),
                    OperandKind::Number(4) => (4, "a number of four bytes"),
                    OperandKind::Number(8) => (8, "a number of eight bytes"),
                    OperandKind::Jump => (2, "an offset or a label"),
                    _ => (2, "a number of two bytes"),
                };
                let number = parse_number(operand)
                    .filter(|number| width == 8 || *number < 1 << (width * 8))
                    .ok_or_else(|| bad(wanted))?;
                self.builder.numbered(opcode, number, width);
            }
            OperandKind::Format => {
                let wanted = "a format in quotes, a comma, and how many args";
                let (format, arguments) = parse_format(operand).ok_or_else(|| bad(wanted))?;
                self.builder.printf(&format, arguments);
            }
        }
        Ok(())
    }

    fn label(&mut self, name: &'t str) -> Label {
        let place = self.labels.entry(name).or_insert_with(|| Place {
            label: self.builder.label(),
            placed: false,
            line: self.line,
        });
        place.label
    }

    fn place(&mut self, name: &'t str) -> Result<(), AssembleError> {
        let label = self.label(name);
        if let Some(place) = self.labels.get_mut(name)
            && std::mem::replace(&mut place.placed, true)
        {
            return Err(AssembleError::LabelTwice {
                line: self.line,
                label: name.to_owned(),
            });
        }
        self.builder.place(label);
        Ok(())
    }
}

fn is_label(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && word
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || each == '_')
}

fn split_word(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Cuts at a `#` outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (index, each) in line.char_indices() {
        match each {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return line.get(..index).unwrap_or(line),
            _ => {}
        }
    }
    line
}

/// `"format", 2 args`, the format with the escapes of [`u8::escape_ascii`].
fn parse_format(text: &str) -> Option<(Vec<u8>, u8)> {
    let mut bytes = text.strip_prefix('"')?.bytes();
    let mut format = Vec::new();
    loop {
        format.push(match bytes.next()? {
            b'"' => break,
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let high = char::from(bytes.next()?).to_digit(16)?;
                    let low = char::from(bytes.next()?).to_digit(16)?;
                    u8::try_from(high << 4 | low).ok()?
                }
                other @ (b'\\' | b'"' | b'\'') => other,
                _ => return None,
            },
            other => other,
        });
    }
    let rest = text.get(text.len().checked_sub(bytes.len())?..)?;
    let count = rest.trim().strip_prefix(',')?.trim();
    let count = count.strip_suffix("args").unwrap_or(count).trim_end();
    Some((format, count.parse().ok()?))
}
