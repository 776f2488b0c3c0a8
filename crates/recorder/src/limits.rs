//! What limits a run: so many frames in all, and so many a second of each tracepoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_experiment::FrameRates;
use tracewire_model::TracepointNumber;
use tracewire_script::Script;

use crate::stop::{Stop, StopHandle};

/// How many frames a run may still keep, of all its processes.
#[derive(Clone, Debug)]
pub struct FrameLimit {
    most: u64,
    left: Arc<AtomicU64>,
    stop: StopHandle,
}

impl FrameLimit {
    pub fn new(most: u64, stop: StopHandle) -> Self {
        Self {
            most,
            left: Arc::new(AtomicU64::new(most)),
            stop,
        }
    }

    /// Takes one of the frames that are left; false where there is none. The last one ends the run.
    pub fn claim(&self) -> bool {
        let taken = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(1)
            });
        if taken == Ok(1) {
            self.stop.stop(Stop::Frames(self.most));
        }
        taken.is_ok()
    }

    pub const fn most(&self) -> u64 {
        self.most
    }
}

/// A rate that a tracepoint cannot have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RateError {
    /// No tracepoint has the number.
    #[error("a rate is for tracepoint {0}, and the script has none of that number")]
    Unknown(TracepointNumber),
    /// The tracepoint measures calls.
    #[error(
        "tracepoint {0} measures calls, whose entries and ends belong together, and takes no rate; name the tracepoints that \
         have one (--rate 1000/s:1,2)"
    )]
    Span(TracepointNumber),
}

/// Looks whether the tracepoints of a script can have these rates.
pub fn check_rates(rates: &FrameRates, script: &Script) -> Result<(), RateError> {
    for tracepoint in &script.tracepoints {
        if tracepoint.span.is_some() && rates.of(tracepoint.number).is_some() {
            return Err(RateError::Span(tracepoint.number));
        }
    }
    let known = |number: &TracepointNumber| {
        let mut tracepoints = script.tracepoints.iter();
        tracepoints.any(|tracepoint| tracepoint.number == *number)
    };
    match rates.named().find(|number| !known(number)) {
        Some(number) => Err(RateError::Unknown(number)),
        None => Ok(()),
    }
}
