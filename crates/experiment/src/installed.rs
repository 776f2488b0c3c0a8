//! The installed tracepoints, and the mechanism of each.

use std::collections::{BTreeSet, HashMap};

use tracewire_model::Address;

use crate::mechanism::{Mechanism, Served};

/// The addresses at which something is installed, and how the tracepoints there are served.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    mechanism: Mechanism,
    /// Whether a fast tracepoint that cannot be a jump becomes a trap.
    fast_may_trap: bool,
    addresses: BTreeSet<Address>,
    served: HashMap<Address, Served>,
    /// How an address was served the last time.
    last_served: HashMap<Address, Served>,
    /// Addresses whose pads implement an older definition.
    stale: BTreeSet<Address>,
}

impl Installed {
    pub(crate) const fn set_mechanism(&mut self, mechanism: Mechanism) {
        self.mechanism = mechanism;
    }

    pub(crate) const fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    pub(crate) const fn let_fast_trap(&mut self) {
        self.fast_may_trap = true;
    }

    /// Whether an address that cannot have a jump may have a trap.
    pub(crate) fn may_trap(&self, is_fast: bool) -> bool {
        self.mechanism != Mechanism::Jump && (self.fast_may_trap || !is_fast)
    }

    pub(crate) fn served(&self, address: Address) -> Option<&Served> {
        self.served.get(&address)
    }

    pub(crate) fn last_served(&self, address: Address) -> Option<&Served> {
        self.last_served.get(&address)
    }

    pub(crate) fn is_jump(&self, address: Address) -> bool {
        matches!(self.served(address), Some(Served::Jump(_)))
    }

    pub(crate) fn serve(&mut self, address: Address, by: Served) {
        self.last_served.insert(address, by.clone());
        self.served.insert(address, by);
    }

    /// Notes that an older definition is installed at an address.
    pub(crate) fn outdate(&mut self, address: Address) {
        self.stale.insert(address);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The addresses to remove, when these are wanted.
    pub(crate) fn unwanted(&self, wanted: &BTreeSet<Address>) -> Vec<Address> {
        self.addresses.difference(wanted).copied().collect()
    }

    /// The addresses to insert, or to insert again, when these are wanted. From the last to the first: the target of a jump over
    /// a short instruction depends on the following bytes.
    pub(crate) fn missing(&mut self, wanted: &BTreeSet<Address>) -> Vec<Address> {
        let stale = std::mem::take(&mut self.stale);
        let is_missing = |address: &&Address| {
            !self.addresses.contains(address) || stale.contains(address) && self.is_jump(**address)
        };
        wanted.iter().rev().filter(is_missing).copied().collect()
    }

    pub(crate) fn insert(&mut self, address: Address) {
        self.addresses.insert(address);
    }

    pub(crate) fn remove(&mut self, address: Address) {
        self.addresses.remove(&address);
        self.served.remove(&address);
    }

    /// Forgets what was installed at `gone`, which does not exist any more.
    pub(crate) fn forget(&mut self, gone: impl Fn(Address) -> bool) {
        self.addresses.retain(|address| !gone(*address));
        self.served.retain(|address, _| !gone(*address));
    }
}
