//! `collect`: tracepoints over a recorded execution, without a debugger.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use tracewire_debuginfo::Symbols;
use tracewire_experiment::tell_as_gdb_takes;
use tracewire_expr::StackEnd;
use tracewire_model::{
    Address, AggregateKey, AggregateTable, Status, StatusFields, StopReason, Tracepoint,
};
use tracewire_recorder::BufferSize;
use tracewire_script::{Pending, Placed, Resolver, Script, ScriptError};
use tracewire_target_replay::{
    Collected, FrameRegisters, FrameSink, Recorded, Request, collect as collect_frames,
};
use tracewire_tracefile::{Description, DescriptionParts, Module, Spool, WriteError};

use super::open::execution;
use crate::answer::Answer;
use crate::message::{say, warn};
use crate::open;
use crate::output::Output;
use crate::record::{first_lines, placed, read_script, resolve_warnings};
use crate::value_parser::parse_size;

pub const HELP: &str = "\
The script is GDB's own, as for `tracewire record`: what `save tracepoints` writes can be fed in unchanged. A SPEC of -t \
is as there, too: LIST has expressions, /s before one collects a string. The file opens in GDB (`target tfile OUT.tf`) and with `tracewire show`.

What the recording does not know is missing from the frames. Of registers the frames say which are not known, and \
`tracewire show` leaves them out; to GDB they are 0, unless the recording never has them. They are named when the run is over.

The exit status is 0 when a frame was collected, 1 when none was, and 2 when the script or the input cannot be used.

Examples:
  tracewire collect -x script.gdb --elf firmware.elf -o out.tf cpu.trace
  tracewire collect -t 'handle if depth < 3 : $args, j->name' --elf firmware.elf -o out.tf cpu.trace.gz";

#[derive(Args, Debug)]
pub struct CollectArguments {
    /// A file of GDB's tracepoint commands; may be given several times
    #[arg(short = 'x', long = "script", value_name = "SCRIPT", value_hint = ValueHint::FilePath)]
    pub scripts: Vec<PathBuf>,
    #[arg(
        help = "A tracepoint: 'LOCATION [if COND] [PICK] [: LIST]'; may be given several times",
        short = 't',
        long = "tracepoint",
        value_name = "SPEC",
        allow_hyphen_values = true,
        required_unless_present = "scripts"
    )]
    pub tracepoints: Vec<String>,
    /// The program that was executed; may be given several times
    #[arg(long, value_name = "ELF", required = true, value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// Print a line for each tracepoint and each warning, however many there are
    #[arg(short, long)]
    pub verbose: bool,
    /// The trace file to write; - for standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// How much to keep: bytes, or with KiB, MiB, GiB [default: 1GiB; with --circular 5MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub buffer_size: Option<u64>,
    /// When the buffer is full, let the oldest frames go instead of ending the run
    #[arg(long)]
    pub circular: bool,
    #[command(flatten)]
    pub machine: open::Machine,
    /// The execution trace; - for standard input
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    pub trace: PathBuf,
}

/// How many registers are named that are not known.
const NAMES_TOLD: usize = 8;

/// `collect`.
pub fn collect(arguments: &CollectArguments) -> anyhow::Result<Answer> {
    let output = Output::new(&arguments.output)?;
    let script = read_script(&arguments.scripts, &arguments.tracepoints)?;
    let opened = execution(&arguments.trace)?.open(&arguments.elf, arguments.machine)?;
    opened.machine()?;
    opened.tell_content();
    let symbols = opened.symbols.as_ref().context("no program was named")?;
    let resolved = Resolved::new(&script, symbols, arguments.verbose)?;
    let modules = modules(symbols);
    let circular = arguments.circular || script.settings.circular == Some(true);
    let buffer = BufferSize::of(&script, arguments.buffer_size, circular);
    let shown = opened.shown().to_owned();
    let recorded = Recorded::new(opened.recording).with_context(|| shown.display().to_string())?;
    placed(&resolved.placed, arguments.verbose, say);
    let request = Request {
        definitions: (resolved.placed.iter())
            .map(|placed| placed.definition.clone())
            .collect(),
        variables: resolved.variables.clone(),
        limit: buffer.size,
        circular,
    };
    let file = CollectedFile {
        path: output.path(),
        script: &script,
        request: &request,
        registers: FrameRegisters::of(&recorded, &request),
        modules,
    };
    let failed = || output.shown().display().to_string();
    let mut frames = Frames::new(&file).with_context(failed)?;
    let collected = collect_frames(&recorded, &request, &mut frames)?;
    if let Some(problem) = recorded.problem() {
        bail!("{}: {problem}", shown.display());
    }
    tracewire_mapped_file::verify()?;
    frames.finish(&collected).with_context(failed)?;
    tell(output.shown(), &request, &collected);
    output.deliver()?;
    let is_counted = (collected.aggregates.iter()).any(|(_, _, table)| !table.cells.is_empty());
    Ok(match collected.status.frames_created {
        Some(1..) => Answer::Yes,
        _ if is_counted => Answer::Yes,
        _ => Answer::No,
    })
}

/// The tracepoints with their places.
struct Resolved {
    placed: Vec<Placed>,
    variables: Vec<tracewire_model::VariableDefinition>,
}

impl Resolved {
    fn new(script: &Script, symbols: &Symbols, verbose: bool) -> anyhow::Result<Self> {
        let mut resolver = Resolver::new(script.clone()).with_stack_end(StackEnd::Unknown);
        let resolution = resolver.resolve(symbols);
        // No library comes later in a recording.
        let pending = resolution.pending.iter().map(Pending::as_error);
        let problems: Vec<ScriptError> =
            resolution.problems.iter().cloned().chain(pending).collect();
        if !problems.is_empty() {
            bail!("{}", first_lines(&problems, verbose));
        }
        resolve_warnings(&resolution.warnings, verbose, warn);
        Ok(Self {
            placed: resolution.placed,
            variables: resolver.variables().to_vec(),
        })
    }
}

/// The programs, for readers of the file.
fn modules(symbols: &Symbols) -> Vec<Module> {
    let modules = symbols.modules().into_iter().map(|module| {
        let ends = module
            .segments
            .iter()
            .map(|segment| segment.address.0.saturating_add(segment.size));
        let starts = module.segments.iter().map(|segment| segment.address.0);
        let start = Address(starts.min().unwrap_or(0));
        let end = Address(ends.max().unwrap_or(0));
        let build_id = module.build_id.clone().unwrap_or_default();
        Module::of_file(&module.path, build_id, 0, start..end)
    });
    modules.collect()
}

/// What was counted, for a description.
fn counted(collected: &Collected) -> Vec<(AggregateKey, AggregateTable)> {
    let all = collected.aggregates.iter();
    all.map(|(number, aggregate, table)| ((*number, aggregate.index), table.clone()))
        .collect()
}

/// The file that is written.
struct CollectedFile<'a> {
    path: &'a Path,
    script: &'a Script,
    request: &'a Request,
    registers: FrameRegisters,
    modules: Vec<Module>,
}

impl CollectedFile<'_> {
    /// What is before the frames; without knowing yet how it went, as much as there can be.
    fn description(&self, collected: Option<&Collected>) -> Result<Description, WriteError> {
        let mut status = collected.map_or_else(StatusFields::default, |all| all.status.clone());
        status.notes.clone_from(&self.script.settings.notes);
        status.user.clone_from(&self.script.settings.user);
        let usage = |at: usize| {
            collected.map(|all| {
                all.usage
                    .get(at)
                    .map_or_else(Default::default, |(usage, _)| *usage)
            })
        };
        let tracepoints = self.request.definitions.iter().enumerate();
        let mut tracepoints: Vec<_> = tracepoints
            .map(|(at, definition)| Tracepoint {
                usage: usage(at),
                ..Tracepoint::new(definition.clone())
            })
            .collect();
        tell_as_gdb_takes(&mut tracepoints, &self.registers.layout);
        let description = Description::build(&DescriptionParts {
            register_block_size: self.registers.size,
            target_xml: Some(self.registers.target_xml.clone()),
            status: Some(Status::from(status)),
            variables: self.request.variables.clone(),
            tracepoints,
            modules: self.modules.clone(),
            aggregates: collected.map_or_else(Vec::new, counted),
            ..DescriptionParts::default()
        })?;
        Ok(description)
    }
}

/// The frames on their way into the file.
struct Frames<'a> {
    file: &'a CollectedFile<'a>,
    spool: Option<Spool>,
}

impl<'a> Frames<'a> {
    fn new(file: &'a CollectedFile<'a>) -> Result<Self, WriteError> {
        let mut frames = Self { file, spool: None };
        frames.clear()?;
        Ok(frames)
    }

    fn remove(&mut self) {
        if let Some(spool) = self.spool.take() {
            let path = spool.temporary_path().to_owned();
            drop(spool);
            // Nothing more can be done about it.
            let _ = std::fs::remove_file(path);
        }
    }

    fn finish(mut self, collected: &Collected) -> Result<(), WriteError> {
        let description = self.file.description(Some(collected))?;
        self.spool
            .take()
            .map_or(Ok(()), |spool| spool.finish(&description))
    }
}

impl FrameSink for Frames<'_> {
    fn append(&mut self, frames: &[u8]) -> Result<(), WriteError> {
        self.spool
            .as_mut()
            .map_or(Ok(()), |spool| spool.append(frames))
    }

    fn clear(&mut self) -> Result<(), WriteError> {
        self.remove();
        let description = self.file.description(None)?;
        self.spool = Some(Spool::create(self.file.path, &description)?);
        Ok(())
    }
}

/// What is not finished is not left behind.
impl Drop for Frames<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// How it went, on stderr.
fn tell(output: &Path, request: &Request, collected: &Collected) {
    for (definition, (_, missing)) in request.definitions.iter().zip(&collected.usage) {
        if missing.count > 0 {
            let first = missing.first.map(|first| format!(", first at {first}"));
            warn(format_args!(
                "tracepoint {}: {} values are not known{}",
                definition.number,
                missing.count,
                first.unwrap_or_default()
            ));
        }
    }
    if !collected.unknown.is_empty() {
        let mut names: Vec<String> = (collected.unknown.iter().take(NAMES_TOLD))
            .map(|(name, frames)| format!("${name} ({frames})"))
            .collect();
        if let Some(more @ 1..) = collected.unknown.len().checked_sub(NAMES_TOLD) {
            names.push(format!("and {more} more"));
        }
        warn(format_args!(
            "registers are not known in so many frames, where GDB shows 0: {}",
            names.join(", ")
        ));
    }
    let status = &collected.status;
    if status.stop_reason != Some(StopReason::Command) {
        let tracepoint = status.stopping_tracepoint.map_or(0, |number| number.0);
        let text = status.stop_text.as_deref().unwrap_or_default();
        warn(match status.stop_reason {
            Some(StopReason::Full) => {
                "the buffer is full, and the run ended before the recording: --buffer-size keeps more".to_owned()
            }
            Some(StopReason::PassCount) => {
                format!("tracepoint {tracepoint} reached its pass count, and the run ended")
            }
            _ => format!("tracepoint {tracepoint} ended the run: {text}"),
        });
    }
    let hits: u64 = collected.usage.iter().map(|(usage, _)| usage.hits).sum();
    let frames = status.frames.unwrap_or(0);
    say(format_args!(
        "{hits} hits, {frames} frames in {}",
        output.display()
    ));
}
