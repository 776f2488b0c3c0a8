//! The processes and threads that rows are of.

use std::collections::HashMap;

use tracewire_views::RunPart;

use crate::error::ExportError;
use crate::event::Event;
use crate::lanes::{Closed, Lanes, Placed};
use crate::run::{Needs, Run};

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

/// The process number with which a part is shown. A trace file of one process does not have its number: such a part has its index
/// among the parts, from 1.
pub(crate) fn process_number(parts: &[RunPart<'_>], part: usize) -> u32 {
    let process = parts.get(part).and_then(|part| part.process);
    let place = u32::try_from(part + 1).unwrap_or(u32::MAX);
    process.map_or(place, |process| process.0)
}

/// A format that has the events of each thread in lanes, so that what overlaps is apart.
pub(crate) trait LaneWriter {
    /// Takes the spans of a thread out of `closed`, which end before the next event.
    fn put_ends(&mut self, key: ThreadKey, closed: &mut Vec<Closed>) -> Result<(), ExportError>;

    /// Takes the next event of a thread, in its lane.
    fn put(&mut self, event: &Event<'_>, placed: Placed, key: ThreadKey)
    -> Result<(), ExportError>;
}

/// Gives all events of a run, with their values and stacks, and the ends of spans between them. One event is in memory at a time.
pub(crate) fn write_lanes(
    run: &Run<'_, '_>,
    writer: &mut impl LaneWriter,
) -> Result<(), ExportError> {
    let mut threads: HashMap<ThreadKey, Lanes> = HashMap::new();
    let mut closed = Vec::new();
    let needs = Needs {
        values: true,
        stack: true,
    };
    run.for_each(needs, |event| {
        let key = ThreadKey::of(&event);
        let placed = threads.entry(key).or_default().place(&event, &mut closed);
        writer.put_ends(key, &mut closed)?;
        writer.put(&event, placed, key)
    })?;
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(key, _)| *key);
    for (key, mut lanes) in threads {
        lanes.finish(&mut closed);
        writer.put_ends(key, &mut closed)?;
    }
    Ok(())
}
