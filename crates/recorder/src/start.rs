//! The start of an experiment's run.

use std::collections::HashSet;

use tracewire_experiment::{Experiment, FrameStore, InstallError, StartError, Target};
use tracewire_model::TracepointNumber;

use crate::error::RecordError;
use crate::observer::{Observer, RecordEvent};

/// Which tracepoints are left out, with an event, if they cannot be put in. Others are an error.
#[derive(Clone, Debug)]
pub(crate) enum KeepGoing {
    All,
    /// Those of patterns, which name more than the user has looked at.
    Of(HashSet<TracepointNumber>),
}

impl KeepGoing {
    /// Whether the run goes on without what these errors are about.
    pub fn goes_on_without(&self, errors: &[InstallError]) -> bool {
        match self {
            Self::All => true,
            Self::Of(patterns) => (errors.iter().flat_map(|error| &error.numbers))
                .all(|number| patterns.contains(number)),
        }
    }
}

/// Starts the run. Tracepoints that cannot be put in are an error, or left out.
pub(crate) fn start_run<S: FrameStore>(
    experiment: &mut Experiment<S>,
    target: &mut dyn Target,
    now: u64,
    keep_going: &KeepGoing,
    observer: &mut dyn Observer,
) -> Result<(), RecordError> {
    loop {
        let errors = match experiment.start(target, now) {
            Ok(()) => return Ok(()),
            Err(StartError::CannotInstall(errors)) => errors,
            Err(error) => return Err(RecordError::Start(error)),
        };
        if !keep_going.goes_on_without(&errors) {
            return Err(RecordError::Install(errors));
        }
        observer.event(RecordEvent::NotInstalled(&errors));
        for error in &errors {
            for number in &error.numbers {
                // It is there: the experiment has just named it.
                let deleted = experiment.delete(*number, Some(error.address));
                debug_assert!(deleted.is_ok(), "{deleted:?}");
            }
        }
        if experiment.tracepoints().next().is_none() {
            return Err(RecordError::Install(errors));
        }
    }
}
