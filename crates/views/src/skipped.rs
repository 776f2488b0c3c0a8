//! Hits that made no frame because the run limited how often tracepoints may make one, or a pick passed them over.

use std::collections::BTreeMap;
use std::fmt;

use tracewire_model::{Tracepoint, TracepointNumber};

/// The hits of a tracepoint, some of which were skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkippedHits {
    /// Which tracepoint.
    pub number: TracepointNumber,
    /// How many were skipped.
    pub skipped: u64,
    /// How many there were, those that were skipped included.
    pub hits: u64,
    /// The pick of the tracepoint, as written.
    pub pick: Option<String>,
}

impl fmt::Display for SkippedHits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            skipped,
            hits,
            pick,
        } = self;
        write!(
            f,
            "tracepoint {number}: {skipped} of {hits} hits were skipped, for "
        )?;
        match pick {
            Some(pick) => write!(f, "`{pick}`, and --rate or --budget if the run has them"),
            None => f.write_str("--rate or --budget"),
        }
    }
}

/// The tracepoints that had hits skipped, by number, their locations added up.
pub fn skipped_hits<'t>(
    tracepoints: impl IntoIterator<Item = &'t Tracepoint>,
) -> impl Iterator<Item = SkippedHits> {
    let mut sums: BTreeMap<TracepointNumber, SkippedHits> = BTreeMap::new();
    for tracepoint in tracepoints {
        let number = tracepoint.definition.number;
        let sum = sums.entry(number).or_insert(SkippedHits {
            number,
            skipped: 0,
            hits: 0,
            pick: None,
        });
        if let Some(pick) = tracepoint.definition.source.pick() {
            sum.pick = Some(pick.text);
        }
        sum.skipped = sum.skipped.saturating_add(tracepoint.skipped);
        // A file without usage has no number of hits.
        let hits = tracepoint.usage.map_or(0, |usage| usage.hits);
        sum.hits = sum.hits.saturating_add(hits);
    }
    sums.into_values().filter(|sum| sum.skipped > 0)
}
