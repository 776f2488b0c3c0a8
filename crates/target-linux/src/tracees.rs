//! Several processes under one tracer: those of a recording, and a debugger's inferiors.

use std::sync::Arc;

use nix::errno::Errno;
use tracewire_experiment::{HitHandler, LookAround};
use tracewire_model::ThreadId;

use crate::children::group_of;
use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::interrupt::{Interrupter, Request};
use crate::poll_timer::PollTimer;
use crate::process::Process;
use crate::ptrace::{Status, Tid};
use crate::tracee::Tracee;
use crate::wait_queue;

/// A process that runs beside others, and the handler of its hits.
pub struct Member<'m> {
    /// The process.
    pub process: &'m mut Process,
    /// The handler of its hits.
    pub handler: &'m mut dyn HitHandler,
}

/// Runs processes until something other than a hit happens to one of them, as [`Process::run`] does with one. Returns
/// the process's place among the members, and the event. That process is then stopped, unless the event says otherwise;
/// the others run on.
///
/// An error is about the process in that place: it has already ended, or the kernel refuses to go on tracing it.
/// Without any process the place is 0.
pub fn run_all(members: &mut [Member<'_>]) -> (usize, Result<Event, Error>) {
    if let Some(place) = members
        .iter()
        .position(|member| member.process.tracee.threads.ended.is_some())
    {
        return (place, Err(Error::Ended(members[place].process.id())));
    }
    let marks: Vec<_> = members
        .iter()
        .map(|member| member.process.request.enter())
        .collect();
    let (place, event) = wait_for_event(members);
    for member in &mut *members {
        member.process.tracee.follower.rest();
    }
    let Some(Member { process, handler }) = members.get_mut(place) else {
        return (place, event);
    };
    process.tell_gone(*handler);
    if matches!(event, Ok(Event::Children)) {
        return (place, event);
    }
    let stopped = process.tracee.stop_all();
    process.come_to_rest();
    drop(marks);
    let result = event.and_then(|event| {
        stopped?;
        Ok(process.latest(event))
    });
    (place, result)
}

impl Process {
    /// The event to report when a run has ended: more may have happened while the threads were being stopped.
    fn latest(&mut self, event: Event) -> Event {
        if let Some(ended) = self.tracee.threads.ended {
            return ended;
        }
        // After an exec, what the event is about no longer exists.
        let replaced = match event {
            Event::Interrupted | Event::LibrariesChanged | Event::Resolver(_) => {
                self.tracee.threads.take_exec()
            }
            _ => false,
        };
        if !replaced {
            return event;
        }
        if event == Event::Interrupted {
            self.request.make();
        }
        Event::Exec
    }
}

fn wait_for_event(members: &mut [Member<'_>]) -> (usize, Result<Event, Error>) {
    for (place, member) in members.iter_mut().enumerate() {
        if member.process.leave_rest()
            && let Err(error) = member.process.start_idle()
        {
            return (place, Err(error));
        }
    }
    let mut timer = None;
    loop {
        if let Some((place, event)) = look_around(members, &mut timer) {
            return (place, Ok(event));
        }
        for (place, Member { process, handler }) in members.iter_mut().enumerate() {
            match process.next_event(*handler) {
                Ok(None) => {}
                Ok(Some((_, event))) => return (place, Ok(event)),
                Err(error) => return (place, Err(error)),
            }
            if !process.tracee.born.is_empty() {
                return (place, Ok(Event::Children));
            }
            if process.request.take() {
                return (place, Ok(Event::Interrupted));
            }
        }
        let (id, status) = match wait_or_poll(timer.as_ref()) {
            Ok(Some(report)) => report,
            Ok(None) | Err(Errno::EINTR) => continue,
            Err(error) => {
                let process = members
                    .first()
                    .map_or(0, |member| member.process.tracee.threads.process());
                let error = match error {
                    Errno::ECHILD => Error::Ended(thread_id(process)),
                    error => Error::system("waitpid", process, error),
                };
                return (0, Err(error));
            }
        };
        let owner = owner_of(members, id, |member| &mut member.process.tracee);
        match owner.and_then(|place| Some((place, members.get_mut(place)?))) {
            Some((place, Member { process, handler })) => {
                match process.handle_wait_status(id, status, *handler) {
                    Ok(None) => {}
                    Ok(Some(event)) => return (place, Ok(event)),
                    Err(error) => return (place, Err(error)),
                }
            }
            // It belongs to another process that the calling thread traces, or is a child that its maker has not
            // reported yet.
            None => wait_queue::keep(id, status),
        }
    }
}

/// Waits for a report until the timer's next signal. `None` where it is time to poll already, and there is no report.
fn wait_or_poll(timer: Option<&PollTimer>) -> Result<Option<(Tid, Status)>, Errno> {
    match timer.is_some_and(PollTimer::is_late) {
        true => wait_queue::poll_any(),
        false => wait_queue::wait_any().map(Some),
    }
}

/// The place of the process that a reported thread is of. The kernel is asked once, and only where none of them knows the thread:
/// there may be hundreds of processes.
fn owner_of<P>(
    processes: &mut [P],
    id: Tid,
    tracee: impl Fn(&mut P) -> &mut Tracee,
) -> Option<usize> {
    let known = processes
        .iter_mut()
        .position(|process| tracee(process).threads.has(id));
    known.or_else(|| {
        let group = group_of(id)?;
        processes
            .iter_mut()
            .position(|process| tracee(process).claims_new(id, group))
    })
}

/// Calls `look_around` for all processes with pads, and for others whose handlers request it, when it is due. Returns
/// the place of a process whose run is over, or that is to be changed.
fn look_around(
    members: &mut [Member<'_>],
    timer: &mut Option<PollTimer>,
) -> Option<(usize, Event)> {
    let is_looked_at = |member: &Member<'_>| {
        member.process.tracee.fast.has_jumps() || member.handler.looks_around()
    };
    if timer.is_none() && members.iter().any(is_looked_at) {
        *timer = PollTimer::start();
    }
    let timer = timer.as_mut()?;
    let is_urgent = members.iter().any(|member| member.handler.looks_now());
    if !timer.is_due() && !is_urgent {
        return None;
    }
    let mut fullest = 0.0_f64;
    for (place, member) in members.iter_mut().enumerate() {
        if is_looked_at(member) {
            match member.process.look_around(member.handler) {
                LookAround::Ended => return Some((place, Event::RunEnded)),
                LookAround::Change => return Some((place, Event::ChangeWanted)),
                LookAround::GoesOn { filled } => fullest = fullest.max(filled),
            }
        }
    }
    timer.follow(fullest);
    None
}

/// The processes of a debugger, which are run and waited for together.
///
/// A child that is reported ([`Reports`](crate::Reports)) is added. A process that has ended stays until it is taken
/// out.
#[derive(Debug, Default)]
pub struct Tracees {
    processes: Vec<Process>,
    request: Arc<Request>,
}

/// The result of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceesEvent {
    /// Something in this process.
    In(ThreadId, Event),
    /// An [`Interrupter`] has asked.
    Interrupted,
    /// No thread that could cause an event is running.
    NothingRuns,
}

impl Tracees {
    /// Adds a process.
    pub fn add(&mut self, process: Process) {
        self.processes.push(process);
    }

    /// Takes a process out, with everything that shares its memory.
    pub fn remove(&mut self, process: ThreadId) -> Option<Process> {
        let place = self
            .processes
            .iter()
            .position(|known| known.id() == process)?;
        Some(self.processes.remove(place))
    }

    /// The process of a number; for a child by vfork, the one whose memory it shares.
    #[must_use]
    pub fn get(&self, process: ThreadId) -> Option<&Process> {
        self.processes.iter().find(|known| known.holds(process))
    }

    /// As [`get`](Self::get), to be changed.
    pub fn get_mut(&mut self, process: ThreadId) -> Option<&mut Process> {
        self.processes.iter_mut().find(|known| known.holds(process))
    }

    /// All processes, without those that share another's memory.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.iter_mut()
    }

    /// The numbers of all processes, with those that share another's memory.
    pub fn ids(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.processes.iter().flat_map(Process::process_ids)
    }

    /// The processes and threads, each thread with its process.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, ThreadId)> + '_ {
        self.processes.iter().flat_map(Process::debugged_threads)
    }

    /// Whether there is no process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// A handle that ends a wait from another thread.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(Arc::clone(&self.request))
    }

    /// Forgets a request of an [`Interrupter`] that came too late for the last wait.
    pub fn forget_interruption(&self) {
        self.request.take();
    }

    /// Whether a thread runs whose events a debugger could get.
    #[must_use]
    pub fn any_runs(&self) -> bool {
        self.processes
            .iter()
            .any(|process| process.tracee.is_going())
    }

    /// Waits until something happens. The thread that it is about is stopped; the others run on.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn wait(&mut self, handler: &mut dyn HitHandler) -> Result<TraceesEvent, Error> {
        let _mark = self.request.enter();
        let mut timer = None;
        loop {
            let runs_pads = self
                .processes
                .iter()
                .any(|process| process.tracee.fast.has_jumps());
            if runs_pads && timer.is_none() {
                timer = PollTimer::start();
            }
            if runs_pads
                && let Some(timer) = &mut timer
                && timer.is_due()
            {
                for process in &mut self.processes {
                    if !process.tracee.fast.has_jumps() {
                        continue;
                    }
                    match process.look_around(handler) {
                        LookAround::Ended => {
                            return Ok(TraceesEvent::In(process.id(), Event::RunEnded));
                        }
                        LookAround::Change => {
                            return Ok(TraceesEvent::In(process.id(), Event::ChangeWanted));
                        }
                        LookAround::GoesOn { filled } => timer.follow(filled),
                    }
                }
            }
            let mut happened = None;
            for process in &mut self.processes {
                happened = process.next_event(handler)?;
                if happened.is_some() {
                    break;
                }
            }
            let anew = self.adopt();
            if let Some((process, event)) = happened {
                return Ok(TraceesEvent::In(thread_id(process), event));
            }
            if self.request.take() {
                return Ok(TraceesEvent::Interrupted);
            }
            if anew {
                continue;
            }
            if !self.any_runs() {
                return Ok(TraceesEvent::NothingRuns);
            }
            let (id, status) = match wait_or_poll(timer.as_ref()) {
                Ok(Some(report)) => report,
                Ok(None) | Err(Errno::EINTR) => continue,
                Err(Errno::ECHILD) => return Ok(TraceesEvent::NothingRuns),
                Err(error) => {
                    let process = self
                        .processes
                        .first()
                        .map_or(0, |process| process.tracee.threads.process());
                    return Err(Error::system("waitpid", process, error));
                }
            };
            let owner = owner_of(&mut self.processes, id, |process| &mut process.tracee);
            match owner.and_then(|place| self.processes.get_mut(place)) {
                Some(process) => {
                    let event = process.handle_wait_status(id, status, handler)?;
                    if let Some(event) = event {
                        let process = process.tracee.threads.process_of(id);
                        self.adopt();
                        return Ok(TraceesEvent::In(thread_id(process), event));
                    }
                }
                // A process that was detached has ended; or a child that its parent has not reported yet.
                None if matches!(status, Status::Exited(_) | Status::Killed(..))
                    && !wait_queue::threads().contains(&id) => {}
                None => wait_queue::keep(id, status),
            }
        }
    }

    /// Adds the children that have been reported. Returns whether there were any.
    fn adopt(&mut self) -> bool {
        let born: Vec<Process> = self
            .processes
            .iter_mut()
            .flat_map(Process::take_born)
            .collect();
        let any = !born.is_empty();
        self.processes.extend(born);
        any
    }

    /// Stops every thread, moved to the program's own code.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn stop_all(&mut self, handler: &mut dyn HitHandler) -> Result<(), Error> {
        for process in &mut self.processes {
            process.stop_all(handler)?;
        }
        self.adopt();
        Ok(())
    }
}
