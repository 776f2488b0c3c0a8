//! The run: what happens at an instruction, and at the end.

use std::path::{Path, PathBuf};

use tracewire_arch::{Architecture, RegisterLayout};
use tracewire_experiment::{
    AddressForm, DefineError, Definitions, Experiment, FrameStore, Mechanism, Missing, Options,
    StartError, StoreError, Target, tell_as_gdb_takes,
};
use tracewire_model::{
    AggregateKey, AggregateTable, Status, StatusFields, StopReason, Tracepoint, TracepointNumber,
};
use tracewire_tracefile::{Description, DescriptionParts, FrameFormat, LineError, WriteError};

use super::buffer::Buffer;
use super::guest::Sites;
use super::instrumentation::{Instrumentation, Place};
use super::moving::Moving;
use crate::api::{Api, Block, InstructionCallback, RegisterHandle};
use crate::machine::Peculiarities;

/// How old counts in the growing file are at most, in microseconds, while there are hits.
const DESCRIBED_AFTER: u64 = 1_000_000;

/// Why a run cannot begin.
#[derive(thiserror::Error, Debug)]
pub enum BeginError {
    /// The registers of frames are not known.
    #[error("the definitions have no good target description: {0}")]
    Layout(String),
    /// The experiment refuses a tracepoint.
    #[error("tracepoint {number}: {source}")]
    Define {
        number: TracepointNumber,
        source: DefineError,
    },
    /// A condition needs a register that QEMU does not have while the guest runs.
    #[error(
        "tracepoint {number}: its condition reads ${register}, which QEMU does not have while the guest runs"
    )]
    Register {
        number: TracepointNumber,
        register: &'static str,
    },
    /// A definition does not fit the lines of a trace file.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The file cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is nothing to run.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The run.
#[derive(Debug)]
pub struct Tracing {
    instrumentation: Instrumentation,
    /// None when the file is finished.
    experiment: Option<Moving<Buffer>>,
    file: FileParts,
    /// Whether something is counted, so that the growing file is described again now and then.
    counts: bool,
    /// When that was.
    described: u64,
    out: PathBuf,
    keep_running: bool,
}

/// The contents of the file besides its frames.
#[derive(Debug)]
struct FileParts {
    layout: RegisterLayout,
    /// All but the tracepoints, the variables and the status.
    parts: DescriptionParts,
    settings: StatusFields,
}

/// A file that is finished.
#[derive(Debug)]
pub struct Finished {
    /// Its name.
    pub out: PathBuf,
    /// How many frames it has.
    pub frames: u64,
    /// The data that could not be read.
    pub missing: Vec<(TracepointNumber, Missing)>,
    /// Why it could not be written.
    pub fault: Option<String>,
}

impl Tracing {
    /// Makes the file, and begins the run.
    pub fn begin(
        api: Api,
        definitions: Definitions,
        out: &Path,
        keep_running: bool,
    ) -> Result<Self, BeginError> {
        let Definitions {
            architecture,
            mut parts,
        } = definitions;
        let xml = parts.target_xml.as_deref().unwrap_or_default();
        let layout =
            RegisterLayout::parse(xml).map_err(|error| BeginError::Layout(error.to_string()))?;
        let tracepoints = std::mem::take(&mut parts.tracepoints);
        let variables = std::mem::take(&mut parts.variables);
        let settings = parts
            .status
            .take()
            .map_or_else(StatusFields::default, |status| status.fields);
        let file = FileParts {
            layout,
            parts,
            settings,
        };
        let order = architecture.byte_order();
        let first = file.description(
            tracepoints.clone(),
            variables.clone(),
            StatusFields {
                stop_reason: Some(StopReason::NotRun),
                ..StatusFields::default()
            },
            Vec::new(),
        )?;
        let format = FrameFormat {
            byte_order: order,
            register_block_size: file.layout.size(),
        };
        check_conditions(architecture, &file.layout, &tracepoints)?;
        let (size, circular) = (file.settings.buffer_size, file.settings.circular);
        let buffer = Buffer::create(out, size, circular == Some(true), &first, order)?;
        let mut experiment = Experiment::new(Options::of_recording(format), buffer);
        experiment.set_mechanism(Mechanism::Trap);
        experiment.set_register_layout(file.layout.clone());
        let bits = file
            .layout
            .program_counter()
            .map_or(64, |counter| counter.bits);
        experiment.set_address_form(AddressForm::of_machine(Some(architecture), bits));
        for variable in variables {
            experiment.define_variable(variable);
        }
        let counts = (tracepoints.iter()).any(|one| !one.definition.counting.is_empty());
        let has_steps = (tracepoints.iter()).any(|one| one.definition.step_count > 0);
        let mut instrumentation = Instrumentation::new(api, architecture);
        instrumentation.begin(&file.layout, file.layout.size(), has_steps);
        if let Err(error) = start(&mut experiment, tracepoints, instrumentation.sites()) {
            experiment.into_store().discard();
            return Err(error);
        }
        let mut tracing = Self {
            instrumentation,
            experiment: None,
            file,
            counts,
            described: 0,
            out: out.to_owned(),
            keep_running,
        };
        if let Err(error) = tracing.file.describe(&mut experiment) {
            experiment.into_store().discard();
            return Err(error);
        }
        tracing.experiment = Some(Moving(experiment));
        Ok(tracing)
    }

    pub fn api(&self) -> &Api {
        self.instrumentation.api()
    }

    /// Whether the guest runs on when the run has ended.
    pub fn keeps_running(&self) -> bool {
        self.keep_running
    }

    /// A cpu is made, which has these registers. Returns whether its number may be wrong in callbacks.
    pub fn cpu(&mut self, described: Vec<(RegisterHandle, String)>) -> bool {
        self.instrumentation.cpu(described)
    }

    /// A block is translated.
    pub fn translate(&mut self, block: Block, callback: InstructionCallback) {
        self.instrumentation.translate(block, callback);
    }

    /// A cpu is about to execute an instruction. Returns whether the run continues.
    ///
    /// # Safety
    /// The caller is in the callback of the cpu, which reads registers.
    pub unsafe fn reach(&mut self, cpu: u32, place: Place) -> bool {
        let Some(Moving(experiment)) = &mut self.experiment else {
            return false;
        };
        // SAFETY: the caller is in the callback.
        let goes_on = unsafe { self.instrumentation.reach(experiment, cpu, place) };
        let time = self.instrumentation.time();
        if self.counts && time.saturating_sub(self.described) >= DESCRIBED_AFTER {
            self.described = time;
            // If the disk is full, the previous counts stay until the end.
            let _ = self.file.describe(experiment);
        }
        goes_on
    }

    /// Ends the run, with this note if it is still on, and finishes the file. `None` if that was already done.
    pub fn finish(&mut self, words: Option<&str>) -> Option<Finished> {
        let Moving(mut experiment) = self.experiment.take()?;
        let sites = self.instrumentation.sites();
        let now = sites.now();
        let words = words.map(str::to_owned);
        let stopped = experiment.stop(sites, StopReason::Command, words, now);
        debug_assert!(stopped.is_ok(), "{stopped:?}");
        let missing = (experiment.tracepoints())
            .map(|one| (one.definition().number, one.missing()))
            .filter(|(_, missing)| missing.count > 0);
        let missing = missing.collect();
        let frames = experiment.buffer().frames();
        let description = self.file.description_of(&experiment, |_| {});
        let finished = match description {
            Ok(description) => {
                (experiment.into_store().finish(&description)).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        Some(Finished {
            out: self.out.clone(),
            frames,
            missing,
            fault: finished.err(),
        })
    }
}

/// Defines the tracepoints, and starts the run.
fn start(
    experiment: &mut Experiment<Buffer>,
    tracepoints: Vec<Tracepoint>,
    sites: &mut Sites,
) -> Result<(), BeginError> {
    for Tracepoint { definition, .. } in tracepoints {
        let number = definition.number;
        (experiment.define(definition)).map_err(|source| BeginError::Define { number, source })?;
    }
    let now = sites.now();
    Ok(experiment.start(sites, now)?)
}

/// Refuses conditions that could not be evaluated at any hit.
pub(super) fn check_conditions(
    architecture: Architecture,
    layout: &RegisterLayout,
    tracepoints: &[Tracepoint],
) -> Result<(), BeginError> {
    for register in Peculiarities::of(architecture).unavailable {
        let Some(described) = layout.by_name(register) else {
            continue;
        };
        for Tracepoint { definition, .. } in tracepoints {
            // One that is none is refused where it is defined.
            let condition = definition.condition.as_deref();
            let program = condition.and_then(|code| tracewire_agent_expr::verify(code).ok());
            if program.is_some_and(|program| program.registers().contains(&described.number.0)) {
                let number = definition.number;
                return Err(BeginError::Register { number, register });
            }
        }
    }
    Ok(())
}

impl FileParts {
    /// Updates the description of the growing file, as it should be if it stays unfinished.
    fn describe(&self, experiment: &mut Experiment<Buffer>) -> Result<(), BeginError> {
        let description = self.description_of(experiment, |status| {
            status.running = false;
            status.stop_reason = Some(StopReason::Unknown);
            status.frames = None;
            status.frames_created = None;
            status.buffer_free = None;
        })?;
        Ok(experiment.store().describe(&description)?)
    }

    /// The description as the run is, with the status changed.
    fn description_of(
        &self,
        experiment: &Experiment<Buffer>,
        change: impl FnOnce(&mut StatusFields),
    ) -> Result<Description, LineError> {
        let mut status = experiment.status();
        let is_over = !status.running;
        change(&mut status);
        let tracepoints = experiment.tracepoints().map(|one| Tracepoint {
            usage: is_over.then(|| one.usage()),
            ..Tracepoint::new(one.definition().clone())
        });
        let aggregates = experiment.aggregates().into_iter();
        let aggregates = aggregates.map(|(number, one, table)| ((number, one.index), table));
        let variables = experiment.variables().cloned().collect();
        self.description(
            tracepoints.collect(),
            variables,
            status,
            aggregates.collect(),
        )
    }

    fn description(
        &self,
        mut tracepoints: Vec<Tracepoint>,
        variables: Vec<tracewire_model::VariableDefinition>,
        mut status: StatusFields,
        aggregates: Vec<(AggregateKey, AggregateTable)>,
    ) -> Result<Description, LineError> {
        tell_as_gdb_takes(&mut tracepoints, &self.layout);
        status.notes.clone_from(&self.settings.notes);
        status.user.clone_from(&self.settings.user);
        status.disconnected = self.settings.disconnected;
        Description::build(&DescriptionParts {
            register_block_size: self.layout.size(),
            status: Some(Status::from(status)),
            variables,
            tracepoints,
            aggregates,
            ..self.parts.clone()
        })
    }
}
