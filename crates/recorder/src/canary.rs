//! One process of several is recorded first. The others follow when it is well.

use std::fmt;
use std::time::Duration;

use tracewire_model::ThreadId;
use tracewire_target_linux::Event;

use crate::processes::RunReport;
use crate::report::{Ending, program_words};

/// What becomes of the process that is recorded first.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CanaryEvent {
    /// It is recorded, and so many others wait.
    Begun {
        /// How many wait.
        others: usize,
        /// For how long, from when its tracepoints are in it.
        time: Duration,
    },
    /// It is well, and the others follow.
    Well,
}

/// The process that was recorded first was not well. The others were not touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CanaryFailure {
    /// The process, or one that it has made.
    pub process: ThreadId,
    /// What has become of it.
    pub reason: String,
}

impl fmt::Display for CanaryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, reason } = self;
        write!(
            f,
            "process {process}, which was to go first, is not well: {reason}; the others were left alone"
        )
    }
}

/// What is not well in a run of one process and what it has made.
pub(crate) fn fault(report: &RunReport) -> Option<(ThreadId, String)> {
    let failed = report.failed.first();
    let failed = failed.map(|(process, error)| (*process, error.to_string()));
    failed.or_else(|| {
        report.parts.iter().find_map(|part| {
            let reason = match (&part.failure, &part.report.ending) {
                (Some(error), _) => error.to_string(),
                (None, Ending::Failed(words)) => words.clone(),
                (None, Ending::Program(Event::Exited(0))) => return None,
                (None, Ending::Program(event)) => program_words(event),
                (None, _) => return None,
            };
            Some((part.process, reason))
        })
    })
}
