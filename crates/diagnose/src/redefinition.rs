//! Repeated definitions in a file: the last one counts, and readers ignore the others.

use std::collections::HashMap;
use std::fmt;

use tracewire_model::{
    Address, DefinitionContent, DefinitionRecord, Status, TracepointNumber, VariableDefinition,
    VariableNumber,
};

use crate::finding::Fault;

/// The kind of a line's definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Defined {
    /// The `R` line.
    RegisterBlockSize,
    /// The `status` line.
    Status,
    /// A `tsv` line.
    Variable(VariableNumber),
    /// A `T` line of a tracepoint at an address.
    Tracepoint(TracepointNumber, Address),
    /// A `V` line.
    Usage(TracepointNumber, Address),
}

impl fmt::Display for Defined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RegisterBlockSize => f.write_str("the size of a register block"),
            Self::Status => f.write_str("the status of the run"),
            Self::Variable(number) => write!(f, "variable {number}"),
            Self::Tracepoint(number, address) => write!(f, "tracepoint {number} at {address}"),
            Self::Usage(number, address) => {
                write!(f, "the usage of tracepoint {number} at {address}")
            }
        }
    }
}

/// The definitions among the lines that were read.
#[derive(Default)]
pub(crate) struct Definitions {
    /// The line of each.
    lines: HashMap<Defined, usize>,
    variables: HashMap<VariableNumber, VariableDefinition>,
}

impl Definitions {
    /// Takes the next line, given its number, its first word and the rest.
    pub(crate) fn take(&mut self, line: usize, word: &[u8], rest: &[u8]) -> Option<Fault> {
        let what = match word {
            b"R" => Defined::RegisterBlockSize,
            b"status" if Status::parse_line(rest).is_ok() => Defined::Status,
            b"tsv" => {
                let variable = VariableDefinition::parse(rest).ok()?;
                let what = Defined::Variable(variable.number);
                let before = self.variables.insert(variable.number, variable.clone());
                if before.is_some_and(|before| before == variable) {
                    return None;
                }
                what
            }
            b"tp" => {
                let piece = DefinitionRecord::parse(rest).ok()?;
                match piece.content {
                    DefinitionContent::Definition { .. } => {
                        Defined::Tracepoint(piece.number, piece.address)
                    }
                    DefinitionContent::Usage(_) => Defined::Usage(piece.number, piece.address),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let first = self.lines.insert(what, line)?;
        Some(Fault::DefinedAgain { what, first })
    }
}
