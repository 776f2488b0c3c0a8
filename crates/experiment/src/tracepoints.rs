//! The tracepoints of an experiment, and their counts in a run.

use std::collections::{BTreeSet, HashMap};

use tracewire_model::{
    Action, Address, TracepointDefinition, TracepointNumber, TracepointUsage, WatchedObject,
};

use crate::missing::Missing;
use crate::pads::PadUpdate;
use crate::plan::Plan;
use crate::stepping::TracepointKey;

/// One location of a tracepoint, and its counts in this run.
#[derive(Debug)]
pub struct Tracepoint {
    definition: TracepointDefinition,
    pub(crate) plan: Plan,
    /// The watched memory, for a tracepoint on memory.
    pub(crate) watched: Option<WatchedObject>,
    usage: TracepointUsage,
    /// Hits that have counted for the pass count, except those that its pad counts. A hit counts here when it happens, and among
    /// `usage.hits` when its frame comes, which may be later.
    pub(crate) passes: u64,
    missing: Missing,
    /// Those that pads have counted.
    pad_missing: Missing,
    skipped: u64,
}

impl Tracepoint {
    pub(crate) fn new(definition: TracepointDefinition, plan: Plan) -> Self {
        Self {
            watched: definition.source.watched_object(),
            definition,
            plan,
            usage: TracepointUsage::default(),
            passes: 0,
            missing: Missing::default(),
            pad_missing: Missing::default(),
            skipped: 0,
        }
    }

    /// Its definition, with the current value of `enabled`.
    #[must_use]
    pub const fn definition(&self) -> &TracepointDefinition {
        &self.definition
    }

    /// The work of a hit: the actions of its definition, without collections that others of them contain.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.plan.actions.list
    }

    /// Hits with a true condition, and the bytes of the frames that were made, headers included. A hit whose frame waits for an
    /// earlier one of another thread counts when that frame has come.
    #[must_use]
    pub const fn usage(&self) -> TracepointUsage {
        self.usage
    }

    /// The values that could not be read.
    #[must_use]
    pub fn missing(&self) -> Missing {
        let mut missing = self.missing;
        missing.add(self.pad_missing);
        missing
    }

    /// Hits among those of [`usage`](Self::usage) that made no frame, because the tracepoint has a rate.
    #[must_use]
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Counts hits that made no frame because of the tracepoint's rate.
    pub(crate) const fn count_skipped(&mut self, hits: u64) {
        self.usage.hits += hits;
        self.skipped += hits;
    }

    /// Counts a frame that was added to the buffer.
    pub(crate) fn count_frame(&mut self, frame: &[u8], step: bool) {
        self.usage.hits += u64::from(!step);
        self.usage.bytes += frame.len() as u64;
    }

    /// Counts values that a stop could not read.
    pub(crate) fn count_missing(&mut self, missing: Missing) {
        self.missing.add(missing);
    }

    /// Adds the counts of its pad.
    pub(crate) fn count_in_pad(&mut self, update: PadUpdate) {
        self.usage.hits += update.lost;
        self.count_skipped(update.skipped);
        self.pad_missing = update.missing;
    }

    /// Adds the counts of its pad, which then begins at 0 again.
    pub(crate) fn fold_counts(&mut self, (passes, missing): (u64, Missing)) {
        self.passes = self.passes.saturating_add(passes);
        self.pad_missing = Missing::default();
        self.missing.add(missing);
    }

    /// Has the counts of a run that is carried out elsewhere.
    pub(crate) fn adopt_counts(&mut self, usage: TracepointUsage, missing: Missing) {
        self.reset_counts();
        self.usage = usage;
        self.passes = usage.hits;
        self.missing = missing;
    }

    fn reset_counts(&mut self) {
        self.usage = TracepointUsage::default();
        self.passes = 0;
        self.missing = Missing::default();
        self.pad_missing = Missing::default();
        self.skipped = 0;
    }
}

/// All tracepoints, in the order in which they were defined. There is at most one with a number and address.
#[derive(Debug, Default)]
pub(crate) struct Tracepoints {
    list: Vec<Tracepoint>,
    /// Those at each address, by their place in the list, in its order.
    places: HashMap<Address, Vec<usize>>,
}

impl Tracepoints {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tracepoint> {
        self.list.iter()
    }

    pub(crate) fn plans(&mut self) -> impl Iterator<Item = &mut Plan> {
        self.list.iter_mut().map(|tracepoint| &mut tracepoint.plan)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Tracepoint> {
        self.list.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Tracepoint> {
        self.list.get_mut(index)
    }

    /// The places in the list of those at an address.
    pub(crate) fn indices(&self, address: Address) -> &[usize] {
        self.places.get(&address).map_or(&[], Vec::as_slice)
    }

    /// The lengths that the tracepoints at an address watch; none if they are on code.
    pub(crate) fn watched_lengths(&self, address: Address) -> impl Iterator<Item = u64> {
        let watched = (self.at(address)).filter_map(|tracepoint| tracepoint.watched.as_ref());
        watched.map(|watched| watched.length)
    }

    /// Whether a tracepoint at an address is enabled.
    pub(crate) fn is_enabled(&self, address: Address) -> bool {
        (self.at(address)).any(|tracepoint| tracepoint.definition().enabled)
    }

    /// Whether memory is watched there, and not code traced.
    pub(crate) fn is_watched(&self, address: Address) -> bool {
        self.watched_lengths(address).next().is_some()
    }

    pub(crate) fn at(&self, address: Address) -> impl Iterator<Item = &Tracepoint> {
        let indices = self.indices(address).iter();
        indices.filter_map(|index| self.list.get(*index))
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.places.keys().copied()
    }

    /// The addresses of those that are enabled.
    pub(crate) fn enabled(&self) -> BTreeSet<Address> {
        let enabled = self
            .iter()
            .filter(|tracepoint| tracepoint.definition.enabled);
        enabled
            .map(|tracepoint| tracepoint.definition.address)
            .collect()
    }

    /// The index of a tracepoint in the list.
    pub(crate) fn index(&self, (number, address): TracepointKey) -> Option<usize> {
        self.indices(address).iter().copied().find(|index| {
            self.list
                .get(*index)
                .is_some_and(|tracepoint| tracepoint.definition.number == number)
        })
    }

    pub(crate) fn by_key(&self, key: TracepointKey) -> Option<&Tracepoint> {
        self.list.get(self.index(key)?)
    }

    pub(crate) fn by_key_mut(&mut self, key: TracepointKey) -> Option<&mut Tracepoint> {
        let index = self.index(key)?;
        self.list.get_mut(index)
    }

    /// Adds a tracepoint, or replaces the one with its number and address, whose counts go on during a run.
    pub(crate) fn define(&mut self, tracepoint: Tracepoint, running: bool) {
        let key = tracepoint.definition.key();
        match self.by_key_mut(key) {
            Some(old) if running => {
                // It may have had no pass count.
                old.passes = old.passes.max(old.usage.hits);
                old.definition = tracepoint.definition;
                old.plan = tracepoint.plan;
            }
            Some(old) => *old = tracepoint,
            None => {
                self.places.entry(key.1).or_default().push(self.list.len());
                self.list.push(tracepoint);
            }
        }
    }

    /// Enables or disables the tracepoints of a number, at one address or at all. Returns whether there is one.
    pub(crate) fn set_enabled(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
        enabled: bool,
    ) -> bool {
        let mut found = false;
        for tracepoint in &mut self.list {
            if is_at(&tracepoint.definition, number, address) {
                tracepoint.definition.enabled = enabled;
                found = true;
            }
        }
        found
    }

    /// Removes the tracepoints of a number, at one address or at all. Returns their keys.
    pub(crate) fn delete(
        &mut self,
        number: TracepointNumber,
        address: Option<Address>,
    ) -> Vec<TracepointKey> {
        let mut deleted = Vec::new();
        self.list.retain(|tracepoint| {
            let delete = is_at(&tracepoint.definition, number, address);
            if delete {
                deleted.push(tracepoint.definition.key());
            }
            !delete
        });
        self.places.clear();
        for (index, tracepoint) in self.list.iter().enumerate() {
            let address = tracepoint.definition.address;
            self.places.entry(address).or_default().push(index);
        }
        deleted
    }

    /// A run begins.
    pub(crate) fn reset_counts(&mut self) {
        self.list.iter_mut().for_each(Tracepoint::reset_counts);
    }
}

fn is_at(
    definition: &TracepointDefinition,
    number: TracepointNumber,
    address: Option<Address>,
) -> bool {
    definition.number == number && address.is_none_or(|address| definition.address == address)
}
