//! An experiment over a whole recording, on all processors of this machine.
//!
//! Rows of instructions are gone over side by side, each with an experiment of its own, and their frames are put one
//! behind the other. That gives the frames of one run from the start to the end as long as no hit depends on another: an
//! experiment that sets variables, counts passes or steps is run in one row.

use std::collections::BTreeSet;
use std::ops::Range;

use rayon::prelude::*;
use tracewire_agent_expr::verify;
use tracewire_experiment::{
    DefineError, Experiment, FrameStore, Hit, HitHandler, Missing, Options, Registers, StartError,
    StoreError, Target, TargetError, Unreadable,
};
use tracewire_tracefile::{
    Action, Address, FrameFormat, RegisterLayout, RegisterMask, RegisterNumber, StandardRegisters,
    StatusFields, StopReason, TracepointDefinition, TracepointUsage, VariableDefinition,
};

use crate::execution::{Execution, extends_addresses};
use crate::played::Played;
use crate::player::Player;
use crate::recorded::Recorded;

/// What is to be collected, and how much of it is kept.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tracepoints.
    pub definitions: Vec<TracepointDefinition>,
    /// Every trace state variable.
    pub variables: Vec<VariableDefinition>,
    /// How many bytes of frames are kept.
    pub limit: u64,
    /// Whether the last frames are kept and not the first.
    pub circular: bool,
}

/// What was collected.
#[derive(Debug)]
pub struct Collected {
    /// The frames in the order of time, as they stand in a trace file, in pieces of whole frames.
    pub frames: Vec<Vec<u8>>,
    /// How the run ended.
    pub status: StatusFields,
    /// Of each definition, what it did and what it could not read.
    pub usage: Vec<(TracepointUsage, Missing)>,
    /// The registers that frames have.
    pub registers: FrameRegisters,
    /// Registers that were to be collected and that the recording did not know of in some frame, where they stand as 0,
    /// and in how many frames.
    pub unknown: Vec<(String, u64)>,
}

/// The smallest set of registers that has all that is collected.
#[derive(Clone, Debug)]
pub struct FrameRegisters {
    /// Which register stands where.
    pub layout: RegisterLayout,
    /// The target description.
    pub target_xml: String,
}

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A tracepoint cannot be.
    #[error("tracepoint {number}")]
    Define {
        /// Which.
        number: i32,
        /// Why.
        source: DefineError,
    },
    /// The run could not be begun.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Runs an experiment over a recording.
///
/// # Errors
/// When a tracepoint cannot be evaluated or written down.
pub fn collect(recorded: &Recorded, request: &Request) -> Result<Collected, CollectError> {
    let registers = FrameRegisters::of(recorded, &request.definitions);
    let run = Run {
        recorded,
        request,
        addresses: request
            .definitions
            .iter()
            .filter(|definition| definition.enabled)
            .map(|definition| definition.address)
            .collect(),
        registers,
    };
    // What cannot be said of one hit without others, or fits no buffer, is done in one row.
    let all = 0..recorded.instructions();
    let rows = match recorded.answer(recorded.recording().rows_of(&all)) {
        Some(rows) if !rows.is_empty() && run.is_independent() => rows,
        _ => vec![all.clone()],
    };
    let rows: Result<Vec<Row>, CollectError> = rows
        .into_par_iter()
        .map(|row| run.row(row, u64::MAX, false))
        .collect();
    let rows = rows?;
    let size: u64 = rows.iter().map(|row| row.store.bytes.len() as u64).sum();
    if size > request.limit {
        let row = run.row(all, request.limit, request.circular)?;
        return Ok(run.finish(vec![row]));
    }
    Ok(run.finish(rows))
}

struct Run<'a> {
    recorded: &'a Recorded,
    request: &'a Request,
    addresses: BTreeSet<Address>,
    registers: FrameRegisters,
}

/// What became of a row.
struct Row {
    store: Frames,
    status: StatusFields,
    usage: Vec<(TracepointUsage, Missing)>,
    /// From which frame on which bytes of the registers are known.
    known: Vec<(u64, Option<Vec<bool>>)>,
}

fn asked(definitions: &[TracepointDefinition]) -> impl Iterator<Item = RegisterNumber> + '_ {
    definitions
        .iter()
        .flat_map(|definition| definition.actions.iter().chain(&definition.step_actions))
        .filter_map(|action| match action {
            Action::Registers(mask) => Some(mask),
            _ => None,
        })
        .flat_map(RegisterMask::iter)
}

impl FrameRegisters {
    fn of(recorded: &Recorded, definitions: &[TracepointDefinition]) -> Self {
        let machine = recorded.machine();
        let set = StandardRegisters::all(machine.architecture())
            .into_iter()
            .find(|set| {
                let layout = set.layout();
                asked(definitions).all(|number| layout.by_number(number).is_some())
            });
        match set {
            Some(set) => Self {
                layout: set.layout(),
                target_xml: set.target_xml(),
            },
            None => Self {
                layout: machine.layout().clone(),
                target_xml: machine.target_xml().to_owned(),
            },
        }
    }
}

impl Run<'_> {
    /// Whether every hit is the same whatever came before it.
    fn is_independent(&self) -> bool {
        let sets =
            |code: &[u8]| verify(code).map_or(true, |program| !program.variables_set().is_empty());
        self.request.definitions.iter().all(|definition| {
            let condition = definition.condition.as_deref();
            let programs = definition.actions.iter().filter_map(|action| match action {
                Action::Expression(code) => Some(code.as_slice()),
                _ => None,
            });
            definition.pass_count == 0
                && definition.step_count == 0
                && !condition.into_iter().chain(programs).any(sets)
        })
    }

    /// Runs the experiment over a row of instructions.
    fn row(&self, row: Range<u64>, limit: u64, circular: bool) -> Result<Row, CollectError> {
        let options = Options {
            format: FrameFormat {
                byte_order: self.recorded.machine().byte_order(),
                register_block_size: self.registers.layout.size(),
            },
            stamp: true,
            registers: Registers::Asked,
            unreadable: Unreadable::Missing,
        };
        let store = Frames::new(limit, circular, options.format);
        let mut experiment = Experiment::new(options, store);
        if extends_addresses(self.recorded.machine()) {
            experiment.extend_addresses();
        }
        for variable in &self.request.variables {
            experiment.define_variable(variable.clone());
        }
        for definition in &self.request.definitions {
            let number = definition.number.0;
            experiment
                .define(definition.clone())
                .map_err(|source| CollectError::Define { number, source })?;
        }
        let first = self.recorded.instruction(row.start);
        let start = first.map_or(0, |first| first.time);
        experiment.start(&mut Everywhere, start)?;
        let mut player = Played::new(self.recorded, row.start);
        player.set_layout(&self.registers.layout);
        let mut stepping = BTreeSet::new();
        let mut time = start;
        while let Some((_, here)) = player.advance_to(row.end, &self.addresses, &stepping) {
            time = here.time;
            let is_step = stepping.contains(&here.cpu);
            let is_visit = self.addresses.contains(&here.address);
            let hits = [
                is_step.then_some(Hit::Step),
                is_visit.then_some(Hit::Tracepoint(here.address)),
            ];
            let mut over = false;
            for hit in hits.into_iter().flatten() {
                let outcome = experiment.hit(hit, player.thread());
                if outcome.step {
                    stepping.insert(here.cpu);
                } else {
                    stepping.remove(&here.cpu);
                }
                over |= outcome.run_ended;
            }
            if over {
                break;
            }
        }
        // Nothing is put into a recording that could not be taken out.
        let _ = experiment.stop(
            &mut Everywhere,
            StopReason::Command,
            Some("the end of the recording".to_owned()),
            time,
        );
        Ok(Row {
            status: experiment.status(),
            usage: experiment
                .tracepoints()
                .map(|tracepoint| (tracepoint.usage(), tracepoint.missing()))
                .collect(),
            known: experiment.known_registers_of_frames().to_vec(),
            store: experiment.into_store(),
        })
    }

    /// Puts the rows behind one another, up to the first that an error ended.
    fn finish(self, rows: Vec<Row>) -> Collected {
        let mut status = StatusFields::default();
        let mut frames = Vec::new();
        let mut usage =
            vec![(TracepointUsage::default(), Missing::default()); self.request.definitions.len()];
        let mut unknown = Unknown::new(&self.registers.layout, &self.request.definitions);
        let (mut count, mut created, mut start) = (0_u64, 0_u64, None);
        for row in rows {
            start = start.or(row.status.start_time);
            for (all, (more, missing)) in usage.iter_mut().zip(row.usage) {
                all.0.hits += more.hits;
                all.0.bytes += more.bytes;
                all.1.add(missing);
            }
            let here = row.store.frames;
            let made = row.status.frames_created.unwrap_or(here);
            count += here;
            created += made;
            unknown.note(&row.known, made.saturating_sub(here), made);
            if !row.store.bytes.is_empty() {
                frames.push(row.store.bytes);
            }
            let over = row.status.stop_reason != Some(StopReason::Command);
            status = row.status;
            if over {
                break;
            }
        }
        status.start_time = start;
        status.frames = Some(count);
        status.frames_created = Some(created);
        status.circular = Some(self.request.circular);
        status.buffer_size = Some(self.request.limit);
        let used: u64 = frames
            .iter()
            .map(|piece: &Vec<u8>| piece.len() as u64)
            .sum();
        status.buffer_free = Some(self.request.limit.saturating_sub(used));
        Collected {
            frames,
            status,
            usage,
            unknown: unknown.names(),
            registers: self.registers,
        }
    }
}

/// Counts frames in which registers that were asked for are not known.
struct Unknown {
    /// Name, place, size, frames.
    registers: Vec<(String, usize, usize, u64)>,
}

impl Unknown {
    fn new(layout: &RegisterLayout, definitions: &[TracepointDefinition]) -> Self {
        let mut numbers: Vec<RegisterNumber> = asked(definitions).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let registers = numbers.into_iter().filter_map(|number| {
            let register = layout.by_number(number)?;
            let place = (register.offset as usize, register.size() as usize);
            Some((register.name.clone(), place.0, place.1, 0))
        });
        Self {
            registers: registers.collect(),
        }
    }

    /// Takes note of runs of frames, of which those from `first` to `end` are kept.
    fn note(&mut self, runs: &[(u64, Option<Vec<bool>>)], first: u64, end: u64) {
        let ends = runs.iter().skip(1).map(|run| run.0).chain([end]);
        for ((start, known), end) in runs.iter().zip(ends) {
            let count = end.saturating_sub((*start).max(first));
            for (_, place, size, frames) in &mut self.registers {
                let bytes = known
                    .as_ref()
                    .and_then(|known| known.get(*place..*place + *size));
                if bytes.is_some_and(|bytes| bytes.contains(&false)) {
                    *frames += count;
                }
            }
        }
    }

    fn names(self) -> Vec<(String, u64)> {
        let counted = self.registers.into_iter();
        counted
            .filter(|(.., frames)| *frames > 0)
            .map(|(name, _, _, frames)| (name, frames))
            .collect()
    }
}

/// A tracepoint can be anywhere.
struct Everywhere;

impl Target for Everywhere {
    fn insert(&mut self, _: Address) -> Result<(), TargetError> {
        Ok(())
    }

    fn remove(&mut self, _: Address) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Frames in memory that grows with them.
struct Frames {
    bytes: Vec<u8>,
    frames: u64,
    limit: u64,
    circular: bool,
    format: FrameFormat,
}

impl Frames {
    const fn new(limit: u64, circular: bool, format: FrameFormat) -> Self {
        Self {
            bytes: Vec::new(),
            frames: 0,
            limit,
            circular,
            format,
        }
    }

    /// Gives up the oldest frames until so many bytes are free.
    fn make_room(&mut self, wanted: u64) {
        /// Tracepoint number and size.
        const HEADER: usize = 6;
        let mut at = 0;
        while (self.bytes.len() - at) as u64 + wanted > self.limit {
            let size = self.bytes.get(at + 2..at + HEADER);
            let size = size.and_then(|size| self.format.byte_order.unsigned(size));
            let Some(size) = size else { break };
            at = (at + HEADER + size as usize).min(self.bytes.len());
            self.frames = self.frames.saturating_sub(1);
        }
        self.bytes.drain(..at);
    }
}

impl FrameStore for Frames {
    fn append(&mut self, frame: &[u8]) -> Result<(), StoreError> {
        let length = frame.len() as u64;
        if self.used() + length > self.limit {
            if !self.circular || length > self.limit {
                return Err(StoreError::Full);
            }
            // Much at once, so that not every frame moves all others.
            self.make_room(length.max(self.limit / 8).min(self.limit));
        }
        self.bytes.extend_from_slice(frame);
        self.frames += 1;
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.bytes.clear();
        self.frames = 0;
        Ok(())
    }

    fn frames(&self) -> u64 {
        self.frames
    }

    fn size(&self) -> Option<u64> {
        Some(self.limit)
    }

    fn used(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_circular(&self) -> bool {
        self.circular
    }
}
