//! The time of each frame, as far as the file has it.

use tracewire_tracefile::TraceFile;

/// The latest time that is believed, in microseconds: what 63 bits of nanoseconds can hold. A value over it is no
/// time, and readers of event streams refuse it.
const LATEST: u64 = i64::MAX as u64 / 1000;

/// The time of each frame, in microseconds, in the file's order: its own if it has a valid one, else that of the last frame before
/// with one (as for most steps of `while-stepping`); `None` before the first such.
pub(crate) fn stamped_times(file: &TraceFile) -> impl Iterator<Item = Option<u64>> {
    let mut last = None;
    file.frames().map(move |frame| {
        last = frame.timestamp().filter(|time| *time <= LATEST).or(last);
        last
    })
}

/// [`stamped_times`], with the first time for the frames before it, and 0 if there is none.
pub(crate) fn frame_times(file: &TraceFile) -> impl Iterator<Item = u64> {
    let first = stamped_times(file).flatten().next().unwrap_or(0);
    stamped_times(file).map(move |time| time.unwrap_or(first))
}
