//! A recording of a program behind a GDB stub, without a debugger.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tracewire_arch::RegisterLayout;
use tracewire_debuginfo::Symbols;
use tracewire_experiment::{
    AddressForm, Experiment, FrameStore, Losses, Mechanism, Options, Target, tell_as_gdb_takes,
};
use tracewire_model::{
    AggregateKey, AggregateTable, ByteOrder, Redactions, Status, StatusFields, StopReason,
    Tracepoint, TracepointDefinition, VariableDefinition,
};
use tracewire_packets::family::transfer::Object;
use tracewire_script::Resolver;
use tracewire_target_remote::{RegisterView, RemoteError, RemoteTarget, RunEvent, Stub, StubWords};
use tracewire_tracefile::{Description, DescriptionParts, FrameFormat, LineError, Module};

use crate::buffer::{Buffer, BufferSize};
use crate::describe;
use crate::error::RecordError;
use crate::observer::{Installed, Observer, RecordEvent, Warning};
use crate::options::RecordOptions;
use crate::programs;
use crate::report::FileShare;
use crate::report::{Ending, Report};
use crate::start::start_run;
use crate::stop::{Stop, StopHandle};

/// The entry of the auxiliary vector that has the program's entry point.
const AT_ENTRY: u64 = 9;

/// Records the program of a stub.
pub fn record(
    stub: Stub,
    programs: &[PathBuf],
    options: RecordOptions,
    stop: StopHandle,
    observer: &mut dyn Observer,
) -> Result<Report, RecordError> {
    if options.script.tracepoints.is_empty() {
        return Err(RecordError::NoTracepoints);
    }
    let mut target = RemoteTarget::new(stub);
    let recorded = Recording::begin(&mut target, programs, options, stop, observer)
        .and_then(|recording| recording.run(&mut target));
    if recorded.is_err() {
        // The program goes on as it did before.
        let _ = target.stub_mut().detach();
    }
    recorded
}

struct Recording<'o> {
    experiment: Experiment<Buffer>,
    file: FileParts,
    options: RecordOptions,
    stop: StopHandle,
    observer: &'o mut dyn Observer,
    begun: u64,
}

/// What the file says beside its frames.
struct FileParts {
    layout: RegisterLayout,
    target_xml: String,
    address_form: AddressForm,
    modules: Vec<Module>,
    redactions: Redactions,
    settings: StatusFields,
}

impl<'o> Recording<'o> {
    /// Looks the tracepoints up, makes the file, and puts them in.
    fn begin(
        target: &mut RemoteTarget,
        named: &[PathBuf],
        options: RecordOptions,
        stop: StopHandle,
        observer: &'o mut dyn Observer,
    ) -> Result<Self, RecordError> {
        let symbols = symbols(target, named, &options)?;
        let mut resolver =
            Resolver::new(options.script.clone()).with_collect_limits(options.collect_limits);
        let resolution = programs::resolve(&mut resolver, &symbols, &options, observer)?;
        let definitions: Vec<TracepointDefinition> = (resolution.placed.iter())
            .map(|placed| placed.definition.clone())
            .collect();
        let machine = target.stub().machine();
        let (order, named) = (machine.byte_order(), machine.architecture());
        let address_form = machine.address_form();
        let architecture = symbols.architecture().or(named);
        let set = architecture.and_then(|machine| programs::register_set(machine, &definitions));
        let (layout, target_xml) = match set {
            Some(set) => (set.layout(), set.target_xml()),
            None => (machine.block().clone(), machine.target_xml().to_owned()),
        };
        let view = RegisterView::named(layout.clone(), machine);
        target.set_registers(view);
        let script = &options.script.settings;
        let file = FileParts {
            address_form,
            layout,
            target_xml,
            modules: programs::modules(&symbols),
            redactions: Redactions::clone(symbols.redactions()),
            settings: StatusFields {
                notes: script.notes.clone(),
                user: script.user.clone(),
                disconnected: script.disconnected,
                ..StatusFields::default()
            },
        };
        let experiment = file.experiment(&definitions, resolver.variables(), &options, order)?;
        observer.event(RecordEvent::Placed(&resolution.placed));
        let mut recording = Self {
            experiment,
            file,
            options,
            stop,
            observer,
            begun: target.now(),
        };
        match recording.start(target) {
            Ok(()) => Ok(recording),
            Err(error) => {
                recording.experiment.into_store().discard();
                Err(error)
            }
        }
    }

    /// Starts the run. Tracepoints that cannot be put in are an error, or left out.
    fn start(&mut self, target: &mut RemoteTarget) -> Result<(), RecordError> {
        if self.stop.stopped().is_some() {
            return Err(RecordError::Stopped);
        }
        let keep_going = self.options.keep_going();
        start_run(
            &mut self.experiment,
            target,
            self.begun,
            &keep_going,
            self.observer,
        )?;
        let installed: Vec<Installed> = (self.experiment.tracepoints())
            .filter_map(|tracepoint| {
                let definition = tracepoint.definition();
                let served = self.experiment.served(definition.address)?;
                Some(Installed {
                    number: definition.number,
                    address: definition.address,
                    served: served.clone(),
                })
            })
            .collect();
        self.observer.event(RecordEvent::Installed(&installed));
        Ok(())
    }

    /// Lets the program run until the run is over, lets it go, and writes the file.
    fn run(mut self, target: &mut RemoteTarget) -> Result<Report, RecordError> {
        let counters = self.experiment.store().counters();
        let growing = self.experiment.store().followed_path();
        self.observer
            .event(RecordEvent::Begun { counters, growing });
        if let Some(duration) = self.options.duration {
            self.stop
                .stop_after(duration)
                .map_err(RecordError::Thread)?;
        }
        let stop = self.stop.clone();
        let ended = target.run(&mut self.experiment, &mut || stop.stopped().is_some());
        self.observer.event(RecordEvent::Over);
        let now = target.now();
        let (ending, failure) = match ended {
            Ok(RunEvent::RunEnded) => match stop.stopped() {
                Some(asked @ (Stop::Frames(_) | Stop::Triggered { .. })) => {
                    (Ending::Stopped(asked), None)
                }
                _ => (Ending::Itself, None),
            },
            Ok(RunEvent::Interrupted) => {
                let asked = stop.stopped().unwrap_or(Stop::Duration);
                (Ending::Stopped(asked), None)
            }
            Ok(event) => (Ending::Stub(StubWords(&event).to_string()), None),
            Err(error) => (Ending::Failed(error.to_string()), Some(error)),
        };
        let (reason, text) = self.stop_words(&ending);
        if let Err(errors) = self.experiment.stop(target, reason, text, now) {
            for error in errors {
                let warning = Warning::Install(error);
                self.observer.event(RecordEvent::Warning(warning));
            }
        }
        let is_there = matches!(
            ending,
            Ending::Itself | Ending::Stopped(_) | Ending::Failed(_)
        );
        if is_there && let Err(error) = target.stub_mut().detach() {
            let words = format!("letting the program go: {error}");
            self.observer
                .event(RecordEvent::Warning(Warning::Detach(words)));
        }
        self.finish(ending, failure, now)
    }

    /// What the status line says of the end.
    fn stop_words(&self, ending: &Ending) -> (StopReason, Option<String>) {
        let notes = self.options.script.settings.stop_notes.clone();
        let (reason, text) = match ending {
            Ending::Failed(words) => return (StopReason::Error, Some(words.clone())),
            Ending::Stub(words) => return (StopReason::Command, Some(words.clone())),
            Ending::Stopped(stop) => (StopReason::Command, stop.to_string()),
            // The experiment has one.
            _ => return (StopReason::Command, None),
        };
        (reason, Some(notes.unwrap_or(text)))
    }

    fn finish(
        self,
        ending: Ending,
        failure: Option<RemoteError>,
        now: u64,
    ) -> Result<Report, RecordError> {
        let Self {
            experiment, file, ..
        } = self;
        let mut status = experiment.status();
        let description = file.description(
            tracepoints(&experiment),
            experiment.variables().cloned().collect(),
            status.clone(),
            describe::aggregates(&experiment),
        );
        status.notes.clone_from(&file.settings.notes);
        let report = Report {
            ending,
            lasted: now.saturating_sub(self.begun),
            status,
            tracepoints: tracepoints(&experiment),
            missing: (experiment.tracepoints())
                .map(|tracepoint| (tracepoint.definition().number, tracepoint.missing()))
                .filter(|(_, missing)| missing.count > 0)
                .collect(),
            pending: Vec::new(),
            process: None,
            spawned: false,
            released_children: 0,
            losses: Losses::default(),
            last_file: FileShare {
                frames: experiment.buffer().frames(),
                ..FileShare::default()
            },
            aggregates: experiment.aggregates(),
        };
        experiment.into_store().finish(&description?)?;
        match failure {
            None => Ok(report),
            Some(source) => Err(RecordError::Failed {
                report: Box::new(report),
                source: Box::new(source.into()),
            }),
        }
    }
}

impl FileParts {
    /// The experiment, with the buffer that its frames go to.
    fn experiment(
        &self,
        definitions: &[TracepointDefinition],
        variables: &[VariableDefinition],
        options: &RecordOptions,
        order: ByteOrder,
    ) -> Result<Experiment<Buffer>, RecordError> {
        let first = definitions
            .iter()
            .map(|definition| Tracepoint::new(definition.clone()));
        let not_run = StatusFields {
            stop_reason: Some(StopReason::NotRun),
            ..StatusFields::default()
        };
        let description =
            self.description(first.collect(), variables.to_vec(), not_run, Vec::new())?;
        let size = options.buffer.unwrap_or_else(|| {
            let circular = options.script.settings.circular == Some(true);
            BufferSize::of(&options.script, None, circular)
        });
        let mut buffer = Buffer::create(&options.output, size, &description, order)?;
        buffer.limit(options.frame_limit.clone());
        buffer.trigger(options.trigger.clone());
        let format = FrameFormat {
            byte_order: order,
            register_block_size: self.layout.size(),
        };
        let mut experiment = Experiment::new(Options::of_recording(format), buffer);
        // No code runs in the program but its own.
        experiment.set_mechanism(Mechanism::Trap);
        experiment.limit_rates(options.rates.clone());
        experiment.set_register_layout(self.layout.clone());
        experiment.set_address_form(self.address_form);
        for variable in variables {
            experiment.define_variable(variable.clone());
        }
        for definition in definitions {
            let number = definition.number;
            if let Err(source) = experiment.define(definition.clone()) {
                experiment.into_store().discard();
                return Err(RecordError::Define { number, source });
            }
        }
        Ok(experiment)
    }

    fn description(
        &self,
        mut tracepoints: Vec<Tracepoint>,
        variables: Vec<VariableDefinition>,
        mut status: StatusFields,
        aggregates: Vec<(AggregateKey, AggregateTable)>,
    ) -> Result<Description, LineError> {
        tell_as_gdb_takes(&mut tracepoints, &self.layout);
        status.notes.clone_from(&self.settings.notes);
        status.user.clone_from(&self.settings.user);
        status.disconnected = self.settings.disconnected;
        Description::build(&DescriptionParts {
            register_block_size: self.layout.size(),
            target_xml: Some(self.target_xml.clone()),
            status: Some(Status::from(status)),
            variables,
            tracepoints,
            modules: self.modules.clone(),
            redactions: self.redactions.clone(),
            aggregates,
        })
    }
}

fn tracepoints<S: FrameStore>(experiment: &Experiment<S>) -> Vec<Tracepoint> {
    let all = experiment.tracepoints().map(|tracepoint| Tracepoint {
        usage: Some(tracepoint.usage()),
        served: describe::served(experiment, tracepoint),
        skipped: tracepoint.skipped(),
        ..Tracepoint::new(tracepoint.definition().clone())
    });
    all.collect()
}

/// The symbols of the programs that were named, else of the one that the stub names.
fn symbols(
    target: &mut RemoteTarget,
    named: &[PathBuf],
    options: &RecordOptions,
) -> Result<Symbols, RecordError> {
    let mut symbols = programs::no_symbols(options);
    let named = match named {
        [] => vec![stub_program(target)?],
        named => named.to_vec(),
    };
    for (place, path) in named.iter().enumerate() {
        let module = programs::add(&mut symbols, path, 0)?;
        let Some(info) = symbols.module(module) else {
            continue;
        };
        // Where the system has loaded a program that may be anywhere, the auxiliary vector says.
        if place == 0 && info.relocatable {
            let entry = info.entry.0;
            let pointer = info.architecture.pointer_size();
            if let Some(loaded) = loaded_entry(target, pointer)? {
                let bias = loaded.wrapping_sub(entry);
                symbols.remove_module(module);
                programs::add(&mut symbols, path, bias)?;
            }
        }
    }
    Ok(symbols)
}

/// The program's file, as the stub names it.
fn stub_program(target: &mut RemoteTarget) -> Result<PathBuf, RecordError> {
    let name = target.stub_mut().object(Object::ExecFile, "")?;
    let name = name.filter(|name| !name.is_empty());
    name.map(|name| Path::new(std::ffi::OsStr::from_bytes(&name)).to_owned())
        .ok_or(RecordError::NoProgram)
}

/// The address of the program's entry point; none where the stub has no auxiliary vector.
fn loaded_entry(target: &mut RemoteTarget, pointer: u8) -> Result<Option<u64>, RecordError> {
    let order = target.stub().machine().byte_order();
    let vector = target.stub_mut().object(Object::AuxiliaryVector, "")?;
    let vector = vector.unwrap_or_default();
    let mut entries = vector.chunks_exact(2 * usize::from(pointer));
    Ok(entries.find_map(|entry| {
        let (kind, value) = entry.split_at(usize::from(pointer));
        (order.unsigned(kind) == Some(AT_ENTRY)).then(|| order.unsigned(value))?
    }))
}
