//! Where the tracepoints are.

use std::collections::BTreeMap;

use tracewire_model::{Action, Address, Tracepoint, TracepointNumber};

/// The locations of one tracepoint: its addresses, each with its place among the description's tracepoints.
#[derive(Debug, Default)]
pub struct Locations {
    /// By address, rising.
    by_address: Vec<(Address, usize)>,
    /// The place of the one that the description gives first.
    first: usize,
    steps: bool,
    /// Whether it watches memory: its addresses are none of code.
    watches: bool,
    /// Whether a frame without registers is of a step, where hits collect some and steps none, or the other way round.
    is_step_without_registers: Option<bool>,
}

impl Locations {
    /// The locations of every tracepoint.
    pub(super) fn of(tracepoints: &[Tracepoint]) -> BTreeMap<TracepointNumber, Self> {
        let mut all: BTreeMap<TracepointNumber, Self> = BTreeMap::new();
        for (place, tracepoint) in tracepoints.iter().enumerate() {
            let definition = &tracepoint.definition;
            let hits = Action::any_of_registers(&definition.actions);
            let is_step =
                (hits != Action::any_of_registers(&definition.step_actions)).then_some(hits);
            let locations = all.entry(definition.number).or_insert_with(|| Self {
                first: place,
                is_step_without_registers: is_step,
                ..Self::default()
            });
            if locations.is_step_without_registers != is_step {
                locations.is_step_without_registers = None;
            }
            locations.by_address.push((definition.address, place));
            locations.steps |= definition.step_count > 0;
            locations.watches |= definition.source.watch.is_some();
        }
        for locations in all.values_mut() {
            locations.by_address.sort_unstable();
        }
        all
    }

    /// Whether any of them has `while-stepping`.
    #[must_use]
    pub const fn steps(&self) -> bool {
        self.steps
    }

    /// Whether a frame without registers is of a step; none where that cannot be known.
    pub(crate) const fn is_step_without_registers(&self) -> Option<bool> {
        self.is_step_without_registers
    }

    /// Whether it watches memory, so that a hit is anywhere in the code.
    #[must_use]
    pub const fn watches(&self) -> bool {
        self.watches
    }

    /// The address in the code, when there is just one.
    pub(crate) fn only_address(&self) -> Option<Address> {
        match self.by_address[..] {
            [(address, _)] if !self.watches => Some(address),
            _ => None,
        }
    }

    /// The place of the location at this address.
    #[must_use]
    pub fn at(&self, address: Address) -> Option<usize> {
        let found = self
            .by_address
            .binary_search_by_key(&address, |(address, _)| *address);
        self.by_address.get(found.ok()?).map(|(_, place)| *place)
    }

    /// The place of the location that the description gives first.
    #[must_use]
    pub const fn first(&self) -> usize {
        self.first
    }
}
