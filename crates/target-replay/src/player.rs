//! Moves forward from one place of interest to the next, and reads the known state there.

use std::collections::BTreeSet;

use tracewire_experiment::StoppedThread;
use tracewire_model::Address;

use crate::execution::{Executed, Execution};
use crate::moment::Moment;

/// A way forward through a recording.
pub trait Player {
    /// Looks from now on for instructions that have one of the addresses or are of one of the cpus; before that call, for
    /// none.
    fn look_for(&mut self, addresses: &BTreeSet<Address>, cpus: &BTreeSet<u32>);

    /// Continues after the current instruction to the next place of interest before `to`. `None` if there is none.
    fn advance_to(&mut self, to: u64) -> Option<(u64, Executed)>;

    /// The thread that is about to execute the instruction that it is at.
    fn thread(&mut self) -> &mut dyn StoppedThread;
}

/// A player that looks up every place.
#[derive(Debug)]
pub struct Seeker<'e, E> {
    execution: &'e E,
    at: u64,
    addresses: BTreeSet<Address>,
    cpus: BTreeSet<u32>,
    moment: Moment<'e, E>,
}

impl<'e, E: Execution> Seeker<'e, E> {
    /// Goes forward from an instruction on, which counts.
    #[must_use]
    pub fn new(execution: &'e E, from: u64) -> Self {
        let nowhere = Executed {
            address: Address(0),
            cpu: 0,
            time: 0,
        };
        Self {
            execution,
            at: from,
            addresses: BTreeSet::new(),
            cpus: BTreeSet::new(),
            moment: Moment::new(execution, from, nowhere),
        }
    }
}

impl<E: Execution> Player for Seeker<'_, E> {
    fn look_for(&mut self, addresses: &BTreeSet<Address>, cpus: &BTreeSet<u32>) {
        self.addresses.clone_from(addresses);
        self.cpus.clone_from(cpus);
    }

    fn advance_to(&mut self, to: u64) -> Option<(u64, Executed)> {
        let visits = self
            .addresses
            .iter()
            .filter_map(|address| self.execution.next_visit(*address, self.at));
        let steps = self
            .cpus
            .iter()
            .filter_map(|cpu| self.execution.next_of(*cpu, self.at));
        let number = visits.chain(steps).min().filter(|number| *number < to)?;
        let executed = self.execution.instruction(number)?;
        self.at = number.saturating_add(1);
        self.moment = Moment::new(self.execution, number, executed);
        Some((number, executed))
    }

    fn thread(&mut self) -> &mut dyn StoppedThread {
        &mut self.moment
    }
}
