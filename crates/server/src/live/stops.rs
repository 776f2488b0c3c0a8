//! The stops that were reported to the client.

use std::collections::BTreeMap;

use tracewire_model::ThreadId;
use tracewire_packets::Signal;
use tracewire_packets::family::stop::StopField;

/// The report of a thread's stop, except for what can be read from the thread itself.
#[derive(Clone, Debug)]
pub(super) struct ThreadStop {
    pub(super) signal: Signal,
    pub(super) fields: Vec<StopField>,
}

impl ThreadStop {
    pub(super) const fn signal(signal: Signal) -> Self {
        Self {
            signal,
            fields: Vec::new(),
        }
    }
}

/// The reports of stopped threads, and which thread was reported last.
#[derive(Debug, Default)]
pub(super) struct Stops {
    threads: BTreeMap<ThreadId, ThreadStop>,
    last: Option<ThreadId>,
}

impl Stops {
    pub(super) fn insert(&mut self, thread: ThreadId, stop: ThreadStop) {
        self.threads.insert(thread, stop);
    }

    /// The stop of a thread; without a signal if it was stopped because of another one.
    pub(super) fn of(&mut self, thread: ThreadId) -> ThreadStop {
        let stop = self.threads.entry(thread);
        stop.or_insert(ThreadStop::signal(Signal(0))).clone()
    }

    /// The fields that were reported with the signal.
    pub(super) fn fields(&self, thread: ThreadId) -> &[StopField] {
        let stop = self.threads.get(&thread);
        stop.map_or(&[], |stop| stop.fields.as_slice())
    }

    /// The thread runs, or has ended.
    pub(super) fn forget(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// Forgets threads that have ended.
    pub(super) fn keep(&mut self, alive: &[(u32, ThreadId)]) {
        self.threads
            .retain(|stopped, _| alive.iter().any(|(_, thread)| thread == stopped));
    }

    /// Forgets the reports of a process that is detached or killed: its threads may be attached to again. Also, a
    /// client that asks again why its parent stopped must not get a child that has ended, because it would ask for that
    /// child.
    pub(super) fn forget_process(&mut self, process: u32, alive: &[(u32, ThreadId)]) {
        for (_, thread) in alive.iter().filter(|(of, _)| *of == process) {
            self.forget(*thread);
        }
        for stop in self.threads.values_mut() {
            stop.fields.retain(|field| match field {
                StopField::Fork(child) | StopField::Vfork(child) => {
                    !child.matches(process, process)
                }
                _ => true,
            });
        }
    }

    pub(super) const fn set_last(&mut self, thread: ThreadId) {
        self.last = Some(thread);
    }

    /// Whether the thread was reported last.
    pub(super) fn is_last(&self, thread: ThreadId) -> bool {
        self.last == Some(thread)
    }
}
