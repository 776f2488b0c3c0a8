//! What the trace file says beside its frames.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tracewire_experiment::{Experiment, FrameStore, Missing, tell_as_gdb_takes};
use tracewire_model::{
    Address, AggregateKey, AggregateTable, Redactions, Served, Status, StatusFields, StopReason,
    Tracepoint, TracepointDefinition, TracepointNumber,
};
use tracewire_tracefile::{Description, DescriptionParts, LineError};

use crate::modules::Modules;
use crate::registers::Room;

/// A tracepoint that was taken out of the experiment with its module, and what it had done.
#[derive(Clone, Debug)]
pub struct Past {
    pub tracepoint: Tracepoint,
    pub missing: Missing,
}

/// What names one location of a tracepoint.
type Key = (TracepointNumber, Address);

/// The tracepoints that were taken out, each location once, however often its module came and went.
#[derive(Debug, Default)]
pub struct PastTracepoints(BTreeMap<Key, Past>);

impl PastTracepoints {
    /// Adds what a tracepoint did before it was taken out.
    pub fn add(&mut self, mut past: Past) {
        if let Some(before) = self.0.remove(&past.tracepoint.definition.key()) {
            add_usage(&mut past.tracepoint, &before.tracepoint);
            let mut missing = before.missing;
            missing.add(past.missing);
            past.missing = missing;
        }
        self.0.insert(past.tracepoint.definition.key(), past);
    }

    /// All of them, by number and address.
    pub fn iter(&self) -> impl Iterator<Item = &Past> {
        self.0.values()
    }
}

/// Adds what a tracepoint did before to what it has done since.
fn add_usage(tracepoint: &mut Tracepoint, before: &Tracepoint) {
    tracepoint.skipped += before.skipped;
    let mut usage = tracepoint.usage.unwrap_or_default();
    let before = before.usage.unwrap_or_default();
    usage.hits += before.hits;
    usage.bytes += before.bytes;
    tracepoint.usage = Some(usage);
}

/// The description at this moment.
pub fn description<S: FrameStore>(
    experiment: &Experiment<S>,
    past: &PastTracepoints,
    modules: &Modules,
    registers: Room,
    settings: &StatusFields,
) -> Result<Description, LineError> {
    let mut tracepoints = tracepoints(experiment, past);
    let mut fields = experiment.status();
    fields.notes.clone_from(&settings.notes);
    fields.user.clone_from(&settings.user);
    fields.disconnected = settings.disconnected;
    if fields.running {
        // Only a file that was left behind says so: its run is over too.
        fields.running = false;
        fields.stop_reason = Some(StopReason::Unknown);
        fields.stop_text = None;
        // How much there is in the end is not known, and the file itself says how much there is so far.
        fields.frames = None;
        fields.frames_created = None;
        fields.buffer_free = None;
        for tracepoint in &mut tracepoints {
            tracepoint.usage = None;
            tracepoint.skipped = 0;
            tracepoint.pauses.clear();
        }
    }
    build(
        tracepoints,
        experiment.variables().cloned().collect(),
        fields,
        modules,
        registers,
        aggregates(experiment),
    )
}

/// The description of a file that is finished, with what its tracepoints have done for it.
pub fn of_file<S: FrameStore>(
    experiment: &Experiment<S>,
    tracepoints: Vec<Tracepoint>,
    status: StatusFields,
    modules: &Modules,
    registers: Room,
    settings: &StatusFields,
) -> Result<Description, LineError> {
    // What is free of a lean recording's file is no number of bytes of frames.
    let buffer_free = (status.buffer_free).filter(|_| experiment.register_sets().is_none());
    let fields = StatusFields {
        buffer_free,
        notes: settings.notes.clone(),
        user: settings.user.clone(),
        disconnected: settings.disconnected,
        ..status
    };
    build(
        tracepoints,
        experiment.variables().cloned().collect(),
        fields,
        modules,
        registers,
        aggregates(experiment),
    )
}

/// The description before there is an experiment.
pub fn first_description(
    definitions: &[TracepointDefinition],
    variables: &[tracewire_model::VariableDefinition],
    modules: &Modules,
    registers: Room,
    settings: &StatusFields,
) -> Result<Description, LineError> {
    let tracepoints = definitions
        .iter()
        .map(|definition| Tracepoint::new(definition.clone()))
        .collect();
    let status = StatusFields {
        stop_reason: Some(StopReason::NotRun),
        ..settings.clone()
    };
    build(
        tracepoints,
        variables.to_vec(),
        status,
        modules,
        registers,
        Vec::new(),
    )
}

fn build(
    mut tracepoints: Vec<Tracepoint>,
    variables: Vec<tracewire_model::VariableDefinition>,
    status: StatusFields,
    modules: &Modules,
    registers: Room,
    aggregates: Vec<(AggregateKey, AggregateTable)>,
) -> Result<Description, LineError> {
    tell_as_gdb_takes(&mut tracepoints, registers.layout());
    Description::build(&DescriptionParts {
        register_block_size: registers.layout().size(),
        target_xml: Some(registers.target_xml()),
        status: Some(Status::from(status)),
        variables,
        tracepoints,
        modules: modules.all(),
        redactions: Redactions::clone(modules.symbols().redactions()),
        aggregates,
    })
}

/// What has been counted.
pub fn aggregates<S: FrameStore>(
    experiment: &Experiment<S>,
) -> Vec<(AggregateKey, AggregateTable)> {
    let all = experiment.aggregates().into_iter();
    all.map(|(number, aggregate, table)| ((number, aggregate.index), table))
        .collect()
}

/// What a tracepoint was served by.
pub fn served<S: FrameStore>(
    experiment: &Experiment<S>,
    tracepoint: &tracewire_experiment::Tracepoint,
) -> Option<Served> {
    let served = experiment.last_served(tracepoint.definition().address)?;
    Some(served.in_file())
}

/// Every tracepoint of the run by number: those there are, and those that went with their modules. One that came
/// back to the same address is one tracepoint.
pub fn tracepoints<S: FrameStore>(
    experiment: &Experiment<S>,
    past: &PastTracepoints,
) -> Vec<Tracepoint> {
    let now = experiment.tracepoints().map(|tracepoint| Tracepoint {
        usage: Some(tracepoint.usage()),
        served: served(experiment, tracepoint),
        skipped: tracepoint.skipped(),
        ..Tracepoint::new(tracepoint.definition().clone())
    });
    let mut all: BTreeMap<Key, Tracepoint> = now
        .map(|tracepoint| (tracepoint.definition.key(), tracepoint))
        .collect();
    for Past { tracepoint, .. } in past.iter() {
        match all.entry(tracepoint.definition.key()) {
            Entry::Occupied(known) => add_usage(known.into_mut(), tracepoint),
            Entry::Vacant(free) => _ = free.insert(tracepoint.clone()),
        }
    }
    for (key, tracepoint) in &mut all {
        // Those that went with their modules are among them.
        tracepoint.pauses = experiment.pauses(*key).to_vec();
    }
    all.into_values().collect()
}
