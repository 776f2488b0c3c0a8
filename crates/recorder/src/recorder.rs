//! What is to be recorded, and the recording of it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracewire_debuginfo::{DebugFileSource, TypeRules};
use tracewire_experiment::{Budget, Definitions, FrameRates, Mechanism};
use tracewire_expr::CollectLimits;
use tracewire_model::{Redactions, ThreadId, TracepointNumber};
use tracewire_packets::ConnectionAddress;
use tracewire_script::{Excessive, Script, ScriptError};
use tracewire_target_linux::Priority;
use tracewire_target_remote::{Options as StubOptions, Stub};
use tracewire_tracefile::RunWriter;

use crate::audit::Audit;
use crate::buffer::BufferSize;
use crate::elsewhere;
use crate::error::{LeanRefused, RecordError};
use crate::limits::{FrameLimit, SharedBudget, check_budget, check_rates};
use crate::observer::Observer;
use crate::options::{Confirm, RecordOptions};
use crate::origin::ProcessStart;
use crate::policy::Policy;
use crate::processes::{self, Observers, RunReport};
use crate::recording::Recording;
use crate::report::Report;
use crate::selection::ProcessSelection;
use crate::stop::StopHandle;
use crate::trigger::{Trigger, check_trigger};
use crate::upstream;

/// Records what tracepoints in a program see.
///
/// It is made for a program ([`spawn`](Self::spawn), [`attach`](Self::attach)), learns what to record, and records it
/// ([`record`](Self::record)). Nothing happens to the program before that.
#[derive(Debug)]
pub struct Recorder {
    start: Start,
    options: RecordOptions,
    stop: StopHandle,
}

/// The program.
#[derive(Debug)]
enum Start {
    Process(ProcessStart),
    Selected,
    Upstream {
        address: ConnectionAddress,
        options: StubOptions,
        programs: Vec<PathBuf>,
    },
    Elsewhere {
        programs: Vec<PathBuf>,
    },
}

impl Recorder {
    /// Records a program from its first instruction on. Its standard streams are the caller's.
    #[must_use]
    pub fn spawn<A: Into<OsString>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::new(Start::Process(ProcessStart::Spawn {
            program: program.as_ref().to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }))
    }

    /// Records a process that runs, with all its threads.
    #[must_use]
    pub fn attach(process: ThreadId) -> Self {
        Self::new(Start::Process(ProcessStart::Attach(process)))
    }

    /// Records processes of a selection, with [`record_processes`](Self::record_processes): those that run, which are named there, and
    /// those that start later ([`record_later`](Self::record_later)).
    #[must_use]
    pub fn selected() -> Self {
        Self::new(Start::Selected)
    }

    /// Records the program behind a GDB stub, with the symbols of these programs, else of the one that the stub names.
    #[must_use]
    pub fn upstream(
        address: ConnectionAddress,
        options: StubOptions,
        programs: Vec<PathBuf>,
    ) -> Self {
        Self::new(Start::Upstream {
            address,
            options,
            programs,
        })
    }

    /// Defines an experiment that another program runs ([`define`](Self::define)), with the symbols of these programs.
    #[must_use]
    pub fn elsewhere(programs: Vec<PathBuf>) -> Self {
        Self::new(Start::Elsewhere { programs })
    }

    fn new(start: Start) -> Self {
        Self {
            start,
            options: RecordOptions::default(),
            stop: StopHandle::default(),
        }
    }

    /// Adds a tracepoint: `LOCATION [if CONDITION] [: EXPRESSIONS]`, as in `work if size > 4096 : $args, *request`.
    ///
    /// # Errors
    /// When the text is none.
    pub fn tracepoint(&mut self, specification: &str) -> Result<&mut Self, ScriptError> {
        self.options.script.read_specification(specification)?;
        Ok(self)
    }

    /// Replaces the script: the tracepoints, the variables, and the settings of the run.
    pub fn script(&mut self, script: Script) -> &mut Self {
        self.options.script = script;
        self
    }

    /// The trace file to write. While the run lasts, the frames go to a file beside it, with `.recording` after the name, which is
    /// a good trace file at every moment.
    pub fn output(&mut self, path: impl AsRef<Path>) -> &mut Self {
        path.as_ref().clone_into(&mut self.options.output);
        self
    }

    /// How much to keep. Otherwise the script says it, or it is 1 GiB, linear.
    pub fn buffer(&mut self, size: BufferSize) -> &mut Self {
        self.options.buffer = Some(size);
        self
    }

    /// Whether [`output`](Self::output) is a lean recording: the collected values in compressed columns, without whole register blocks
    /// ([`tracewire_tracefile::lean`]). For one process of this machine, and a linear buffer, whose size is that of the file.
    pub fn lean(&mut self, lean: bool) -> &mut Self {
        self.options.lean = lean;
        self
    }

    /// Ends the run after so long, without the time for which the program is stopped for the recording.
    pub fn duration(&mut self, duration: Option<Duration>) -> &mut Self {
        self.options.duration = duration;
        self
    }

    /// Ends the run after so long from [`record`](Self::record) on, even if no process was found.
    pub fn expire(&mut self, after: Option<Duration>) -> &mut Self {
        self.options.expiry = after;
        self
    }

    /// Ends the run with so many frames, of all its processes. Not for a buffer whose oldest frames make room.
    pub fn max_frames(&mut self, most: Option<NonZeroU64>) -> &mut Self {
        self.options.frame_limit = most.map(|most| FrameLimit::new(most.get(), self.stop.clone()));
        self
    }

    /// Ends the run with the first hit of one of these tracepoints and so many frames more, of all threads of its process. For a buffer
    /// whose oldest frames make room: it has what led to the hit.
    pub fn until(&mut self, tracepoints: BTreeSet<TracepointNumber>, after: u64) -> &mut Self {
        let trigger = Trigger::new(tracepoints, after, self.stop.clone());
        self.options.trigger = Some(trigger).filter(|trigger| !trigger.tracepoints().is_empty());
        self
    }

    /// Limits how often tracepoints make frames, in each process. Hits that come more often are counted.
    pub fn rates(&mut self, rates: FrameRates) -> &mut Self {
        self.options.rates = rates;
        self
    }

    /// Limits what hits may take of each cpu. A hit whose frame would take more is skipped and counted. Tracepoints that take more
    /// nevertheless are out of the program at times; those times are known.
    pub fn budget(&mut self, budget: Option<Budget>) -> &mut Self {
        self.options.budget = SharedBudget::new(budget);
        self
    }

    /// Whether it is reported, before tracepoints are put in, what their hits cost at most. With a budget it always is.
    pub fn tell_costs(&mut self, tell: bool) -> &mut Self {
        self.options.tell_costs = tell;
        self
    }

    /// What serves tracepoints. Otherwise jumps where they can be, else traps.
    pub fn mechanism(&mut self, mechanism: Mechanism) -> &mut Self {
        self.options.mechanism = mechanism;
        self
    }

    /// Whether locations that are nowhere in the program wait for a library that is opened later. Otherwise they are an
    /// error.
    pub fn pending(&mut self, pending: bool) -> &mut Self {
        self.options.pending = pending;
        self
    }

    /// Whether tracepoints that cannot be set are left out, with an event. Otherwise they are an error, but for places of a pattern
    /// where none can be put in.
    pub fn keep_going(&mut self, keep_going: bool) -> &mut Self {
        self.options.keep_going = keep_going;
        self
    }

    /// The rules that say what values of certain types lead to, which is collected with them. Otherwise the built-in ones.
    pub fn type_rules(&mut self, rules: Arc<TypeRules>) -> &mut Self {
        self.options.type_rules = Some(rules);
        self
    }

    /// Has debug information that is not on this machine come from a source.
    pub fn take_debug_files_from(&mut self, source: Arc<dyn DebugFileSource>) -> &mut Self {
        self.options.debug_files = Some(source);
        self
    }

    /// Keeps the names in large debug information in a folder, which need not be there, so that the next recording of such a program
    /// or library begins sooner.
    pub fn keep_names_in(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.options.names_folder = Some(folder.as_ref().to_owned());
        self
    }

    /// Whether the processes that a program makes are recorded, too ([`record_processes`](Self::record_processes)), each in a trace
    /// file of its own: children by fork from their first instruction on, others once they have become another program. A process that
    /// becomes another program has a trace file for each.
    pub fn follow_forks(&mut self, follow: bool) -> &mut Self {
        self.options.follow_forks = follow;
        self
    }

    /// Which processes are recorded besides that start during a run of [`record_processes`](Self::record_processes). Such a run lasts
    /// until it is stopped. The recorder looks for them ten times a second; what a process does before it is found is not seen.
    pub fn record_later(&mut self, selection: ProcessSelection) -> &mut Self {
        self.options.later = Some(selection);
        self
    }

    /// Has [`record_processes`](Self::record_processes) finish the trace file of a process and begin the next one after so long, and when
    /// half of the [`buffer`](Self::buffer) is used. The tracepoints stay in the program, and no hit is missed. With
    /// [`record_later`](Self::record_later), processes that have ended are reported ([`Observers::ended`](crate::Observers::ended)) and are
    /// not in the report. Not for a buffer whose oldest frames make room.
    pub fn rotate(&mut self, every: Option<Duration>) -> &mut Self {
        self.options.rotation = every;
        self
    }

    /// Has the first process of [`record_processes`](Self::record_processes) go before the others, for so long from when its
    /// tracepoints are in it. The others follow if neither it nor a process that it has made was killed, has exited with an error, or
    /// could not be recorded.
    pub fn canary(&mut self, time: Option<Duration>) -> &mut Self {
        self.options.canary = time;
        self
    }

    /// What may be recorded. Each policy that is given holds.
    pub fn policy(&mut self, policy: Policy) -> &mut Self {
        self.options.oversight.policies.push(policy);
        self
    }

    /// Has what is recorded logged, in each log that is given.
    pub fn audit(&mut self, log: Arc<dyn Audit>) -> &mut Self {
        self.options.oversight.audits.push(log);
        self
    }

    /// The function that decides about patterns that have more than [`MOST_PLACES`](tracewire_script::MOST_PLACES) places, before
    /// anything is put in. It is called on another thread; a program that was attached to runs meanwhile. Otherwise they are an
    /// error.
    pub fn confirm(
        &mut self,
        confirm: impl Fn(&[Excessive]) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.options.confirm = Confirm::new(confirm);
        self
    }

    /// How much is collected of what strings, containers and pointers with an owner lead to.
    pub fn collect_limits(&mut self, limits: CollectLimits) -> &mut Self {
        self.options.collect_limits = limits;
        self
    }

    /// The patterns of names whose values are not recorded. Without this all is.
    pub fn redactions(&mut self, redactions: Redactions) -> &mut Self {
        self.options.redactions = redactions;
        self
    }

    /// Ends the run from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Records until the program ends, the run ends itself, or it is stopped; then takes everything out of the program, detaches,
    /// and writes the trace file. The program is then as it was, and runs on unless it has ended.
    ///
    /// # Errors
    /// When the run cannot begin, or ends in an error: [`RecordError`] says what is left.
    pub fn record(mut self, observer: &mut dyn Observer) -> Result<Report, RecordError> {
        // There is one file.
        self.options.rotation = None;
        check_rates(&self.options.rates, &self.options.script)?;
        check_trigger(self.options.trigger.as_ref(), &self.options.script)?;
        let at_stub = !matches!(self.start, Start::Process(_));
        check_budget(&self.options.budget, &self.options.script, at_stub)?;
        if self.options.lean {
            self.check_lean(at_stub)?;
        }
        self.begin_to_expire()?;
        let start = match self.start {
            Start::Process(start) => start,
            Start::Selected => return Err(RecordError::SelectionAlone),
            Start::Elsewhere { .. } => return Err(RecordError::OtherUse),
            Start::Upstream {
                address,
                options,
                programs,
            } => {
                let stub = Stub::connect(&address, &options)?;
                return upstream::record(stub, &programs, self.options, self.stop, observer);
            }
        };
        // Nothing else is stopped meanwhile.
        let priority = start.priority(Priority::raise_niceness);
        let budget = self.options.budget.budget;
        if let Some(process) = start.attached() {
            self.options.oversight.check_process(process)?;
        }
        let (process, origin) = start.approach()?.process()?;
        self.stop.watch(process.interrupter());
        let recording =
            Recording::begin(process, origin, self.options, self.stop, Box::new(observer))?;
        drop(priority);
        let _in_time = Priority::raise_for_budget(budget);
        recording.run()
    }
}

impl Recorder {
    /// Looks the tracepoints up, and gives what another program needs to run the experiment.
    ///
    /// # Errors
    /// When a tracepoint is not found, or can be recorded only here; for a recorder that is not [`elsewhere`](Self::elsewhere).
    pub fn define(self, observer: &mut dyn Observer) -> Result<Definitions, RecordError> {
        match self.start {
            Start::Elsewhere { programs } => elsewhere::define(&programs, &self.options, observer),
            _ => Err(RecordError::OtherUse),
        }
    }

    /// Refuses what a lean recording cannot have.
    fn check_lean(&self, at_stub: bool) -> Result<(), RecordError> {
        let script = &self.options.script.settings;
        let is_circular = match self.options.buffer {
            Some(size) => size.circular,
            None => script.circular == Some(true),
        };
        let refused = if at_stub {
            Some(LeanRefused::Stub)
        } else if self.options.trigger.is_some() || is_circular {
            Some(LeanRefused::Circular)
        } else {
            None
        };
        refused.map_or(Ok(()), |refused| Err(refused.into()))
    }

    fn begin_to_expire(&self) -> Result<(), RecordError> {
        let expiry = self.options.expiry;
        expiry.map_or(Ok(()), |after| {
            self.stop.expire_after(after).map_err(RecordError::Thread)
        })
    }

    /// Records the process and others in one run, until all have ended or it is stopped, into a folder with a trace file for each.
    /// What [`output`](Self::output) says is not used.
    ///
    /// A process that cannot be recorded is reported, and the others are recorded.
    ///
    /// The calling thread may have a raised `priority` since its start. It ends when the threads of the processes have begun.
    ///
    /// # Errors
    /// When no process can be recorded, or none is there and none may come; for a stub, whose program is recorded alone.
    pub fn record_processes(
        self,
        others: impl IntoIterator<Item = ThreadId>,
        folder: RunWriter,
        observers: &dyn Observers,
        priority: Option<Priority>,
    ) -> Result<RunReport, RecordError> {
        check_rates(&self.options.rates, &self.options.script)?;
        check_trigger(self.options.trigger.as_ref(), &self.options.script)?;
        check_budget(&self.options.budget, &self.options.script, false)?;
        if self.options.lean {
            return Err(LeanRefused::Several.into());
        }
        self.begin_to_expire()?;
        let mut starts = match self.start {
            Start::Process(first) => vec![first],
            Start::Selected => Vec::new(),
            Start::Upstream { .. } => return Err(RecordError::StubAlone),
            Start::Elsewhere { .. } => return Err(RecordError::OtherUse),
        };
        starts.extend(others.into_iter().map(ProcessStart::Attach));
        if starts.is_empty() && self.options.later.is_none() {
            return Err(RecordError::NoneSelected);
        }
        processes::record(starts, self.options, self.stop, folder, observers, priority)
    }
}
