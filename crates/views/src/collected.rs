//! The data that the tracepoints of a file collect, found by a frame's tracepoint and place.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use tracewire_model::{Action, Address, RegisterNumber, TracepointDefinition, TracepointNumber};
use tracewire_script::CollectedItems;
use tracewire_tracefile::TraceFile;

/// A tracepoint at one address, with what its actions collect.
#[derive(Debug)]
pub(crate) struct Collected<'a> {
    pub(crate) definition: &'a TracepointDefinition,
    pub(crate) items: CollectedItems,
}

/// All tracepoints of a file.
#[derive(Debug)]
pub(crate) struct Tracepoints<'a> {
    numbers: HashMap<TracepointNumber, SameNumber<'a>>,
}

/// A tracepoint at all its addresses, in the file's order.
#[derive(Debug, Default)]
struct SameNumber<'a> {
    all: Vec<Collected<'a>>,
    /// Where the first of each address is.
    at: HashMap<Address, usize>,
    asked: OnceCell<HashSet<RegisterNumber>>,
}

impl<'a> Tracepoints<'a> {
    pub(crate) fn of(file: &'a TraceFile) -> Self {
        let mut numbers: HashMap<_, SameNumber<'a>> = HashMap::new();
        for tracepoint in file.description().tracepoints() {
            let definition = &tracepoint.definition;
            let same = numbers.entry(definition.number).or_default();
            same.at.entry(definition.address).or_insert(same.all.len());
            same.all.push(Collected {
                definition,
                items: CollectedItems::of(&definition.source.commands),
            });
        }
        Self { numbers }
    }

    /// The tracepoint's actions: those of the location that a frame is at, else of its first location.
    pub(crate) fn at(&self, number: TracepointNumber, pc: Address) -> Option<&Collected<'a>> {
        let same = self.numbers.get(&number)?;
        same.all.get(same.at.get(&pc).copied().unwrap_or(0))
    }

    /// Whether the tracepoint requests a register, at any of its addresses.
    pub(crate) fn asks_for(&self, number: TracepointNumber, register: RegisterNumber) -> bool {
        self.numbers
            .get(&number)
            .is_some_and(|same| same.asked().contains(&register))
    }
}

impl SameNumber<'_> {
    fn asked(&self) -> &HashSet<RegisterNumber> {
        self.asked.get_or_init(|| {
            let definitions = self.all.iter().map(|collected| collected.definition);
            definitions
                .flat_map(|definition| definition.actions.iter().chain(&definition.step_actions))
                .filter_map(|action| match action {
                    Action::Registers(mask) => Some(mask.iter()),
                    _ => None,
                })
                .flatten()
                .collect()
        })
    }
}
