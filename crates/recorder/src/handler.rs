//! What a recording does with the hits of its process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracewire_experiment::{
    Experiment, Hit, HitHandler, LookAround, MarkedHandler, MarkerValue, Outcome, StoppedThread,
};
use tracewire_model::{Address, ThreadId};

use crate::buffer::Buffer;
use crate::limits::BudgetPart;
use crate::rotation::Rotation;

/// How often what has been counted is made known while the program runs.
const EVERY: Duration = Duration::from_secs(1);

/// The handler of the hits of a recorded process.
pub struct RecordingHandler<'r> {
    pub(crate) experiment: &'r mut Experiment<Buffer>,
    /// What the markers say that tracepoints are on.
    pub(crate) markers: &'r BTreeMap<Address, Vec<MarkerValue>>,
    /// Whether something is counted.
    pub(crate) is_counting: bool,
    /// Whether tracepoints have rates.
    pub(crate) has_rates: bool,
    /// Whether frames are to be written that came in a second ago.
    pub(crate) is_lean: bool,
    /// When its next file begins.
    pub(crate) rotation: Option<&'r Rotation>,
    /// Its part in the budget.
    pub(crate) part: &'r BudgetPart,
    /// When what has been counted is made known next.
    pub(crate) next_aggregates: &'r mut Instant,
}

impl HitHandler for RecordingHandler<'_> {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        MarkedHandler::new(self.experiment, self.markers).hit(hit, thread)
    }

    fn looks_around(&self) -> bool {
        self.is_counting
            || self.has_rates
            || self.is_lean
            || self.rotation.is_some()
            || self.experiment.looks_around()
    }

    fn looks_now(&self) -> bool {
        self.experiment.looks_now()
    }

    /// The tables are read while the program adds to them; no thread waits.
    fn look_around(&mut self) -> LookAround {
        let now = Instant::now();
        if self.is_counting && *self.next_aggregates <= now {
            *self.next_aggregates = now + EVERY;
            let aggregates = self.experiment.aggregates();
            self.experiment
                .store()
                .counters()
                .set_aggregates(aggregates);
        }
        self.experiment.share_budget(self.part.processes());
        let looked = self.experiment.look_around();
        self.experiment.store().turn();
        if self.has_rates {
            let counters = self.experiment.store().counters();
            counters.set_skipped(self.experiment.skipped());
        }
        let is_due = |rotation: &Rotation| rotation.is_due(self.experiment);
        match looked {
            LookAround::GoesOn { .. } if self.rotation.is_some_and(is_due) => LookAround::Change,
            looked => looked,
        }
    }

    fn stops_at(&mut self, address: Address, thread: &mut dyn StoppedThread) -> bool {
        self.experiment.stops_at(address, thread)
    }

    fn thread_ended(&mut self, thread: ThreadId) {
        self.experiment.thread_ended(thread);
    }
}
