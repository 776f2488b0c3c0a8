//! The description: the lines of text between a trace file's header and its frames.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::module::Module;
use crate::paused;
use crate::served;
use crate::skipped;
use tracewire_model::hex::decode;
use tracewire_model::text::TextError;
use tracewire_model::{
    Address, Aggregate, AggregateKey, AggregateLine, AggregateTable, DefinitionRecord, MergeError,
    Pause, Redactions, Served, Status, Tracepoint, TracepointNumber, TracepointTable,
    VariableDefinition, VariableNumber,
};

/// The longest line GDB 13 reads, in bytes, without the newline; over it GDB refuses the whole file.
pub const MAX_LINE: usize = 999;

/// How many problems a description keeps; a file that is all problems must not fill memory with them.
const MAX_PROBLEMS: usize = 1000;

/// The description of a trace file: its lines as they are, and what they say.
///
/// The lines are never reordered or rewritten: a description that was read is written back byte for byte.
#[derive(Clone, Debug, Default)]
pub struct Description {
    text: Vec<u8>,
    register_block: Option<RegisterBlockLine>,
    status: Option<Status>,
    tracepoints: Vec<Tracepoint>,
    variables: Vec<VariableDefinition>,
    target_xml: Option<String>,
    modules: Vec<Module>,
    redactions: Redactions,
    counts: Vec<AggregateLine>,
    /// The numbers of lines of no known kind, in order.
    unknown: Vec<usize>,
    problems: Vec<Problem>,
}

/// What an `R` line says. The manual says decimal, GDB writes and reads hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterBlockLine {
    /// The size in bytes, the digits read as hexadecimal, as GDB does.
    pub hexadecimal: u32,
    /// The size in bytes, the digits read as decimal, as the manual says; none when there is an `a` to `f`.
    pub decimal: Option<u32>,
}

/// A line of a description that cannot be understood. It is kept all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Which line of the file, from 1; the header is line 1.
    pub line: usize,
    /// Where in the file the line starts.
    pub offset: u64,
    /// What is wrong with it.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind)
    }
}

/// What is wrong with a line of a description.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// An `R` line without a good number.
    #[error("expected the size of the register block after `R`, in hexadecimal")]
    RegisterBlock,
    /// A `status`, `tp`, `tsv`, `served`, `skipped`, `paused`, `count`, `redact` or `module` line that does not follow its grammar.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A `tp` line that belongs to nothing.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A `module+` line that follows no `module` line, or holds no bytes.
    #[error("expected the rest of a module's path, after its `module` line")]
    ModulePath,
    /// A `tdesc` line that is not UTF-8.
    #[error("expected UTF-8 text in the target description")]
    TargetXml,
}

/// One line of a description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Which line of the file, from 1; the header is line 1.
    pub number: usize,
    /// Where in the file it starts.
    pub offset: u64,
    /// The line without its newline.
    pub text: &'a [u8],
}

/// What lines of a description add to while it is read.
#[derive(Default)]
struct Parts {
    tracepoints: TracepointTable,
    /// The place of each variable among the others.
    variables: HashMap<VariableNumber, usize>,
    served: HashMap<(TracepointNumber, Address), Served>,
    skipped: HashMap<(TracepointNumber, Address), u64>,
    pauses: HashMap<(TracepointNumber, Address), Vec<Pause>>,
}

/// The header is the file's first line.
const FIRST_LINE: usize = 2;

impl Description {
    /// Reads a description: lines, each ended by a newline, without the empty line that closes it. A line that
    /// cannot be understood is kept, and reported by [`Self::problems`].
    #[must_use]
    pub fn parse(text: Vec<u8>) -> Self {
        let mut description = Self {
            text: Vec::new(),
            ..Self::default()
        };
        let mut parts = Parts::default();
        for line in lines(&text) {
            if let Err(kind) = description.take(line, &mut parts)
                && description.problems.len() < MAX_PROBLEMS
            {
                let Line { number, offset, .. } = line;
                description.problems.push(Problem {
                    line: number,
                    offset,
                    kind,
                });
            }
        }
        description.tracepoints = parts.tracepoints.into_tracepoints();
        for tracepoint in &mut description.tracepoints {
            let key = tracepoint.definition.key();
            tracepoint.served = parts.served.remove(&key);
            tracepoint.skipped = parts.skipped.remove(&key).unwrap_or(0);
            tracepoint.pauses = parts.pauses.remove(&key).unwrap_or_default();
        }
        description.text = text;
        description
    }

    fn take(&mut self, line: Line<'_>, parts: &mut Parts) -> Result<(), ProblemKind> {
        let (word, rest) = match memchr::memchr(b' ', line.text) {
            Some(space) => (&line.text[..space], &line.text[space + 1..]),
            // GDB takes no word for known without the blank after it.
            None => (&[][..], &[][..]),
        };
        match word {
            b"R" => {
                let size = RegisterBlockLine::parse(rest).ok_or(ProblemKind::RegisterBlock)?;
                self.register_block = Some(size);
            }
            b"status" => self.status = Some(Status::parse_line(rest)?),
            b"tp" => parts.tracepoints.add(DefinitionRecord::parse(rest)?)?,
            b"tsv" => {
                let variable = VariableDefinition::parse(rest)?;
                let place = parts.variables.get(&variable.number).copied();
                match place.and_then(|place| self.variables.get_mut(place)) {
                    Some(old) => *old = variable,
                    None => {
                        let place = self.variables.len();
                        parts.variables.insert(variable.number, place);
                        self.variables.push(variable);
                    }
                }
            }
            b"tdesc" => {
                let text = std::str::from_utf8(rest).map_err(|_| ProblemKind::TargetXml)?;
                let xml = self.target_xml.get_or_insert_default();
                xml.push_str(text);
                xml.push('\n');
            }
            b"served" => {
                let (by, keys) = served::parse(rest)?;
                let served = &mut parts.served;
                served.extend(keys.into_iter().map(|key| (key, by.clone())));
            }
            b"skipped" => {
                for (key, hits) in skipped::parse(rest)? {
                    let sum = parts.skipped.entry(key).or_default();
                    *sum = sum.saturating_add(hits);
                }
            }
            b"paused" => {
                for (key, pauses) in paused::parse(rest)? {
                    parts.pauses.entry(key).or_default().extend(pauses);
                }
            }
            b"count" => self.counts.push(AggregateLine::parse(rest)?),
            b"redact" => self.redactions.extend(&Redactions::parse_line(rest)?),
            b"module" => self.modules.push(Module::parse(rest)?),
            b"module+" => {
                let module = self.modules.last_mut().ok_or(ProblemKind::ModulePath)?;
                module
                    .path
                    .extend(decode(rest).ok_or(ProblemKind::ModulePath)?);
            }
            _ => self.unknown.push(line.number),
        }
        Ok(())
    }

    /// The lines as they are in the file, each with its newline, without the empty line after the last.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        lines(&self.text)
    }

    /// Lines of kinds that are not known, in order.
    pub fn unknown_lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines()
            .filter(|line| self.unknown.binary_search(&line.number).is_ok())
    }

    /// Lines that could not be understood, in order, the first thousand of them.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// What the `R` line says. [`crate::TraceFile::register_block_size`] has it settled.
    #[must_use]
    pub const fn register_block(&self) -> Option<RegisterBlockLine> {
        self.register_block
    }

    /// The status of the run when the file was written.
    #[must_use]
    pub const fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// The tracepoints, one for each (number, address), in the file's order.
    #[must_use]
    pub fn tracepoints(&self) -> &[Tracepoint] {
        &self.tracepoints
    }

    /// The trace state variables, in the file's order.
    #[must_use]
    pub fn variables(&self) -> &[VariableDefinition] {
        &self.variables
    }

    /// The target description: the `tdesc` lines, each with a newline.
    #[must_use]
    pub fn target_xml(&self) -> Option<&str> {
        self.target_xml.as_deref()
    }

    /// Where the program and its libraries were loaded; empty in files of others.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The patterns of names whose values were not recorded.
    #[must_use]
    pub const fn redactions(&self) -> &Redactions {
        &self.redactions
    }

    /// The aggregates of the tracepoints with their numbers, by tracepoint and in the order of its list. The numbers of several lines
    /// are added to each other.
    #[must_use]
    pub fn aggregates(&self) -> Vec<(TracepointNumber, Aggregate, AggregateTable)> {
        let mut found: BTreeMap<AggregateKey, (Aggregate, AggregateTable)> = BTreeMap::new();
        for Tracepoint { definition, .. } in &self.tracepoints {
            for aggregate in definition.source.aggregates() {
                let key = (definition.number, aggregate.index);
                found
                    .entry(key)
                    .or_insert((aggregate, AggregateTable::default()));
            }
        }
        for line in &self.counts {
            if let Some((aggregate, table)) = found.get_mut(&line.of) {
                line.add_to(aggregate, table);
            }
        }
        let found = found.into_iter();
        found
            .map(|((number, _), (aggregate, table))| (number, aggregate, table))
            .collect()
    }

    /// Writes a description from what it is to say, in GDB's order: `R`, `tdesc`, `status`, `tsv`, `tp`, then
    /// our `served`, `skipped`, `paused`, `count`, `redact` and `module` lines. Every line is one that GDB reads. The status says that a checksum will end the file. Tracepoints are in falling order of number and
    /// address, because GDB numbers them again, from the last to the first.
    ///
    /// # Errors
    /// When something cannot be said in a line of [`MAX_LINE`] bytes, naming it.
    pub fn build(parts: &DescriptionParts) -> Result<Self, LineError> {
        let mut text = Vec::new();
        let mut put = |line: String, what: &dyn Fn() -> String| put_line(&mut text, line, what);
        put(format!("R {:x}", parts.register_block_size), &|| {
            "the register block size".to_owned()
        })?;
        for line in parts
            .target_xml
            .as_deref()
            .unwrap_or_default()
            .split_terminator('\n')
        {
            for part in fold(line, MAX_LINE - "tdesc ".len()) {
                put(format!("tdesc {part}"), &|| {
                    "a word of the target description".to_owned()
                })?;
            }
        }
        if let Some(status) = &parts.status {
            let what = || "the status line, with the notes and the reason for the stop".to_owned();
            let sealed = status.clone().unsealed();
            put(format!("status {sealed};{}", Status::SEALED), &what)?;
        }
        for variable in &parts.variables {
            put(format!("tsv {variable}"), &|| {
                format!("the name of variable {}", variable.number)
            })?;
        }
        // GDB numbers the tracepoints of a file from its last to its first: so its numbers will be these,
        // where these are 1, 2, 3 and so on.
        let mut tracepoints: Vec<&Tracepoint> = parts.tracepoints.iter().collect();
        tracepoints.sort_by_key(|tracepoint| std::cmp::Reverse(tracepoint.definition.key()));
        let mut served: BTreeMap<&Served, Vec<_>> = BTreeMap::new();
        let (mut skipped, mut paused) = (Vec::new(), Vec::new());
        for Tracepoint {
            definition,
            usage,
            served: by,
            skipped: hits,
            pauses,
        } in tracepoints
        {
            if !pauses.is_empty() {
                paused.push((definition.key(), pauses.as_slice()));
            }
            if *hits > 0 {
                skipped.push((definition.key(), *hits));
            }
            if let Some(by) = by {
                served.entry(by).or_default().push(definition.key());
            }
            for piece in definition.records(*usage, MAX_LINE - "tp ".len()) {
                put(format!("tp {piece}"), &|| piece.content.what(piece.number))?;
            }
        }
        for (served, keys) in served {
            for line in served::lines(served, &keys, MAX_LINE) {
                put(line, &|| "what served a tracepoint".to_owned())?;
            }
        }
        for line in skipped::lines(&skipped, MAX_LINE) {
            put(line, &|| "the hits that were skipped".to_owned())?;
        }
        for line in paused::lines(paused, MAX_LINE) {
            put(line, &|| "the pauses of a tracepoint".to_owned())?;
        }
        for (key, table) in &parts.aggregates {
            for line in AggregateLine::lines(*key, table, MAX_LINE) {
                put(line, &|| "the keys of an aggregate".to_owned())?;
            }
        }
        let mut description = Self::parse(text.clone());
        let mut put = |line: String, what: &dyn Fn() -> String| put_line(&mut text, line, what);
        for line in parts.redactions.lines(MAX_LINE) {
            put(line, &|| "a pattern of names".to_owned())?;
        }
        for module in &parts.modules {
            for line in module.lines(MAX_LINE) {
                put(line, &|| "a build id".to_owned())?;
            }
        }
        // These are many lines, and say nothing else than the parts.
        description.redactions.clone_from(&parts.redactions);
        description.modules.clone_from(&parts.modules);
        debug_assert_eq!(
            description.parts(),
            Self::parse(text.clone()).parts(),
            "the description is what is read of it"
        );
        description.text = text;
        Ok(description)
    }

    /// What the description says, to be changed and built again. Unknown lines are not among it, nor that there is a
    /// checksum: what is built again will have one of its own.
    ///
    /// `register_block_size` is what the `R` line says in hexadecimal.
    #[must_use]
    pub fn parts(&self) -> DescriptionParts {
        DescriptionParts {
            register_block_size: self.register_block.map_or(0, |line| line.hexadecimal),
            target_xml: self.target_xml.clone(),
            status: self.status.clone().map(Status::unsealed),
            variables: self.variables.clone(),
            tracepoints: self.tracepoints.clone(),
            modules: self.modules.clone(),
            redactions: self.redactions.clone(),
            aggregates: (self.aggregates().into_iter())
                .map(|(number, aggregate, table)| ((number, aggregate.index), table))
                .collect(),
        }
    }
}

/// What a description is to say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DescriptionParts {
    /// The size of every register block, in bytes. GDB refuses a file that says 0.
    pub register_block_size: u32,
    /// The target description, includes resolved.
    pub target_xml: Option<String>,
    /// The status of the run.
    pub status: Option<Status>,
    /// Every trace state variable, builtin ones included.
    pub variables: Vec<VariableDefinition>,
    /// Every tracepoint, one for each (number, address).
    pub tracepoints: Vec<Tracepoint>,
    /// Where the program and its libraries were loaded.
    pub modules: Vec<Module>,
    /// The patterns of names whose values were not recorded.
    pub redactions: Redactions,
    /// The numbers of aggregates.
    pub aggregates: Vec<(AggregateKey, AggregateTable)>,
}

/// Something that cannot be said in a line that GDB reads.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} takes a line of {length} bytes; GDB reads lines of at most {MAX_LINE}")]
pub struct LineError {
    /// What is too long.
    pub what: String,
    /// How long its line would be, in bytes.
    pub length: usize,
}

/// Adds a line, if GDB can read it.
fn put_line(text: &mut Vec<u8>, line: String, what: &dyn Fn() -> String) -> Result<(), LineError> {
    if line.len() > MAX_LINE {
        return Err(LineError {
            what: what(),
            length: line.len(),
        });
    }
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
    Ok(())
}

/// The first bytes of every trace file.
pub const HEADER: &[u8; 8] = b"\x7fTRACE0\n";

fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut offset = 0;
    let mut number = FIRST_LINE;
    std::iter::from_fn(move || {
        let rest = text.get(offset..).filter(|rest| !rest.is_empty())?;
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = Line {
            number,
            offset: (HEADER.len() + offset) as u64,
            text: &rest[..length],
        };
        offset += length + 1;
        number += 1;
        Some(line)
    })
}

impl RegisterBlockLine {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        Some(Self {
            hexadecimal: u32::from_str_radix(text, 16).ok()?,
            decimal: text.parse().ok(),
        })
    }
}

/// Cuts a line of XML at blanks into lines of at most `limit` bytes, where a blank is to cut at. In XML a
/// newline is as good as a blank.
fn fold(line: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let cut = (line.len() > limit)
            .then(|| {
                line.as_bytes()[..=limit]
                    .iter()
                    .rposition(|byte| *byte == b' ')
            })
            .flatten();
        let (part, next) = match cut {
            Some(cut) => (&line[..cut], Some(&line[cut + 1..])),
            None => (line, None),
        };
        rest = next;
        Some(part)
    })
}
