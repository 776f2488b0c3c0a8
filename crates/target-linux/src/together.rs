//! Several processes under one tracer: a debugger's inferiors.

use std::sync::Arc;

use nix::errno::Errno;
use tracewire_experiment::HitHandler;
use tracewire_model::ThreadId;

use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::interrupt::{Interrupter, Request};
use crate::process::Process;
use crate::ptrace::Status;
use crate::pulse::Pulse;
use crate::wait_queue;

/// The processes that a debugger has to do with, which are run and waited for together.
///
/// A child that is reported ([`Reports`](crate::Reports)) is among them from then on. A process that has ended stays until
/// it is taken out.
#[derive(Debug, Default)]
pub struct Tracees {
    processes: Vec<Process>,
    request: Arc<Request>,
}

/// What a wait has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// Something in this process.
    In(ThreadId, Event),
    /// An [`Interrupter`] has asked.
    Interrupted,
    /// No thread runs that could make anything happen.
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

    /// Whether a thread runs that a debugger could be told of.
    #[must_use]
    pub fn any_runs(&self) -> bool {
        self.processes
            .iter()
            .any(|process| process.tracee.is_going())
    }

    /// Waits until something happens. What runs goes on running; the thread that it is about stands.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn wait(&mut self, handler: &mut dyn HitHandler) -> Result<Happened, Error> {
        let _mark = self.request.enter();
        let mut pulse = None;
        loop {
            let runs_pads = self
                .processes
                .iter()
                .any(|process| process.tracee.fast.has_jumps());
            if runs_pads && pulse.is_none() {
                pulse = Pulse::start();
            }
            if runs_pads
                && let Some(pulse) = &mut pulse
                && pulse.is_due()
            {
                for process in &mut self.processes {
                    if process.tracee.fast.has_jumps() && process.look_around(handler, pulse) {
                        return Ok(Happened::In(process.id(), Event::RunEnded));
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
                return Ok(Happened::In(thread_id(process), event));
            }
            if self.request.take() {
                return Ok(Happened::Interrupted);
            }
            if anew {
                continue;
            }
            if !self.any_runs() {
                return Ok(Happened::NothingRuns);
            }
            let (id, status) = match wait_queue::wait_any() {
                Ok(told) => told,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECHILD) => return Ok(Happened::NothingRuns),
                Err(error) => {
                    let process = self
                        .processes
                        .first()
                        .map_or(0, |process| process.tracee.threads.process());
                    return Err(Error::system("waitpid", process, error));
                }
            };
            match self
                .processes
                .iter_mut()
                .find_map(|process| process.tracee.claims(id).then_some(process))
            {
                Some(process) => {
                    let event = process.told(id, status, handler)?;
                    if let Some(event) = event {
                        let process = process.tracee.threads.process_of(id);
                        self.adopt();
                        return Ok(Happened::In(thread_id(process), event));
                    }
                }
                // A process that was let go has ended; or a child whose parent has yet to tell of it.
                None if matches!(status, Status::Exited(_) | Status::Killed(..))
                    && !wait_queue::threads().contains(&id) => {}
                None => wait_queue::keep(id, status),
            }
        }
    }

    /// Takes in the children that have been told of; whether there were any.
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

    /// Brings every thread to a stand, where the program has it and not in code of ours.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn stand(&mut self, handler: &mut dyn HitHandler) -> Result<(), Error> {
        for process in &mut self.processes {
            process.stand(handler)?;
        }
        self.adopt();
        Ok(())
    }
}
