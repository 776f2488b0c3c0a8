//! What is settled before the first tracepoint is put in: places, registers, the file.

use std::path::PathBuf;

use anyhow::bail;
use tracewire_experiment::{Experiment, Options, Registers, Unreadable};
use tracewire_script::{Pending, Resolution, Resolver, ScriptError};
use tracewire_target_linux::{Event, Process};
use tracewire_tracefile::{
    Action, ByteOrder, FrameFormat, StatusFields, TracepointDefinition, X86Registers,
};

use super::buffer::Buffer;
use super::modules::Modules;
use super::recording::{Recording, now, tell_warnings};
use super::{Request, describe, report};

/// What is known before the file is made.
pub struct Prepared {
    modules: Modules,
    resolver: Resolver,
    resolution: Resolution,
}

impl Prepared {
    /// Looks the tracepoints up. A program that was started is let run to where its libraries are loaded, if one
    /// of them may have what is not found; nothing of its own has run by then.
    pub fn new(process: &mut Process, spawned: bool, request: &Request) -> anyhow::Result<Self> {
        let mut modules = Modules::default();
        modules.update(&process.modules()?, 0);
        let mut resolver = Resolver::new(request.script.clone());
        let mut resolution = resolver.resolve(modules.symbols());
        fail_on_problems(&resolution.problems)?;
        if spawned && modules.is_dynamic() && !resolution.pending.is_empty() {
            load_libraries(process)?;
            modules.update(&process.modules()?, 0);
            let more = resolver.resolve(modules.symbols());
            fail_on_problems(&more.problems)?;
            resolution.placed.extend(more.placed);
            resolution.warnings.extend(more.warnings);
            resolution.pending = more.pending;
        }
        let hopeless: Vec<ScriptError> = resolution
            .pending
            .iter()
            .filter(|pending| match request.script.settings.pending {
                Some(wait) => !wait,
                None => pending.near || !modules.is_dynamic(),
            })
            .map(Pending::as_error)
            .collect();
        if !hopeless.is_empty() && modules.is_dynamic() {
            report::say(
                "a name that comes with a library opened later is waited for after `set breakpoint pending on`",
            );
        }
        fail_on_problems(&hopeless)?;
        tell_warnings(&resolution);
        Ok(Self {
            modules,
            resolver,
            resolution,
        })
    }

    pub fn into_recording(
        self,
        mut process: Process,
        spawned: bool,
        request: Request,
        output: PathBuf,
    ) -> Result<Recording, (Process, anyhow::Error)> {
        let settings = &request.script.settings;
        let fields = StatusFields {
            notes: settings.notes.clone(),
            user: settings.user.clone(),
            disconnected: settings.disconnected,
            ..StatusFields::default()
        };
        let definitions: Vec<TracepointDefinition> = self
            .resolution
            .placed
            .iter()
            .map(|placed| placed.definition.clone())
            .collect();
        let registers = registers(&definitions, !self.resolution.pending.is_empty());
        process.set_registers(registers);
        let variables = self.resolver.variables();
        let made =
            describe::first_description(&definitions, variables, &self.modules, registers, &fields);
        let made = made
            .map_err(anyhow::Error::from)
            .and_then(|description| Buffer::create(&output, request.buffer, &description));
        let buffer = match made {
            Ok(buffer) => buffer,
            Err(error) => return Err((process, error)),
        };
        let options = Options {
            format: FrameFormat {
                byte_order: ByteOrder::Little,
                register_block_size: registers.layout_64().size(),
            },
            stamp: true,
            registers: Registers::Always,
            unreadable: Unreadable::Missing,
        };
        let mut experiment = Experiment::new(options, buffer);
        for variable in variables {
            experiment.define_variable(variable.clone());
        }
        for definition in definitions {
            let number = definition.number;
            if let Err(error) = experiment.define(definition) {
                return Err((process, anyhow::anyhow!("tracepoint {number}: {error}")));
            }
        }
        report::placed(&self.resolution.placed);
        report::pending(&self.resolution.pending);
        Ok(Recording {
            begun: now(),
            process,
            spawned,
            modules: self.modules,
            resolver: self.resolver,
            experiment,
            registers,
            settings: fields,
            past: Vec::new(),
            pending: self.resolution.pending,
            output,
            stop_notes: request.script.settings.stop_notes,
            ever_placed: false,
        })
    }
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
struct Nobody;

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

/// The smallest set of registers that has all that is collected. What a tracepoint collects that waits is not
/// known; it gets the vector registers, in which arguments may be, as every machine has them.
fn registers(definitions: &[TracepointDefinition], waiting: bool) -> X86Registers {
    let asked = definitions
        .iter()
        .flat_map(|definition| definition.actions.iter().chain(&definition.step_actions))
        .filter_map(|action| match action {
            Action::Registers(mask) => Some(mask),
            _ => None,
        })
        .flat_map(tracewire_tracefile::RegisterMask::iter);
    let covering = X86Registers::covering_64(asked).unwrap_or(X86Registers::Avx512);
    if waiting {
        covering.max(X86Registers::Sse)
    } else {
        covering
    }
}

/// All problems of a script at once.
fn fail_on_problems(problems: &[ScriptError]) -> anyhow::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    bail!("{}", shown.join("\n"))
}
