//! The experiment: definitions, start and stop, installation, status.

use std::collections::BTreeSet;

use tracewire_agent_expr::{EvaluationError, Verified};
use tracewire_arch::RegisterLayout;
use tracewire_fail_point::fail_point;
use tracewire_model::{
    Address, Aggregate, AggregateTable, Pause, StatusFields, StopReason, TracepointDefinition,
    TracepointNumber, VariableDefinition, VariableNumber,
};
use tracewire_tracefile::RegisterSets;

use crate::breakpoint;
use crate::budget::{Budget, BudgetKeeper, Need};
use crate::counts::Counts;
use crate::error::{DefineError, InstallError, StartError, UnknownTracepoint};
use crate::installed::Installed;
use crate::kept::KeptFor;
use crate::known_registers::KnownRegisters;
use crate::maker::FrameMaker;
use crate::mechanism::{Mechanism, Served};
use crate::options::Options;
use crate::pads::{Account, PadTarget, RunPads};
use crate::pieces::{AddressForm, Pieces};
use crate::plan::Plan;
use crate::rate::{Due, FrameRates};
use crate::run::Run;
use crate::run_end::RunEnd;
use crate::stepping::{Stepping, TracepointKey};
use crate::store::FrameStore;
use crate::target::{StoppedThread, Target};
use crate::tracepoints::{Tracepoint, Tracepoints};
use crate::variables::Variables;
use crate::watches::Watches;

/// Tracepoints, variables, a buffer, and a run of them.
///
/// The experiment decides what is to be installed where, and [`install`](Self::install) carries that out. Call it after every
/// change during a run, and after the run has ended. [`start`](Self::start) and [`stop`](Self::stop) do so themselves.
#[derive(Debug)]
pub struct Experiment<S> {
    pub(crate) options: Options,
    pub(crate) tracepoints: Tracepoints,
    pub(crate) variables: Variables,
    pub(crate) store: S,
    pub(crate) maker: FrameMaker,
    pub(crate) stepping: Stepping,
    pub(crate) known_registers: KnownRegisters,
    pub(crate) run: Run,
    pub(crate) installed: Installed,
    pub(crate) watches: Watches,
    pub(crate) pads: RunPads,
    pub(crate) counts: Counts,
    pub(crate) rates: FrameRates,
    /// The due times in a run without pads, which keep them themselves.
    pub(crate) due: Due,
    pub(crate) budget: BudgetKeeper,
}

impl<S: FrameStore> Experiment<S> {
    /// An experiment without tracepoints. Its variables are the builtin ones: `$trace_timestamp` is 1, `$trace_thread`
    /// is 2, `$trace_cpu` is 3.
    #[must_use]
    pub fn new(options: Options, store: S) -> Self {
        Self {
            options,
            tracepoints: Tracepoints::default(),
            variables: Variables::new(),
            store,
            maker: FrameMaker::new(Pieces::new(options.format.byte_order)),
            stepping: Stepping::default(),
            known_registers: KnownRegisters::default(),
            run: Run::new(),
            installed: Installed::default(),
            watches: Watches::default(),
            pads: RunPads::default(),
            counts: Counts::default(),
            rates: FrameRates::default(),
            due: Due::default(),
            budget: BudgetKeeper::default(),
        }
    }

    /// Adds a tracepoint, or replaces the one with the same number and address. The counts of a replaced one continue during a
    /// run, because a debugger defines a location again when its library is loaded again. Takes effect with
    /// [`install`](Self::install).
    ///
    /// # Errors
    /// When it could not be evaluated or written to a file; nothing has changed then.
    pub fn define(&mut self, definition: TracepointDefinition) -> Result<(), DefineError> {
        let mut plan = Self::plan(&definition)?;
        self.maker.number_sets(&mut plan);
        self.note_sets();
        self.maker.withhold(&definition, &mut plan);
        let key = definition.key();
        self.stepping.forget_tracepoint(key);
        self.installed.outdate(key.1);
        self.look();
        self.pads.fold_counts(key.1, &mut self.tracepoints);
        let tracepoint = Tracepoint::new(definition, plan);
        self.tracepoints.define(tracepoint, self.run.is_on());
        Ok(())
    }

    /// Checks whether a tracepoint could be defined like this, and changes nothing.
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

    /// Enables or disables a tracepoint, at one address or at all of its addresses. Takes effect at once for hits, and with
    /// [`install`](Self::install) for the program: an address with no enabled tracepoint costs nothing.
    ///
    /// # Errors
    /// When there is none.
    pub fn set_enabled(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
        enabled: bool,
    ) -> Result<(), UnknownTracepoint> {
        let found = self.tracepoints.set_enabled(number, address, enabled);
        self.pads.tell_enabled(&self.tracepoints);
        found.then_some(()).ok_or_else(|| unknown(number, address))
    }

    /// Deletes a tracepoint, at one address (after its library was unloaded, say) or all of its addresses. Takes effect in the
    /// program with [`install`](Self::install).
    ///
    /// # Errors
    /// When there is none.
    pub fn delete(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
    ) -> Result<(), UnknownTracepoint> {
        self.look();
        let deleted = self.tracepoints.delete(number, address);
        if deleted.is_empty() {
            return Err(unknown(number, address));
        }
        for key in deleted {
            self.account().forget_pause(key);
            self.stepping.forget_tracepoint(key);
            self.installed.outdate(key.1);
        }
        self.pads.tell_enabled(&self.tracepoints);
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
        if self.run.is_on() {
            self.end(RunEnd::new(StopReason::Command, None), now);
        }
        let installed = target.map_or(Ok(()), |target| self.install(target));
        self.tracepoints = Tracepoints::default();
        self.variables = Variables::new();
        // A store that cannot be emptied is emptied at the next start.
        let _ = self.store.clear();
        self.run.forget_frames();
        self.counts.clear();
        self.pads.forget_losses();
        self.known_registers.clear();
        installed
    }

    /// All tracepoints, in the order in which they were defined.
    pub fn tracepoints(&self) -> impl Iterator<Item = &Tracepoint> {
        self.tracepoints.iter()
    }

    /// Adds or replaces a trace state variable. A builtin one is recognized by its name, so that a debugger can give it another
    /// number.
    pub fn define_variable(&mut self, definition: VariableDefinition) {
        self.variables.define(definition);
    }

    /// All variables by rising number. One that has no name was made by an expression that uses it.
    pub fn variables(&self) -> impl Iterator<Item = &VariableDefinition> {
        self.variables.definitions()
    }

    /// The value of a variable; `None` for one that does not exist and for the builtin ones, which need a thread.
    #[must_use]
    pub fn variable(&self, number: VariableNumber) -> Option<i64> {
        self.variables.stored(number)
    }

    /// Begins a run: counts from 0, variables at their initial values, an empty buffer. `now` is in microseconds, by the
    /// target's clock.
    ///
    /// # Errors
    /// When it cannot; then nothing is installed, and the frames of the last run are deleted.
    pub fn start(&mut self, target: &mut dyn Target, now: u64) -> Result<(), StartError> {
        if self.run.is_on() {
            return Err(StartError::Running);
        }
        if self.tracepoints.len() == 0 {
            return Err(StartError::NoTracepoints);
        }
        self.start_awaiting(target, now)
    }

    /// Begins a run as [`start`](Self::start) does, also without any tracepoint: a debugger's may wait for a library.
    ///
    /// # Errors
    /// As [`start`](Self::start), except for that.
    pub fn start_awaiting(&mut self, target: &mut dyn Target, now: u64) -> Result<(), StartError> {
        if self.run.is_on() {
            return Err(StartError::Running);
        }
        // The tracepoints of a run that a pad has ended may still be installed.
        if let Err(errors) = self.install(target)
            && self.pads.get().is_some()
        {
            return Err(StartError::CannotInstall(errors));
        }
        self.pads.forget_losses();
        self.store.clear()?;
        self.variables.reset();
        self.stepping.clear();
        self.run.forget_frames();
        self.known_registers.clear();
        self.number_all_sets();
        self.tracepoints.reset_counts();
        self.counts.clear();
        self.due.forget();
        self.budget.begin();
        self.run.set_on(true);
        if let Err(errors) = self.install(target) {
            self.run.set_on(false);
            // A failed insertion needs no removal; the target has already reported other errors.
            _ = self.install(target);
            return Err(StartError::CannotInstall(errors));
        }
        self.run.begin(now);
        Ok(())
    }

    /// Hits of this run that made no frame because of a rate, as far as [`look`](Self::look) has seen.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.tracepoints.iter().map(Tracepoint::skipped).sum()
    }

    /// Limits how many frames hits make. Call it before the run is started.
    pub fn limit_rates(&mut self, rates: FrameRates) {
        self.rates = rates;
    }

    /// Ends the run for `reason`, with the user's note, and removes everything from the program. After a run that has ended by
    /// itself, only the removal is done.
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
        self.end_run(reason, text, now);
        self.install(target)
    }

    /// Ends the run and removes the tracepoints from the program, as [`stop`](Self::stop) does. Threads may still be in pads: to leave
    /// them, they only need to run. The pads stay until [`empty_pads`](Self::empty_pads) and [`remove_pads`](Self::remove_pads) are
    /// called.
    ///
    /// # Errors
    /// As [`install`](Self::install); what could not be removed is tried again by the next call.
    pub fn halt(
        &mut self,
        target: &mut dyn Target,
        reason: StopReason,
        text: Option<String>,
        now: u64,
    ) -> Result<(), Vec<InstallError>> {
        self.end_run(reason, text, now);
        self.change_places(target)
    }

    fn end_run(&mut self, reason: StopReason, text: Option<String>, now: u64) {
        // A pad may have ended the run, which is not noted yet.
        self.look();
        if self.run.is_on() {
            let end = RunEnd {
                text,
                ..RunEnd::new(reason, None)
            };
            self.end(end, now);
        }
    }

    /// Ends the run in any state; tracepoints stay installed until the next [`install`](Self::install).
    pub(crate) fn end(&mut self, end: RunEnd, now: u64) {
        self.run.end(end, now);
        self.account().end_pauses(now);
        self.pads.end();
        self.stepping.clear();
    }

    /// Whether a run is on.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.run.is_on()
    }

    /// The state of the run, as in a qTStatus reply.
    #[must_use]
    pub fn status(&self) -> StatusFields {
        self.run.status(&self.store, self.pads.dropped())
    }

    /// The user's notes about the run, `notes` and `user` of the status, and whether it goes on without a debugger.
    pub fn describe(&mut self, describe: impl FnOnce(&mut StatusFields)) {
        self.run.describe(describe);
    }

    /// The buffer, to save or search it.
    pub const fn store(&mut self) -> &mut S {
        &mut self.store
    }

    /// The buffer, read-only.
    #[must_use]
    pub const fn buffer(&self) -> &S {
        &self.store
    }

    /// The buffer, without the experiment.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }

    /// Changes the buffer during a run. Tracepoints are removed before and inserted again after that: the rings of jumps follow
    /// the buffer's rule for a full buffer.
    ///
    /// # Errors
    /// As [`install`](Self::install); the buffer is changed nevertheless.
    pub fn change_store(
        &mut self,
        target: &mut dyn Target,
        change: impl FnOnce(&mut S),
    ) -> Result<(), Vec<InstallError>> {
        self.look();
        let running = self.run.set_on(false);
        let taken_out = if self.pads.get().is_some() {
            self.install(target)
        } else {
            Ok(())
        };
        change(&mut self.store);
        self.run.set_on(running);
        taken_out.and(self.install(target))
    }

    /// Continues in another buffer during a run, while no thread of the program runs: earlier frames are in the old one, later
    /// ones in the new one. Nothing changes in the program, and no hit is missed. Returns the old buffer, and the state of the
    /// run with it. `now` is the end of that part and the beginning of the next, which may have a first frame that is older: then its
    /// time is the beginning. Counts of tracepoints continue.
    ///
    /// # Errors
    /// Returns the new one if there is no run.
    pub fn continue_in(&mut self, store: S, now: u64) -> Result<(S, StatusFields), S> {
        self.look_at_rest();
        if !self.run.is_on() {
            return Err(store);
        }
        let status = self.run.end_part(&self.store, self.pads.dropped(), now);
        Ok((std::mem::replace(&mut self.store, store), status))
    }

    /// Replaces the buffer by another one with its content, and returns the old one. Not during a run.
    ///
    /// # Errors
    /// Returns the new one during a run.
    pub fn replace_store(&mut self, store: S) -> Result<S, S> {
        if self.run.is_on() {
            return Err(store);
        }
        Ok(std::mem::replace(&mut self.store, store))
    }

    /// Limits the time of each cpu that the tracepoints may take. Call it before the run is started.
    pub fn limit_cost(&mut self, budget: Budget) {
        self.budget.set(Some(budget));
    }

    /// The limit of the time of each cpu that the tracepoints may take.
    #[must_use]
    pub const fn budget(&self) -> Option<Budget> {
        self.budget.budget()
    }

    /// Sets the number of processes that share the budget equally.
    pub fn share_budget(&mut self, processes: u64) {
        if self.budget.share(processes)
            && let Some(factor) = self.budget.factor()
            && let Some(pads) = self.pads.get_mut()
        {
            pads.set_budget(factor);
        }
    }

    /// When a tracepoint was out of the program so far, because of the budget. A pause is included once it has ended: at the
    /// latest at the end of the run. Tracepoints that were deleted since are included, too.
    #[must_use]
    pub fn pauses(&self, key: TracepointKey) -> &[Pause] {
        self.budget.pauses(key)
    }

    /// Forgets the pauses that have ended, which the file of a part of the run has.
    pub fn forget_pauses(&mut self) {
        self.budget.forget_pauses();
    }

    /// Removes tracepoints that cost too much, or inserts them again. Call it when
    /// [`LookAround::Change`](crate::LookAround::Change) has requested it, while the program is stopped.
    ///
    /// # Errors
    /// As [`install`](Self::install). Failed insertions are tried again later.
    pub fn keep_budget(&mut self, target: &mut dyn Target) -> Result<(), Vec<InstallError>> {
        if !self.run.is_on() {
            return Ok(());
        }
        self.look_at_rest();
        let mut installed = Ok(());
        match self.account().need() {
            Need::Nothing | Need::Watch => {}
            Need::TakeOut => {
                self.account().pause_dearest();
                fail_point!("budget/taking-out");
                installed = self.install(target);
            }
            Need::PutBack => {
                let back = self.budget.take_out();
                installed = self.install(target);
                let now = self.account().clock();
                for (address, from) in back {
                    let is_back = self.installed.served(address).is_some();
                    if is_back || !self.tracepoints.is_enabled(address) {
                        self.account().note_pause(address, from, now);
                    } else {
                        self.budget.begin_pause(address, from);
                    }
                }
            }
        }
        self.account().changed();
        installed
    }

    pub(crate) fn account(&mut self) -> Account<'_> {
        Account {
            keeper: &mut self.budget,
            pads: &mut self.pads,
            tracepoints: &self.tracepoints,
        }
    }

    /// Evaluates the condition or a command of a debugger's breakpoint for a thread that is stopped there, also without a run.
    /// Printed text is appended to `output`; collected data is dropped.
    ///
    /// # Errors
    /// When it fails; effects before the failure remain.
    pub fn evaluate(
        &mut self,
        program: &Verified,
        thread: &mut dyn StoppedThread,
        output: &mut Vec<u8>,
    ) -> Result<Option<u64>, EvaluationError> {
        breakpoint::evaluate(
            program,
            &mut self.maker,
            &mut self.variables,
            thread,
            output,
        )
    }

    /// The aggregates of the run: those of stops, and those of pads so far.
    #[must_use]
    pub fn aggregates(&self) -> Vec<(TracepointNumber, Aggregate, AggregateTable)> {
        self.counts.with_pads(self.pads.get())
    }

    /// Inserts into the program what should be there and removes what should not. Every address is tried.
    ///
    /// # Errors
    /// The addresses that the target could not serve. They are tried again the next time, unless their tracepoints
    /// have been deleted.
    pub fn install(&mut self, target: &mut dyn Target) -> Result<(), Vec<InstallError>> {
        let changed = self.change_places(target);
        self.empty_pads(target);
        self.remove_pads(target);
        changed
    }

    /// Inserts and removes tracepoints, as [`install`](Self::install) does. The pads stay.
    fn change_places(&mut self, target: &mut dyn Target) -> Result<(), Vec<InstallError>> {
        let mut wanted = if self.run.is_on() {
            self.tracepoints.enabled()
        } else {
            BTreeSet::new()
        };
        wanted.retain(|address| !self.budget.is_out(*address));
        let mut failures = Vec::new();
        for address in self.installed.unwanted(&wanted) {
            fail_point!("install/remove");
            let taken_out = match self.watches.take_out(address, target) {
                true => Ok(()),
                false => target.remove(address),
            };
            match taken_out {
                Ok(()) => self.installed.remove(address),
                Err(error) => failures.push((address, error)),
            }
        }
        for address in self.installed.missing(&wanted) {
            fail_point!("install/put-in");
            match self.put_in(address, target) {
                Ok(()) => self.installed.insert(address),
                Err(error) => failures.push((address, error)),
            }
        }
        fail_point!("install/installed");
        for (address, reason) in target.pads().into_iter().flat_map(PadTarget::take_demoted) {
            self.pads.fold_counts(address, &mut self.tracepoints);
            self.installed.serve(address, Served::Trap(Some(reason)));
        }
        if failures.is_empty() {
            return Ok(());
        }
        failures.sort_by_key(|(address, _)| *address);
        let tracepoints = &self.tracepoints;
        let failed = failures.into_iter().map(|(address, error)| InstallError {
            address,
            numbers: tracepoints
                .at(address)
                .map(|tracepoint| tracepoint.definition().number)
                .collect(),
            error,
        });
        Err(failed.collect())
    }

    /// The program was replaced or memory of it was unmapped, and with it what was installed at `gone`.
    pub fn forget_installed(&mut self, gone: impl Fn(Address) -> bool) {
        self.watches.forget(&gone);
        self.installed.forget(gone);
    }

    /// Chooses the mechanism for tracepoints from now on.
    pub const fn set_mechanism(&mut self, mechanism: Mechanism) {
        self.installed.set_mechanism(mechanism);
    }

    /// The mechanism for tracepoints.
    #[must_use]
    pub const fn mechanism(&self) -> Mechanism {
        self.installed.mechanism()
    }

    /// Allows a fast tracepoint to be a trap where no jump is possible. A debugger's run would otherwise not start because of a
    /// breakpoint at that place.
    pub const fn let_fast_trap(&mut self) {
        self.installed.let_fast_trap();
    }

    /// How the tracepoints at an address are served; `None` where none is installed.
    #[must_use]
    pub fn served(&self, address: Address) -> Option<&Served> {
        self.installed.served(address)
    }

    /// How the tracepoints at an address were served when they were installed last; `None` if they never were.
    #[must_use]
    pub fn last_served(&self, address: Address) -> Option<&Served> {
        self.installed.last_served(address)
    }

    /// Makes frames keep the requested registers and the program counter, instead of whole register blocks of this layout. This
    /// is for a buffer whose frames are expanded ([`RegisterSets::expand`]) when they are read, and not for one where every frame
    /// must have a register block ([`Registers::Always`](crate::Registers::Always)). Existing frames are discarded: the program may
    /// have become one for another machine. Nothing changes during a run.
    pub fn keep_asked_registers(&mut self, layout: RegisterLayout) {
        if self.run.is_on() {
            return;
        }
        self.options.format.register_block_size = layout.size();
        // A store that cannot be emptied is emptied at the next start.
        let _ = self.store.clear();
        self.keep_registers_for(layout, KeptFor::Debugger);
    }

    /// Makes each frame keep the requested registers, the program counter and the stack pointer, instead of a whole register block of
    /// this layout. The store learns which sets of registers there are ([`FrameStore::note_sets`]). Call it before tracepoints are
    /// defined.
    pub fn keep_needed_registers(&mut self, layout: RegisterLayout) {
        self.keep_registers_for(layout, KeptFor::Values);
    }

    fn keep_registers_for(&mut self, layout: RegisterLayout, purpose: KeptFor) {
        self.maker.keep_registers(layout, purpose);
        self.number_all_sets();
    }

    fn number_all_sets(&mut self) {
        self.maker.number_all_sets(self.tracepoints.plans());
        self.note_sets();
    }

    /// Tells the store which sets of registers frames have from now on.
    fn note_sets(&mut self) {
        if let Some(sets) = self.maker.register_sets() {
            self.store.note_sets(sets);
        }
    }

    /// Sets the layout of frames' register blocks, for tracepoints whose frames do not have all registers. Call it before they
    /// are defined.
    pub fn set_register_layout(&mut self, layout: RegisterLayout) {
        self.maker.set_layout(layout);
    }

    /// The register sets of the frames in the buffer; `None` if frames have whole register blocks.
    #[must_use]
    pub fn register_sets(&self) -> Option<&RegisterSets> {
        self.maker.register_sets()
    }

    /// The known bytes of the register block of a frame, by its number among the kept frames; `None` if all are known.
    #[must_use]
    pub fn known_registers(&self, frame: u64) -> Option<&[bool]> {
        let dropped = self.run.created().saturating_sub(self.store.frames());
        self.known_registers.of(dropped.saturating_add(frame))
    }

    /// Which bytes of the register blocks are known, from the frame of each number on, counted from the run's start; none
    /// means all.
    #[must_use]
    pub fn known_registers_of_frames(&self) -> &[(u64, Option<Vec<bool>>)] {
        self.known_registers.all()
    }

    /// Sets the form of addresses in frames. GDB only finds memory in its own form.
    pub const fn set_address_form(&mut self, form: AddressForm) {
        self.maker.set_address_form(form);
    }
}

fn unknown(number: TracepointNumber, address: Option<Address>) -> UnknownTracepoint {
    match address {
        Some(address) => UnknownTracepoint::Location(number, address),
        None => UnknownTracepoint::Number(number),
    }
}
