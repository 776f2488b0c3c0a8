//! `convert` to the formats of profilers and observability tools, which take a run as a whole: all its processes, with the values of its expressions.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use tracewire_convert::Format;
use tracewire_debuginfo::TypeRules;
use tracewire_export::otlp::{Endpoint, OtlpCounts};
use tracewire_export::perfetto::PerfettoOptions;
use tracewire_export::{chrome, firefox, folded, otlp, perfetto};
use tracewire_model::ThreadId;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, ProgramFiles, RunPart, words};

use crate::answer::Answer;
use crate::convert::{ConvertArguments, into_place, is_stdout};
use crate::progress::Progress;
use crate::{frame_output, open};

/// A trace file of the run.
#[derive(Debug)]
pub struct RunFile {
    pub path: PathBuf,
    /// Its process, in a run of several, and the process that made that one.
    pub process: Option<(ThreadId, Option<ThreadId>)>,
    pub file: TraceFile,
}

/// The destination of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination<'a> {
    /// To a file, or to standard output.
    File(&'a Path),
    /// To the endpoint of a collector, by its address.
    Endpoint(&'a str),
}

impl<'a> Destination<'a> {
    /// The destination of a name: an address, or a file.
    pub fn of(name: &'a Path) -> Self {
        let is_address = |text: &&str| text.starts_with("http://") || text.starts_with("https://");
        match name.to_str().filter(is_address) {
            Some(address) => Self::Endpoint(address),
            None => Self::File(name),
        }
    }
}

/// Whether a format is one of those that take a run as a whole.
pub const fn is_exported(format: Format) -> bool {
    matches!(
        format,
        Format::Chrome | Format::Perfetto | Format::Otlp | Format::Firefox | Format::Folded
    )
}

/// The programs of trace files, with the type rules and files that the arguments name.
#[derive(Debug)]
pub struct Programs<'a> {
    arguments: &'a ConvertArguments,
    rules: Arc<TypeRules>,
    files: ProgramFiles,
    said: HashSet<String>,
}

impl<'a> Programs<'a> {
    pub fn new(arguments: &'a ConvertArguments) -> anyhow::Result<Self> {
        Ok(Self {
            arguments,
            rules: match arguments.raw {
                true => Arc::new(TypeRules::none()),
                false => arguments.types.rules()?,
            },
            files: open::program_files(&arguments.elf, arguments.debuginfod)?,
            said: HashSet::new(),
        })
    }

    /// The program of a file. Missing files are reported once.
    pub fn of(&mut self, file: &TraceFile) -> anyhow::Result<Program> {
        let mut program = Program::with_files(file, self.files.clone())?;
        open::report_program(file, &program, &self.arguments.elf, &mut self.said);
        program.set_type_rules(&self.rules);
        Ok(program)
    }
}

/// Writes a run, or sends it.
pub fn write(
    files: &[RunFile],
    destination: Destination<'_>,
    format: Format,
    programs: &mut Programs<'_>,
) -> anyhow::Result<Answer> {
    let mut opened = Vec::with_capacity(files.len());
    for one in files {
        opened.push(programs.of(&one.file)?);
    }
    let parts: Vec<_> = files
        .iter()
        .zip(&opened)
        .map(|(one, program)| RunPart {
            name: one.path.display().to_string(),
            process: one.process.map(|(process, _)| process),
            parent: one.process.and_then(|(_, parent)| parent),
            origin: frame_output::origin(&one.file),
            file: &one.file,
            program,
        })
        .collect();
    match destination {
        Destination::Endpoint(address) => send(&parts, address),
        Destination::File(out) => write_file(&parts, out, format, programs.arguments),
    }
}

fn write_file(
    parts: &[RunPart<'_>],
    out: &Path,
    format: Format,
    arguments: &ConvertArguments,
) -> anyhow::Result<Answer> {
    let name = out.display().to_string();
    into_place(out, |mut sink| {
        let _progress = match is_stdout(out) {
            true => Progress::default(),
            false => {
                Progress::begin(move |elapsed| format!("writing {name}: {} s", elapsed.as_secs()))
            }
        };
        match format {
            Format::Chrome => chrome::write(parts, &mut sink)?,
            Format::Perfetto => {
                let options = PerfettoOptions {
                    flows: arguments.flow.clone(),
                };
                perfetto::write(parts, &options, &mut sink)?;
            }
            Format::Otlp => {
                otlp::write(parts, &mut sink)?;
            }
            Format::Firefox => {
                if firefox::write(parts, &mut sink)? == 0 {
                    message!(
                        "tracewire: note: no frame has a stack, so the profile has markers and no samples; $stack in a list collects it"
                    );
                }
            }
            Format::Folded => folded::write(parts, &mut sink)?,
            other => bail!("{other} is of one trace file"),
        }
        Ok(())
    })?;
    Ok(Answer::Yes)
}

fn send(parts: &[RunPart<'_>], address: &str) -> anyhow::Result<Answer> {
    let mut endpoint = Endpoint::new(address)?;
    let shown = address.to_owned();
    let progress =
        Progress::begin(move |elapsed| format!("sending to {shown}: {} s", elapsed.as_secs()));
    let OtlpCounts {
        spans,
        logs,
        metrics,
    } = otlp::send(parts, &mut endpoint)
        .context("the run was not sent, or not all of it: sending it again sends the same spans")?;
    drop(progress);
    for rejection in endpoint.rejections() {
        message!("tracewire: warning: {}", words::printable(rejection));
    }
    message!(
        "tracewire: {}, {} and {} sent to {}",
        words::count(spans, "span"),
        words::count(logs, "log record"),
        words::count(metrics, "metric"),
        words::printable(address),
    );
    match endpoint.rejections() {
        [] => Ok(Answer::Yes),
        _ => Ok(Answer::No),
    }
}
