//! Values that could not be collected.

use tracewire_model::Address;

/// Memory that was to be collected and could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Missing {
    /// How many values are missing, wholly or from some byte on.
    pub count: u64,
    /// The address that could not be read for the first of them.
    pub first: Option<Address>,
}

impl Missing {
    pub(crate) fn note(&mut self, address: Address) {
        self.count += 1;
        self.first.get_or_insert(address);
    }

    /// Adds the missing values of a later part of a run.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.or(other.first);
    }
}
