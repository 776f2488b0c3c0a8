//! The times in which tracepoints were out of the program, because the run had a budget.

use std::collections::BTreeMap;
use std::fmt;

use tracewire_model::{Pause, Tracepoint, TracepointNumber};

use crate::words;

/// The times in which a tracepoint was out of the program, at one or more of its locations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PausedTracepoint {
    /// Which tracepoint.
    pub number: TracepointNumber,
    /// How many such times there were.
    pub times: u64,
    /// How long they were all in all, in microseconds.
    pub length: u64,
}

impl fmt::Display for PausedTracepoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tracepoint {} was {}", self.number, self.words())
    }
}

impl PausedTracepoint {
    /// `out of the program 3 times, …`.
    #[must_use]
    pub fn words(&self) -> String {
        format!(
            "out of the program {}, {} in all, for --budget; its hits were not counted then",
            words::count(self.times, "time"),
            words::duration(self.length)
        )
    }
}

/// The tracepoints that were out of the program, by number.
pub fn paused_tracepoints<'t>(
    tracepoints: impl IntoIterator<Item = &'t Tracepoint>,
) -> impl Iterator<Item = PausedTracepoint> {
    let mut all: BTreeMap<TracepointNumber, Vec<Pause>> = BTreeMap::new();
    for tracepoint in tracepoints {
        if !tracepoint.pauses.is_empty() {
            let known = all.entry(tracepoint.definition.number).or_default();
            known.extend(&tracepoint.pauses);
        }
    }
    all.into_iter().map(|(number, mut pauses)| {
        pauses.sort();
        let (mut times, mut length, mut end) = (0, 0_u64, None);
        for pause in pauses {
            let from = match end {
                // Another location was out already.
                Some(end) if pause.from <= end => end,
                _ => {
                    times += 1;
                    pause.from
                }
            };
            length = length.saturating_add(pause.to().saturating_sub(from));
            end = end.max(Some(pause.to()));
        }
        PausedTracepoint {
            number,
            times,
            length,
        }
    })
}
