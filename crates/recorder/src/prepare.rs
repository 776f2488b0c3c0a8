//! What is settled before the first tracepoint is put in: places, registers, the file.

use std::collections::HashSet;
use std::sync::Arc;

use tracewire_debuginfo::Symbols;
use tracewire_experiment::{Experiment, Options, Registers, Unreadable};
use tracewire_expr::StackEnd;
use tracewire_model::{ByteOrder, StatusFields, TracepointDefinition};
use tracewire_script::{Pending, Resolution, Resolver, ScriptError, ScriptTracepoint};
use tracewire_target_linux::{Event, Process};
use tracewire_tracefile::FrameFormat;

use crate::buffer::Buffer;
use crate::error::RecordError;
use crate::lookup::{Lookup, LookupKey};
use crate::meanwhile::run_meanwhile;
use crate::modules::Modules;
use crate::observer::{Observer, RecordEvent, Warning};
use crate::options::{Confirm, RecordOptions};
use crate::origin::Origin;
use crate::out_of_memory::Expendable;
use crate::registers::Room;
use crate::stop::StopHandle;
use crate::together::{Gate, Work};
use crate::{describe, indirect, registers};

/// What is known before the file is made.
pub struct Prepared {
    pub modules: Modules,
    pub resolver: Resolver,
    pub resolution: Resolution,
    /// What another child can have of it.
    pub key: Option<LookupKey>,
}

impl Prepared {
    /// Looks the tracepoints up. A program that was started is let run to where its libraries are loaded, if one
    /// of them may have what is not found; nothing of its own has run by then. One that was attached to runs on
    /// meanwhile.
    pub fn new(
        process: &mut Process,
        origin: Origin,
        request: &RecordOptions,
        stop: &StopHandle,
        observer: &mut dyn Observer,
    ) -> Result<Self, RecordError> {
        if request.script.tracepoints.is_empty() {
            return Err(RecordError::NoTracepoints);
        }
        let meanwhile = match origin {
            Origin::Attached | Origin::Found => {
                let look = look(process, request)?;
                let place = request.place.clone();
                if process.prepared_pads().is_none() {
                    request.prepare_pads(process);
                }
                let pads = process.prepared_pads();
                let work_of_run = place.as_ref().map(|place| place.work());
                let work_of_run = work_of_run.unwrap_or_default();
                let meanwhile = run_meanwhile(process, stop, &work_of_run, move || {
                    let looked = match &place {
                        Some(place) => place.read(look),
                        None => look(),
                    };
                    if let Some(pads) = pads {
                        pads.fill();
                    }
                    if let Some(place) = place {
                        place.wait(Gate::Read);
                    }
                    looked
                })?;
                if let Some(place) = &request.place {
                    place.begin(Work::PutIn, process);
                }
                meanwhile
            }
            Origin::Started | Origin::Forked | Origin::Executed => None,
        };
        let has_run = meanwhile.is_some();
        // A program that was started has run nothing yet, nor has one that has become another one meanwhile.
        let is_new = !has_run && origin != Origin::Forked;
        let keeps_going = request.keep_going || origin.is_followed();
        let (lookup, key) = match meanwhile {
            Some(lookup) => (lookup, None),
            None if origin == Origin::Forked => look_as_before(process, request)?,
            None => (Expendable::wait(look(process, request)?)?, None),
        };
        let Lookup {
            mut modules,
            mut warnings,
            mut resolver,
            mut resolution,
        } = lookup;
        // One that was attached to may have given them up.
        if matches!(origin, Origin::Started | Origin::Executed)
            && let Some(user) = process.refused_user()
        {
            observer.event(RecordEvent::Warning(Warning::RefusedUser(user)));
        }
        // What is not found may be in what cannot be read: that is reported first.
        for warning in warnings.drain(..) {
            observer.event(RecordEvent::Warning(warning));
        }
        check_places(&resolution, stop)?;
        // One message says what is left out, when all is known.
        if !keeps_going {
            check(&resolution, keeps_going, observer)?;
        }
        // How many places a pattern has is known when the libraries are there.
        let has_pattern = (request.script.tracepoints.iter()).any(ScriptTracepoint::is_at_pattern);
        let waits = !resolution.pending.is_empty() || has_pattern;
        let load = is_new && modules.is_dynamic() && waits;
        if load {
            load_libraries(process, stop)?;
        }
        // A library may have come while the program ran.
        if load || has_run {
            let loaded = process.modules()?;
            let more;
            let confirm = request.confirm.clone();
            let gone;
            (modules, warnings, resolver, gone, more) = Expendable::wait(move || {
                let change = modules.update(&loaded, 0);
                warnings.extend(change.warnings);
                for (from, to) in &change.gone {
                    resolver.forget(*from, *to);
                }
                // Nothing else is found in the same modules, and the program is stopped.
                let more = (change.came || !change.gone.is_empty())
                    .then(|| resolve(&mut resolver, modules.symbols(), &confirm));
                (modules, warnings, resolver, change.gone, more)
            })?;
            // A library may have gone as well.
            (resolution.placed).retain(|placed| {
                let address = placed.definition.address;
                !gone
                    .iter()
                    .any(|(from, to)| (*from..*to).contains(&address))
            });
            if let Some(more) = more {
                resolution.extend(more);
                check_places(&resolution, stop)?;
            }
        }
        for warning in warnings {
            observer.event(RecordEvent::Warning(warning));
        }
        indirect::settle(
            process,
            &mut modules,
            &mut resolver,
            &mut resolution,
            observer,
        );
        // Each look finds the same ones.
        let mut known = HashSet::new();
        (resolution.problems).retain(|problem| known.insert(problem.to_string()));
        check(&resolution, keeps_going, observer)?;
        let may_wait = request.pending || request.script.settings.pending == Some(true);
        let (unknown, expected): (Vec<_>, Vec<_>) = std::mem::take(&mut resolution.pending)
            .into_iter()
            .partition(|pending| !may_wait && pending.is_unknown);
        resolution.pending = expected;
        if !unknown.is_empty() {
            let errors: Vec<ScriptError> = unknown.iter().map(Pending::as_error).collect();
            if !keeps_going || resolution.is_empty() && !origin.is_followed() {
                return Err(RecordError::NotFound(errors));
            }
            observer.event(RecordEvent::NotFound(&errors));
        }
        if !resolution.warnings.is_empty() {
            observer.event(RecordEvent::ResolveWarnings(&resolution.warnings));
        }
        Ok(Self {
            modules,
            resolver,
            resolution,
            key,
        })
    }

    /// Chooses the registers, makes the file and the experiment in it.
    pub fn experiment(
        &self,
        process: &mut Process,
        origin: Origin,
        request: &RecordOptions,
        observer: &mut dyn Observer,
    ) -> Result<Made, RecordError> {
        let script = &request.script.settings;
        let settings = StatusFields {
            notes: script.notes.clone(),
            user: script.user.clone(),
            disconnected: script.disconnected,
            ..StatusFields::default()
        };
        let placed = &self.resolution.placed;
        let definitions: Vec<TracepointDefinition> = placed
            .iter()
            .map(|placed| placed.definition.clone())
            .collect();
        let registers = registers::choose(
            &definitions,
            !self.resolution.pending.is_empty(),
            process.architecture(),
        );
        process.set_registers(registers.set);
        let variables = self.resolver.variables();
        let description = describe::first_description(
            &definitions,
            variables,
            &self.modules,
            registers,
            &settings,
        )?;
        let size = request.buffer_size();
        let create = match request.lean {
            true => Buffer::create_lean,
            // A server may make a child for each request, which has its libraries.
            false if origin == Origin::Forked => Buffer::create_small,
            false => Buffer::create,
        };
        let mut buffer = create(&request.output, size, &description, ByteOrder::Little)?;
        buffer.limit(request.frame_limit.clone());
        buffer.trigger(request.trigger.clone());
        let options = Options {
            format: FrameFormat {
                byte_order: ByteOrder::Little,
                register_block_size: registers.layout().size(),
            },
            stamp: true,
            registers: Registers::Always,
            unreadable: Unreadable::Missing,
        };
        let mut experiment = Experiment::new(options, buffer);
        experiment.set_mechanism(request.mechanism);
        experiment.limit_rates(request.rates.clone());
        if let Some(budget) = request.budget.budget {
            experiment.limit_cost(budget);
        }
        experiment.set_register_layout(registers.layout().clone());
        if request.lean {
            experiment.keep_needed_registers(registers.layout().clone());
        }
        for variable in variables {
            experiment.define_variable(variable.clone());
        }
        for definition in definitions {
            let number = definition.number;
            if let Err(source) = experiment.define(definition) {
                experiment.into_store().discard();
                return Err(RecordError::Define { number, source });
            }
        }
        observer.event(RecordEvent::Placed(placed));
        observer.event(RecordEvent::Pending(&self.resolution.pending));
        Ok(Made {
            experiment,
            registers,
            settings,
        })
    }
}

/// The experiment, and what the file says of it.
pub struct Made {
    pub experiment: Experiment<Buffer>,
    pub registers: Room,
    pub settings: StatusFields,
}

/// Reads the symbols of the modules that are there, and looks the tracepoints up in them.
fn look(
    process: &Process,
    request: &RecordOptions,
) -> Result<impl FnOnce() -> Lookup + Send + use<>, RecordError> {
    let loaded = process.modules()?;
    let script = request.script.clone();
    let stack_top = process.stack_top();
    let type_rules = request.type_rules.clone();
    let redactions = Arc::new(request.redactions.clone());
    let limits = request.collect_limits;
    let confirm = request.confirm.clone();
    let names_folder = request.names_folder.clone();
    let read_files = request.read_files.clone();
    let debug_files = request.debug_files.clone();
    Ok(move || {
        let mut modules = Modules::default();
        modules.symbols_mut().read_files_from(read_files);
        if let Some(folder) = names_folder {
            modules.symbols_mut().keep_names_in(&folder);
        }
        if let Some(source) = debug_files {
            modules.symbols_mut().take_debug_files_from(source);
        }
        if let Some(rules) = type_rules {
            modules.symbols_mut().set_type_rules(rules);
        }
        modules.symbols_mut().set_redactions(redactions);
        let warnings = modules.update(&loaded, 0).warnings;
        let mut resolver = Resolver::new(script)
            .with_stack_end(StackEnd::Program(stack_top))
            .with_collect_limits(limits);
        let resolution = resolve(&mut resolver, modules.symbols(), &confirm);
        Lookup {
            modules,
            warnings,
            resolver,
            resolution,
        }
    })
}

/// Looks the tracepoints of a child by fork up, or knows from another one where they are.
fn look_as_before(
    process: &Process,
    request: &RecordOptions,
) -> Result<(Lookup, Option<LookupKey>), RecordError> {
    let objects = process.known_objects();
    if let Some((lookup, key)) = request.lookups.take(objects) {
        return Ok((lookup, Some(key)));
    }
    let lookup = Expendable::wait(look(process, request)?)?;
    let key = request.lookups.key(&lookup, objects);
    Ok((lookup, key))
}

/// Lets a program run, without tracepoints, to where the dynamic linker has loaded its libraries.
pub fn load_libraries(process: &mut Process, stop: &StopHandle) -> Result<(), RecordError> {
    loop {
        return match process.run(&mut NoHits)? {
            event @ (Event::Exited(_) | Event::Killed { .. }) => {
                Err(RecordError::EndedInLinker(event))
            }
            // Work that was given up interrupts too.
            Event::Interrupted if stop.stopped().is_none() => continue,
            Event::Interrupted => Err(RecordError::Stopped),
            _ => Ok(()),
        };
    }
}

/// A handler of hits where there can be none.
pub struct NoHits;

impl tracewire_experiment::HitHandler for NoHits {
    fn hit(
        &mut self,
        _: tracewire_experiment::Hit,
        _: &mut dyn tracewire_experiment::StoppedThread,
    ) -> tracewire_experiment::Outcome {
        tracewire_experiment::Outcome {
            step: false,
            run_ended: false,
        }
    }
}

/// Looks the tracepoints up, and asks whether patterns with very many places are meant.
pub fn resolve(resolver: &mut Resolver, symbols: &Symbols, confirm: &Confirm) -> Resolution {
    let mut resolution = resolver.resolve(symbols);
    if !resolution.excessive.is_empty() && confirm.ask(&resolution.excessive) {
        resolver.unlimited();
        resolution.extend(resolver.resolve(symbols));
    }
    resolution
}

/// Refuses patterns with very many places.
fn check_places(resolution: &Resolution, stop: &StopHandle) -> Result<(), RecordError> {
    if resolution.excessive.is_empty() {
        return Ok(());
    }
    if stop.stopped().is_some() {
        return Err(RecordError::Stopped);
    }
    Err(RecordError::Excessive(resolution.excessive.clone()))
}

/// Refuses problems of a script, all at once, or reports them.
fn check(
    resolution: &Resolution,
    keeps_going: bool,
    observer: &mut dyn Observer,
) -> Result<(), RecordError> {
    if resolution.problems.is_empty() {
        return Ok(());
    }
    if keeps_going && !resolution.is_empty() {
        observer.event(RecordEvent::Problems(&resolution.problems));
        return Ok(());
    }
    Err(RecordError::Script(resolution.problems.clone()))
}
