//! Several processes recorded in one run, into a folder with a trace file for each.
//!
//! Each process that is started or attached to has a thread, since `ptrace` lets only the thread that attached to a process control
//! it. What it makes stays with that thread, which runs them all together. The threads share the script, the handle that ends the
//! run, the files that were read, and the folder.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tracewire_model::ThreadId;
use tracewire_target_linux::{
    self as target, Event, Priority, Process, StopTimes, UsualPriority, run_all, take_stop_times,
};
use tracewire_tracefile::RunWriter;

use crate::canary::{self, CanaryEvent, CanaryFailure};
use crate::error::RecordError;
use crate::leave::leave_together;
use crate::lookup::KeptLookups;
use crate::observer::Observer;
use crate::options::RecordOptions;
use crate::origin::{Origin, ProcessStart, leave};
use crate::out_of_memory::{self, OutOfMemory};
use crate::recording::Recording;
use crate::report::{Ending, Report};
use crate::rotation::FinishedFile;
use crate::selection::Arrivals;
use crate::stop::{Stop, StopHandle};
use crate::together::{Gate, Halting, Place, Together, Way, Work};

/// How often it is looked for processes that have started.
const LOOK: Duration = Duration::from_millis(100);

/// Learns what happens to each of several processes. The events come from several threads.
pub trait Observers: Sync {
    /// The observer of a process, which a recorded process has made if there is a `parent`.
    fn of(&self, process: ThreadId, parent: Option<ThreadId>) -> Box<dyn Observer + '_>;

    /// A process is not recorded.
    fn failed(&self, process: ThreadId, parent: Option<ThreadId>, error: &RecordError);

    /// A trace file of a process is finished, and the recording goes on in the next one ([`Recorder::rotate`](crate::Recorder::rotate)).
    fn rotated(&self, file: &FinishedFile) {
        let _ = file;
    }

    /// The recording of a process has ended.
    fn ended(&self, part: &RecordedPart) {
        let _ = part;
    }

    /// A process goes first ([`Recorder::canary`](crate::Recorder::canary)).
    fn canary(&self, process: ThreadId, event: CanaryEvent);
}

/// How a run of several processes went.
#[derive(Debug)]
pub struct RunReport {
    /// The parts, in the order in which they ended.
    pub parts: Vec<RecordedPart>,
    /// What there was besides, which only the observers got ([`Recorder::rotate`](crate::Recorder::rotate)).
    pub ended: EndedProcesses,
    /// The processes that were not recorded.
    pub failed: Vec<(ThreadId, RecordError)>,
    /// How long their threads were stopped.
    pub stops: StopTimes,
    /// Why the others were not recorded, where the first one was not well.
    pub canary_failure: Option<CanaryFailure>,
}

/// Processes that have ended in a run that may have any number of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndedProcesses {
    /// How many were recorded.
    pub processes: u64,
    /// How many frames there are of them.
    pub frames: u64,
    /// How many were not recorded.
    pub failed: u64,
}

/// The part of one process.
#[derive(Debug)]
pub struct RecordedPart {
    /// The process.
    pub process: ThreadId,
    /// The recorded process that has made it.
    pub parent: Option<ThreadId>,
    /// The trace file; there is none of a child that has made no frames.
    pub path: PathBuf,
    /// How it went.
    pub report: Report,
    /// Why it ended early.
    pub failure: Option<RecordError>,
}

/// What the threads of a run share.
struct Shared<'r> {
    options: RecordOptions,
    stop: StopHandle,
    folder: Mutex<RunWriter>,
    observers: &'r dyn Observers,
    report: Mutex<RunReport>,
    /// When the tracepoints of the first process were in it.
    first_begun: OnceLock<Instant>,
    /// The processes are stopped together.
    together: Arc<Together>,
    /// The priority of threads that do not come or leave.
    usual: UsualPriority,
}

/// A thread that records a process. Its error is one of starting a program.
type RecordThread<'scope> = ScopedJoinHandle<'scope, Result<(), RecordError>>;

fn join(thread: RecordThread<'_>) -> Result<(), RecordError> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Records processes, each in a thread of its own.
pub fn record(
    starts: Vec<ProcessStart>,
    mut options: RecordOptions,
    stop: StopHandle,
    folder: RunWriter,
    observers: &dyn Observers,
    priority: Option<Priority>,
) -> Result<RunReport, RecordError> {
    options.confirm = options.confirm.once();
    let shared = Shared {
        options,
        stop,
        folder: Mutex::new(folder),
        observers,
        report: Mutex::new(RunReport {
            parts: Vec::new(),
            ended: EndedProcesses::default(),
            failed: Vec::new(),
            stops: StopTimes::default(),
            canary_failure: None,
        }),
        first_begun: OnceLock::new(),
        together: Arc::default(),
        usual: priority
            .as_ref()
            .map_or_else(UsualPriority::of_thread, Priority::usual),
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let begun = shared.begin_threads(scope, starts, priority, &mut threads);
        if begun.is_err() {
            shared
                .stop
                .stop(Stop::Asked("the run has failed".to_owned()));
        }
        for thread in threads {
            join(thread)?;
        }
        begun
    })?;
    let mut report = shared
        .report
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    // What is wrong with all of them is wrong with the run.
    match report.failed.pop() {
        Some((_, error))
            if report.parts.is_empty() && report.ended == EndedProcesses::default() =>
        {
            let folder = shared.folder.into_inner();
            folder.unwrap_or_else(PoisonError::into_inner).discard();
            Err(error)
        }
        last => {
            report.failed.extend(last);
            Ok(report)
        }
    }
}

/// A process that is being recorded.
pub(crate) struct Member<'r> {
    parent: Option<ThreadId>,
    path: PathBuf,
    pub(crate) recording: Recording<'r>,
    /// What was looked up for children that it has made by fork.
    lookups: KeptLookups,
}

impl<'r> Shared<'r> {
    /// Begins to record processes, and those that start later until the run is stopped.
    fn begin_threads<'scope>(
        &'r self,
        scope: &'scope Scope<'scope, 'r>,
        starts: Vec<ProcessStart>,
        mut priority: Option<Priority>,
        threads: &mut Vec<RecordThread<'scope>>,
    ) -> Result<(), RecordError> {
        let known: Vec<ThreadId> = starts.iter().filter_map(ProcessStart::attached).collect();
        let mut starts = starts.into_iter();
        if let Some(time) = self.options.canary
            && starts.len() > 1
            && let Some(first) = starts.next()
        {
            drop(priority.take());
            if !self.send_ahead(scope, first, time, starts.len(), threads)? {
                return Ok(());
            }
        }
        // A program that is started would inherit it.
        let is_attached = |start: &ProcessStart| start.attached().is_some();
        let priority = (starts.as_slice().iter().all(is_attached)).then(|| {
            priority
                .take()
                .map_or_else(Priority::raise_niceness, Priority::inherited)
        });
        // All are waited for before the first one comes.
        let places: Vec<Arc<Place>> = (starts.as_slice().iter())
            .map(|start| self.together.join(start.way()))
            .collect();
        for (start, place) in starts.zip(places) {
            threads.push(self.begin_thread(scope, start, place)?);
        }
        self.stop.end_priority(priority);
        let Some(selection) = self.options.later.clone() else {
            return Ok(());
        };
        let mut arrivals = Arrivals::new(selection, &known);
        while !self.stop.wait(LOOK) {
            for process in arrivals.take().map_err(RecordError::Processes)? {
                let place = self.together.join(Way::End);
                threads.push(self.begin_thread(scope, ProcessStart::Found(process), place)?);
            }
            for ended in threads.extract_if(.., |thread| thread.is_finished()) {
                join(ended)?;
            }
        }
        Ok(())
    }

    /// Records one process for a time. Whether the others are to follow.
    fn send_ahead<'scope>(
        &'r self,
        scope: &'scope Scope<'scope, 'r>,
        first: ProcessStart,
        time: Duration,
        others: usize,
        threads: &mut Vec<RecordThread<'scope>>,
    ) -> Result<bool, RecordError> {
        let process = first.attached();
        let thread = self.begin_thread(scope, first, self.together.join(Way::End))?;
        if let Some(process) = process {
            let event = CanaryEvent::Begun { others, time };
            self.observers.canary(process, event);
        }
        let is_over = || match self.first_begun.get() {
            Some(begun) => begun.elapsed() >= time || thread.is_finished(),
            None => thread.is_finished(),
        };
        while !is_over() {
            if self.stop.wait(LOOK) {
                threads.push(thread);
                return Ok(false);
            }
        }
        threads.push(thread);
        let mut report = lock(&self.report);
        if let Some((process, reason)) = canary::fault(&report) {
            report.canary_failure = Some(CanaryFailure { process, reason });
            drop(report);
            self.stop
                .stop(Stop::Asked("the first process is not well".to_owned()));
            return Ok(false);
        }
        drop(report);
        if let Some(process) = process {
            self.observers.canary(process, CanaryEvent::Well);
        }
        Ok(true)
    }

    /// Records a process in a thread of its own.
    fn begin_thread<'scope>(
        &'r self,
        scope: &'scope Scope<'scope, 'r>,
        start: ProcessStart,
        place: Arc<Place>,
    ) -> Result<RecordThread<'scope>, RecordError> {
        std::thread::Builder::new()
            .name("process".to_owned())
            .spawn_scoped(scope, move || {
                out_of_memory::extend_stack();
                let hastened = self.stop.hasten_at_end();
                let recorded = self.record(&start, &place);
                // Work that was given up may hold the place longer.
                place.leave();
                drop(hastened);
                lock(&self.report).stops.add(&take_stop_times());
                recorded
            })
            .map_err(RecordError::Thread)
    }

    /// Records a process and, if that is wanted, those that it makes. An error is one of starting a program.
    fn record(&'r self, start: &ProcessStart, place: &Arc<Place>) -> Result<(), RecordError> {
        let priority = start.priority(|| Priority::raise_over(self.usual));
        let approached = start.approach();
        place.wait(Gate::Come);
        let allowed = start
            .attached()
            .map(|process| self.options.oversight.check_process(process));
        let begun = allowed
            .unwrap_or(Ok(()))
            .and_then(|()| approached?.process());
        let (mut process, origin) = match (begun, start) {
            (Ok(begun), _) => begun,
            (Err(error), ProcessStart::Attach(process)) => {
                self.failed(*process, None, error);
                return Ok(());
            }
            (Err(error), ProcessStart::Found(process)) => {
                // One that ends as soon as it is found leaves nothing to be recorded.
                if !is_gone(*process) {
                    self.failed(*process, None, error);
                }
                return Ok(());
            }
            (Err(error), ProcessStart::Spawn { .. }) => return Err(error),
        };
        self.stop.watch(process.interrupter());
        if matches!(start, ProcessStart::Attach(_)) {
            place.begin(Work::Attach, &mut process);
            process.follow_libraries();
            self.options.prepare_pads(&mut process);
            place.end(&mut process);
        }
        let lookups = KeptLookups::default();
        let mut begun = self.begin(process, origin, None, lookups, Some(place));
        if let Some(first) = &mut begun {
            let process = first.recording.parts().0;
            place.end(process);
            // Before others come first again.
            process.go();
        }
        self.stop.end_priority(priority);
        if let Some(first) = begun {
            self.first_begun.get_or_init(Instant::now);
            self.run(first, place);
        }
        Ok(())
    }

    /// Begins the recording of a process.
    fn begin(
        &'r self,
        process: Process,
        origin: Origin,
        parent: Option<ThreadId>,
        lookups: KeptLookups,
        place: Option<&Arc<Place>>,
    ) -> Option<Member<'r>> {
        let id = process.id();
        let begun = self.recording(process, origin, parent, lookups, place);
        let begun = begun.and_then(|mut member| match member.recording.begun() {
            Ok(()) => Ok(member),
            Err(error) => member
                .recording
                .end(Err(error))
                .and(Err(RecordError::Stopped)),
        });
        match begun {
            Ok(member) => Some(member),
            // A child that ends early, or a run, leaves nothing to be recorded.
            Err(_) if origin.is_followed() && (is_gone(id) || self.stop.stopped().is_some()) => {
                None
            }
            Err(error) => {
                self.failed(id, parent, error);
                None
            }
        }
    }

    fn recording(
        &'r self,
        process: Process,
        origin: Origin,
        parent: Option<ThreadId>,
        lookups: KeptLookups,
        place: Option<&Arc<Place>>,
    ) -> Result<Member<'r>, RecordError> {
        let id = process.id();
        // One that is gone by now has no name, and an error soon.
        let program = std::fs::read_link(format!("/proc/{id}/exe")).unwrap_or_default();
        let added = lock(&self.folder).add(id, parent, &program);
        let path = match added {
            Ok(path) => path,
            Err(error) => {
                leave(process, origin);
                return Err(RecordError::Folder(error));
            }
        };
        let options = RecordOptions {
            output: path.clone(),
            place: place.cloned(),
            lookups,
            ..self.options.clone()
        };
        let observer = self.observers.of(id, parent);
        let mut recording =
            Recording::begin(process, origin, options, self.stop.clone(), observer)?;
        if self.options.follow_forks {
            recording.parts().0.follow_children();
        }
        Ok(Member {
            parent,
            path,
            recording,
            lookups: KeptLookups::default(),
        })
    }

    /// Runs a process, and those that it makes, until all are recorded.
    fn run(&'r self, first: Member<'r>, place: &Arc<Place>) {
        let mut members = vec![first];
        let _in_time = Priority::raise_for_budget(self.options.budget.budget);
        while !members.is_empty() {
            if let Some(stop) = self.stop.stopped() {
                let ending = || match &stop {
                    Stop::OutOfMemory => Err(OutOfMemory.into()),
                    stop => Ok(Ending::Stopped(stop.clone())),
                };
                return leave_together(members, &ending, place, |member, ending| {
                    self.end(member, ending);
                });
            }
            let (place, event) = run_members(&mut members);
            // Also if it has ended since it made them.
            let born = match members.get_mut(place) {
                Some(member) => self.adopt(member),
                None => Vec::new(),
            };
            match event {
                Ok(Event::Exec) if self.options.follow_forks => {
                    let member = members.swap_remove(place);
                    members.extend(self.become_another(member));
                }
                Ok(Event::ChangeWanted)
                    if members
                        .get(place)
                        .is_some_and(|member| member.recording.rotation_is_due()) =>
                {
                    if let Some(member) = members.get_mut(place) {
                        self.rotate(member);
                    }
                }
                // Whose request it was does not matter: they are asked together.
                Ok(Event::Children | Event::Interrupted) => {}
                Ok(event) => {
                    let ending = members
                        .get_mut(place)
                        .map(|member| member.recording.happened(event));
                    match ending {
                        None | Some(Ok(None)) => {}
                        Some(Ok(Some(ending))) => self.end(members.swap_remove(place), Ok(ending)),
                        Some(Err(error)) => self.end(members.swap_remove(place), Err(error)),
                    }
                }
                Err(error) => self.end(members.swap_remove(place), Err(error.into())),
            }
            members.extend(born);
        }
    }

    /// Goes on in the next trace file of a process, which is stopped.
    fn rotate(&self, member: &mut Member<'r>) {
        let process = member.recording.parts().0.id();
        let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        let added = lock(&self.folder).add(process, member.parent, &program);
        let rotated = added.map_err(RecordError::Folder).and_then(|path| {
            let share = self.stop.hold(|| member.recording.rotate(&path));
            if !matches!(share, Ok(Some(_))) {
                lock(&self.folder).withdraw(process);
            }
            Ok(share?.map(|share| (path, share)))
        });
        match rotated {
            Ok(Some((next, share))) => self.observers.rotated(&FinishedFile {
                process,
                path: std::mem::replace(&mut member.path, next),
                share,
            }),
            // What has ended it is seen next.
            Ok(None) => {}
            Err(error) => member.recording.not_rotated(&error),
        }
    }

    /// Begins to record what a process has made. Its children are stopped meanwhile.
    fn adopt(&'r self, member: &mut Member<'r>) -> Vec<Member<'r>> {
        let lookups = &member.lookups;
        let (process, _) = member.recording.parts();
        let parent = process.id();
        let children = process.take_children();
        let begun = children.into_iter().filter_map(|(child, birth)| {
            let origin = match birth {
                target::Birth::Forked => Origin::Forked,
                target::Birth::Executed => Origin::Executed,
            };
            self.begin(child, origin, Some(parent), lookups.clone(), None)
        });
        begun.collect()
    }

    /// A process has become another program, which has a trace file of its own.
    fn become_another(&'r self, member: Member<'r>) -> Option<Member<'r>> {
        let Member {
            parent,
            path,
            recording,
            lookups: _,
        } = member;
        let (process, result) = recording.end_image();
        let process = process?;
        if !path.exists() {
            lock(&self.folder).withdraw(process.id());
        }
        self.recorded(process.id(), parent, path, result);
        self.begin(
            process,
            Origin::Executed,
            parent,
            KeptLookups::default(),
            None,
        )
    }

    fn end(&self, mut member: Member<'_>, ending: Result<Ending, RecordError>) {
        let process = member.recording.parts().0.id();
        let result = member.recording.end(ending);
        self.recorded(process, member.parent, member.path, result);
    }

    fn recorded(
        &self,
        process: ThreadId,
        parent: Option<ThreadId>,
        path: PathBuf,
        result: Result<Report, RecordError>,
    ) {
        let (report, failure) = match result {
            Ok(report) => (report, None),
            Err(RecordError::Failed { report, source }) => (*report, Some(*source)),
            Err(error) => return self.failed(process, parent, error),
        };
        let part = RecordedPart {
            process,
            parent,
            path,
            report,
            failure,
        };
        self.observers.ended(&part);
        let mut all = lock(&self.report);
        if self.keeps_all() {
            all.parts.push(part);
        } else {
            all.ended.processes += 1;
            all.ended.frames += part.report.frames();
        }
    }

    /// Whether the report has each process. A run that rotates and looks for more of them may be for ever.
    fn keeps_all(&self) -> bool {
        let is_endless = self.options.rotation.is_some() && self.options.later.is_some();
        !is_endless || self.stop.stopped().is_some()
    }

    fn failed(&self, process: ThreadId, parent: Option<ThreadId>, error: RecordError) {
        self.observers.failed(process, parent, &error);
        let mut all = lock(&self.report);
        if self.keeps_all() {
            all.failed.push((process, error));
        } else {
            all.ended.failed += 1;
        }
    }
}

impl Halting for Process {
    fn halt(&mut self) {
        // What the kernel refuses is an error of the next run.
        let _ = Self::halt_all([self]);
    }

    fn go(&mut self) {
        let _ = self.go_on();
    }
}

impl Halting for Vec<Member<'_>> {
    fn halt(&mut self) {
        let _ = Process::halt_all(self.iter_mut().map(|member| member.recording.parts().0));
    }

    fn go(&mut self) {
        for member in self {
            member.recording.parts().0.go();
        }
    }
}

/// Runs processes until something happens to one of them.
pub(crate) fn run_members(members: &mut [Member<'_>]) -> (usize, Result<Event, target::Error>) {
    let mut parts: Vec<_> = members
        .iter_mut()
        .map(|member| member.recording.parts())
        .collect();
    let mut together: Vec<target::Member<'_>> = parts
        .iter_mut()
        .map(|(process, handler)| target::Member { process, handler })
        .collect();
    run_all(&mut together)
}

/// Whether a process has ended: it has no program any more.
fn is_gone(process: ThreadId) -> bool {
    let program = std::fs::read_link(format!("/proc/{process}/exe"));
    program.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
