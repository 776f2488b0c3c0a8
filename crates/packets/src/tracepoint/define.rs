//! Tracepoints as `QTDP` and `QTDPsrc` define them, and as qTfP and qTsP give them back.
//!
//! The texts are the trace file's own (its `tp` lines), whose parsers are used here. What differs is spelling: GDB
//! writes some numbers of its packets with leading zeros, and gdbserver gives actions back as GDB wrote them.

use std::io::Write;

use tracewire_model::{
    Action, Address, DefinitionContent, DefinitionRecord, SourceKind, TracepointKind,
    TracepointNumber, VariableDefinition,
};

use crate::field::Field;
use tracewire_model::hex;
use tracewire_model::text::{Expected, Scanner};

/// A tracepoint without its actions: `QTDP:n:addr:ena:step:pass[:Fflen][:S][:Xlen,bytes][-]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// GDB's number for it.
    pub number: TracepointNumber,
    /// Where it is.
    pub address: Address,
    /// Whether it collects.
    pub enabled: bool,
    /// How it is to be installed.
    pub kind: TracepointKind,
    /// How many instructions `while-stepping` collects after a hit; 0 without `while-stepping`.
    pub step_count: u64,
    /// After how many hits the run stops; 0 means never.
    pub pass_count: u64,
    /// The condition, as agent expression bytecode.
    pub condition: Option<Vec<u8>>,
    /// Whether `QTDP:-` packets with its actions follow.
    pub more: bool,
}

/// Writes a qTfP or qTsP reply, its actions as GDB spelt them.
pub(crate) fn print_record(record: &DefinitionRecord, out: &mut Vec<u8>) {
    let (letter, actions) = match &record.content {
        DefinitionContent::Actions(actions) => ('A', actions),
        DefinitionContent::StepActions(actions) => ('S', actions),
        _ => return out.extend_from_slice(record.to_string().as_bytes()),
    };
    out.extend_from_slice(
        format!("{letter}{:x}:{:x}:", record.number.0, record.address.0).as_bytes(),
    );
    print_actions(actions, out);
}

/// Prints the part after the letter, the number and the address.
fn print_content(record: &DefinitionRecord, out: &mut Vec<u8>) {
    let text = record.to_string();
    let content = text.splitn(3, ':').nth(2).unwrap_or_default();
    out.extend_from_slice(content.as_bytes());
}

impl Field for Definition {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        let more = scanner.rest().ends_with(b"-");
        let DefinitionRecord {
            number,
            address,
            content,
        } = DefinitionRecord::scan_after(b'T', scanner)?;
        match content {
            DefinitionContent::Definition {
                enabled,
                kind,
                step_count,
                pass_count,
                condition,
            } => Ok(Self {
                number,
                address,
                enabled,
                kind,
                step_count,
                pass_count,
                condition,
                more,
            }),
            _ => Err(start.expected("the definition of a tracepoint")),
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_head(self.number, self.address, out);
        let record = DefinitionRecord {
            number: self.number,
            address: self.address,
            content: DefinitionContent::Definition {
                enabled: self.enabled,
                kind: self.kind,
                step_count: self.step_count,
                pass_count: self.pass_count,
                condition: self.condition.clone(),
            },
        };
        print_content(&record, out);
        if self.more {
            out.push(b'-');
        }
    }
}

/// The number, and the address with all its digits, as GDB writes it in `QTDP`.
fn print_head(number: TracepointNumber, address: Address, out: &mut Vec<u8>) {
    number.print(out);
    out.push(b':');
    hex::put_padded(address.0, 16, out);
    out.push(b':');
}

impl Definition {
    pub(crate) fn explain(&self) -> String {
        let kind = match self.kind {
            TracepointKind::Trap => "",
            TracepointKind::Fast { .. } => "fast ",
            TracepointKind::Static => "static ",
        };
        let mut text = format!(
            "define {kind}tracepoint {} at {}",
            self.number, self.address
        );
        if !self.enabled {
            text.push_str(", disabled");
        }
        if self.condition.is_some() {
            text.push_str(", with a condition");
        }
        if self.step_count > 0 {
            text.push_str(&format!(", collecting {} steps", self.step_count));
        }
        if self.pass_count > 0 {
            text.push_str(&format!(", at most {} hits", self.pass_count));
        }
        if self.more {
            text.push_str("; actions follow");
        }
        text
    }
}

/// Actions: `QTDP:-n:addr:[S]action…[-]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionPacket {
    /// Which tracepoint; as in its definition.
    pub number: TracepointNumber,
    /// Which of its addresses; as in its definition.
    pub address: Address,
    /// Whether these and all actions after them are those of `while-stepping`.
    pub starts_stepping: bool,
    /// The actions, in order.
    pub actions: Vec<Action>,
    /// Whether more packets follow.
    pub more: bool,
}

impl Field for ActionPacket {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let number = Field::scan(scanner)?;
        scanner.literal(":")?;
        let address = Field::scan(scanner)?;
        scanner.literal(":")?;
        let starts_stepping = scanner.take("S");
        let actions = Action::scan_list(scanner)?;
        let more = scanner.take("-");
        Ok(Self {
            number,
            address,
            starts_stepping,
            actions,
            more,
        })
    }

    fn print(&self, out: &mut Vec<u8>) {
        print_head(self.number, self.address, out);
        if self.starts_stepping {
            out.push(b'S');
        }
        print_actions(&self.actions, out);
        if self.more {
            out.push(b'-');
        }
    }
}

/// As GDB spells them: `X%08X,`, and the numbers of `M` that are no address in capital letters.
fn print_actions(actions: &[Action], out: &mut Vec<u8>) {
    for action in actions {
        match action {
            Action::Expression(code) => {
                let _ = write!(out, "X{:08X},", code.len());
                hex::encode(code, out);
            }
            Action::Memory {
                base: Some(base),
                offset,
                length,
            } => {
                let _ = write!(out, "M{:X},{offset:x},{length:X}", base.0);
            }
            Action::Memory {
                base: None,
                offset,
                length,
            } => {
                let _ = write!(out, "M-1,{offset:x},{length:X}");
            }
            Action::Registers(_) | Action::StaticData => {
                let _ = write!(out, "{action}");
            }
        }
    }
}

impl ActionPacket {
    pub(crate) fn explain(&self) -> String {
        let kind = if self.starts_stepping {
            "while-stepping actions"
        } else {
            "actions"
        };
        let collected: Vec<String> = self
            .actions
            .iter()
            .map(|action| match action {
                Action::Registers(mask) => format!("{} registers", mask.iter().count()),
                Action::Memory {
                    base: None,
                    offset,
                    length,
                } => {
                    format!("{length} bytes at {}", Address(*offset))
                }
                Action::Memory {
                    base: Some(base),
                    offset,
                    length,
                } => {
                    format!(
                        "{length} bytes at register {base} {:+}",
                        offset.cast_signed()
                    )
                }
                Action::Expression(code) => format!("an expression of {} bytes", code.len()),
                Action::StaticData => "static tracepoint data".to_owned(),
            })
            .collect();
        format!(
            "{kind} of tracepoint {}: {}",
            self.number,
            collected.join(", ")
        )
    }
}

/// A string of the user's, or a part of it: `QTDPsrc:n:addr:type:start:slen:bytes`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceString {
    /// Which tracepoint.
    pub number: TracepointNumber,
    /// Which of its addresses.
    pub address: Address,
    /// Which string.
    pub kind: SourceKind,
    /// The offset of these bytes in the whole string.
    pub start: u64,
    /// The length of the whole string, in bytes.
    pub total: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl SourceString {
    /// As a qTfP or qTsP reply gives it back.
    #[must_use]
    pub fn record(&self) -> DefinitionRecord {
        let Self {
            number,
            address,
            kind,
            start,
            total,
            bytes,
        } = self.clone();
        DefinitionRecord {
            number,
            address,
            content: DefinitionContent::Source {
                kind,
                start,
                total,
                bytes,
            },
        }
    }

    pub(crate) fn explain(&self) -> String {
        let what = match &self.kind {
            SourceKind::At => "location",
            SourceKind::Condition => "condition",
            SourceKind::Command => "action line",
            SourceKind::Marker => "marker",
            SourceKind::Frame => "frame",
            SourceKind::OwnCondition => "condition that GDB cannot read",
            SourceKind::OwnLocation => "location that GDB takes for another place",
            SourceKind::Span => "role in a span",
            SourceKind::Watch => "watched object",
            SourceKind::Count => "aggregate",
            SourceKind::Other(name) => name,
        };
        format!(
            "{what} of tracepoint {}: {}",
            self.number,
            crate::field::HexBytes(self.bytes.clone())
        )
    }
}

impl Field for SourceString {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let at = *scanner;
        let DefinitionRecord {
            number,
            address,
            content,
        } = DefinitionRecord::scan_after(b'Z', scanner)?;
        match content {
            DefinitionContent::Source {
                kind,
                start,
                total,
                bytes,
            } => Ok(Self {
                number,
                address,
                kind,
                start,
                total,
                bytes,
            }),
            _ => Err(at.expected("a string of a tracepoint")),
        }
    }

    fn print(&self, out: &mut Vec<u8>) {
        self.number.print(out);
        out.push(b':');
        self.address.print(out);
        out.push(b':');
        print_content(&self.record(), out);
    }
}

/// As in `QTDV`, where GDB writes the value with all its digits.
impl Field for VariableDefinition {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        Self::scan(scanner)
    }

    fn print(&self, out: &mut Vec<u8>) {
        self.number.print(out);
        out.push(b':');
        hex::put_padded(self.initial.cast_unsigned(), 16, out);
        out.push(b':');
        self.builtin.print(out);
        out.push(b':');
        hex::encode(self.name.as_bytes(), out);
    }
}

/// Ranges of memory, `:start,end` each, where the end is the first address after the range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(pub Vec<std::ops::Range<u64>>);

impl Field for Ranges {
    fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let mut ranges = Vec::new();
        while scanner.take(":") {
            let start = scanner.hex()?;
            scanner.literal(",")?;
            ranges.push(start..scanner.hex()?);
        }
        Ok(Self(ranges))
    }

    fn print(&self, out: &mut Vec<u8>) {
        for range in &self.0 {
            out.push(b':');
            hex::put_padded(range.start, 16, out);
            out.push(b',');
            hex::put_padded(range.end, 16, out);
        }
    }
}
