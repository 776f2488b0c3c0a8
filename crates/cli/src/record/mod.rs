//! `record`: traces a program, and writes the frames to a file.

mod confirm;
mod events;
mod few;
mod live;
mod options;
mod processes;
mod report;
pub mod signals;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use anyhow::Context;
use tracewire_arch::Architecture;
use tracewire_model::{ThreadId, TracepointNumber};
use tracewire_packets::ConnectionAddress;
use tracewire_recorder::{Ending, Priority, RecordError, Recorder, Report, Stop, out_of_memory};
use tracewire_script::{Script, ScriptError};

pub use live::Live;
use options::{configure, live_of};
use report::Teller;
pub use report::{
    Summary, Tone, error_words, first_lines, placed, quoted, resolve_warnings, tell_event,
};
use signals::{Signals, Watch};

use crate::answer::Answer;
use crate::arguments::RecordArguments;
use crate::execution::elf_architecture;
use crate::output::Output;
use crate::progress::Progress;

/// `record`. The calling thread has the priority until the recording begins.
pub fn record(arguments: RecordArguments, priority: Option<Priority>) -> anyhow::Result<Answer> {
    let mut script = read_script(&arguments.scripts, &arguments.tracepoints)?;
    let trigger = read_trigger(&mut script, &arguments.until)?;
    if let Some(place) = arguments.function_place {
        script.settings.function_place = place.into();
    }
    if let Some(processes) = several_of(&arguments)? {
        return processes::record(&arguments, script, trigger, processes, priority);
    }
    let spawned = arguments.pid.is_empty() && arguments.upstream.is_none();
    let mut recorder = match &arguments.upstream {
        Some(address) => upstream(
            address.clone(),
            arguments.elf.clone(),
            arguments.architecture,
        ),
        None => match (arguments.pid.first(), arguments.program.as_slice()) {
            (Some(pid), _) => Recorder::attach(ThreadId(*pid)),
            (None, [program, words @ ..]) => Recorder::spawn(program, words),
            (None, []) => anyhow::bail!("no program: expected -p PID, or -- PROGRAM ARGS…"),
        },
    };
    configure(&mut recorder, &arguments, script, trigger)?;
    let live = live_of(&arguments, recorder.stop_handle())?;
    drop(priority);
    let request = Request {
        recorder,
        output: arguments.output,
        live,
        spawned,
        verbose: arguments.verbose,
    };
    let recorded = run(request)?;
    recorded.summary().print_ending();
    Ok(if recorded.report.saw_something() {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// The processes to attach to, besides the program to start, if each gets a separate trace file.
fn several_of(arguments: &RecordArguments) -> anyhow::Result<Option<Vec<ThreadId>>> {
    let is_selected = arguments.selection.is_given();
    let has_folder = arguments.follow_forks || arguments.rotate.is_some();
    if !is_selected && arguments.pid.len() < 2 && !has_folder {
        return Ok(None);
    }
    let mut all: Vec<ThreadId> = arguments.pid.iter().map(|id| ThreadId(*id)).collect();
    all.extend(arguments.selection.running()?);
    let mut known = HashSet::new();
    all.retain(|id| known.insert(*id));
    Ok(Some(all))
}

/// The recorder of a program behind a stub.
fn upstream(
    address: ConnectionAddress,
    programs: Vec<PathBuf>,
    machine: Option<Architecture>,
) -> Recorder {
    let options = tracewire_target_remote::Options {
        architecture: machine.or_else(|| elf_architecture(&programs)),
        ..tracewire_target_remote::Options::default()
    };
    Recorder::upstream(address, options, programs)
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
        anyhow::bail!(report::NO_TRACEPOINTS);
    }
    Ok(script)
}

/// Adds the tracepoints of `--until` to a script, and gives their numbers.
fn read_trigger(
    script: &mut Script,
    specifications: &[String],
) -> anyhow::Result<BTreeSet<TracepointNumber>> {
    let mut numbers = BTreeSet::new();
    for specification in specifications {
        script.read_specification(specification).map_err(in_lines)?;
        numbers.extend(script.tracepoints.last().map(|last| last.number));
    }
    Ok(numbers)
}

/// A script's error is in lines of its own, so that the underline is below the words.
fn in_lines(error: ScriptError) -> anyhow::Error {
    anyhow::Error::new(error)
}

/// A recorder that is ready, and the destination of its file.
#[derive(Debug)]
pub struct Request {
    pub recorder: Recorder,
    /// The trace file, a stream, or `-` for standard output; `None` if the frames are only shown as they come.
    pub output: Option<PathBuf>,
    /// The output of frames as they come.
    pub live: Live,
    /// Whether the program is started.
    pub spawned: bool,
    /// Whether messages are printed however many there are.
    pub verbose: bool,
}

/// The result of a run.
#[derive(Debug)]
pub struct Recorded {
    pub report: Report,
    /// The user's name of the trace file; `None` if it is not kept.
    output: Option<PathBuf>,
    is_file: bool,
    verbose: bool,
}

impl Recorded {
    /// The report, for people.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            report: &self.report,
            output: self.output.as_deref(),
            is_file: self.is_file,
            verbose: self.verbose,
        }
    }
}

/// Records: starts or attaches, runs the program, detaches, writes the file, and waits for a program that was started. Messages go
/// to stderr.
pub fn run(request: Request) -> anyhow::Result<Recorded> {
    let Request {
        mut recorder,
        output,
        live,
        spawned,
        verbose,
    } = request;
    let output = match &output {
        Some(path) => Output::new(path)?,
        None => Output::nowhere()?,
    };
    if output.is_stdout() && live.is_wanted() {
        anyhow::bail!("--live prints on standard output: expected another -o, or none");
    }
    if output.is_stdout() {
        // Only the trace file goes there: not the program's output, either.
        nix::unistd::dup2_stdout(std::io::stderr()).context("standard output")?;
    }
    let signals = Signals::block();
    out_of_memory::reserve().context("there is not the memory that a run needs to end in order")?;
    let watch = Watch::begin(signals, recorder.stop_handle()).context("cannot start a thread")?;
    recorder.output(output.path());
    let mut teller = Teller {
        verbose,
        spawned,
        progress: Progress::default(),
        live,
    };
    let recorded = recorder.record(&mut teller);
    let live = teller.live;
    drop(teller.progress);
    // The frames come before the messages about the run.
    let shown_live = live.end();
    let shown = output.is_kept().then(|| output.shown().to_owned());
    let is_file = output.is_file();
    // A run that failed has left a file with its frames.
    let delivered = if output.path().exists() {
        output.deliver()
    } else {
        Ok(())
    };
    let (report, failure) = match recorded {
        Ok(report) => (report, None),
        Err(RecordError::Failed { report, source }) => (*report, Some(*source)),
        Err(error) => return Err(error_words(error, verbose)),
    };
    let recorded = Recorded {
        report,
        output: shown,
        is_file,
        verbose,
    };
    recorded.summary().print_summary();
    if let Some(error) = failure {
        return Err(error_words(error, verbose));
    }
    delivered?;
    shown_live?;
    watch.only_wait();
    let has_expired = matches!(recorded.report.ending, Ending::Stopped(Stop::Expired(_)));
    if !watch.signalled() && !has_expired {
        recorded.report.wait_for_program();
    }
    Ok(recorded)
}
