//! Tracepoints assembled from their definition records.

use std::collections::HashMap;

use crate::definition::{TracepointDefinition, TracepointUsage};
use crate::definition_record::{DefinitionContent, DefinitionRecord, SourceKind};
use crate::number::{Address, TracepointNumber};

/// A tracepoint, with its counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// Its definition.
    pub definition: TracepointDefinition,
    /// Its counts; `None` without a `V` record.
    pub usage: Option<TracepointUsage>,
    /// How it was served; `None` in files of other programs.
    pub served: Option<Served>,
    /// Hits among those of `usage` that made no frame, because the run limited how often it may make one.
    pub skipped: u64,
    /// When it was out of the program, because the run limited what its hits may cost: in the order of time.
    pub pauses: Vec<Pause>,
}

impl Tracepoint {
    /// A tracepoint of which only the definition is known.
    #[must_use]
    pub const fn new(definition: TracepointDefinition) -> Self {
        Self {
            definition,
            usage: None,
            served: None,
            skipped: 0,
            pauses: Vec::new(),
        }
    }
}

/// A time in which a tracepoint was out of the program and its hits were not counted. In microseconds, on the clock of
/// `$trace_timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pause {
    /// When it began.
    pub from: u64,
    /// How long it was.
    pub length: u64,
}

impl Pause {
    /// From a time to another one, which is not before that.
    #[must_use]
    pub const fn new(from: u64, to: u64) -> Self {
        Self {
            from,
            length: to.saturating_sub(from),
        }
    }

    /// When it ended.
    #[must_use]
    pub const fn to(self) -> u64 {
        self.from.saturating_add(self.length)
    }
}

/// The mechanism that served a tracepoint at an address.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Served {
    /// `jump`, say, or `trap`.
    pub mechanism: String,
    /// Why it was not by a faster one.
    pub reason: Option<String>,
}

/// Why a record cannot be added to the others.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MergeError {
    /// No `T` record came before it.
    #[error("tracepoint {number} at {address} has no definition (T) before this")]
    Undefined {
        /// Which tracepoint.
        number: TracepointNumber,
        /// Which of its addresses.
        address: Address,
    },
    /// A part of a string that does not continue the part before.
    #[error("the part of a string that starts at byte {start} does not follow the part before")]
    Gap {
        /// The start that the part gives.
        start: u64,
    },
}

/// Records put together into tracepoints, keyed by (number, address).
#[derive(Default)]
pub struct TracepointTable {
    tracepoints: Vec<Tracepoint>,
    places: HashMap<(TracepointNumber, Address), usize>,
    newest: Option<OpenString>,
}

/// The newest source string, to which later parts are appended.
struct OpenString {
    /// The tracepoint, by its place in the table.
    place: usize,
    kind: SourceKind,
    bytes: Vec<u8>,
}

impl TracepointTable {
    /// Adds a record. A second `T` record of the same key replaces all earlier ones.
    ///
    /// # Errors
    /// When there is no tracepoint or string that the record belongs to.
    pub fn add(&mut self, record: DefinitionRecord) -> Result<(), MergeError> {
        let DefinitionRecord {
            number,
            address,
            content,
        } = record;
        let place = self.places.get(&(number, address)).copied();
        if let DefinitionContent::Definition {
            enabled,
            kind,
            step_count,
            pass_count,
            condition,
        } = content
        {
            let tracepoint = Tracepoint::new(TracepointDefinition {
                enabled,
                kind,
                step_count,
                pass_count,
                condition,
                ..TracepointDefinition::new(number, address)
            });
            self.end_string();
            match place.and_then(|place| self.tracepoints.get_mut(place)) {
                Some(old) => *old = tracepoint,
                None => {
                    self.places
                        .insert((number, address), self.tracepoints.len());
                    self.tracepoints.push(tracepoint);
                }
            }
            return Ok(());
        }
        let undefined = MergeError::Undefined { number, address };
        let Some(place) = place else {
            return Err(undefined);
        };
        let tracepoint = self.tracepoints.get_mut(place).ok_or(undefined)?;
        let definition = &mut tracepoint.definition;
        match content {
            DefinitionContent::Definition { .. } => {}
            DefinitionContent::Actions(actions) => definition.actions.extend(actions),
            DefinitionContent::StepActions(actions) => definition.step_actions.extend(actions),
            DefinitionContent::Usage(usage) => tracepoint.usage = Some(usage),
            DefinitionContent::Source {
                kind,
                start: 0,
                total: _,
                bytes,
            } => {
                self.end_string();
                self.newest = Some(OpenString { place, kind, bytes });
            }
            DefinitionContent::Source {
                kind,
                start,
                total: _,
                bytes,
            } => {
                let newest = self.newest.as_mut();
                newest
                    .filter(|open| open.place == place && open.kind == kind)
                    .filter(|open| open.bytes.len() as u64 == start)
                    .ok_or(MergeError::Gap { start })?
                    .bytes
                    .extend(bytes);
            }
        }
        Ok(())
    }

    /// Gives the newest string to its tracepoint: text is made once of all its parts, as a character may be cut between two.
    fn end_string(&mut self) {
        let Some(OpenString { place, kind, bytes }) = self.newest.take() else {
            return;
        };
        let Some(tracepoint) = self.tracepoints.get_mut(place) else {
            return;
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let source = &mut tracepoint.definition.source;
        match kind {
            SourceKind::At => source.at = Some(text),
            SourceKind::Condition => source.condition = Some(text),
            SourceKind::Marker => source.marker = Some(text),
            SourceKind::Frame => source.frame = Some(text),
            SourceKind::OwnCondition => source.own_condition = Some(text),
            SourceKind::OwnLocation => source.own_location = Some(text),
            SourceKind::Span => source.span = Some(text),
            SourceKind::Watch => source.watch = Some(text),
            SourceKind::Count => source.counts.push(text),
            SourceKind::Command => source.commands.push(text),
            SourceKind::Other(_) => {}
        }
    }

    /// The tracepoints, in the order in which their definitions came.
    pub fn into_tracepoints(mut self) -> Vec<Tracepoint> {
        self.end_string();
        self.tracepoints
    }
}
