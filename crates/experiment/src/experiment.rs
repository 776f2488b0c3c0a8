//! Definitions, start and stop, status.

use std::collections::{BTreeSet, HashMap};

use tracewire_agent_expr::Evaluation;
use tracewire_model::{
    Action, Address, StatusFields, StopReason, TracepointDefinition, TracepointNumber,
    TracepointUsage, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::FrameFormat;

use crate::collect::Collector;
use crate::error::{DefineError, HitError, InstallError, StartError, UnknownTracepoint};
use crate::kept::KeptRegisters;
use crate::mechanism::{Mechanism, Served};
use crate::pads::{Losses, Pads};
use crate::pieces::{Missing, Pieces};
use crate::plan::Plan;
use crate::stepping::Stepping;
use crate::store::FrameStore;
use crate::target::Target;
use crate::variables::Variables;

/// How an experiment collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The byte order of the target, and the size of its register block.
    pub format: FrameFormat,
    /// Whether every frame holds `$trace_timestamp`, `$trace_thread` and `$trace_cpu`, behind its registers.
    pub stamp: bool,
    /// When a frame holds the register block.
    pub registers: Registers,
    /// What unreadable memory does that an action wants.
    pub unreadable: Unreadable,
}

/// When a frame holds the register block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    /// When an action collects registers.
    Asked,
    /// Always.
    Always,
}

/// What unreadable memory does that an action wants. A condition's ends the run in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// The value is missing from the frame from its first unreadable byte on, and counted; the run goes on.
    Missing,
    /// The frame is kept as with `Missing`, and the run ends with `terror`.
    Stop,
}

/// One location of a tracepoint, and what it has done in this run.
#[derive(Debug)]
pub struct Tracepoint {
    pub(crate) definition: TracepointDefinition,
    pub(crate) plan: Plan,
    pub(crate) usage: TracepointUsage,
    /// Hits that have counted for the pass count, but for those that the block of its pad counts. A hit counts here when it
    /// happens, and among `usage.hits` when its frame comes, which may be later.
    pub(crate) passes: u64,
    pub(crate) missing: Missing,
    /// Those that pads have counted.
    pub(crate) pad_missing: Missing,
}

impl Tracepoint {
    /// What it was asked to do; `enabled` as it is now.
    #[must_use]
    pub const fn definition(&self) -> &TracepointDefinition {
        &self.definition
    }

    /// What a hit does: the actions of its definition, without the collections of what others of them collect.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.plan.actions.list
    }

    /// Hits with a true condition, and the bytes of the frames that were made, headers included. A hit whose frame waits for
    /// an earlier one of another thread counts when that has come.
    #[must_use]
    pub const fn usage(&self) -> TracepointUsage {
        self.usage
    }

    /// The values that could not be read.
    #[must_use]
    pub fn missing(&self) -> Missing {
        let mut missing = self.missing;
        missing.add(self.pad_missing);
        missing
    }
}

/// Tracepoints, variables, a buffer, and a run of them.
///
/// The experiment decides what is to be installed where; [`install`](Self::install) carries that out, and is to be called
/// after every change that is made while the run is on, and after it has ended. [`start`](Self::start) and
/// [`stop`](Self::stop) do so themselves.
#[derive(Debug)]
pub struct Experiment<S> {
    pub(crate) options: Options,
    pub(crate) tracepoints: Vec<Tracepoint>,
    /// The tracepoints at each address, by their place in the list, in its order.
    pub(crate) places: HashMap<Address, Vec<usize>>,
    pub(crate) variables: Variables,
    pub(crate) store: S,
    /// The frame that is being made, or the last one.
    pub(crate) frame: Vec<u8>,
    /// Where the time stands in it.
    pub(crate) frame_stamp: Option<usize>,
    pub(crate) collector: Collector,
    /// The evaluation that conditions use, one after the other.
    pub(crate) condition: Evaluation,
    pub(crate) stepping: Stepping,
    /// When a pass count was met whose last hits are still followed by steps.
    pub(crate) met_at: u64,
    pub(crate) created: u64,
    /// Which bytes of the register blocks are known, from the frame of this number on, counted from the run's start; none
    /// means all.
    pub(crate) known_registers: Vec<(u64, Option<Vec<bool>>)>,
    /// The registers of frames that keep what was asked for; none where they have whole register blocks.
    pub(crate) kept: Option<KeptRegisters>,
    /// Whether the frame that is being made has a register block.
    pub(crate) has_registers: bool,
    pub(crate) running: bool,
    pub(crate) installed: BTreeSet<Address>,
    pub(crate) status: StatusFields,
    pub(crate) mechanism: Mechanism,
    /// Whether a fast tracepoint that cannot be a jump becomes a trap.
    pub(crate) fast_may_trap: bool,
    pub(crate) pads: Option<Pads>,
    /// Why there are no pads in this run.
    pub(crate) no_pads: Option<String>,
    /// What was lost with the pads that are no more.
    pub(crate) past_losses: Losses,
    /// What was given up for newer frames there.
    pub(crate) past_dropped: u64,
    pub(crate) served: HashMap<Address, Served>,
    /// What an address was served by when it last was.
    pub(crate) last_served: HashMap<Address, Served>,
    /// Addresses whose pads do not do what is defined there now.
    pub(crate) stale: BTreeSet<Address>,
}

impl<S: FrameStore> Experiment<S> {
    /// An experiment without tracepoints. Its variables are the builtin ones: `$trace_timestamp` is 1, `$trace_thread`
    /// is 2, `$trace_cpu` is 3.
    #[must_use]
    pub fn new(options: Options, store: S) -> Self {
        Self {
            options,
            tracepoints: Vec::new(),
            places: HashMap::new(),
            variables: Variables::new(),
            store,
            frame: Vec::new(),
            frame_stamp: None,
            collector: Collector::new(Pieces::new(options.format.byte_order)),
            condition: Evaluation::new(),
            stepping: Stepping::default(),
            met_at: 0,
            created: 0,
            known_registers: Vec::new(),
            kept: None,
            has_registers: false,
            running: false,
            installed: BTreeSet::new(),
            status: StatusFields {
                stop_reason: Some(StopReason::NotRun),
                ..StatusFields::default()
            },
            mechanism: Mechanism::default(),
            fast_may_trap: false,
            pads: None,
            no_pads: None,
            past_losses: Losses::default(),
            past_dropped: 0,
            served: HashMap::new(),
            last_served: HashMap::new(),
            stale: BTreeSet::new(),
        }
    }

    /// Adds a tracepoint, or replaces the one with the same number and address, whose counts go on during a run: a debugger
    /// defines a location again when its library has come back. Takes effect with [`install`](Self::install).
    ///
    /// # Errors
    /// When it could not be evaluated or written down; nothing has changed then.
    pub fn define(&mut self, definition: TracepointDefinition) -> Result<(), DefineError> {
        let mut plan = Self::plan(&definition)?;
        self.number_register_set(&mut plan);
        let tracepoint = Tracepoint {
            plan,
            definition,
            usage: TracepointUsage::default(),
            passes: 0,
            missing: Missing::default(),
            pad_missing: Missing::default(),
        };
        let key = (tracepoint.definition.number, tracepoint.definition.address);
        self.stepping.forget_tracepoint(key);
        // What stands there does what was defined before.
        self.stale.insert(key.1);
        self.look();
        let running = self.running;
        self.fold_counts(key.1);
        match self.position(key) {
            Some(old) if running => {
                // It may have had no pass count.
                old.passes = old.passes.max(old.usage.hits);
                old.definition = tracepoint.definition;
                old.plan = tracepoint.plan;
            }
            Some(old) => *old = tracepoint,
            None => {
                self.places
                    .entry(key.1)
                    .or_default()
                    .push(self.tracepoints.len());
                self.tracepoints.push(tracepoint);
            }
        }
        Ok(())
    }

    /// Looks whether a tracepoint could be defined so, and changes nothing.
    ///
    /// # Errors
    /// As [`define`](Self::define).
    pub fn verify(definition: &TracepointDefinition) -> Result<(), DefineError> {
        Self::plan(definition).map(drop)
    }

    fn plan(definition: &TracepointDefinition) -> Result<Plan, DefineError> {
        if !(1..=i32::from(i16::MAX)).contains(&definition.number.0) {
            return Err(DefineError::Number(definition.number));
        }
        Plan::new(definition)
    }

    fn position(&mut self, key: (TracepointNumber, Address)) -> Option<&mut Tracepoint> {
        let index = self.index(key)?;
        self.tracepoints.get_mut(index)
    }

    /// Where in the list a tracepoint is.
    pub(crate) fn index(&self, (number, address): (TracepointNumber, Address)) -> Option<usize> {
        self.places.get(&address)?.iter().copied().find(|index| {
            self.tracepoints
                .get(*index)
                .is_some_and(|tracepoint| tracepoint.definition.number == number)
        })
    }

    /// Enables or disables a tracepoint, at one address or at all of its own. Takes effect at once for hits, and with
    /// [`install`](Self::install) for what is in the program: an address with no enabled tracepoint costs nothing.
    ///
    /// # Errors
    /// When there is none.
    pub fn set_enabled(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
        enabled: bool,
    ) -> Result<(), UnknownTracepoint> {
        let mut found = false;
        for tracepoint in &mut self.tracepoints {
            let definition = &mut tracepoint.definition;
            if definition.number == number
                && address.is_none_or(|address| definition.address == address)
            {
                definition.enabled = enabled;
                found = true;
            }
        }
        self.tell_enabled();
        found.then_some(()).ok_or_else(|| unknown(number, address))
    }

    /// Forgets a tracepoint, at one address (its library was unloaded, say) or altogether. Takes effect in the program
    /// with [`install`](Self::install).
    ///
    /// # Errors
    /// When there is none.
    pub fn delete(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
    ) -> Result<(), UnknownTracepoint> {
        self.look();
        let count = self.tracepoints.len();
        let stale = &mut self.stale;
        let stepping = &mut self.stepping;
        self.tracepoints.retain(|tracepoint| {
            let definition = &tracepoint.definition;
            let delete = definition.number == number
                && address.is_none_or(|address| definition.address == address);
            if delete {
                stepping.forget_tracepoint((number, definition.address));
                stale.insert(definition.address);
            }
            !delete
        });
        if self.tracepoints.len() == count {
            return Err(unknown(number, address));
        }
        self.list_places();
        self.tell_enabled();
        Ok(())
    }

    /// Forgets all tracepoints, variables and frames and, if a run is on, ends it as [`stop`](Self::stop) does: QTinit.
    /// Without a target nothing is installed anywhere.
    ///
    /// # Errors
    /// As [`install`](Self::install).
    pub fn clear(
        &mut self,
        target: Option<&mut dyn Target>,
        now: u64,
    ) -> Result<(), Vec<InstallError>> {
        if self.running {
            self.end(StopReason::Command, None, None, now);
        }
        let installed = target.map_or(Ok(()), |target| self.install(target));
        self.tracepoints.clear();
        self.list_places();
        self.variables = Variables::new();
        // A store that cannot be emptied is emptied at the next start.
        let _ = self.store.clear();
        self.created = 0;
        self.past_losses = Losses::default();
        self.past_dropped = 0;
        self.known_registers.clear();
        installed
    }

    fn list_places(&mut self) {
        self.places.clear();
        for (index, tracepoint) in self.tracepoints.iter().enumerate() {
            let address = tracepoint.definition.address;
            self.places.entry(address).or_default().push(index);
        }
    }

    /// All tracepoints, in the order in which they were defined.
    pub fn tracepoints(&self) -> impl Iterator<Item = &Tracepoint> {
        self.tracepoints.iter()
    }

    /// Adds or replaces a trace state variable. A builtin one is known by its name, so that a debugger can give it a
    /// number of its own.
    pub fn define_variable(&mut self, definition: VariableDefinition) {
        self.variables.define(definition);
    }

    /// All variables by rising number. One that has no name was made by an expression that uses it.
    pub fn variables(&self) -> impl Iterator<Item = &VariableDefinition> {
        self.variables.definitions()
    }

    /// What a variable holds; `None` for one that is not there and for the builtin ones, which no thread is there for.
    #[must_use]
    pub fn variable(&self, number: VariableNumber) -> Option<i64> {
        self.variables.stored(number)
    }

    /// Begins a run: counts from 0, variables at their initial values, an empty buffer. `now` is in microseconds, by the
    /// target's clock.
    ///
    /// # Errors
    /// When it cannot; nothing is installed then, and the frames of the last run are gone.
    pub fn start(&mut self, target: &mut dyn Target, now: u64) -> Result<(), StartError> {
        if self.running {
            return Err(StartError::Running);
        }
        if self.tracepoints.is_empty() {
            return Err(StartError::NoTracepoints);
        }
        self.start_awaiting(target, now)
    }

    /// Begins a run as [`start`](Self::start) does, even where all tracepoints are still to come: a debugger's may wait
    /// for a library.
    ///
    /// # Errors
    /// As [`start`](Self::start), but for that.
    pub fn start_awaiting(&mut self, target: &mut dyn Target, now: u64) -> Result<(), StartError> {
        if self.running {
            return Err(StartError::Running);
        }
        // A run that a pad has ended may have left everything where it was.
        if let Err(errors) = self.install(target)
            && self.has_pads()
        {
            return Err(StartError::CannotInstall(errors));
        }
        self.past_losses = Losses::default();
        self.past_dropped = 0;
        self.store.clear()?;
        self.variables.reset();
        self.stepping.clear();
        self.created = 0;
        self.known_registers.clear();
        self.number_register_sets();
        for tracepoint in &mut self.tracepoints {
            tracepoint.usage = TracepointUsage::default();
            tracepoint.passes = 0;
            tracepoint.missing = Missing::default();
            tracepoint.pad_missing = Missing::default();
        }
        self.running = true;
        if let Err(errors) = self.install(target) {
            self.running = false;
            // What could not be put in need not come out; what else fails was told by the target before.
            _ = self.install(target);
            return Err(StartError::CannotInstall(errors));
        }
        self.status.stop_reason = Some(StopReason::Unknown);
        self.status.stop_text = None;
        self.status.stopping_tracepoint = None;
        self.status.start_time = Some(now);
        self.status.stop_time = Some(0);
        Ok(())
    }

    /// Ends the run for `reason`, with the words of whoever ended it, and takes everything out of the program. After a
    /// run that has ended by itself only the latter is done.
    ///
    /// # Errors
    /// As [`install`](Self::install); the run has ended nevertheless.
    pub fn stop(
        &mut self,
        target: &mut dyn Target,
        reason: StopReason,
        text: Option<String>,
        now: u64,
    ) -> Result<(), Vec<InstallError>> {
        // A pad may have ended the run, and nobody has looked since.
        self.look();
        if self.running {
            self.end(reason, text, None, now);
        }
        self.install(target)
    }

    /// Ends the run, wherever it stands; what is installed stays until the next [`install`](Self::install).
    pub(crate) fn end(
        &mut self,
        reason: StopReason,
        text: Option<String>,
        tracepoint: Option<TracepointNumber>,
        now: u64,
    ) {
        self.running = false;
        self.end_pads();
        self.stepping.clear();
        self.status.stop_reason = Some(reason);
        self.status.stop_text = text;
        self.status.stopping_tracepoint = tracepoint;
        // A clock may be set back, and a recorded execution be gone back.
        let start = self.status.start_time.unwrap_or(0);
        self.status.stop_time = Some(now.max(start));
    }

    pub(crate) fn end_with_error(&mut self, number: TracepointNumber, error: &HitError, now: u64) {
        self.end(
            StopReason::Error,
            Some(error.to_string()),
            Some(number),
            now,
        );
    }

    /// Whether a run is on.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// How the run stands, as a qTStatus reply tells it.
    #[must_use]
    pub fn status(&self) -> StatusFields {
        let mut status = self.status.clone();
        status.running = self.running;
        if self.running {
            status.stop_reason = None;
        }
        status.frames = Some(self.store.frames());
        status.frames_created = Some(self.created + self.dropped());
        status.buffer_size = self.store.size();
        status.buffer_free = self
            .store
            .size()
            .map(|size| size.saturating_sub(self.store.used()));
        status.circular = Some(self.store.is_circular());
        status
    }

    /// The user's words for the run, `notes` and `user` of the status, and whether it goes on without a debugger.
    pub fn describe(&mut self, describe: impl FnOnce(&mut StatusFields)) {
        describe(&mut self.status);
    }

    /// The buffer, to save or search it.
    pub const fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// The buffer, to look at.
    #[must_use]
    pub const fn buffer(&self) -> &S {
        &self.store
    }

    /// The buffer, without the experiment.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }

    /// Changes the buffer in a run. What is in the program is taken out before and put back after that: the rings of
    /// jumps do what the buffer does when it is full.
    ///
    /// # Errors
    /// As [`install`](Self::install); the buffer is changed nevertheless.
    pub fn change_store(
        &mut self,
        target: &mut dyn Target,
        change: impl FnOnce(&mut S),
    ) -> Result<(), Vec<InstallError>> {
        self.look();
        let running = std::mem::replace(&mut self.running, false);
        let taken_out = if self.has_pads() {
            self.install(target)
        } else {
            Ok(())
        };
        change(&mut self.store);
        self.running = running;
        taken_out.and(self.install(target))
    }

    /// Takes another buffer, with whatever is in it, and gives back the old one. Not during a run.
    ///
    /// # Errors
    /// Gives the new one back while a run is on.
    pub fn replace_store(&mut self, store: S) -> Result<S, S> {
        if self.running {
            return Err(store);
        }
        Ok(std::mem::replace(&mut self.store, store))
    }
}

fn unknown(number: TracepointNumber, address: Option<Address>) -> UnknownTracepoint {
    match address {
        Some(address) => UnknownTracepoint::Location(number, address),
        None => UnknownTracepoint::Number(number),
    }
}
