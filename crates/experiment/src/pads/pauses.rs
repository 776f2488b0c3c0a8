//! The budget of a run: its charges, and the pauses of the tracepoints that cost too much.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracewire_fail_point::fail_point;
use tracewire_model::{Address, Pause};

use super::Pads;
use crate::budget::{Budget, HitCost, Need, SLACK};
use crate::error::InstallError;
use crate::experiment::Experiment;
use crate::mechanism::Mechanism;
use crate::stepping::TracepointKey;
use crate::store::FrameStore;
use crate::target::Target;

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

impl<S: FrameStore> Experiment<S> {
    /// Limits the time of each cpu that the tracepoints may take. Call it before the run is started.
    pub fn limit_cost(&mut self, budget: Budget) {
        self.budget.set(Some(budget));
    }

    /// The limit of the time of each cpu that the tracepoints may take.
    #[must_use]
    pub const fn budget(&self) -> Option<Budget> {
        self.budget.budget()
    }

    /// Sets the number of processes that share the budget equally.
    pub fn share_budget(&mut self, processes: u64) {
        if self.budget.share(processes)
            && let Some(factor) = self.budget_factor()
            && let Some(pads) = self.pads.get_mut()
        {
            pads.set_budget(factor);
        }
    }

    /// When a tracepoint was out of the program so far, because of the budget. A pause is included once it has ended: at the
    /// latest at the end of the run. Tracepoints that were deleted since are included, too.
    #[must_use]
    pub fn pauses(&self, key: TracepointKey) -> &[Pause] {
        self.budget.pauses(key)
    }

    /// Forgets the pauses that have ended, which the file of a part of the run has.
    pub fn forget_pauses(&mut self) {
        self.budget.forget_pauses();
    }

    /// The most that hits cost, for all tracepoints that are to be inserted. Pads are made for that, and are not inserted.
    pub fn costs(&mut self, target: &mut dyn Target) -> Vec<LocationCost> {
        let mut missing = self.tracepoints.enabled();
        missing.retain(|address| self.installed.served(*address).is_none());
        let mut costs = Vec::new();
        for address in missing {
            let may_have_pad = self.installed.mechanism() != Mechanism::Trap
                && !self.is_watched(address)
                && !self.overfills_rings(address);
            let made = may_have_pad && self.pad(address, target).is_ok();
            let of_pad = match self.pads.get() {
                Some(pads) if made => pads.costs(address),
                _ => &[],
            };
            let keys = self.tracepoints.at(address);
            let keys = keys.map(|tracepoint| tracepoint.definition().key());
            costs.extend(keys.enumerate().map(|(place, key)| LocationCost {
                key,
                cost: (of_pad.get(place).copied()).unwrap_or_else(HitCost::of_trap),
                by_pad: place < of_pad.len(),
            }));
        }
        costs
    }

    /// Removes tracepoints that cost too much, or inserts them again. Call it when
    /// [`LookAround::Change`](crate::LookAround::Change) has requested it, while the program is stopped.
    ///
    /// # Errors
    /// As [`install`](Self::install). Failed insertions are tried again later.
    pub fn keep_budget(&mut self, target: &mut dyn Target) -> Result<(), Vec<InstallError>> {
        if !self.run.is_on() {
            return Ok(());
        }
        self.look_at_rest();
        let behind = self.behind();
        let now = self.clock();
        let mut installed = Ok(());
        match self.budget.need(behind) {
            Need::Nothing | Need::Watch => {}
            Need::TakeOut => {
                let costs = self.spent();
                for address in self.budget.dearest(&costs) {
                    self.budget.begin_pause(address, now);
                }
                fail_point!("budget/taking-out");
                installed = self.install(target);
            }
            Need::PutBack => {
                let back: Vec<(Address, u64)> = self.budget.take_out();
                installed = self.install(target);
                let now = self.clock();
                for (address, from) in back {
                    let is_back = self.installed.served(address).is_some();
                    let is_gone = self.tracepoints.indices(address).is_empty();
                    if is_back || is_gone || !self.is_enabled(address) {
                        self.note_pause(address, from, now);
                    } else {
                        self.budget.begin_pause(address, from);
                    }
                }
            }
        }
        let cost = self.budget.changed();
        self.charge(cost);
        let costs = self.spent();
        self.budget.watch(costs);
        installed
    }

    fn is_enabled(&self, address: Address) -> bool {
        let mut there = self.tracepoints.at(address);
        there.any(|tracepoint| tracepoint.definition().enabled)
    }

    /// The pause of the tracepoints at an address has ended.
    fn note_pause(&mut self, address: Address, from: u64, now: u64) {
        let keys = self.tracepoints.at(address);
        for key in keys.map(|tracepoint| tracepoint.definition().key()) {
            self.budget.add_pause(key, Pause::new(from, now));
        }
    }

    /// The run ends, and all pauses with it.
    pub(crate) fn end_pauses(&mut self, now: u64) {
        for (address, from) in self.budget.take_out() {
            self.note_pause(address, from, now);
        }
    }

    /// Ends the pause of a tracepoint that is being deleted, if it has one.
    pub(crate) fn forget_pause(&mut self, key: TracepointKey) {
        let Some(from) = self.budget.out_since(key.1) else {
            return;
        };
        let now = self.clock();
        self.budget.add_pause(key, Pause::new(from, now));
        if self.tracepoints.indices(key.1).is_empty() {
            self.budget.forget(key.1);
        }
    }

    /// Checks whether tracepoints have to be removed, or may be inserted again.
    pub(crate) fn look_at_budget(&mut self) -> BudgetLook {
        if self.budget.budget().is_none() {
            return BudgetLook::Kept { used: 0.0 };
        }
        let behind = self.behind();
        match self.budget.need(behind) {
            Need::TakeOut => {
                let costs = self.spent();
                if !self.budget.dearest(&costs).is_empty() {
                    self.budget.ask();
                    return BudgetLook::Change;
                }
                self.budget.hurry(false);
            }
            Need::PutBack => {
                self.budget.ask();
                return BudgetLook::Change;
            }
            Need::Watch => {
                let costs = self.spent();
                self.budget.watch(costs);
            }
            Need::Nothing => {}
        }
        let (since, before) = self.budget.look(behind);
        let spent = behind.saturating_sub(before).as_secs_f64() / SLACK.as_secs_f64();
        BudgetLook::Kept {
            used: spent.max(since.as_secs_f64() / LOOK.as_secs_f64() * SHARE),
        }
    }

    /// Whether traps alone have used up the budget, and tracepoints must be removed at once.
    pub(crate) fn has_to_take_out(&self) -> bool {
        self.budget.is_urgent()
    }

    /// Whether hits of stopped threads make no frames, because of the budget.
    pub(crate) fn is_behind(&mut self) -> bool {
        self.budget.budget().is_some() && self.behind() > SLACK
    }

    /// Charges a stop that began at an instant, at the address of tracepoints or in a step.
    pub(crate) fn charge_stop(&mut self, address: Option<Address>, begun: Instant) {
        let cost = self.budget.note_stop(address, begun);
        self.charge(cost);
        let behind = self.behind();
        self.budget.hurry(self.budget.need(behind) == Need::TakeOut);
    }

    fn charge(&mut self, cost: Duration) {
        match self.pads.get_mut() {
            Some(pads) => pads.charge(cost),
            None => self.budget.charge(cost),
        }
    }

    /// How far the program is behind.
    fn behind(&mut self) -> Duration {
        let of_pads = self.pads.get_mut().map_or(Duration::ZERO, Pads::behind);
        of_pads.max(self.budget.behind())
    }

    /// The cost of the tracepoints at each address so far.
    fn spent(&self) -> HashMap<Address, Duration> {
        let mut costs = HashMap::new();
        for address in self.tracepoints.addresses() {
            let keys = self.tracepoints.at(address);
            let keys = keys.map(|tracepoint| tracepoint.definition().key());
            let in_pad: Duration = (self.pads.get())
                .map_or(Duration::ZERO, |pads| keys.map(|key| pads.spent(key)).sum());
            costs.insert(address, in_pad + self.budget.stops_at(address));
        }
        costs
    }

    pub(super) fn budget_factor(&self) -> Option<u64> {
        let budget = self.budget.budget()?;
        Some(budget.factor(self.budget.processes()))
    }

    /// The time, by the clock of all frames.
    fn clock(&self) -> u64 {
        if let Some(pads) = self.pads.get() {
            return pads.now();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
    }
}
