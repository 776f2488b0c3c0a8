//! Threads that are being stepped for `while-stepping`.

use tracewire_model::{Address, ThreadId, TracepointNumber};

/// A tracepoint's number and address.
pub type TracepointKey = (TracepointNumber, Address);

/// All steps that remain to be made. Several tracepoints may be stepping in one thread.
#[derive(Debug, Default)]
pub(crate) struct Stepping {
    list: Vec<Steps>,
    /// When a pass count was reached whose last hits still have steps to make.
    pass_count_reached: u64,
}

/// The steps of one hit.
#[derive(Clone, Copy, Debug)]
struct Steps {
    thread: ThreadId,
    tracepoint: TracepointKey,
    left: u64,
}

impl Stepping {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    pub(crate) fn begin(&mut self, thread: ThreadId, tracepoint: TracepointKey, count: u64) {
        self.list.push(Steps {
            thread,
            tracepoint,
            left: count,
        });
    }

    pub(crate) fn forget_thread(&mut self, thread: ThreadId) {
        self.list.retain(|steps| steps.thread != thread);
    }

    pub(crate) fn forget_tracepoint(&mut self, tracepoint: TracepointKey) {
        self.list.retain(|steps| steps.tracepoint != tracepoint);
    }

    /// Whether the thread has steps to make.
    pub(crate) fn is_stepping(&self, thread: ThreadId) -> bool {
        self.list.iter().any(|steps| steps.thread == thread)
    }

    /// Whether steps of a hit of this tracepoint remain to be made, in any thread.
    pub(crate) fn follows(&self, tracepoint: TracepointKey) -> bool {
        self.list
            .iter()
            .any(|steps| steps.tracepoint == tracepoint && steps.left > 0)
    }

    /// The tracepoints that a thread is being stepped for.
    pub(crate) fn of_thread(&self, thread: ThreadId) -> Vec<TracepointKey> {
        let of_thread = self.list.iter().filter(|steps| steps.thread == thread);
        of_thread.map(|steps| steps.tracepoint).collect()
    }

    /// A pass count is reached, and its last hits still have steps to make.
    pub(crate) const fn note_pass_count(&mut self, now: u64) {
        self.pass_count_reached = now;
    }

    /// When a pass count was last reached whose last hits had steps to make.
    pub(crate) const fn pass_count_reached(&self) -> u64 {
        self.pass_count_reached
    }

    /// How many hits are being followed by steps.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Counts one step for the hit at `place` if it is the thread's: its tracepoint, and whether that was the last.
    pub(crate) fn step(&mut self, place: usize, thread: ThreadId) -> Option<(TracepointKey, bool)> {
        let steps = self.list.get_mut(place)?;
        if steps.thread != thread {
            return None;
        }
        steps.left = steps.left.saturating_sub(1);
        Some((steps.tracepoint, steps.left == 0))
    }

    /// Drops the hits of the thread that have no steps left.
    pub(crate) fn drop_finished(&mut self, thread: ThreadId) {
        self.list
            .retain(|steps| steps.thread != thread || steps.left > 0);
    }
}
