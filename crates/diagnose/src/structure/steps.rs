//! Addresses to which steps of `while-stepping` may have led back.

use std::collections::{HashMap, HashSet};

use tracewire_model::{Address, TracepointNumber};
use tracewire_tracefile::TraceFile;

/// The addresses of tracepoints at which more frames look like hits than hits were counted: steps have led back there, and their
/// frames cannot be recognized.
#[must_use]
pub(crate) fn led_back(file: &TraceFile) -> HashSet<(TracepointNumber, Address)> {
    let tracepoints = file.description().tracepoints().iter();
    let mut left: HashMap<_, u64> = tracepoints
        .filter(|tracepoint| tracepoint.definition.step_count > 0)
        .filter_map(|tracepoint| Some((tracepoint.definition.key(), tracepoint.usage?.hits)))
        .collect();
    let mut found = HashSet::new();
    if left.is_empty() {
        return found;
    }
    for frame in file.frames().filter(|frame| frame.is_step() == Some(false)) {
        let Some(at) = frame.program_counter() else {
            continue;
        };
        let key = (frame.tracepoint(), at);
        match left.get_mut(&key) {
            Some(0) => {
                found.insert(key);
            }
            Some(left) => *left -= 1,
            None => {}
        }
    }
    found
}
