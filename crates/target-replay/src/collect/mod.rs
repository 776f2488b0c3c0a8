//! An experiment over a whole recording, on all processors of this machine.
//!
//! Rows of instructions are processed in parallel, each with a separate experiment. Their frames are written row after row, while
//! later rows are still being processed. The frames are those of one run from the start to the end if no hit depends on another: an
//! experiment that sets variables, counts passes or steps is run in one row.

mod kept;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracewire_agent_expr::verify;
use tracewire_arch::{Register, RegisterLayout, StandardRegisters};
use tracewire_experiment::{
    CircularStore, DefineError, Experiment, FrameStore, Hit, HitHandler, LinearStore, Missing,
    Options, StartError, StoreError, Target, TargetError,
};
use tracewire_model::{
    Action, Address, Aggregate, AggregateTable, CallPart, RegisterMask, RegisterNumber,
    StatusFields, StopReason, TracepointDefinition, TracepointNumber, TracepointUsage,
    VariableDefinition,
};
use tracewire_tracefile::{FrameFormat, WriteError};

use self::kept::Kept;
use crate::execution::{Execution, address_form};
use crate::played::Played;
use crate::player::Player;
use crate::recorded::Recorded;

/// The data to collect, and how much of it is kept.
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

/// Where frames go.
pub trait FrameSink: Send {
    /// Takes whole frames, as they are in a trace file, which follow those before.
    ///
    /// # Errors
    /// When they cannot be kept.
    fn append(&mut self, frames: &[u8]) -> Result<(), WriteError>;

    /// Forgets all frames.
    ///
    /// # Errors
    /// When it cannot begin again.
    fn clear(&mut self) -> Result<(), WriteError>;
}

/// The collected data.
#[derive(Debug)]
pub struct Collected {
    /// How the run ended.
    pub status: StatusFields,
    /// The usage of each definition, and the data that it could not read.
    pub usage: Vec<(TracepointUsage, Missing)>,
    /// Registers that were to be collected and are unavailable in some frame, and the number of these frames. If the register block
    /// has space for one it is 0 there, and the frame marks it as unknown
    /// ([`tracewire_tracefile::FrameEncoder::unknown_registers`]).
    pub unknown: Vec<(String, u64)>,
    /// The aggregates.
    pub aggregates: Vec<(TracepointNumber, Aggregate, AggregateTable)>,
}

/// The smallest set of registers that has all that is collected.
#[derive(Clone, Debug)]
pub struct FrameRegisters {
    /// Which register is where.
    pub layout: RegisterLayout,
    /// The target description.
    pub target_xml: String,
    /// How many bytes of it a register block has: it ends after the last register that the recording ever gives. To GDB
    /// those after are unavailable.
    pub size: u32,
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
    /// The frames could not be kept.
    #[error(transparent)]
    Sink(#[from] WriteError),
    /// There is no memory for them.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// So many rows are made for each processor: a row's frames are in memory until those of all rows before it are kept.
const ROWS: usize = 32;

/// Runs an experiment over a recording. Its frames have the registers of [`FrameRegisters::of`].
///
/// # Errors
/// When a tracepoint cannot be evaluated or written down, or the frames cannot be kept.
pub fn collect(
    recorded: &Recorded,
    request: &Request,
    sink: &mut dyn FrameSink,
) -> Result<Collected, CollectError> {
    let run = Run {
        recorded,
        request,
        addresses: request
            .definitions
            .iter()
            .filter(|definition| definition.enabled)
            .map(|definition| definition.address)
            .collect(),
        registers: FrameRegisters::of(recorded, request),
        buffers: Mutex::default(),
    };
    let all = 0..recorded.instructions();
    // If hits depend on others, there is only one row.
    if run.is_independent() {
        let most = rayon::current_num_threads() * ROWS;
        let rows = recorded.answer(recorded.recording().rows_of(&all, most));
        if let Some(collected) = run.rows(&rows.unwrap_or_default(), sink)? {
            return Ok(collected);
        }
        // It fits no buffer.
        sink.clear()?;
    }
    let mut kept = Kept::new(&run, sink);
    kept.row(run.whole()?)?;
    Ok(kept.finish())
}

struct Run<'a> {
    recorded: &'a Recorded,
    request: &'a Request,
    addresses: BTreeSet<Address>,
    registers: FrameRegisters,
    /// Room for the frames of rows, used again.
    buffers: Mutex<Vec<Vec<u8>>>,
}

/// The result of a row.
struct Row {
    bytes: Vec<u8>,
    frames: u64,
    status: StatusFields,
    usage: Vec<(TracepointUsage, Missing)>,
    /// From which frame on which bytes of the registers are known.
    known: Vec<(u64, Option<Vec<bool>>)>,
    aggregates: Vec<(TracepointNumber, Aggregate, AggregateTable)>,
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
    /// The registers of the frames that are collected.
    #[must_use]
    pub fn of(recorded: &Recorded, request: &Request) -> Self {
        let definitions = &request.definitions;
        let machine = recorded.machine();
        let set = StandardRegisters::all(machine.architecture())
            .into_iter()
            .find(|set| {
                let layout = set.layout();
                asked(definitions).all(|number| layout.by_number(number).is_some())
            });
        let (layout, target_xml) = match set {
            Some(set) => (set.layout(), set.target_xml()),
            None => (machine.layout().clone(), machine.target_xml().to_owned()),
        };
        let is_recorded = |register: &&Register| recorded.tells(register.number);
        let last = layout.registers().iter().rfind(is_recorded);
        Self {
            size: last.map_or(layout.size(), |last| last.offset + last.size()),
            layout,
            target_xml,
        }
    }
}

impl Run<'_> {
    /// Whether each hit is independent of the hits before it.
    fn is_independent(&self) -> bool {
        let sets =
            |code: &[u8]| verify(code).map_or(true, |program| !program.variables_set().is_empty());
        self.request.definitions.iter().all(|definition| {
            let condition = definition.condition.as_deref();
            let programs = definition.actions.iter().filter_map(|action| match action {
                Action::Expression(code) => Some(code.as_slice()),
                _ => None,
            });
            // A call that is measured may begin in one row and end in another. A pick counts the hits of all rows.
            definition.counting.call == CallPart::None
                && !definition.counting.picks
                && definition.pass_count == 0
                && definition.step_count == 0
                && !condition.into_iter().chain(programs).any(sets)
        })
    }

    /// All of it in one row, in a buffer of the requested size.
    fn whole(&self) -> Result<Row, CollectError> {
        let (all, limit) = (0..self.recorded.instructions(), self.request.limit);
        if self.request.circular {
            let order = self.recorded.machine().byte_order();
            self.row(
                all,
                CircularStore::new(limit, order)?,
                CircularStore::into_bytes,
            )
        } else {
            let store = LinearStore::growing(Vec::new(), limit);
            self.row(all, store, LinearStore::into_bytes)
        }
    }

    /// Runs the experiment over a row of instructions.
    fn row<S: FrameStore>(
        &self,
        row: Range<u64>,
        store: S,
        into_bytes: impl Fn(S) -> Vec<u8>,
    ) -> Result<Row, CollectError> {
        let options = Options::of_recording(FrameFormat {
            byte_order: self.recorded.machine().byte_order(),
            register_block_size: self.registers.size,
        });
        let mut experiment = Experiment::new(options, store);
        experiment.set_address_form(address_form(self.recorded.machine()));
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
        player.set_layout(&self.registers.layout, self.registers.size);
        let mut stepping = BTreeSet::new();
        player.look_for(&self.addresses, &stepping);
        let mut time = start;
        while let Some((_, here)) = player.advance_to(row.end) {
            time = here.time;
            let is_step = stepping.contains(&here.cpu);
            let is_visit = self.addresses.contains(&here.address);
            let hits = [
                is_step.then_some(Hit::Step(here.address)),
                is_visit.then_some(Hit::Tracepoint(here.address)),
            ];
            let mut over = false;
            for hit in hits.into_iter().flatten() {
                let outcome = experiment.hit(hit, player.thread());
                let is_change = if outcome.step {
                    stepping.insert(here.cpu)
                } else {
                    stepping.remove(&here.cpu)
                };
                if is_change {
                    player.look_for(&self.addresses, &stepping);
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
            aggregates: experiment.aggregates(),
            frames: experiment.store().frames(),
            bytes: into_bytes(experiment.into_store()),
        })
    }

    /// Runs the experiment over rows side by side. None where not all frames can be kept.
    fn rows(
        &self,
        rows: &[Range<u64>],
        sink: &mut dyn FrameSink,
    ) -> Result<Option<Collected>, CollectError> {
        let (taken, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        // Rows that are done before those before them are.
        let early: Mutex<BTreeMap<usize, Result<Row, CollectError>>> = Mutex::default();
        let kept = Mutex::new((0, Ok(Kept::new(self, sink))));
        // A worker that finds another one at it leaves its row to that one, or to the last one.
        let keep = |(next, kept): &mut (usize, Result<Kept<'_>, CollectError>)| {
            while let Some(row) = lock(&early).remove(next) {
                *next += 1;
                let Ok(good) = kept else { return };
                if let Err(error) = row.and_then(|row| good.row(row)) {
                    *kept = Err(error);
                }
                if !matches!(kept, Ok(good) if !good.is_over && good.fits()) {
                    is_over.store(true, Ordering::Relaxed);
                }
            }
        };
        rayon::scope(|scope| {
            for _ in 0..rayon::current_num_threads() {
                scope.spawn(|_| {
                    while !is_over.load(Ordering::Relaxed) {
                        let at = taken.fetch_add(1, Ordering::Relaxed);
                        let Some(row) = rows.get(at) else { return };
                        let buffer = lock(&self.buffers).pop().unwrap_or_default();
                        let store = LinearStore::growing(buffer, u64::MAX);
                        let row = self.row(row.clone(), store, LinearStore::into_bytes);
                        lock(&early).insert(at, row);
                        if let Ok(mut kept) = kept.try_lock() {
                            keep(&mut kept);
                        }
                    }
                });
            }
        });
        let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        keep(&mut kept);
        let kept = kept.1?;
        Ok(kept.fits().then(|| kept.finish()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
