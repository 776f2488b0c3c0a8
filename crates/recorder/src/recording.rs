//! A recording from the first look at the program to the finished file.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracewire_agent_expr::verify;
use tracewire_experiment::{
    Experiment, FrameRates, FrameStore as _, HitCost, InstallError, LocationCost, MarkerValue,
    Missing, PadTarget, Served,
};
use tracewire_expr::{MarkerArgument, marker_arguments};
use tracewire_fail_point::fail_point;
use tracewire_model::{Address, StatusFields, StopReason, Tracepoint, TracepointNumber};
use tracewire_script::{Pending, Placed, Resolver};
use tracewire_target_linux::{Event, Priority, Process, SharedMemory};
use tracewire_tracefile::lean::kept_lines;

use crate::buffer::Buffer;
use crate::describe::{self, Past, PastTracepoints};
use crate::error::RecordError;
use crate::handler::RecordingHandler;
use crate::indirect;
use crate::limits::BudgetPart;
use crate::lookup::LookupKey;
use crate::modules::Modules;
use crate::observer::{Installed, Observer, RecordEvent, Warning};
use crate::options::RecordOptions;
use crate::origin::{Origin, leave};
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::oversight::Oversight;
use crate::prepare::Prepared;
use crate::registers::{self, Room};
use crate::report::FileShare;
use crate::report::{Ending, Report, program_words};
use crate::rotation::{self, Rotation};
use crate::start::{KeepGoing, start_run};
use crate::stop::{Stop, StopHandle};

/// What the status of a file says whose run goes on.
const GOES_ON: &str = "the run goes on in the next file";

/// A program with tracepoints in it.
pub struct Recording<'o> {
    process: Process,
    origin: Origin,
    modules: Modules,
    resolver: Resolver,
    experiment: Experiment<Buffer>,
    registers: Room,
    /// What the markers say that tracepoints are on.
    markers: BTreeMap<Address, Vec<MarkerValue>>,
    /// Whether a tracepoint counts something.
    is_counting: bool,
    /// Whether hits may be skipped, of the tracepoints that are there: for their rates, or for the budget.
    has_rates: bool,
    rates: FrameRates,
    part: BudgetPart,
    tell_costs: bool,
    next_aggregates: Instant,
    rotation: Option<Rotation>,
    settings: StatusFields,
    past: PastTracepoints,
    pending: Vec<Pending>,
    duration: Option<Duration>,
    stop: StopHandle,
    observer: Box<dyn Observer + 'o>,
    stop_notes: Option<String>,
    ever_placed: bool,
    begun: u64,
    keep_going: KeepGoing,
    oversight: Oversight,
    /// The file of the program.
    program: PathBuf,
    /// What another child can have of the modules and the places in them, as long as they are those of the beginning.
    lookup: Option<LookupKey>,
    /// How the run has ended, if that is before its [`end`](Self::end).
    ended: Option<Ended>,
}

/// How a run has ended.
struct Ended {
    ending: Ending,
    failure: Option<RecordError>,
    /// When, in microseconds since 1970.
    now: u64,
    /// Whether the pads are gone from the program, too.
    has_left_pads: bool,
    /// The memory of the pads, which is freed when the program runs again.
    _memory: Option<SharedMemory>,
}

impl<'o> Recording<'o> {
    /// Looks the tracepoints up, makes the file, and puts in what can be put in by now.
    ///
    /// # Errors
    /// With the program left as it was, or ended if it was started for this.
    pub fn begin(
        mut process: Process,
        origin: Origin,
        options: RecordOptions,
        stop: StopHandle,
        mut observer: Box<dyn Observer + 'o>,
    ) -> Result<Self, RecordError> {
        if process.jumps_taken_over() > 0 {
            observer.event(RecordEvent::JumpsTakenOver(process.jumps_taken_over()));
        }
        let oversight = options.oversight.clone();
        let id = process.id();
        let prepared = (oversight.check_process(id))
            .and_then(|()| Prepared::new(&mut process, origin, &options, &stop, &mut *observer))
            .and_then(|prepared| {
                oversight.check_places(id, &prepared.resolution.placed)?;
                let program = oversight.begin(id, &options.script)?;
                let made = prepared.experiment(&mut process, origin, &options, &mut *observer)?;
                fail_point!("record/prepared");
                Ok((prepared, made, program))
            });
        let (prepared, made, program) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                leave(process, origin);
                return Err(error);
            }
        };
        let mut recording = Self {
            process,
            origin,
            modules: prepared.modules,
            resolver: prepared.resolver,
            pending: prepared.resolution.pending,
            experiment: made.experiment,
            registers: made.registers,
            settings: made.settings,
            past: PastTracepoints::default(),
            markers: BTreeMap::new(),
            is_counting: false,
            has_rates: false,
            next_aggregates: Instant::now(),
            rotation: None,
            keep_going: options.keep_going(),
            oversight,
            program,
            lookup: prepared.key,
            ended: None,
            rates: options.rates,
            part: options.budget.join(),
            tell_costs: options.tell_costs || options.budget.budget.is_some(),
            stop_notes: options.script.settings.stop_notes,
            ever_placed: false,
            duration: options.duration,
            stop,
            observer,
            begun: now(),
        };
        for placed in &prepared.resolution.placed {
            recording.prepare_marker(placed);
        }
        match recording.place(Vec::new()) {
            Ok(()) => {
                recording.rotation = (options.rotation)
                    .filter(|_| !recording.experiment.buffer().is_circular())
                    .map(|every| Rotation::new(every, &recording.experiment));
                Ok(recording)
            }
            Err(error) => {
                leave(recording.process, origin);
                recording.experiment.into_store().discard();
                Err(error)
            }
        }
    }

    /// Lets the program run until the run is over, lets it go, and writes the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn run(mut self) -> Result<Report, RecordError> {
        let ending = self.begun().and_then(|()| self.run_to_end());
        fail_point!("record/ended");
        let _priority = (!self.origin.is_started()).then(Priority::raise_niceness);
        self.end(ending)
    }

    /// The program is about to run.
    ///
    /// # Errors
    /// When the time of the run cannot be taken.
    pub fn begun(&mut self) -> Result<(), RecordError> {
        let counters = self.experiment.store().counters();
        let growing = self.experiment.store().followed_path();
        self.observer
            .event(RecordEvent::Begun { counters, growing });
        fail_point!("record/run");
        if let Some(duration) = self.duration {
            self.stop
                .stop_after(duration)
                .map_err(RecordError::Thread)?;
        }
        Ok(())
    }

    /// Lets the program go, and writes the file.
    ///
    /// # Errors
    /// When the file cannot be written, and the error that the run has ended with.
    pub fn end(mut self, ending: Result<Ending, RecordError>) -> Result<Report, RecordError> {
        // The pages are freed when the program runs again.
        let _memory = self.process.pad_memory();
        let ended = self.ended.take_if(|ended| ended.has_left_pads);
        let (ending, failure, now) = match ended {
            Some(ended) => (ended.ending, ended.failure, ended.now),
            None => {
                let now = now();
                let (ending, failure) = self.stop_run(ending, now);
                (ending, failure, now)
            }
        };
        self.finish(ending, failure, now, Next::LetGo).1
    }

    /// Ends the run and takes its tracepoints out of the program, which is stopped. Its threads may be in pads: it is to run for a
    /// moment before [`leave_pads`](Self::leave_pads).
    pub fn take_out(&mut self, ending: Result<Ending, RecordError>) {
        let now = now();
        self.observer.event(RecordEvent::Over);
        let (ending, failure) = split(ending);
        let text = self.stop_text(&ending);
        if self.experiment.is_running() || self.ever_placed {
            // What stays is tried again with the pads.
            let _ = self
                .experiment
                .halt(&mut self.process, StopReason::Command, text, now);
        }
        fail_point!("record/halted");
        self.ended = Some(Ended {
            ending,
            failure,
            now,
            has_left_pads: false,
            _memory: self.process.pad_memory(),
        });
    }

    /// Takes everything else out of the program, which is stopped: [`end`](Self::end) lets it go at once.
    pub fn leave_pads(&mut self) {
        if let Some(mut ended) = self.ended.take() {
            self.stop_experiment(&ended.ending, ended.now);
            let cleared = self.process.clear_out();
            self.note_leaving(cleared);
            fail_point!("record/cleared");
            ended.has_left_pads = true;
            self.ended = Some(ended);
        }
    }

    /// Lets the program go, from which everything is taken out; [`end`](Self::end) writes the file.
    pub fn let_go(&mut self) {
        let gone = self.process.let_go();
        self.note_leaving(gone);
    }

    fn note_leaving(&mut self, result: Result<(), tracewire_target_linux::Error>) {
        if let Err(error) = result {
            let words = format!("letting the program go: {error}");
            self.warn(Warning::Detach(words));
        }
    }

    /// Writes the file of a program that has become another one, and gives the process.
    pub fn end_image(mut self) -> (Option<Process>, Result<Report, RecordError>) {
        let now = now();
        self.lookup = None;
        self.forget(Address(0), Address(u64::MAX));
        self.experiment.forget_installed(|_| true);
        let (ending, failure) = self.stop_run(Ok(Ending::Executed), now);
        self.finish(ending, failure, now, Next::Stays)
    }

    /// Ends the run, with everything taken out of the program.
    fn stop_run(
        &mut self,
        ending: Result<Ending, RecordError>,
        now: u64,
    ) -> (Ending, Option<RecordError>) {
        // It may have been halted before.
        let (ending, failure) = match self.ended.take() {
            Some(ended) => {
                let failure = ended.failure;
                match ending {
                    Ok(ending @ Ending::Program(_)) => (ending, failure),
                    Ok(_) => (ended.ending, failure),
                    Err(error) => (ended.ending, failure.or(Some(error))),
                }
            }
            None => {
                self.observer.event(RecordEvent::Over);
                split(ending)
            }
        };
        self.stop_experiment(&ending, now);
        (ending, failure)
    }

    /// Takes everything of the experiment out of the program.
    fn stop_experiment(&mut self, ending: &Ending, now: u64) {
        let text = self.stop_text(ending);
        if self.experiment.is_running() || self.ever_placed {
            let halted = self
                .experiment
                .halt(&mut self.process, StopReason::Command, text, now);
            self.experiment.empty_pads(&mut self.process);
            // With their memory goes what a later tracer can tell of frames that are in no file.
            self.describe_end();
            self.experiment.remove_pads(&mut self.process);
            // A program that has ended needs nothing taken out.
            if let Err(errors) = halted
                && !matches!(ending, Ending::Program(_))
            {
                self.not_installed(errors);
            }
        }
        fail_point!("record/stopped");
    }

    fn run_to_end(&mut self) -> Result<Ending, RecordError> {
        loop {
            let (process, mut handler) = self.parts();
            let event = process.run(&mut handler)?;
            if let Some(ending) = self.happened(event)? {
                return Ok(ending);
            }
        }
    }

    /// The process, and the handler of its hits.
    pub fn parts(&mut self) -> (&mut Process, RecordingHandler<'_>) {
        let is_lean = self.experiment.register_sets().is_some();
        let handler = RecordingHandler {
            experiment: &mut self.experiment,
            markers: &self.markers,
            is_counting: self.is_counting,
            has_rates: self.has_rates,
            rotation: self.rotation.as_ref(),
            is_lean,
            part: &self.part,
            next_aggregates: &mut self.next_aggregates,
        };
        (&mut self.process, handler)
    }

    /// Acts on what has happened; how the run is over, if it is.
    pub fn happened(&mut self, event: Event) -> Result<Option<Ending>, RecordError> {
        let stop = self.stop.clone();
        match event {
            event @ (Event::Exited(_) | Event::Killed { .. }) => {
                // A jump may have ended the run between two looks.
                self.experiment.look();
                if self.ever_placed && !self.experiment.is_running() {
                    let status = self.experiment.status();
                    self.observer
                        .event(RecordEvent::EndedBeforeProgram(&status));
                }
                return Ok(Some(Ending::Program(event)));
            }
            Event::RunEnded => {
                return Ok(Some(match self.stop.stopped() {
                    Some(stop @ (Stop::Frames(_) | Stop::Triggered { .. })) => {
                        Ending::Stopped(stop)
                    }
                    _ => Ending::Itself,
                }));
            }
            Event::Interrupted => match self.stop.stopped() {
                Some(Stop::OutOfMemory) => return Err(OutOfMemory.into()),
                Some(stop) => return Ok(Some(Ending::Stopped(stop))),
                None => {}
            },
            Event::ChangeWanted => {
                let kept = stop.hold(|| self.experiment.keep_budget(&mut self.process));
                if let Err(errors) = kept {
                    self.not_installed(errors);
                }
            }
            Event::LibrariesChanged => stop.hold(|| self.modules_changed(false))?,
            Event::Resolver(thread) => {
                if let Some((resolver, selected)) = self.process.resolver_reached(thread) {
                    stop.hold(|| self.selected(resolver, selected))?;
                }
            }
            Event::Exec => {
                self.observer.event(RecordEvent::Exec);
                if self.process.architecture() != self.registers.machine {
                    return Ok(Some(Ending::OtherMachine));
                }
                stop.hold(|| self.modules_changed(true))?;
            }
            _ => {}
        }
        Ok((self.ever_placed && !self.experiment.is_running()).then_some(Ending::Itself))
    }

    /// Whether the next file is to begin.
    pub fn rotation_is_due(&self) -> bool {
        let rotation = self.rotation.as_ref();
        rotation.is_some_and(|rotation| rotation.is_due(&self.experiment))
    }

    /// Finishes the file, and goes on in the next one, while the program is stopped. Gives what the file before has, if the run goes on.
    ///
    /// # Errors
    /// When the next one cannot be made: the run goes on in the one before.
    pub fn rotate(&mut self, path: &Path) -> Result<Option<FileShare>, RecordError> {
        let Some(mut rotation) = self.rotation.take() else {
            return Ok(None);
        };
        let rotated = self.continue_in(path, &mut rotation);
        if rotated.is_err() {
            rotation.failed();
        }
        self.rotation = Some(rotation);
        rotated
    }

    /// Says that the next file was not begun.
    pub fn not_rotated(&mut self, error: &RecordError) {
        if let Some(rotation) = &mut self.rotation {
            rotation.failed();
        }
        let words = format!("the next trace file is not begun: {error}");
        self.warn(Warning::Rotation(words));
    }

    fn continue_in(
        &mut self,
        path: &Path,
        rotation: &mut Rotation,
    ) -> Result<Option<FileShare>, RecordError> {
        let description = describe::description(
            &self.experiment,
            &self.past,
            &self.modules,
            self.registers,
            &self.settings,
        )?;
        let next = self.experiment.buffer().next(path, &description)?;
        fail_point!("rotate/made");
        let (finished, mut status) = match self.experiment.continue_in(next, now()) {
            Ok(continued) => continued,
            // The run has ended by what came last.
            Err(next) => {
                next.discard();
                return Ok(None);
            }
        };
        fail_point!("rotate/continued");
        // From now on a rescue looks in the new file for the frame that was on its way.
        self.describe();
        fail_point!("rotate/described");
        status.stop_text = Some(GOES_ON.to_owned());
        let frames = finished.frames();
        let created = status.frames_created.unwrap_or(frames);
        let all = describe::tracepoints(&self.experiment, &self.past);
        let share = rotation.share(&self.experiment, &all, frames);
        let mut own = all.clone();
        rotation.since(&mut own);
        let description = describe::of_file(
            &self.experiment,
            own,
            status,
            &self.modules,
            self.registers,
            &self.settings,
        );
        rotation.finished(&self.experiment, &all, frames, created);
        self.experiment.forget_pauses();
        let written = description
            .map_err(RecordError::from)
            .and_then(|description| finished.finish(&description));
        fail_point!("rotate/finished");
        if let Err(error) = written {
            // It is there, under the name that it had while it grew.
            self.warn(Warning::Rotation(error.to_string()));
        }
        Ok(Some(share))
    }

    /// Looks at the modules again: what is gone is taken out, what has come is searched for tracepoints.
    fn modules_changed(&mut self, exec: bool) -> Result<(), RecordError> {
        self.lookup = None;
        let now = now();
        let loaded = self.process.modules()?;
        let change = self.read_symbols(move |modules, _| modules.update(&loaded, now))?;
        for warning in change.warnings {
            self.warn(warning);
        }
        let everything = (Address(0), Address(u64::MAX));
        let gone = if exec { vec![everything] } else { change.gone };
        for (from, to) in &gone {
            self.forget(*from, *to);
        }
        if exec {
            self.experiment.forget_installed(|_| true);
        } else if !gone.is_empty() && self.experiment.is_running() {
            // Out of the target's books too: the same addresses may be used again. Memory that is gone cannot
            // be written, and need not be.
            let _ = self.experiment.install(&mut self.process);
        }
        if change.came || exec {
            self.look_up()?;
        }
        if change.came || !gone.is_empty() {
            self.describe();
        }
        Ok(())
    }

    /// Looks the tracepoints up again, and puts in what is found.
    fn look_up(&mut self) -> Result<(), RecordError> {
        let mut resolution =
            self.read_symbols(|modules, resolver| resolver.resolve(modules.symbols()))?;
        indirect::settle(
            &mut self.process,
            &mut self.modules,
            &mut self.resolver,
            &mut resolution,
            &mut *self.observer,
        );
        for excessive in resolution.excessive.drain(..) {
            let warning = Warning::Excessive(excessive);
            self.observer.event(RecordEvent::Warning(warning));
        }
        if !resolution.problems.is_empty() {
            self.observer
                .event(RecordEvent::Problems(&resolution.problems));
        }
        if !resolution.warnings.is_empty() {
            self.observer
                .event(RecordEvent::ResolveWarnings(&resolution.warnings));
        }
        self.pending = resolution.pending;
        let mut denied = Vec::new();
        resolution
            .placed
            .retain(|placed| match self.oversight.check_place(placed) {
                Ok(()) => true,
                Err(reason) => {
                    denied.push(reason);
                    false
                }
            });
        for reason in denied {
            self.warn(Warning::Denied(reason));
        }
        self.place(resolution.placed)
    }

    /// Does what may read any amount of symbols. Where there is no memory for them, the names of the modules are kept for the
    /// file.
    fn read_symbols<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Modules, &mut Resolver) -> R + Send + 'static,
    ) -> Result<R, RecordError> {
        let mut modules = self.modules.take_present();
        let empty = Resolver::new(tracewire_script::Script::new());
        let mut resolver = std::mem::replace(&mut self.resolver, empty);
        let (modules, resolver, result) = Expendable::wait(move || {
            let result = work(&mut modules, &mut resolver);
            (modules, resolver, result)
        })?;
        self.modules.put_back(modules);
        self.resolver = resolver;
        Ok(result)
    }

    /// The resolver of an indirect function has selected an implementation.
    fn selected(&mut self, resolver: Address, selected: Address) -> Result<(), RecordError> {
        if !self.modules.symbols_mut().select(resolver, selected) {
            return Ok(());
        }
        self.lookup = None;
        self.process.leave_resolver(resolver);
        self.look_up()
    }

    /// Forgets what was in a range of addresses, but not what it has done.
    fn forget(&mut self, from: Address, to: Address) {
        self.resolver.forget(from, to);
        // What they have done is known once all their frames have come.
        self.experiment.look_at_rest();
        self.process.forget_resolvers(from, to);
        let gone: Vec<Past> = self
            .experiment
            .tracepoints()
            .filter(|tracepoint| (from..to).contains(&tracepoint.definition().address))
            .map(|tracepoint| Past {
                tracepoint: Tracepoint {
                    usage: Some(tracepoint.usage()),
                    served: describe::served(&self.experiment, tracepoint),
                    skipped: tracepoint.skipped(),
                    ..Tracepoint::new(tracepoint.definition().clone())
                },
                missing: tracepoint.missing(),
            })
            .collect();
        for past in gone {
            let definition = &past.tracepoint.definition;
            let _ = self
                .experiment
                .delete(definition.number, Some(definition.address));
            self.past.add(past);
        }
    }

    /// Puts tracepoints in; the run starts with the first.
    fn place(&mut self, placed: Vec<Placed>) -> Result<(), RecordError> {
        if !placed.is_empty() {
            self.observer.event(RecordEvent::Placed(&placed));
        }
        let mut addresses: HashSet<Address> =
            placed.iter().map(|one| one.definition.address).collect();
        if !self.ever_placed {
            addresses.extend(
                self.experiment
                    .tracepoints()
                    .map(|tracepoint| tracepoint.definition().address),
            );
        }
        for one in placed {
            self.prepare_marker(&one);
            let number = one.definition.number;
            let left_out = registers::left_out(&one.definition, self.registers);
            if !left_out.is_empty() {
                self.warn(Warning::RegistersLeftOut {
                    number,
                    names: left_out,
                });
            }
            if let Err(error) = self.experiment.define(one.definition) {
                self.warn(Warning::NotDefined { number, error });
            }
        }
        self.is_counting = (self.experiment.tracepoints())
            .any(|tracepoint| !tracepoint.definition().counting.aggregates.is_empty());
        let has_budget = self.experiment.budget().is_some();
        self.has_rates = (self.experiment.tracepoints()).any(|tracepoint| {
            has_budget || self.rates.of(tracepoint.definition().number).is_some()
        });
        self.experiment.share_budget(self.part.processes());
        let costs = match self.tell_costs {
            true => self.experiment.costs(&mut self.process),
            false => Vec::new(),
        };
        if !costs.is_empty() {
            self.observer.event(RecordEvent::Costs(&costs));
        }
        if self.experiment.is_running() {
            if let Err(errors) = self.experiment.install(&mut self.process) {
                self.not_installed(errors);
            }
        } else if !self.ever_placed && self.experiment.tracepoints().next().is_some() {
            fail_point!("record/start");
            self.start()?;
            fail_point!("record/started");
            self.describe();
        }
        self.report_traps(costs);
        self.report_installed(&addresses);
        Ok(())
    }

    /// Starts the run. Tracepoints that cannot be put in are an error, or left out.
    fn start(&mut self) -> Result<(), RecordError> {
        let Self {
            experiment,
            process,
            observer,
            keep_going,
            ..
        } = self;
        start_run(experiment, process, now(), keep_going, &mut **observer)?;
        self.ever_placed = true;
        Ok(())
    }

    /// What a marker needs before a tracepoint is put on it: the program must reach it, and what it says must be known.
    fn prepare_marker(&mut self, placed: &Placed) {
        let Some(marker) = &placed.location.marker else {
            return;
        };
        if let Some(semaphore) = marker.semaphore {
            self.process.set_semaphore(marker.address, semaphore);
        }
        let arguments = marker_arguments(self.modules.symbols(), marker);
        let value = |argument: &MarkerArgument| MarkerValue {
            program: argument
                .program
                .as_deref()
                .and_then(|program| verify(program).ok()),
            signed: argument.signed,
        };
        self.markers
            .insert(marker.address, arguments.iter().map(value).collect());
    }

    /// Brings the growing file's description up to date.
    fn describe(&mut self) {
        let description = describe::description(
            &self.experiment,
            &self.past,
            &self.modules,
            self.registers,
            &self.settings,
        );
        if let Ok(description) = description {
            self.experiment.store().describe(&description);
            fail_point!("record/describe");
            let kept = self.experiment.register_sets().map(kept_lines);
            let note = [description.as_bytes(), &kept.unwrap_or_default()].concat();
            self.process.leave_note(&note);
            if let Some(note) = self.process.frames_file_note() {
                self.experiment.store().name_file(note);
            }
        }
    }

    /// Brings the growing file's description up to date with the end of the run: how it has ended, and the final counts.
    fn describe_end(&mut self) {
        let mut status = self.experiment.status();
        // The file says itself how many frames it has: it may have older ones than are kept.
        status.frames = None;
        status.buffer_free = None;
        let mut tracepoints = describe::tracepoints(&self.experiment, &self.past);
        if let Some(rotation) = &self.rotation {
            rotation.since(&mut tracepoints);
        }
        let description = describe::of_file(
            &self.experiment,
            tracepoints,
            status,
            &self.modules,
            self.registers,
            &self.settings,
        );
        // An error is that of `finish`, too, which reports it.
        if let Ok(description) = description {
            self.experiment.store().end(&description);
            fail_point!("record/end-described");
        }
    }

    /// The text for the status line.
    fn stop_text(&self, ending: &Ending) -> Option<String> {
        match ending {
            Ending::Program(event) => Some(program_words(event)),
            // The experiment has one.
            Ending::Itself => None,
            Ending::Executed => Some("the program has become another one".to_owned()),
            Ending::OtherMachine => {
                Some("the program has become one for another machine".to_owned())
            }
            Ending::Failed(text) | Ending::Stub(text) => Some(text.clone()),
            Ending::Stopped(stop) => match (&self.stop_notes, stop) {
                (Some(notes), _) => Some(notes.clone()),
                (None, stop) => Some(stop.to_string()),
            },
        }
    }

    fn warn(&mut self, warning: Warning) {
        self.observer.event(RecordEvent::Warning(warning));
    }

    fn not_installed(&mut self, errors: Vec<InstallError>) {
        for error in errors {
            self.warn(Warning::Install(error));
        }
    }

    /// Reports what hits cost of tracepoints that were to have jumps, and are traps.
    fn report_traps(&mut self, mut costs: Vec<LocationCost>) {
        costs.retain(|one| {
            let served = self.experiment.served(one.key.1);
            one.by_pad && matches!(served, Some(Served::Trap(_)))
        });
        for one in &mut costs {
            one.by_pad = false;
            one.cost = HitCost::of_trap();
        }
        if !costs.is_empty() {
            self.observer.event(RecordEvent::Costs(&costs));
        }
    }

    /// Reports what serves the tracepoints at these addresses.
    fn report_installed(&mut self, addresses: &HashSet<Address>) {
        let mut all = Vec::new();
        for tracepoint in self.experiment.tracepoints() {
            let definition = tracepoint.definition();
            if addresses.contains(&definition.address)
                && let Some(served) = self.experiment.served(definition.address)
            {
                all.push(Installed {
                    number: definition.number,
                    address: definition.address,
                    served: served.clone(),
                });
            }
        }
        if !all.is_empty() {
            self.observer.event(RecordEvent::Installed(&all));
        }
    }

    fn finish(
        mut self,
        ending: Ending,
        failure: Option<RecordError>,
        now: u64,
        next: Next,
    ) -> (Option<Process>, Result<Report, RecordError>) {
        let program_ended = matches!(ending, Ending::Program(_));
        let id = self.process.id();
        let released_children = self.process.released_children();
        let process = match next {
            Next::Stays => Some(self.process),
            Next::LetGo => {
                if !program_ended && let Err(error) = self.process.detach() {
                    let words = format!("letting the program go: {error}");
                    self.observer
                        .event(RecordEvent::Warning(Warning::Detach(words)));
                }
                None
            }
        };
        fail_point!("record/detached");
        // To write the file may take long.
        self.stop.share_soon();
        let mut status = self.experiment.status();
        let (frames, created) = (self.rotation.as_ref()).map_or((0, 0), Rotation::frames);
        let own = status.clone();
        status.frames = status.frames.map(|own| own + frames);
        status.frames_created = status.frames_created.map(|own| own + created);
        let logged =
            self.oversight
                .end(id, &self.program, status.frames_created.unwrap_or_default());
        let failure = failure.or(logged.err());
        let tracepoints = describe::tracepoints(&self.experiment, &self.past);
        let mut of_file = tracepoints.clone();
        if let Some(rotation) = &self.rotation {
            rotation.since(&mut of_file);
        }
        let description = describe::of_file(
            &self.experiment,
            of_file,
            own,
            &self.modules,
            self.registers,
            &self.settings,
        );
        let missing = missing(&self.experiment, &self.past);
        let losses = self.experiment.losses();
        let aggregates = self.experiment.aggregates();
        let frames = self.experiment.buffer().frames();
        let last_file = match &self.rotation {
            Some(rotation) => rotation.share(&self.experiment, &tracepoints, frames),
            None => FileShare {
                frames,
                lost: losses.all(),
                skipped: rotation::skipped(&tracepoints),
            },
        };
        let is_first = (self.rotation.as_ref()).is_none_or(|rotation| rotation.files() == 0);
        let has_counted = match &self.rotation {
            Some(rotation) if !is_first => rotation.has_counted(&self.experiment),
            _ => aggregates.iter().any(|(_, _, table)| !table.is_empty()),
        };
        if let Some(lookup) = self.lookup {
            lookup.keep(self.modules, self.resolver);
        }
        let store = self.experiment.into_store();
        store.counters().set_aggregates(aggregates.clone());
        let keeps_empty_file = self.origin.keeps_empty_file() && is_first;
        let has_file = keeps_empty_file || frames > 0 || has_counted;
        let written = match (has_file, description) {
            (true, Ok(description)) => store.finish(&description),
            (true, Err(error)) => Err(error.into()),
            (false, _) => {
                store.discard();
                Ok(())
            }
        };
        if let Err(error) = written {
            return (process, Err(error));
        }
        self.pending.retain(|pending| {
            let placed = |tracepoint: &Tracepoint| tracepoint.definition.number == pending.number;
            !tracepoints.iter().any(placed)
        });
        let report = Report {
            ending,
            lasted: now.saturating_sub(self.begun),
            status,
            tracepoints,
            missing,
            pending: self.pending,
            process: Some(id),
            spawned: self.origin.is_started(),
            losses,
            last_file,
            released_children,
            aggregates,
        };
        let result = match failure {
            None => Ok(report),
            Some(source) => Err(RecordError::Failed {
                report: Box::new(report),
                source: Box::new(source),
            }),
        };
        (process, result)
    }
}

/// How a run has ended, and with which error.
fn split(ending: Result<Ending, RecordError>) -> (Ending, Option<RecordError>) {
    match ending {
        Ok(ending) => (ending, None),
        Err(error) => (Ending::Failed(error.to_string()), Some(error)),
    }
}

/// What becomes of a process whose recording has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// It runs on without tracepoints.
    LetGo,
    /// It stays traced, for another recording.
    Stays,
}

/// Values that could not be read, by tracepoint.
fn missing(
    experiment: &Experiment<Buffer>,
    past: &PastTracepoints,
) -> Vec<(TracepointNumber, Missing)> {
    let now = experiment
        .tracepoints()
        .map(|tracepoint| (tracepoint.definition().number, tracepoint.missing()));
    let before = past
        .iter()
        .map(|past| (past.tracepoint.definition.number, past.missing));
    let mut all: Vec<(TracepointNumber, Missing)> = Vec::new();
    for (number, missing) in before.chain(now).filter(|(_, missing)| missing.count > 0) {
        match all.iter_mut().find(|(known, _)| *known == number) {
            Some((_, sum)) => {
                sum.count += missing.count;
                sum.first = sum.first.or(missing.first);
            }
            None => all.push((number, missing)),
        }
    }
    all.sort_by_key(|(number, _)| *number);
    all
}

/// Microseconds since 1970, the clock of `$trace_timestamp`.
fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
}
