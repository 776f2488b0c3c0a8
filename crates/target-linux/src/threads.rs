//! The traced threads of a process and of the processes that share its memory.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::ops::Range;

use libc::user_regs_struct;

use crate::event::Event;
use crate::maps;
use crate::ptrace::{Resume, Status, Stopped, Tid};
use crate::thread::{News, State, Thread};

/// The threads, which of them have something pending, and which have ended.
#[derive(Debug)]
pub(crate) struct Threads {
    process: Tid,
    all: BTreeMap<Tid, Thread>,
    /// Threads that have ended, until that is reported.
    gone: Vec<Tid>,
    /// Threads with something pending, to be looked at by the run.
    ready: VecDeque<Tid>,
    /// Ends that are reported to a debugger, except that of the process itself.
    endings: VecDeque<(Tid, Event)>,
    /// How the first thread has ended.
    first_end: Option<Status>,
    /// How the process has ended.
    pub(crate) ended: Option<Event>,
    /// The kernel lets only the thread that has attached trace.
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Threads {
    /// The threads of the process of this number.
    pub(crate) fn new(process: Tid, all: BTreeMap<Tid, Thread>) -> Self {
        Self {
            process,
            all,
            gone: Vec::new(),
            ready: VecDeque::new(),
            endings: VecDeque::new(),
            first_end: None,
            ended: None,
            stays_on_its_thread: PhantomData,
        }
    }

    /// The number of the process.
    pub(crate) const fn process(&self) -> Tid {
        self.process
    }

    pub(crate) fn get(&self, id: Tid) -> Option<&Thread> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: Tid) -> Option<&mut Thread> {
        self.all.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Thread> + Clone {
        self.all.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Thread> {
        self.all.values_mut()
    }

    pub(crate) fn ids(&self) -> Vec<Tid> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn has(&self, id: Tid) -> bool {
        self.all.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The only thread, if there is exactly one.
    pub(crate) fn only(&self) -> Option<Tid> {
        match self.all.len() {
            1 => self.all.keys().next().copied(),
            _ => None,
        }
    }

    pub(crate) fn add(&mut self, thread: Thread) {
        self.all.insert(thread.id, thread);
    }

    pub(crate) fn remove(&mut self, id: Tid) -> Option<Thread> {
        self.all.remove(&id)
    }

    /// Takes all threads, to be detached.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Thread> + use<> {
        std::mem::take(&mut self.all).into_values()
    }

    /// Forgets threads that are no more, and names them.
    pub(crate) fn forget(&mut self, are_gone: impl Fn(&Thread) -> bool) -> Vec<Tid> {
        let gone = self.all.extract_if(.., |_, thread| are_gone(thread));
        let gone: Vec<Tid> = gone.map(|(id, _)| id).collect();
        self.gone.extend(&gone);
        gone
    }

    /// The threads that have ended and have not been reported yet.
    pub(crate) fn take_gone(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.gone)
    }

    /// A thread has something pending, which the run is to act on.
    pub(crate) fn make_ready(&mut self, id: Tid) {
        self.ready.push_back(id);
    }

    /// The same, for one that may be known to have it.
    pub(crate) fn make_ready_once(&mut self, id: Tid) {
        if !self.ready.contains(&id) {
            self.ready.push_back(id);
        }
    }

    pub(crate) fn next_ready(&mut self) -> Option<Tid> {
        self.ready.pop_front()
    }

    /// Nothing that was pending counts any more.
    pub(crate) fn forget_ready(&mut self) {
        self.ready.clear();
    }

    /// Notes an end in this process that is to be reported to a debugger.
    pub(crate) fn note_ending(&mut self, process: Tid, how: Event) {
        self.endings.push_back((process, how));
    }

    pub(crate) fn next_ending(&mut self) -> Option<(Tid, Event)> {
        self.endings.pop_front()
    }

    pub(crate) fn has_ending(&self) -> bool {
        !self.endings.is_empty()
    }

    /// A thread that has not ended: the leader if possible. Others may have ended before `/proc` is read by the number,
    /// most likely those of a process that shares the memory.
    pub(crate) fn any(&self) -> Tid {
        let rank = |thread: &&Thread| (thread.id != self.process, thread.process != self.process);
        self.iter()
            .filter(|thread| !thread.exiting)
            .min_by_key(rank)
            .map_or(self.process, |thread| thread.id)
    }

    /// The process of a thread.
    pub(crate) fn process_of(&self, id: Tid) -> Tid {
        self.get(id).map_or(self.process, |thread| thread.process)
    }

    /// The handle to access a thread, if it is stopped.
    pub(crate) fn stopped(&self, id: Tid) -> Option<&Stopped> {
        self.get(id)?.stopped()
    }

    /// The registers of a thread that is stopped.
    pub(crate) fn registers(&self, id: Tid) -> Option<user_regs_struct> {
        self.get(id)?.registers()
    }

    /// The threads that are stopped.
    pub(crate) fn all_stopped(&self) -> Vec<Tid> {
        self.iter()
            .filter(|thread| thread.stopped().is_some())
            .map(|thread| thread.id)
            .collect()
    }

    /// Whether a request to stop would be answered by any thread.
    pub(crate) fn any_can_be_stopped(&self) -> bool {
        self.iter().any(Thread::can_be_stopped)
    }

    /// Asks every thread to stop that will answer.
    pub(crate) fn interrupt(&self) {
        for thread in self.iter().filter(|thread| thread.can_be_stopped()) {
            thread.interrupt();
        }
    }

    /// Whether some thread could not be stopped: where it is in its code may not be known.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.iter().any(|thread| thread.asleep)
    }

    /// Whether a thread that could not be stopped is among these addresses, or may be.
    pub(crate) fn may_sleep_in(&self, range: &Range<u64>) -> bool {
        self.iter()
            .filter(|thread| thread.asleep)
            .any(|thread| maps::sleeping_at(thread.id).is_none_or(|at| range.contains(&at)))
    }

    /// Leaves threads alone that sleep although they have been asked to stop. They stop before they execute anything of
    /// the program, so they count as stopped, except that their registers cannot be read.
    pub(crate) fn leave_asleep(&mut self) {
        for thread in self.iter_mut() {
            if thread.can_be_stopped() && maps::sleeps(thread.id) {
                thread.asleep = true;
            }
        }
    }

    /// The thread that waits in vfork for a child.
    pub(crate) fn parent_in_vfork(&self, child: Tid) -> Option<Tid> {
        self.iter()
            .find(|parent| parent.in_vfork == Some(child))
            .map(|parent| parent.id)
    }

    /// Whether a thread waits in vfork.
    pub(crate) fn is_in_vfork(&self, id: Tid) -> bool {
        self.get(id).is_some_and(|thread| thread.in_vfork.is_some())
    }

    /// A child leaves the memory that it shares: a parent that waits for that in vfork reports the end of the wait at once.
    pub(crate) fn end_vfork(&mut self, child: Tid) {
        for parent in self.iter_mut() {
            parent.in_vfork.take_if(|awaited| *awaited == child);
        }
    }

    /// A thread has stopped because it is about to end, and is resumed to its end.
    pub(crate) fn note_exit_stop(&mut self, id: Tid, is_debugged: bool) {
        if let Some(thread) = self.all.get_mut(&id) {
            thread.has_stopped();
            thread.exiting = true;
            let by_itself = thread
                .registers()
                .is_some_and(|registers| registers.orig_rax as i64 == libc::SYS_exit);
            if !by_itself {
                // All end together, with a common status.
                self.first_end = None;
            } else if id == self.process && is_debugged {
                // To a debugger the first thread has the last word, even where it ends before the others.
                self.first_end = thread
                    .stopped()
                    .and_then(|stopped| stopped.event_message().ok())
                    .map(|status| Status::decode(status as libc::c_int));
            }
            thread.go_on(Resume::Continue, 0);
        }
        self.end_vfork(id);
    }

    /// How a thread has ended, for this wait status.
    pub(crate) fn end_of(&self, id: Tid, status: Status) -> Status {
        self.first_end
            .filter(|_| id == self.process)
            .unwrap_or(status)
    }

    /// Whether a thread executes the instruction at this address in its place.
    pub(crate) fn any_in_place(&self, site: u64) -> bool {
        self.iter().any(|thread| thread.in_place == Some(site))
    }

    /// Whether a thread executes single steps, for any reason.
    pub(crate) fn steps(&self, id: Tid) -> bool {
        self.get(id).is_some_and(Thread::steps)
    }

    /// Whether a thread has a stop or news that is not handled yet.
    pub(crate) fn has_something_to_tell(&self, id: Tid) -> bool {
        self.get(id).is_some_and(Thread::has_something_to_tell)
    }

    /// Whether the process has become another program and that has not been reported. Marks it as reported.
    pub(crate) fn take_exec(&mut self) -> bool {
        let process = self.process;
        let found = self
            .iter_mut()
            .find(|thread| thread.process == process && thread.news == Some(News::Exec));
        found.is_some_and(|thread| thread.news.take().is_some())
    }

    /// Those of other processes, which share the memory.
    pub(crate) fn strangers(&self) -> Vec<Tid> {
        self.iter()
            .filter(|thread| thread.process != self.process)
            .map(|thread| thread.id)
            .collect()
    }

    /// A thread that waits in vfork and has not been stopped.
    pub(crate) fn any_waiting_in_vfork(&self) -> Option<Tid> {
        self.iter()
            .find(|thread| thread.in_vfork.is_some() && matches!(thread.state, State::Running(_)))
            .map(|thread| thread.id)
    }
}
