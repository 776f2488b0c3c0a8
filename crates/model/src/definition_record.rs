//! The records of a tracepoint's definition: one qTfP/qTsP reply each, one `tp` line each.
//!
//! | record | contents |
//! |---|---|
//! | `T` | where it is, whether it is enabled, step and pass count, kind, condition |
//! | `A` | actions of a hit |
//! | `S` | actions of a `while-stepping` step |
//! | `Z` | a source string: location, condition or action line |
//! | `V` | hits and bytes of buffer used |

use std::fmt;

use crate::definition::{
    Action, TracepointDefinition, TracepointKind, TracepointUsage, VariableDefinition,
};
use crate::hex::Hex;
use crate::number::{Address, TracepointNumber, VariableNumber};
use crate::text::{Expected, Scanner, TextError};

/// One record of one tracepoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefinitionRecord {
    /// Which tracepoint.
    pub number: TracepointNumber,
    /// Which of its addresses.
    pub address: Address,
    /// The contents.
    pub content: DefinitionContent,
}

/// The contents of a [`DefinitionRecord`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefinitionContent {
    /// `T`, or the body of a `QTDP` packet.
    Definition {
        /// Whether it collects.
        enabled: bool,
        /// How it is to be installed.
        kind: TracepointKind,
        /// Steps of `while-stepping`.
        step_count: u64,
        /// After how many hits the run stops; 0 means never.
        pass_count: u64,
        /// Agent expression bytecode.
        condition: Option<Vec<u8>>,
    },
    /// `A`: actions of a hit, added to those of earlier records.
    Actions(Vec<Action>),
    /// `S`: actions of a step, added to those of earlier records.
    StepActions(Vec<Action>),
    /// `Z`: a string of the user's, or a part of it.
    Source {
        /// Which string.
        kind: SourceKind,
        /// The offset of these bytes in the whole string.
        start: u64,
        /// The length of the whole string, in bytes.
        total: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// `V`: its counts so far.
    Usage(TracepointUsage),
}

/// Which string of the user's a `Z` record carries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SourceKind {
    /// `at`: the location.
    #[default]
    At,
    /// `cond`: the condition.
    Condition,
    /// `cmd`: one line of the actions.
    Command,
    /// `marker`: the name of the marker that the location is. A kind of our own, which GDB passes over.
    Marker,
    /// `frame`: the level of the frame that the location means. A kind of our own.
    Frame,
    /// `if`: a condition that GDB 13 cannot read. A kind of our own.
    OwnCondition,
    /// `loc`: a location that GDB 13 would take for another place. A kind of our own.
    OwnLocation,
    /// `span`: the location's role in the function of a span. A kind of our own.
    Span,
    /// `watch`: the watched object. A kind of our own.
    Watch,
    /// `count`: an aggregate. A kind of our own.
    Count,
    /// A kind that GDB 13 does not have.
    Other(String),
}

impl DefinitionContent {
    /// A description, such as `the location of tracepoint 1`.
    #[must_use]
    pub fn what(&self, number: TracepointNumber) -> String {
        let what = match self {
            Self::Definition { .. } => "the condition, compiled,",
            Self::Actions(_) | Self::StepActions(_) => "a collected expression, compiled,",
            Self::Source {
                kind: SourceKind::At | SourceKind::OwnLocation,
                ..
            } => "the location",
            Self::Source {
                kind: SourceKind::Condition | SourceKind::OwnCondition,
                ..
            } => "the condition",
            Self::Source {
                kind: SourceKind::Marker,
                ..
            } => "the marker",
            Self::Source {
                kind: SourceKind::Frame,
                ..
            } => "the frame",
            Self::Source { .. } => "an action line",
            Self::Usage(_) => "the usage",
        };
        format!("{what} of tracepoint {number}")
    }
}

impl SourceKind {
    fn name(&self) -> &str {
        match self {
            Self::At => "at",
            Self::Condition => "cond",
            Self::Command => "cmd",
            Self::Marker => "marker",
            Self::Frame => "frame",
            Self::OwnCondition => "if",
            Self::OwnLocation => "loc",
            Self::Span => "span",
            Self::Watch => "watch",
            Self::Count => "count",
            Self::Other(name) => name,
        }
    }
}

impl DefinitionRecord {
    /// Parses one qTfP/qTsP reply, which is also the text after `tp ` in a trace file. A trailing `-`, which in QTDP announces
    /// more, is accepted without effect.
    ///
    /// # Errors
    /// Where the text departs from the grammar.
    pub fn parse(text: &[u8]) -> Result<Self, TextError> {
        Self::scan(&mut Scanner::new(text)).map_err(|expected| expected.in_text(text))
    }

    /// As [`parse`](Self::parse), for the rest of a text.
    ///
    /// # Errors
    /// Where the text departs from the grammar.
    pub fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let start = *scanner;
        match scanner.byte() {
            Some(letter @ (b'T' | b'A' | b'S' | b'Z' | b'V')) => Self::scan_after(letter, scanner),
            _ => Err(start.expected("a definition record: T, A, S, Z or V")),
        }
    }

    /// Reads what follows the letter of a record: T, A, S or Z, or else V.
    ///
    /// # Errors
    /// Where the text departs from the grammar.
    pub fn scan_after(letter: u8, scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let number = tracepoint_number(scanner)?;
        scanner.colon()?;
        let address = Address(scanner.hex()?);
        scanner.colon()?;
        let content = match letter {
            b'T' => definition(scanner)?,
            b'A' => DefinitionContent::Actions(action_list(scanner)?),
            b'S' => DefinitionContent::StepActions(action_list(scanner)?),
            b'Z' => source(scanner)?,
            _ => {
                let hits = scanner.hex()?;
                scanner.colon()?;
                // GDB ignores what follows, "allowing for future extensions".
                DefinitionContent::Usage(TracepointUsage {
                    hits,
                    bytes: scanner.hex()?,
                })
            }
        };
        Ok(Self {
            number,
            address,
            content,
        })
    }
}

fn tracepoint_number(scanner: &mut Scanner<'_>) -> Result<TracepointNumber, Expected> {
    let largest = i32::MAX as u64;
    let number = scanner.hex_up_to(largest, "a tracepoint number of at most 7fffffff")?;
    Ok(TracepointNumber(number as i32))
}

fn action_list(scanner: &mut Scanner<'_>) -> Result<Vec<Action>, Expected> {
    let actions = Action::scan_list(scanner)?;
    scanner.take("-");
    Ok(actions)
}

fn definition(scanner: &mut Scanner<'_>) -> Result<DefinitionContent, Expected> {
    let at = *scanner;
    let enabled = match scanner.byte() {
        Some(b'E') => true,
        Some(b'D') => false,
        _ => return Err(at.expected("E (enabled) or D (disabled)")),
    };
    scanner.colon()?;
    let step_count = scanner.hex()?;
    scanner.colon()?;
    let pass_count = scanner.hex()?;
    let mut kind = TracepointKind::Trap;
    let mut condition = None;
    while scanner.take(":") {
        let at = *scanner;
        match scanner.byte() {
            Some(b'F') => {
                kind = TracepointKind::Fast {
                    length: scanner.hex()?,
                }
            }
            Some(b'S') => kind = TracepointKind::Static,
            Some(b'X') => {
                let length = scanner.hex()?;
                scanner.expect(",", "a comma")?;
                condition = Some(scanner.hex_bytes(length)?);
            }
            _ => return Err(at.expected("F, S or X")),
        }
    }
    scanner.take("-");
    scanner.end("the end")?;
    Ok(DefinitionContent::Definition {
        enabled,
        kind,
        step_count,
        pass_count,
        condition,
    })
}

fn source(scanner: &mut Scanner<'_>) -> Result<DefinitionContent, Expected> {
    let kind = match scanner.until(|byte| byte == b':') {
        b"at" => SourceKind::At,
        b"cond" => SourceKind::Condition,
        b"cmd" => SourceKind::Command,
        b"marker" => SourceKind::Marker,
        b"frame" => SourceKind::Frame,
        b"if" => SourceKind::OwnCondition,
        b"loc" => SourceKind::OwnLocation,
        b"span" => SourceKind::Span,
        b"watch" => SourceKind::Watch,
        b"count" => SourceKind::Count,
        other => SourceKind::Other(String::from_utf8_lossy(other).into_owned()),
    };
    scanner.colon()?;
    let start = scanner.hex()?;
    scanner.colon()?;
    let total = scanner.hex()?;
    scanner.colon()?;
    let bytes = scanner.hex_bytes(scanner.rest().len() as u64 / 2)?;
    scanner.end("the end")?;
    Ok(DefinitionContent::Source {
        kind,
        start,
        total,
        bytes,
    })
}

impl fmt::Display for DefinitionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match &self.content {
            DefinitionContent::Definition { .. } => 'T',
            DefinitionContent::Actions(_) => 'A',
            DefinitionContent::StepActions(_) => 'S',
            DefinitionContent::Source { .. } => 'Z',
            DefinitionContent::Usage(_) => 'V',
        };
        write!(f, "{letter}{:x}:{:x}:", self.number.0, self.address.0)?;
        match &self.content {
            DefinitionContent::Definition {
                enabled,
                kind,
                step_count,
                pass_count,
                condition,
            } => {
                let enabled = if *enabled { 'E' } else { 'D' };
                write!(f, "{enabled}:{step_count:x}:{pass_count:x}")?;
                match kind {
                    TracepointKind::Trap => {}
                    TracepointKind::Fast { length } => write!(f, ":F{length:x}")?,
                    TracepointKind::Static => f.write_str(":S")?,
                }
                if let Some(condition) = condition {
                    write!(f, ":X{:x},{}", condition.len(), Hex(condition))?;
                }
                Ok(())
            }
            DefinitionContent::Actions(actions) | DefinitionContent::StepActions(actions) => {
                actions.iter().try_for_each(|action| action.fmt(f))
            }
            DefinitionContent::Source {
                kind,
                start,
                total,
                bytes,
            } => {
                write!(f, "{}:{start:x}:{total:x}:{}", kind.name(), Hex(bytes))
            }
            DefinitionContent::Usage(usage) => write!(f, "{:x}:{:x}", usage.hits, usage.bytes),
        }
    }
}

impl TracepointDefinition {
    /// The records of this tracepoint, in GDB's order: `T`, `A`…, `S`…, `Z`…, then `V` when its usage is given. A list of actions
    /// is split, between actions, so that no record is longer than `limit` bytes if possible. A single action, the condition and a
    /// string that GDB reads are never split, because its reader of trace files does not join them.
    #[must_use]
    pub fn records(&self, usage: Option<TracepointUsage>, limit: usize) -> Vec<DefinitionRecord> {
        let record = |content| DefinitionRecord {
            number: self.number,
            address: self.address,
            content,
        };
        let source = |kind, text: &String| {
            record(DefinitionContent::Source {
                kind,
                start: 0,
                total: text.len() as u64,
                bytes: text.clone().into_bytes(),
            })
        };
        let mut records = vec![record(DefinitionContent::Definition {
            enabled: self.enabled,
            kind: self.kind,
            step_count: self.step_count,
            pass_count: self.pass_count,
            condition: self.condition.clone(),
        })];
        // The letter, two numbers of at most 8 and 16 digits, and two colons.
        let room = limit.saturating_sub(27);
        records.extend(
            split(&self.actions, room).map(|part| record(DefinitionContent::Actions(part))),
        );
        records.extend(
            split(&self.step_actions, room)
                .map(|part| record(DefinitionContent::StepActions(part))),
        );
        let strings = &self.source;
        let one = |kind, text: &Option<String>| text.as_ref().map(|text| source(kind, text));
        records.extend(one(SourceKind::At, &strings.at));
        records.extend(one(SourceKind::Condition, &strings.condition));
        let commands = strings.commands.iter();
        records.extend(commands.map(|text| source(SourceKind::Command, text)));
        records.extend(one(SourceKind::Marker, &strings.marker));
        records.extend(one(SourceKind::Frame, &strings.frame));
        records.extend(one(SourceKind::OwnCondition, &strings.own_condition));
        records.extend(one(SourceKind::OwnLocation, &strings.own_location));
        records.extend(one(SourceKind::Span, &strings.span));
        records.extend(one(SourceKind::Watch, &strings.watch));
        // The kind, and two numbers of at most 8 digits each.
        let room = (room.saturating_sub("count:::".len() + 16) / 2).max(1);
        for text in &strings.counts {
            let parts = text.as_bytes().chunks(room).zip((0..).step_by(room));
            records.extend(parts.map(|(bytes, start)| {
                record(DefinitionContent::Source {
                    kind: SourceKind::Count,
                    start,
                    total: text.len() as u64,
                    bytes: bytes.to_vec(),
                })
            }));
        }
        records.extend(usage.map(|usage| record(DefinitionContent::Usage(usage))));
        records
    }
}

/// Cuts a list of actions into lists whose texts have at most `room` bytes each, single ones apart.
fn split(actions: &[Action], room: usize) -> impl Iterator<Item = Vec<Action>> {
    let mut parts: Vec<Vec<Action>> = Vec::new();
    let mut used = 0usize;
    for action in actions {
        let length = action.to_string().len();
        match parts.last_mut() {
            Some(part) if used + length <= room => {
                part.push(action.clone());
                used += length;
            }
            _ => {
                parts.push(vec![action.clone()]);
                used = length;
            }
        }
    }
    parts.into_iter()
}

impl VariableDefinition {
    /// Reads one qTfV/qTsV reply, which is also what follows `tsv ` in a trace file:
    /// `<number>:<initial value>:<builtin>:<name>`, the name in hexadecimal bytes.
    ///
    /// # Errors
    /// Where the text departs from the grammar.
    pub fn parse(text: &[u8]) -> Result<Self, TextError> {
        Self::scan(&mut Scanner::new(text)).map_err(|expected| expected.in_text(text))
    }

    /// As [`parse`](Self::parse), for the rest of a text.
    ///
    /// # Errors
    /// Where the text departs from the grammar.
    pub fn scan(scanner: &mut Scanner<'_>) -> Result<Self, Expected> {
        let number =
            scanner.hex_up_to(i32::MAX as u64, "a variable number of at most 7fffffff")? as i32;
        scanner.colon()?;
        let initial = scanner.hex()?.cast_signed();
        scanner.colon()?;
        let builtin = scanner.hex()? != 0;
        scanner.colon()?;
        let name = scanner.hex_bytes(scanner.rest().len() as u64 / 2)?;
        scanner.end("the end")?;
        let name = String::from_utf8_lossy(&name).into_owned();
        Ok(Self {
            number: VariableNumber(number),
            initial,
            builtin,
            name,
        })
    }
}

/// As a qTfV reply.
impl fmt::Display for VariableDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:x}:{:x}:{:x}:{}",
            self.number.0,
            self.initial,
            u8::from(self.builtin),
            Hex(self.name.as_bytes())
        )
    }
}
