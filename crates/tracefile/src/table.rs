//! Tracepoints put together from the pieces in which they are told.

use std::collections::HashMap;

use crate::definition::{SourceStrings, TracepointDefinition, TracepointUsage};
use crate::number::{Address, TracepointNumber};
use crate::piece::{Piece, PieceContent, SourceKind};
use crate::served::Served;

/// A tracepoint, with what it has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// What it is to do.
    pub definition: TracepointDefinition,
    /// What it has done; none where no `V` piece told.
    pub usage: Option<TracepointUsage>,
    /// What served it; none in files of others.
    pub served: Option<Served>,
}

/// Why a piece cannot be added to the others.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MergeError {
    /// No `T` piece came before it.
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
        /// Where the part says it stands.
        start: u64,
    },
}

/// Pieces put together into tracepoints, keyed by (number, address).
#[derive(Clone, Debug, Default)]
pub struct TracepointTable {
    tracepoints: Vec<Tracepoint>,
    places: HashMap<(TracepointNumber, Address), usize>,
    /// The bytes of the newest string, to which a part that starts further on is joined.
    string: (SourceKind, Vec<u8>),
}

impl TracepointTable {
    /// Adds a piece. A second `T` piece of the same key replaces everything told before.
    ///
    /// # Errors
    /// When there is nothing the piece belongs to.
    pub fn add(&mut self, piece: Piece) -> Result<(), MergeError> {
        let Piece {
            number,
            address,
            content,
        } = piece;
        let place = self.places.get(&(number, address)).copied();
        if let PieceContent::Definition {
            enabled,
            kind,
            step_count,
            pass_count,
            condition,
        } = content
        {
            let tracepoint = Tracepoint {
                definition: TracepointDefinition {
                    number,
                    address,
                    enabled,
                    kind,
                    step_count,
                    pass_count,
                    condition,
                    actions: Vec::new(),
                    step_actions: Vec::new(),
                    source: SourceStrings::default(),
                },
                usage: None,
                served: None,
            };
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
        let tracepoint = place
            .and_then(|place| self.tracepoints.get_mut(place))
            .ok_or(MergeError::Undefined { number, address })?;
        let definition = &mut tracepoint.definition;
        match content {
            PieceContent::Definition { .. } => {}
            PieceContent::Actions(actions) => definition.actions.extend(actions),
            PieceContent::StepActions(actions) => definition.step_actions.extend(actions),
            PieceContent::Usage(usage) => tracepoint.usage = Some(usage),
            PieceContent::Source {
                kind,
                start,
                total: _,
                bytes,
            } => {
                if start == 0 {
                    self.string = (kind.clone(), bytes);
                } else if self.string.0 == kind && self.string.1.len() as u64 == start {
                    self.string.1.extend(bytes);
                } else {
                    return Err(MergeError::Gap { start });
                }
                let text = String::from_utf8_lossy(&self.string.1).into_owned();
                let source = &mut definition.source;
                match kind {
                    SourceKind::At => source.at = Some(text),
                    SourceKind::Condition => source.condition = Some(text),
                    SourceKind::Marker => source.marker = Some(text),
                    SourceKind::Command if start == 0 => source.commands.push(text),
                    SourceKind::Command => match source.commands.last_mut() {
                        Some(last) => *last = text,
                        None => return Err(MergeError::Gap { start }),
                    },
                    SourceKind::Other(_) => {}
                }
            }
        }
        Ok(())
    }

    /// The tracepoints, in the order in which their definitions came.
    #[must_use]
    pub fn tracepoints(&self) -> &[Tracepoint] {
        &self.tracepoints
    }

    /// The tracepoints, in the order in which their definitions came.
    #[must_use]
    pub fn into_tracepoints(self) -> Vec<Tracepoint> {
        self.tracepoints
    }
}
