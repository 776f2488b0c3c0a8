//! The stops that were reported to the client.

use std::collections::BTreeMap;

use tracewire_model::ThreadId;
use tracewire_packets::Signal;
use tracewire_packets::family::stop::StopField;

/// What is reported of a thread's stop, apart from what can be asked of the thread itself.
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

/// What was reported of threads that are stopped since, and which of them was reported last.
#[derive(Debug, Default)]
pub(super) struct Stops {
    threads: BTreeMap<ThreadId, ThreadStop>,
    last: Option<ThreadId>,
}

impl Stops {
    pub(super) fn insert(&mut self, thread: ThreadId, stop: ThreadStop) {
        self.threads.insert(thread, stop);
    }

    /// The stop of a thread; without a signal where it was stopped for another's sake.
    pub(super) fn of(&mut self, thread: ThreadId) -> ThreadStop {
        let stop = self.threads.entry(thread);
        stop.or_insert(ThreadStop::signal(Signal(0))).clone()
    }

    /// What was reported beside the signal.
    pub(super) fn fields(&self, thread: ThreadId) -> &[StopField] {
        let stop = self.threads.get(&thread);
        stop.map_or(&[], |stop| stop.fields.as_slice())
    }

    /// The thread goes on, or is no more.
    pub(super) fn forget(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// Forgets threads that are no more.
    pub(super) fn keep(&mut self, alive: &[(u32, ThreadId)]) {
        self.threads
            .retain(|stopped, _| alive.iter().any(|(_, thread)| thread == stopped));
    }

    /// Forgets what was reported of a process that is let go or killed: its threads may be attached to again. And a client that asks
    /// once more why its parent stopped is to hear of no child that is gone by now, for it would ask for it.
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
