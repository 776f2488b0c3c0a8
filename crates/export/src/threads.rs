//! The processes and threads that rows are of.

use std::collections::HashMap;

use tracewire_views::RunPart;

use crate::event::Event;
use crate::lanes::Lanes;

/// A thread of a part. An event that does not say its thread is of thread 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ThreadKey {
    pub(crate) part: usize,
    pub(crate) thread: u32,
}

impl ThreadKey {
    pub(crate) fn of(event: &Event<'_>) -> Self {
        Self {
            part: event.part,
            thread: event.thread.unwrap_or(0),
        }
    }
}

/// The process number that a part is shown with. A trace file of one process does not say its number: such a part has its place among the parts,
/// from 1.
pub(crate) fn process_number(parts: &[RunPart<'_>], part: usize) -> u32 {
    let process = parts.get(part).and_then(|part| part.process);
    let place = u32::try_from(part + 1).unwrap_or(u32::MAX);
    process.map_or(place, |process| process.0)
}

/// The rows of each thread.
#[derive(Debug, Default)]
pub(crate) struct Threads(HashMap<ThreadKey, Lanes>);

impl Threads {
    pub(crate) fn lanes(&mut self, key: ThreadKey) -> &mut Lanes {
        self.0.entry(key).or_default()
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn into_sorted(self) -> Vec<(ThreadKey, Lanes)> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_by_key(|(key, _)| *key);
        all
    }
}
