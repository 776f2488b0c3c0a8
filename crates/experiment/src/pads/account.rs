//! The account of a run's budget: what hits in pads and at stops cost, and the pauses of the tracepoints that cost too much.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracewire_model::{Address, Pause};

use super::{Pads, RunPads};
use crate::budget::{BudgetKeeper, HitCost, Need, SLACK};
use crate::stepping::TracepointKey;
use crate::tracepoints::Tracepoints;

/// How often the budget is checked, unless it is urgent.
const LOOK: Duration = Duration::from_millis(5);
/// The part of the space that is left for frames until the next look (see [`LookAround::GoesOn`](crate::LookAround::GoesOn)).
const SHARE: f64 = 0.25;

/// The result of a check of the budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum BudgetLook {
    /// Nothing changes.
    Kept {
        /// The used part of the available budget since the last look; 1 is all of it.
        used: f64,
    },
    /// Tracepoints have to be removed, or may be inserted again.
    Change,
}

/// The most that hits of one location of a tracepoint cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocationCost {
    /// The tracepoint and the address.
    pub key: TracepointKey,
    /// The cost of hits.
    pub cost: HitCost,
    /// Whether a pad serves it, and not a trap.
    pub by_pad: bool,
}

/// The budget, with all that is charged to it.
pub(crate) struct Account<'e> {
    pub(crate) keeper: &'e mut BudgetKeeper,
    pub(crate) pads: &'e mut RunPads,
    pub(crate) tracepoints: &'e Tracepoints,
}

impl Account<'_> {
    /// What the budget requires now.
    pub(crate) fn need(&mut self) -> Need {
        let behind = self.behind();
        self.keeper.need(behind)
    }

    /// Begins the pauses of the tracepoints that cost most.
    pub(crate) fn pause_dearest(&mut self) {
        let now = self.clock();
        for address in self.keeper.dearest(&self.spent()) {
            self.keeper.begin_pause(address, now);
        }
    }

    /// The changes that were requested are made: charges the stop, and measures from now on.
    pub(crate) fn changed(&mut self) {
        let cost = self.keeper.changed();
        self.charge(cost);
        let costs = self.spent();
        self.keeper.watch(costs);
    }

    /// The pause of the tracepoints at an address has ended.
    pub(crate) fn note_pause(&mut self, address: Address, from: u64, now: u64) {
        let keys = self.tracepoints.at(address);
        for key in keys.map(|tracepoint| tracepoint.definition().key()) {
            self.keeper.add_pause(key, Pause::new(from, now));
        }
    }

    /// The run ends, and all pauses with it.
    pub(crate) fn end_pauses(&mut self, now: u64) {
        for (address, from) in self.keeper.take_out() {
            self.note_pause(address, from, now);
        }
    }

    /// Ends the pause of a tracepoint that is being deleted, if it has one.
    pub(crate) fn forget_pause(&mut self, key: TracepointKey) {
        let Some(from) = self.keeper.out_since(key.1) else {
            return;
        };
        let now = self.clock();
        self.keeper.add_pause(key, Pause::new(from, now));
        if self.tracepoints.indices(key.1).is_empty() {
            self.keeper.forget(key.1);
        }
    }

    /// Checks whether tracepoints have to be removed, or may be inserted again.
    pub(crate) fn look(&mut self) -> BudgetLook {
        if self.keeper.budget().is_none() {
            return BudgetLook::Kept { used: 0.0 };
        }
        let behind = self.behind();
        match self.keeper.need(behind) {
            Need::TakeOut => {
                let costs = self.spent();
                if !self.keeper.dearest(&costs).is_empty() {
                    self.keeper.ask();
                    return BudgetLook::Change;
                }
                self.keeper.hurry(false);
            }
            Need::PutBack => {
                self.keeper.ask();
                return BudgetLook::Change;
            }
            Need::Watch => {
                let costs = self.spent();
                self.keeper.watch(costs);
            }
            Need::Nothing => {}
        }
        let (since, before) = self.keeper.look(behind);
        let spent = behind.saturating_sub(before).as_secs_f64() / SLACK.as_secs_f64();
        BudgetLook::Kept {
            used: spent.max(since.as_secs_f64() / LOOK.as_secs_f64() * SHARE),
        }
    }

    /// Whether hits of stopped threads make no frames, because of the budget.
    pub(crate) fn is_behind(&mut self) -> bool {
        self.keeper.budget().is_some() && self.behind() > SLACK
    }

    /// Charges a stop that began at an instant, at the address of tracepoints or in a step.
    pub(crate) fn charge_stop(&mut self, address: Option<Address>, begun: Instant) {
        let cost = self.keeper.note_stop(address, begun);
        self.charge(cost);
        let behind = self.behind();
        self.keeper.hurry(self.keeper.need(behind) == Need::TakeOut);
    }

    fn charge(&mut self, cost: Duration) {
        match self.pads.get_mut() {
            Some(pads) => pads.charge(cost),
            None => self.keeper.charge(cost),
        }
    }

    /// How far the program is behind.
    fn behind(&mut self) -> Duration {
        let of_pads = self.pads.get_mut().map_or(Duration::ZERO, Pads::behind);
        of_pads.max(self.keeper.behind())
    }

    /// The cost of the tracepoints at each address so far.
    fn spent(&self) -> HashMap<Address, Duration> {
        let mut costs = HashMap::new();
        for address in self.tracepoints.addresses() {
            let keys = self.tracepoints.at(address);
            let keys = keys.map(|tracepoint| tracepoint.definition().key());
            let in_pad: Duration = (self.pads.get())
                .map_or(Duration::ZERO, |pads| keys.map(|key| pads.spent(key)).sum());
            costs.insert(address, in_pad + self.keeper.stops_at(address));
        }
        costs
    }

    /// The time, by the clock of all frames.
    pub(crate) fn clock(&self) -> u64 {
        if let Some(pads) = self.pads.get() {
            return pads.now();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
    }
}
