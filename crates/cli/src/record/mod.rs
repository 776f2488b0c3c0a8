//! `record`: a program, tracepoints in it, and a file of what they saw.

mod buffer;
mod describe;
mod few;
mod indirect;
mod meanwhile;
mod modules;
mod prepare;
mod priority;
mod recording;
mod registers;
mod report;
pub mod signals;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tracewire_model::ThreadId;
use tracewire_script::{Script, ScriptError};
use tracewire_target_linux::{Process, Settings};
use tracewire_views::words;

pub use buffer::BufferSize;
pub use few::{once_each, tell};
use priority::Priority;
use recording::Recording;
pub use recording::tell_warnings;
pub use report::{Report, placed, quoted, say, warn};
use signals::{Signals, Watch};

use crate::Answer;
use crate::arguments::RecordArguments;
use crate::out_of_memory;
use crate::output::Output;

/// What is to be recorded.
#[derive(Debug)]
pub struct Request {
    pub script: Script,
    pub output: PathBuf,
    pub start: Start,
    pub buffer: BufferSize,
    pub duration: Option<Duration>,
    pub mechanism: tracewire_experiment::Mechanism,
    /// Whether places that are not found wait.
    pub pending: bool,
    /// Whether tracepoints that cannot be set are left out.
    pub keep_going: bool,
    /// Whether messages are printed however many there are.
    pub verbose: bool,
}

/// The program.
#[derive(Debug)]
pub enum Start {
    /// One that runs.
    Attach(u32),
    /// One that is started.
    Spawn {
        program: OsString,
        arguments: Vec<OsString>,
    },
}

/// `record`.
pub fn record(arguments: RecordArguments) -> anyhow::Result<Answer> {
    let script = read_script(&arguments.scripts, &arguments.tracepoints)?;
    let circular = arguments.circular || script.settings.circular == Some(true);
    let request = Request {
        buffer: BufferSize::of(&script, arguments.buffer_size, circular),
        script,
        output: arguments.output,
        start: start(arguments.pid, arguments.program)?,
        duration: arguments.duration,
        mechanism: arguments.mechanism.map(Into::into).unwrap_or_default(),
        pending: arguments.pending,
        keep_going: arguments.keep_going,
        verbose: arguments.verbose,
    };
    let report = run(request)?;
    report.print_ending();
    Ok(if report.created > 0 {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn start(pid: Option<u32>, program: Vec<OsString>) -> anyhow::Result<Start> {
    let mut words = program.into_iter();
    match (pid, words.next()) {
        (Some(pid), _) => Ok(Start::Attach(pid)),
        (None, Some(program)) => Ok(Start::Spawn {
            program,
            arguments: words.collect(),
        }),
        (None, None) => anyhow::bail!("no program: expected -p PID, or -- PROGRAM ARGS…"),
    }
}

/// The script of some files and single tracepoints.
pub fn read_script(files: &[PathBuf], tracepoints: &[String]) -> anyhow::Result<Script> {
    let mut script = Script::new();
    for path in files {
        script.read_file(path).map_err(in_lines)?;
    }
    for specification in tracepoints {
        script.read_specification(specification).map_err(in_lines)?;
    }
    report::ignored_commands(&script);
    report::foreign_variables(&script);
    if script.tracepoints.is_empty() {
        anyhow::bail!("the script sets no tracepoint: expected `trace LOCATION`, or -t LOCATION");
    }
    Ok(script)
}

/// A script's error stands in lines of its own, so that the underline is below the words.
fn in_lines(error: ScriptError) -> anyhow::Error {
    anyhow::Error::new(error)
}

impl BufferSize {
    /// The size that was asked for, else the script's, else the usual one.
    pub fn of(script: &Script, asked: Option<u64>, circular: bool) -> Self {
        let from_script = match script.settings.buffer_size {
            Some(tracewire_script::BufferSize::Bytes(size)) if size > 0 => Some(size),
            _ => None,
        };
        let standard = if circular {
            Self::CIRCULAR
        } else {
            Self::LINEAR
        };
        Self {
            size: asked.or(from_script).unwrap_or(standard),
            circular,
        }
    }
}

/// Records: starts or attaches, lets the program run, lets it go, writes the file, and waits for a program that
/// was started. Talks on stderr.
pub fn run(mut request: Request) -> anyhow::Result<Report> {
    let output = Output::new(&request.output)?;
    output.shown().clone_into(&mut request.output);
    if output.is_stdout() {
        // The trace file and nothing else goes there: not what the program prints, either.
        nix::unistd::dup2_stdout(std::io::stderr()).context("standard output")?;
    }
    let signals = Signals::block();
    out_of_memory::reserve()?;
    // A program that is started would inherit it.
    let priority = matches!(request.start, Start::Attach(_)).then(Priority::raise);
    let (process, spawned) = match &request.start {
        Start::Attach(pid) => (Process::attach(ThreadId(*pid), Settings::default())?, false),
        Start::Spawn { program, arguments } => (
            Process::spawn(program, arguments, Settings::default())?,
            true,
        ),
    };
    if process.jumps_taken_over() > 0 {
        say(format_args!(
            "a Tracewire that was killed had left {}, taken out now; `tracewire rescue` has its frames",
            words::count(process.jumps_taken_over() as u64, "jump")
        ));
    }
    let id = process.id();
    let watch = match Watch::begin(signals, process.interrupter()) {
        Ok(watch) => watch,
        Err(error) => {
            give_up(process, spawned);
            return Err(error).context("cannot start a thread");
        }
    };
    let path = output.path().to_owned();
    let recording = Recording::begin(process, spawned, request, path, &watch)?;
    drop(priority);
    let recorded = recording.run();
    let is_file = output.is_file();
    // A run that failed has left a file of what it saw.
    let delivered = if output.path().exists() {
        output.deliver()
    } else {
        Ok(())
    };
    let mut report = recorded?;
    report.is_file = is_file;
    report.print_summary();
    delivered?;
    watch.only_wait();
    if spawned && !report.program_ended() && !matches!(watch.wish(), Some(signals::Wish::Signal(_)))
    {
        report.wait_for_program(id);
    }
    Ok(report)
}

/// Leaves a program that is not going to be recorded: one that was attached to goes on, one that was started for
/// this has not run yet and ends.
fn give_up(process: Process, spawned: bool) {
    if spawned {
        process.kill();
    } else {
        let _ = process.detach();
    }
}
