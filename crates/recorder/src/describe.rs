//! What the trace file says beside its frames.

use tracewire_experiment::{Experiment, FrameStore, Missing, tell_as_gdb_takes};
use tracewire_model::{Served, Status, StatusFields, StopReason, Tracepoint, TracepointDefinition};
use tracewire_tracefile::{Description, DescriptionParts, LineError};

use crate::modules::Modules;
use crate::registers::Room;

/// A tracepoint that was taken out of the experiment with its module, and what it had done.
#[derive(Clone, Debug)]
pub struct Past {
    pub tracepoint: Tracepoint,
    pub missing: Missing,
}

/// The description as things stand.
pub fn description<S: FrameStore>(
    experiment: &Experiment<S>,
    past: &[Past],
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
        }
    }
    build(
        tracepoints,
        experiment.variables().cloned().collect(),
        fields,
        modules,
        registers,
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
        .map(|definition| Tracepoint {
            definition: definition.clone(),
            usage: None,
            served: None,
        })
        .collect();
    let status = StatusFields {
        stop_reason: Some(StopReason::NotRun),
        ..settings.clone()
    };
    build(tracepoints, variables.to_vec(), status, modules, registers)
}

fn build(
    mut tracepoints: Vec<Tracepoint>,
    variables: Vec<tracewire_model::VariableDefinition>,
    status: StatusFields,
    modules: &Modules,
    registers: Room,
) -> Result<Description, LineError> {
    tell_as_gdb_takes(&mut tracepoints, &registers.layout());
    Description::build(&DescriptionParts {
        register_block_size: registers.layout().size(),
        target_xml: Some(registers.target_xml()),
        status: Some(Status::from(status)),
        variables,
        tracepoints,
        modules: modules.all(),
    })
}

/// What a tracepoint was served by.
pub fn served<S: FrameStore>(
    experiment: &Experiment<S>,
    tracepoint: &tracewire_experiment::Tracepoint,
) -> Option<Served> {
    let served = experiment.last_served(tracepoint.definition().address)?;
    Some(served.told())
}

/// Every tracepoint of the run by number: those there are, and those that went with their modules. One that came
/// back to the same address is one tracepoint.
pub fn tracepoints<S: FrameStore>(experiment: &Experiment<S>, past: &[Past]) -> Vec<Tracepoint> {
    let mut all: Vec<Tracepoint> = experiment
        .tracepoints()
        .map(|tracepoint| Tracepoint {
            definition: tracepoint.definition().clone(),
            usage: Some(tracepoint.usage()),
            served: served(experiment, tracepoint),
        })
        .collect();
    for gone in past {
        let key =
            |tracepoint: &Tracepoint| (tracepoint.definition.number, tracepoint.definition.address);
        match all
            .iter_mut()
            .find(|known| key(known) == key(&gone.tracepoint))
        {
            Some(known) => {
                let mut usage = known.usage.unwrap_or_default();
                let before = gone.tracepoint.usage.unwrap_or_default();
                usage.hits += before.hits;
                usage.bytes += before.bytes;
                known.usage = Some(usage);
            }
            None => all.push(gone.tracepoint.clone()),
        }
    }
    all.sort_by_key(|tracepoint| (tracepoint.definition.number, tracepoint.definition.address));
    all
}
