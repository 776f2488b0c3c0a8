//! The part of each cpu's time that the tracepoints of a run may take.
//!
//! The cost of a hit is charged to its cpu. The budget pays for it evenly: at 1%, a microsecond is paid for after 100. A cpu that
//! is behind by more than [`SLACK`] makes no frames, and hits are skipped there. Some costs cannot be skipped: the entry of the
//! pad, conditions, traps. If these alone exceed the budget, a cpu gets behind by more than twice as much. Then the most
//! expensive tracepoints are removed from the program until their cost is paid for: they have a [`Pause`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::{Duration, Instant};

use tracewire_model::{Address, Pause};

use crate::stepping::TracepointKey;

/// How far a cpu may be behind before its hits make no frames.
pub const SLACK: Duration = Duration::from_millis(50);

/// The cost of a stop to a thread, without the tracer's work: the kernel stops it, wakes the tracer, and resumes it.
const STOP: Duration = Duration::from_micros(15);

/// A share of each cpu, in hundredths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Budget(u32);

/// A budget that there cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a budget of {}%: 0.1% to 50% are possible", Percent(*.0))]
pub struct BudgetError(u32);

/// Hundredths of a percent as a number with as many places as it needs.
struct Percent(u32);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, part) if part % 10 == 0 => write!(f, "{whole}.{}", part / 10),
            (whole, part) => write!(f, "{whole}.{part:02}"),
        }
    }
}

impl Budget {
    /// A budget of this many hundredths of a percent of each cpu.
    ///
    /// # Errors
    /// When that is less than 0.1% or more than 50%.
    pub const fn new(hundredths: u32) -> Result<Self, BudgetError> {
        match hundredths {
            10..=5000 => Ok(Self(hundredths)),
            _ => Err(BudgetError(hundredths)),
        }
    }

    /// The time in which a cost is paid for, if this many processes share the budget.
    #[must_use]
    pub fn pays_in(self, cost: Duration, processes: u64) -> Duration {
        let nanoseconds =
            (cost.as_nanos() * u128::from(self.factor(processes))) >> Self::FACTOR_BITS;
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// The ratio of the time to pay for a cost to the cost, times 2 to the power of [`FACTOR_BITS`](Self::FACTOR_BITS).
    #[must_use]
    pub const fn factor(self, processes: u64) -> u64 {
        let times = 10_000 << Self::FACTOR_BITS;
        let processes = if processes == 0 { 1 } else { processes };
        (processes.saturating_mul(times)).div_ceil(self.0 as u64)
    }

    /// See [`factor`](Self::factor).
    pub const FACTOR_BITS: u32 = 8;
}

/// `1%`.
impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", Percent(self.0))
    }
}

/// The most that hits of a tracepoint cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HitCost {
    /// A hit that makes a frame. If the tracepoint makes none, a hit that is counted.
    pub hit: Duration,
    /// A hit that is skipped, if hits may be.
    pub skipped: Option<Duration>,
    /// A hit whose condition is false, if there is a condition.
    pub unmet: Option<Duration>,
}

impl HitCost {
    /// The cost of a trap's hit: two switches between the program and the tracer, and the tracer's work.
    #[must_use]
    pub const fn of_trap() -> Self {
        let all = Duration::from_micros(40);
        Self {
            hit: all,
            skipped: None,
            unmet: None,
        }
    }

    /// The worse of both, of each kind.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            hit: self.hit.max(other.hit),
            skipped: self.skipped.max(other.skipped),
            unmet: self.unmet.max(other.unmet),
        }
    }
}

/// Keeps the budget of a run.
#[derive(Debug, Default)]
pub(crate) struct BudgetKeeper {
    budget: Option<Budget>,
    /// How many processes share it.
    processes: u64,
    /// When all charges here are paid for: those that are not a pad's, in a run without pads.
    paid: Option<Instant>,
    /// The addresses that have a pause, and since when.
    out: BTreeMap<Address, u64>,
    pauses: HashMap<TracepointKey, Vec<Pause>>,
    /// The cost of stops at each address.
    stops: HashMap<Address, Duration>,
    /// When the costs of tracepoints were last read, and what they were.
    seen: Option<(Instant, HashMap<Address, Duration>)>,
    /// When the program was asked to stop for a change.
    asked: Option<Instant>,
    /// When it was last checked how far cpus are behind, and by how much they were.
    looked: Option<(Instant, Duration)>,
    /// Whether stops alone require that tracepoints are removed.
    urgent: bool,
}

/// The action that the budget requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    Nothing,
    /// The costs of tracepoints are measured from now on.
    Watch,
    /// The dearest tracepoints have to go.
    TakeOut,
    /// All tracepoints may be inserted again.
    PutBack,
}

impl BudgetKeeper {
    pub(crate) const fn set(&mut self, budget: Option<Budget>) {
        self.budget = budget;
    }

    pub(crate) const fn budget(&self) -> Option<Budget> {
        self.budget
    }

    fn processes(&self) -> u64 {
        self.processes.max(1)
    }

    /// The ratio of the time to pay for a cost to the cost ([`Budget::factor`]); `None` without a budget.
    pub(crate) fn factor(&self) -> Option<u64> {
        self.budget.map(|budget| budget.factor(self.processes()))
    }

    /// Sets the number of processes that share the budget. Returns whether it has changed.
    pub(crate) const fn share(&mut self, processes: u64) -> bool {
        let changed = self.processes != processes;
        self.processes = processes;
        changed
    }

    /// A run begins.
    pub(crate) fn begin(&mut self) {
        *self = Self {
            budget: self.budget,
            processes: self.processes,
            ..Self::default()
        };
    }

    /// Charges a cost, in a run without pads.
    pub(crate) fn charge(&mut self, cost: Duration) {
        if let Some(budget) = self.budget {
            let now = Instant::now();
            let from = self.paid.map_or(now, |paid| paid.max(now));
            self.paid = Some(from + budget.pays_in(cost, self.processes()));
        }
    }

    /// How far the charges here are behind.
    pub(crate) fn behind(&self) -> Duration {
        self.paid.map_or(Duration::ZERO, |paid| {
            paid.saturating_duration_since(Instant::now())
        })
    }

    /// Notes the cost of a stop at an address, which began at `begun`.
    pub(crate) fn note_stop(&mut self, address: Option<Address>, begun: Instant) -> Duration {
        let cost = begun.elapsed() + STOP;
        if let Some(address) = address {
            *self.stops.entry(address).or_default() += cost;
        }
        cost
    }

    /// The cost of stops at an address.
    pub(crate) fn stops_at(&self, address: Address) -> Duration {
        self.stops.get(&address).copied().unwrap_or_default()
    }

    /// The action that is required while a cpu is behind by this much.
    pub(crate) fn need(&self, behind: Duration) -> Need {
        const WATCHED: Duration = Duration::from_secs(1);
        if self.budget.is_none() {
            return Need::Nothing;
        }
        if behind > 2 * SLACK {
            return Need::TakeOut;
        }
        if behind <= SLACK && !self.out.is_empty() {
            return Need::PutBack;
        }
        match &self.seen {
            Some((seen, _)) if seen.elapsed() < WATCHED => Need::Nothing,
            _ => Need::Watch,
        }
    }

    /// Notes the costs of tracepoints so far.
    pub(crate) fn watch(&mut self, costs: HashMap<Address, Duration>) {
        self.seen = Some((Instant::now(), costs));
    }

    /// The most expensive of these addresses, by their cost since the last check: as many as needed to keep the rest within the
    /// budget. None if all are within it: the remaining debt is from before.
    pub(crate) fn dearest(&self, costs: &HashMap<Address, Duration>) -> Vec<Address> {
        let Some(budget) = self.budget else {
            return Vec::new();
        };
        let (elapsed, before) = match &self.seen {
            Some((seen, before)) => (seen.elapsed(), Some(before)),
            None => (Duration::ZERO, None),
        };
        let since = |address: &Address| {
            let before = before.and_then(|before| before.get(address));
            let now = costs.get(address).copied().unwrap_or_default();
            now.saturating_sub(before.copied().unwrap_or_default())
        };
        let mut all: Vec<(Duration, Address)> = costs
            .keys()
            .filter(|address| !self.out.contains_key(address))
            .map(|address| (since(address), *address))
            .collect();
        all.sort();
        let mut rest: Duration = all.iter().map(|(cost, _)| *cost).sum();
        let mut dearest = Vec::new();
        while budget.pays_in(rest, self.processes()) > elapsed
            && let Some((cost, address)) = all.pop()
        {
            dearest.push(address);
            rest = rest.saturating_sub(cost);
        }
        dearest
    }

    /// Requests a stop of the program, for a change.
    pub(crate) fn ask(&mut self) {
        self.asked.get_or_insert_with(Instant::now);
    }

    /// The change is made. Returns the cost of the stop.
    pub(crate) fn changed(&mut self) -> Duration {
        self.urgent = false;
        // The threads have not been resumed yet.
        self.asked
            .take()
            .map_or(Duration::ZERO, |asked| asked.elapsed() * 5 / 4)
    }

    /// Whether an address has a pause.
    pub(crate) fn is_out(&self, address: Address) -> bool {
        self.out.contains_key(&address)
    }

    /// Since when an address has a pause, if it has one.
    pub(crate) fn out_since(&self, address: Address) -> Option<u64> {
        self.out.get(&address).copied()
    }

    /// Begins the pause of an address.
    pub(crate) fn begin_pause(&mut self, address: Address, now: u64) {
        self.out.entry(address).or_insert(now);
    }

    /// Ends all pauses: the addresses, and when they began.
    pub(crate) fn take_out(&mut self) -> Vec<(Address, u64)> {
        std::mem::take(&mut self.out).into_iter().collect()
    }

    /// Forgets an address that has no tracepoint any more.
    pub(crate) fn forget(&mut self, address: Address) {
        self.out.remove(&address);
        self.stops.remove(&address);
    }

    /// Adds a pause of a tracepoint that has ended.
    pub(crate) fn add_pause(&mut self, key: TracepointKey, pause: Pause) {
        self.pauses.entry(key).or_default().push(pause);
    }

    /// Forgets the pauses that have ended.
    pub(crate) fn forget_pauses(&mut self) {
        self.pauses.clear();
    }

    /// The pauses of a tracepoint that have ended.
    pub(crate) fn pauses(&self, key: TracepointKey) -> &[Pause] {
        self.pauses.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Notes a check now, with a cpu that is behind by this much. Returns the time since the last check, and how far it was
    /// behind.
    pub(crate) fn look(&mut self, behind: Duration) -> (Duration, Duration) {
        let now = Instant::now();
        let (looked, before) = self
            .looked
            .replace((now, behind))
            .unwrap_or((now, Duration::ZERO));
        (now.saturating_duration_since(looked), before)
    }

    /// Whether a change has to be made at once.
    pub(crate) const fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Whether a change has to be made at once.
    pub(crate) const fn hurry(&mut self, urgent: bool) {
        self.urgent = urgent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_have_words_and_limits() {
        let words = |hundredths| match Budget::new(hundredths) {
            Ok(budget) => budget.to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(words(100), "1%");
        assert_eq!(words(250), "2.5%");
        assert_eq!(words(1205), "12.05%");
        assert_eq!(words(0), "a budget of 0%: 0.1% to 50% are possible");
        assert_eq!(words(20_000), "a budget of 200%: 0.1% to 50% are possible");
    }

    #[test]
    fn a_cost_is_paid_for_in_as_much_time_as_the_share_takes() {
        let pays = |hundredths, processes| {
            let budget = Budget::new(hundredths).unwrap();
            budget.pays_in(Duration::from_micros(1), processes)
        };
        assert_eq!(pays(100, 1), Duration::from_micros(100));
        assert_eq!(pays(5000, 1), Duration::from_micros(2));
        assert_eq!(pays(100, 3), Duration::from_micros(300));
        // Rounded in favour of the program.
        assert!(pays(3000, 1) >= Duration::from_nanos(3333));
    }

    #[test]
    fn the_dearest_go_until_the_rest_is_within_the_budget() {
        let mut keeper = BudgetKeeper::default();
        keeper.set(Some(Budget::new(100).unwrap()));
        let costs = |costs: [u64; 3]| {
            let costs = costs.map(Duration::from_micros);
            (1..).map(Address).zip(costs).collect::<HashMap<_, _>>()
        };
        keeper.watch(costs([50_000, 0, 0]));
        // The first was dear before.
        let now = costs([50_000, 900_000, 500_000]);
        assert_eq!(keeper.dearest(&now), [Address(2), Address(3)]);
        keeper.begin_pause(Address(2), 10);
        assert_eq!(keeper.dearest(&now), [Address(3)]);
        assert_eq!(keeper.take_out(), [(Address(2), 10)]);
    }
}
