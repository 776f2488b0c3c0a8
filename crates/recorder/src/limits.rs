//! What limits a run: so many frames in all, so many a second of each tracepoint, and what hits may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracewire_experiment::{Budget, FrameRates};
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

/// What the hits of all processes of a run may cost.
#[derive(Clone, Debug, Default)]
pub struct SharedBudget {
    pub budget: Option<Budget>,
    processes: Arc<AtomicU64>,
}

impl SharedBudget {
    pub fn new(budget: Option<Budget>) -> Self {
        Self {
            budget,
            processes: Arc::default(),
        }
    }

    /// One more process shares it, for as long as what is given here lives.
    pub fn join(&self) -> BudgetPart {
        self.processes.fetch_add(1, Ordering::AcqRel);
        BudgetPart(Arc::clone(&self.processes))
    }
}

/// The part of one process in a budget.
#[derive(Debug)]
pub struct BudgetPart(Arc<AtomicU64>);

impl BudgetPart {
    /// How many processes share the budget now.
    pub fn processes(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for BudgetPart {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A run that can have no budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BudgetRefused {
    /// A tracepoint measures calls.
    #[error(
        "tracepoint {0} measures calls: where it is out of the program to keep a budget, entries and ends of calls are missing; \
         record it in a run without --budget"
    )]
    Span(TracepointNumber),
    /// The program is at a stub.
    #[error(
        "a budget is kept by code in the program, and by its stops on this machine: there is none at a stub"
    )]
    Stub,
}

/// Looks whether a run of a script can have a budget.
pub fn check_budget(
    budget: &SharedBudget,
    script: &Script,
    at_stub: bool,
) -> Result<(), BudgetRefused> {
    if budget.budget.is_none() {
        return Ok(());
    }
    if at_stub {
        return Err(BudgetRefused::Stub);
    }
    let mut tracepoints = script.tracepoints.iter();
    match tracepoints.find(|tracepoint| tracepoint.span.is_some()) {
        Some(tracepoint) => Err(BudgetRefused::Span(tracepoint.number)),
        None => Ok(()),
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
