//! What is settled before the first tracepoint is put in: places, registers, the file.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, bail};
use tracewire_experiment::{Experiment, Options, Registers, Unreadable};
use tracewire_model::{ByteOrder, StatusFields, TracepointDefinition};
use tracewire_script::{Pending, Resolution, Resolver, ScriptError};
use tracewire_target_linux::{Event, Process};
use tracewire_tracefile::FrameFormat;

use super::buffer::Buffer;
use super::meanwhile::run_meanwhile;
use super::modules::Modules;
use super::recording::tell_warnings;
use super::registers::Room;
use super::signals::Watch;
use super::{Request, describe, indirect, registers, report, tell};
use crate::out_of_memory::Expendable;

/// What is known before the file is made.
pub struct Prepared {
    pub modules: Modules,
    pub resolver: Resolver,
    pub resolution: Resolution,
}

impl Prepared {
    /// Looks the tracepoints up. A program that was started is let run to where its libraries are loaded, if one
    /// of them may have what is not found; nothing of its own has run by then. One that was attached to runs on
    /// meanwhile.
    pub fn new(
        process: &mut Process,
        spawned: bool,
        request: &Request,
        watch: &Watch,
    ) -> anyhow::Result<Self> {
        let loaded = process.modules()?;
        let script = request.script.clone();
        let look = move || {
            let mut modules = Modules::default();
            modules.update(&loaded, 0);
            let mut resolver = Resolver::new(script);
            let resolution = resolver.resolve(modules.symbols());
            (modules, resolver, resolution)
        };
        let (mut modules, mut resolver, mut resolution) = if spawned {
            Expendable::wait(look)?
        } else {
            run_meanwhile(process, watch, look)?
        };
        // One message says what is left out, when all is known.
        if !request.keep_going {
            check(&resolution, request)?;
        }
        let load = spawned && modules.is_dynamic() && !resolution.pending.is_empty();
        if load {
            load_libraries(process)?;
        }
        // A library may have come while the program ran.
        if load || !spawned {
            let loaded = process.modules()?;
            let more;
            (modules, resolver, more) = Expendable::wait(move || {
                modules.update(&loaded, 0);
                let more = resolver.resolve(modules.symbols());
                (modules, resolver, more)
            })?;
            resolution.extend(more);
        }
        indirect::settle(process, &mut modules, &mut resolver, &mut resolution);
        // Each look finds the same ones.
        let mut known = HashSet::new();
        (resolution.problems).retain(|problem| known.insert(problem.to_string()));
        check(&resolution, request)?;
        let may_wait = request.pending || request.script.settings.pending == Some(true);
        let (unknown, expected): (Vec<_>, Vec<_>) = std::mem::take(&mut resolution.pending)
            .into_iter()
            .partition(|pending| !may_wait && pending.is_unknown);
        resolution.pending = expected;
        if !unknown.is_empty() {
            let errors: Vec<ScriptError> = unknown.iter().map(Pending::as_error).collect();
            let words = in_words(&errors, request.verbose);
            if !request.keep_going || resolution.is_empty() {
                bail!("{words}\n{WAIT}");
            }
            report::warn(words);
        }
        tell_warnings(&resolution, request.verbose);
        Ok(Self {
            modules,
            resolver,
            resolution,
        })
    }

    /// Chooses the registers, makes the file and the experiment in it.
    pub fn experiment(
        &self,
        process: &mut Process,
        request: &Request,
        output: &Path,
    ) -> anyhow::Result<Made> {
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
        let buffer = Buffer::create(output, request.buffer, &description)?;
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
        for variable in variables {
            experiment.define_variable(variable.clone());
        }
        for definition in definitions {
            let number = definition.number;
            if let Err(error) = experiment.define(definition) {
                experiment.into_store().discard();
                return Err(error).with_context(|| format!("tracepoint {number}"));
            }
        }
        report::placed(placed, request.verbose);
        report::pending(&self.resolution.pending, request.verbose);
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

/// Lets a program run, without tracepoints, to where the dynamic linker has loaded its libraries.
fn load_libraries(process: &mut Process) -> anyhow::Result<()> {
    match process.run(&mut Nobody)? {
        Event::LibrariesChanged => Ok(()),
        event @ (Event::Exited(_) | Event::Killed { .. }) => {
            bail!(
                "{} before its own code began",
                report::program_words(&event)
            )
        }
        Event::Interrupted => bail!("interrupted before the program began"),
        _ => Ok(()),
    }
}

/// Whoever wants to know of hits where there can be none.
pub struct Nobody;

impl tracewire_experiment::HitHandler for Nobody {
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

/// What a user may do about a place that is not found.
const WAIT: &str = "a place that comes with a library opened later, or with a program that this one becomes, is waited for \
                    with --pending";

/// Refuses problems of a script, all at once, or warns of them.
fn check(resolution: &Resolution, request: &Request) -> anyhow::Result<()> {
    if resolution.problems.is_empty() {
        return Ok(());
    }
    let words = in_words(&resolution.problems, request.verbose);
    if request.keep_going && !resolution.is_empty() {
        report::warn(words);
        return Ok(());
    }
    bail!("{words}")
}

fn in_words(problems: &[ScriptError], verbose: bool) -> String {
    let mut words = Vec::new();
    tell(problems, verbose, "problems", |one| words.push(one));
    words.join("\n")
}
