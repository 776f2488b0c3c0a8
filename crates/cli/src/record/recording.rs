//! A recording from the first look at the program to the finished file.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use tracewire_agent_expr::verify;
use tracewire_experiment::{Experiment, MarkedHandler, MarkerValue, StartError, Target};
use tracewire_expr::{MarkerArgument, marker_arguments};
use tracewire_model::{Address, StatusFields, StopReason, Tracepoint};
use tracewire_script::{Pending, Placed, Resolution, Resolver};
use tracewire_target_linux::{Event, Process};
use tracewire_views::words;

use super::buffer::Buffer;
use super::describe::{self, Past};
use super::indirect;
use super::modules::Modules;
use super::prepare::Prepared;
use super::priority::Priority;
use super::registers::Room;
use super::report::{self, Ending, Report};
use super::signals::{Watch, Wish};
use super::{Request, give_up, once_each, registers, tell};
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::progress::Progress;

/// A program with tracepoints in it.
pub struct Recording {
    process: Process,
    spawned: bool,
    modules: Modules,
    resolver: Resolver,
    experiment: Experiment<Buffer>,
    registers: Room,
    /// What the markers say that tracepoints are on.
    markers: BTreeMap<Address, Vec<MarkerValue>>,
    settings: StatusFields,
    past: Vec<Past>,
    pending: Vec<Pending>,
    /// The name of the file as the user said it.
    shown: PathBuf,
    duration: Option<Duration>,
    watch: Watch,
    stop_notes: Option<String>,
    ever_placed: bool,
    begun: u64,
    keep_going: bool,
    verbose: bool,
}

impl Recording {
    /// Looks the tracepoints up, makes the file, and puts in what can be put in by now.
    ///
    /// # Errors
    /// With the program left as it was, or ended if it was started for this.
    pub fn begin(
        mut process: Process,
        spawned: bool,
        request: Request,
        output: PathBuf,
        watch: &Watch,
    ) -> anyhow::Result<Self> {
        let prepared = Prepared::new(&mut process, spawned, &request, watch).and_then(|prepared| {
            let made = prepared.experiment(&mut process, &request, &output)?;
            Ok((prepared, made))
        });
        let (prepared, made) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                give_up(process, spawned);
                return Err(error);
            }
        };
        let mut recording = Self {
            process,
            spawned,
            modules: prepared.modules,
            resolver: prepared.resolver,
            pending: prepared.resolution.pending,
            experiment: made.experiment,
            registers: made.registers,
            settings: made.settings,
            past: Vec::new(),
            markers: BTreeMap::new(),
            stop_notes: request.script.settings.stop_notes,
            ever_placed: false,
            shown: request.output,
            duration: request.duration,
            watch: watch.clone(),
            begun: now(),
            keep_going: request.keep_going,
            verbose: request.verbose,
        };
        for placed in &prepared.resolution.placed {
            recording.prepare_marker(placed);
        }
        match recording.place(Vec::new()) {
            Ok(()) => Ok(recording),
            Err(error) => {
                give_up(recording.process, spawned);
                recording.experiment.into_store().discard();
                Err(error)
            }
        }
    }

    /// How far the run is, on a terminal that the program does not write to itself.
    fn progress(&mut self) -> Progress {
        if self.spawned && std::io::stdout().is_terminal() {
            return Progress::default();
        }
        let counters = self.experiment.store().counters();
        Progress::begin(move |elapsed| {
            format!(
                "{}, {}, {} s  (^C ends the run)",
                words::count(counters.frames.load(Ordering::Relaxed), "frame"),
                words::bytes(counters.bytes.load(Ordering::Relaxed)),
                elapsed.as_secs(),
            )
        })
    }

    /// Lets the program run until the run is over, lets it go, and writes the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn run(mut self) -> anyhow::Result<Report> {
        let progress = self.progress();
        let ending = self.run_to_end();
        let _priority = (!self.spawned).then(Priority::raise);
        drop(progress);
        let now = now();
        let (ending, failure) = match ending {
            Ok(ending) => (ending, None),
            Err(error) => (Ending::Itself(format!("{error:#}")), Some(error)),
        };
        let (reason, text) = self.stop_words(&ending);
        if self.experiment.is_running() || self.ever_placed {
            // A program that has ended needs nothing taken out.
            if let Err(errors) = self.experiment.stop(&mut self.process, reason, text, now)
                && !matches!(ending, Ending::Program(_))
            {
                for error in errors {
                    report::warn(error);
                }
            }
        }
        self.finish(ending, failure, now)
    }

    fn run_to_end(&mut self) -> anyhow::Result<Ending> {
        if let Some(duration) = self.duration {
            self.watch.end_after(duration)?;
        }
        let watch = self.watch.clone();
        loop {
            let mut handler = MarkedHandler::new(&mut self.experiment, &self.markers);
            match self.process.run(&mut handler)? {
                event @ (Event::Exited(_) | Event::Killed { .. }) => {
                    // A jump may have ended the run while nobody looked.
                    self.experiment.look();
                    if self.ever_placed && !self.experiment.is_running() {
                        report::say(self.own_end());
                    }
                    return Ok(Ending::Program(event));
                }
                Event::RunEnded => return Ok(self.ended_itself()),
                Event::Interrupted => {
                    if let Some(wish) = self.watch.wish() {
                        return Ok(Ending::Asked(match wish {
                            Wish::Keyboard => "the run was ended by ^C",
                            Wish::Signal(libc::SIGTERM) => "the run was ended by SIGTERM",
                            Wish::Signal(libc::SIGHUP) => "the run was ended by SIGHUP",
                            Wish::Signal(_) => "the run was ended by a signal",
                            Wish::Duration => "the time is over",
                            Wish::OutOfMemory => bail!("the run was ended: {OutOfMemory}"),
                        }));
                    }
                }
                Event::LibrariesChanged => watch.hold(|| self.modules_changed(false))?,
                Event::Resolver(thread) => {
                    if let Some((resolver, selected)) = self.process.resolver_reached(thread) {
                        watch.hold(|| self.selected(resolver, selected))?;
                    }
                }
                Event::Exec => {
                    report::say("the program has become another one");
                    if self.process.architecture() != self.registers.machine {
                        let words = "the program has become one for another machine";
                        return Ok(Ending::Itself(words.to_owned()));
                    }
                    watch.hold(|| self.modules_changed(true))?;
                }
                _ => {}
            }
            if self.ever_placed && !self.experiment.is_running() {
                return Ok(self.ended_itself());
            }
        }
    }

    fn ended_itself(&self) -> Ending {
        Ending::Itself(self.own_end())
    }

    fn own_end(&self) -> String {
        let status = self.experiment.status();
        let words = tracewire_views::table::stop_words(&(&status).into());
        format!("the run was {words}")
    }

    /// Looks at the modules again: what is gone is taken out, what has come is searched for tracepoints.
    fn modules_changed(&mut self, exec: bool) -> anyhow::Result<()> {
        let now = now();
        let loaded = self.process.modules()?;
        let change = self.read_symbols(move |modules, _| modules.update(&loaded, now))?;
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
    fn look_up(&mut self) -> anyhow::Result<()> {
        let mut resolution =
            self.read_symbols(|modules, resolver| resolver.resolve(modules.symbols()))?;
        indirect::settle(
            &mut self.process,
            &mut self.modules,
            &mut self.resolver,
            &mut resolution,
        );
        for problem in &resolution.problems {
            report::warn(problem);
        }
        tell_warnings(&resolution, self.verbose);
        self.pending = resolution.pending;
        self.place(resolution.placed)
    }

    /// Does what may read any amount of symbols. Where there is no memory for them, the names of the modules are kept for the
    /// file.
    fn read_symbols<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Modules, &mut Resolver) -> R + Send + 'static,
    ) -> anyhow::Result<R> {
        let unread = self.modules.without_symbols();
        let mut modules = std::mem::replace(&mut self.modules, unread);
        let empty = Resolver::new(tracewire_script::Script::new());
        let mut resolver = std::mem::replace(&mut self.resolver, empty);
        let result;
        (self.modules, self.resolver, result) = Expendable::wait(move || {
            let result = work(&mut modules, &mut resolver);
            (modules, resolver, result)
        })?;
        Ok(result)
    }

    /// The resolver of an indirect function has selected an implementation.
    fn selected(&mut self, resolver: Address, selected: Address) -> anyhow::Result<()> {
        if !self.modules.symbols_mut().select(resolver, selected) {
            return Ok(());
        }
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
                    definition: tracepoint.definition().clone(),
                    usage: Some(tracepoint.usage()),
                    served: describe::served(&self.experiment, tracepoint),
                },
                missing: tracepoint.missing(),
            })
            .collect();
        for past in gone {
            let definition = &past.tracepoint.definition;
            let _ = self
                .experiment
                .delete(definition.number, Some(definition.address));
            self.past.push(past);
        }
    }

    /// Puts tracepoints in; the run starts with the first.
    fn place(&mut self, placed: Vec<Placed>) -> anyhow::Result<()> {
        report::placed(&placed, self.verbose);
        let mut addresses: Vec<Address> = placed.iter().map(|one| one.definition.address).collect();
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
                report::warn(format_args!(
                    "tracepoint {number}: the frames of this run have no room for {}, which it collects; name one \
                     of them in its actions to make room",
                    left_out.join(", ")
                ));
            }
            if let Err(error) = self.experiment.define(one.definition) {
                report::warn(format_args!("tracepoint {number}: {error}"));
            }
        }
        if self.experiment.is_running() {
            if let Err(errors) = self.experiment.install(&mut self.process) {
                for error in errors {
                    report::warn(error);
                }
            }
        } else if !self.ever_placed && self.experiment.tracepoints().next().is_some() {
            self.start()?;
            self.describe();
        }
        report::served(&self.experiment, &addresses, self.verbose);
        Ok(())
    }

    /// Starts the run. Tracepoints that cannot be put in are an error, or left out.
    fn start(&mut self) -> anyhow::Result<()> {
        let now = now();
        loop {
            let errors = match self.experiment.start(&mut self.process, now) {
                Ok(()) => {
                    self.ever_placed = true;
                    return Ok(());
                }
                Err(StartError::CannotInstall(errors)) => errors,
                Err(error) => return Err(error.into()),
            };
            if self.keep_going {
                tell(&errors, self.verbose, "problems", report::warn);
                for error in &errors {
                    for number in &error.numbers {
                        // It is there: the experiment has just named it.
                        let deleted = self.experiment.delete(*number, Some(error.address));
                        debug_assert!(deleted.is_ok(), "{deleted:?}");
                    }
                }
            }
            if !self.keep_going || self.experiment.tracepoints().next().is_none() {
                let mut words = Vec::new();
                tell(&errors, self.verbose, "problems", |one| words.push(one));
                bail!("{}", words.join("\n"));
            }
        }
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
            self.process.leave_note(description.as_bytes());
            if let Some(growing) = self.experiment.store().growing_path() {
                self.process.name_frames_file(&growing);
            }
        }
    }

    /// The reason and the words for the status line.
    fn stop_words(&self, ending: &Ending) -> (StopReason, Option<String>) {
        let text = match ending {
            Ending::Program(event) => report::program_words(event),
            Ending::Itself(words) => words.clone(),
            Ending::Asked(words) => match &self.stop_notes {
                Some(notes) => notes.clone(),
                None => (*words).to_owned(),
            },
        };
        (StopReason::Command, Some(text))
    }

    fn finish(
        mut self,
        ending: Ending,
        failure: Option<anyhow::Error>,
        now: u64,
    ) -> anyhow::Result<Report> {
        let program_ended = matches!(ending, Ending::Program(_));
        let process = self.process.id();
        if !program_ended && let Err(error) = self.process.detach() {
            report::warn(format_args!("letting the program go: {error}"));
        }
        let status = self.experiment.status();
        let description = describe::description(
            &self.experiment,
            &self.past,
            &self.modules,
            self.registers,
            &self.settings,
        );
        let tracepoints = describe::tracepoints(&self.experiment, &self.past);
        let missing = missing(&self.experiment, &self.past);
        let losses = self.experiment.losses();
        let written = description
            .map_err(anyhow::Error::from)
            .and_then(|description| self.experiment.into_store().finish(&description));
        written.with_context(|| format!("writing {}", self.shown.display()))?;
        self.pending.retain(|pending| {
            let placed = |tracepoint: &Tracepoint| tracepoint.definition.number == pending.number;
            !tracepoints.iter().any(placed)
        });
        let report = Report {
            output: self.shown,
            ending,
            lasted: now.saturating_sub(self.begun),
            frames: status.frames.unwrap_or(0),
            created: status.frames_created.unwrap_or(0),
            tracepoints,
            missing,
            pending: self.pending,
            attached_to: (!self.spawned).then_some(process),
            losses,
            is_file: true,
            verbose: self.verbose,
        };
        match failure {
            None => Ok(report),
            Some(error) => {
                report.print_summary();
                Err(error)
            }
        }
    }
}

/// Values that could not be read, by tracepoint.
fn missing(
    experiment: &Experiment<Buffer>,
    past: &[Past],
) -> Vec<(i32, tracewire_experiment::Missing)> {
    let now = experiment
        .tracepoints()
        .map(|tracepoint| (tracepoint.definition().number.0, tracepoint.missing()));
    let before = past
        .iter()
        .map(|past| (past.tracepoint.definition.number.0, past.missing));
    let mut all: Vec<(i32, tracewire_experiment::Missing)> = Vec::new();
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

pub fn tell_warnings(resolution: &Resolution, verbose: bool) {
    let warnings = resolution.warnings.iter();
    let warnings = once_each(warnings.map(|warning| {
        let words = format!("{}: {}", warning.place, warning.message);
        (words, warning.address)
    }));
    tell(warnings, verbose, "warnings", report::warn);
}

/// Microseconds since 1970, the clock of `$trace_timestamp`.
fn now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
}
