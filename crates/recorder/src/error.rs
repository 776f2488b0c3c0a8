//! Why a recording did not happen, or ended early.

use std::io;
use std::path::PathBuf;

use tracewire_experiment::{DefineError, InstallError, StartError, StoreError};
use tracewire_model::TracepointNumber;
use tracewire_script::{Excessive, ScriptError};
use tracewire_target_linux::Event;
use tracewire_tracefile::{LineError, WriteError};

use crate::call_flow::LeftOut;
use crate::limits::{BudgetRefused, RateError};
use crate::out_of_memory::{OutOfMemory, WorkError};
use crate::policy::Denied;
use crate::report::{Report, program_words};
use crate::trigger::TriggerError;

/// Why there is no lean recording of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeanRefused {
    /// The oldest frames would make room.
    #[error(
        "a lean recording has all frames: the newest ones alone, and those up to a hit, are kept in a trace file; choose a name that ends with .tf"
    )]
    Circular,
    /// The program of a stub.
    #[error(
        "a lean recording is of a program on this machine; that of a stub is recorded into a trace file: choose a name that ends with .tf"
    )]
    Stub,
    /// Several processes, or files.
    #[error(
        "a lean recording is of one process; several processes, and files one after the other, are recorded into a folder of trace files: choose a name without .twr"
    )]
    Several,
}

/// Why a program was not recorded, or why the recording ended.
///
/// Unless a variant says otherwise, a program that was attached to is left as it was, one that was started for the recording is
/// killed, and there is no trace file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The script sets no tracepoint.
    #[error("the script sets no tracepoint")]
    NoTracepoints,
    /// The script is wrong.
    #[error("{}", lines(.0))]
    Script(Vec<ScriptError>),
    /// Locations that are nowhere in the program, while none may wait for a library
    /// ([`Recorder::pending`](crate::Recorder::pending)).
    #[error("{}", lines(.0))]
    NotFound(Vec<ScriptError>),
    /// Patterns have very many places, and the user has not confirmed them
    /// ([`Recorder::confirm`](crate::Recorder::confirm)).
    #[error("{}", lines(.0))]
    Excessive(Vec<Excessive>),
    /// A policy forbids it ([`Recorder::policy`](crate::Recorder::policy)).
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The log of what is recorded cannot be written ([`Recorder::audit`](crate::Recorder::audit)).
    #[error("the log of what is recorded cannot be written: {0}")]
    Audit(io::Error),
    /// A tracepoint cannot have the rate that is given for it.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// A tracepoint cannot end the run.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// The run can have no budget.
    #[error(transparent)]
    Budget(#[from] BudgetRefused),
    /// What is recorded cannot be a lean recording.
    #[error(transparent)]
    Lean(#[from] LeanRefused),
    /// The process cannot be traced, or tracing it failed.
    #[error(transparent)]
    Target(#[from] tracewire_target_linux::Error),
    /// The stub cannot be used, or has failed.
    #[error(transparent)]
    Stub(#[from] tracewire_target_remote::RemoteError),
    /// A stub's program has symbols that cannot be read.
    #[error("{} cannot be used: {reason}", path.display())]
    Program {
        /// Its file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A stub does not say which program it has, and none was named.
    #[error("the stub does not name its program: add --elf PROGRAM")]
    NoProgram,
    /// No program says which machine it is for.
    #[error("the machine is not known: name the program with --elf PROGRAM")]
    NoMachine,
    /// No set of registers of the machine has all that the tracepoints name.
    #[error("no register set of {0} has all registers that the tracepoints name")]
    NoRegisters(&'static str),
    /// The program that is to run the experiment cannot do what a tracepoint wants.
    #[error("tracepoint {number} cannot be where another program runs it: {reason}")]
    Elsewhere {
        /// Which.
        number: TracepointNumber,
        /// Why not.
        reason: &'static str,
    },
    /// What is recorded here has no definitions for another program, and the other way round.
    #[error("an experiment is either recorded here or defined for another program")]
    OtherUse,
    /// The experiment refuses a tracepoint.
    #[error("tracepoint {number}: {source}")]
    Define {
        /// Which.
        number: TracepointNumber,
        /// Why.
        source: DefineError,
    },
    /// Tracepoints cannot be put into the program.
    #[error("{}", lines(.0))]
    Install(Vec<InstallError>),
    /// The run did not start.
    #[error(transparent)]
    Start(StartError),
    /// A definition does not fit the lines of a trace file.
    #[error(transparent)]
    Line(#[from] LineError),
    /// There is no room for the frames.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trace file cannot be made.
    #[error(transparent)]
    Create(#[from] WriteError),
    /// The trace file cannot be finished.
    #[error("writing {}: {source}{}", output.display(), growing.as_ref().map_or_else(String::new, |growing| format!(
        "; the trace file could not be finished; what was recorded is in {}", growing.display()
    )))]
    Finish {
        /// Its name.
        output: PathBuf,
        /// The file that has what was recorded, if there is one.
        growing: Option<PathBuf>,
        /// Why.
        source: WriteError,
    },
    /// The program ended before the run began.
    #[error("{} before the run began", program_words(.0))]
    Ended(Event),
    /// The program ended while the dynamic linker loaded its libraries.
    #[error("{} before its own code began", program_words(.0))]
    EndedInLinker(Event),
    /// A [`StopHandle`](crate::StopHandle) was used before the run began.
    #[error("ended before the run began")]
    Stopped,
    /// The folder of a run of several processes cannot be written.
    #[error("cannot write the index of the run: {0}")]
    Folder(io::Error),
    /// A stub's program is to be recorded beside others.
    #[error("the program of a stub is recorded alone")]
    StubAlone,
    /// Processes that are selected are to be recorded as one.
    #[error("processes that are selected are recorded into a folder: use record_processes")]
    SelectionAlone,
    /// There is no process to record.
    #[error("none of the selected processes runs now")]
    NoneSelected,
    /// The processes that run cannot be read.
    #[error("cannot read /proc: {0}")]
    Processes(io::Error),
    /// Functions that are to be followed are not in the program, or are none.
    #[error("{}", .0.join("\n"))]
    CallPatterns(Vec<String>),
    /// Calls cannot be followed in this process.
    #[error("calls cannot be followed: {0}")]
    CallEvents(String),
    /// No function can be followed.
    #[error("no function of the program can be followed{}", why(.0))]
    NoCalls(LeftOut),
    /// A thread of our own cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// There is not enough memory.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The run ended for this reason. The trace file is written: the report says what it has.
    #[error("{source}")]
    Failed {
        /// What was recorded.
        report: Box<Report>,
        /// Why it ended.
        source: Box<RecordError>,
    },
}

fn lines(errors: &[impl ToString]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Why functions are left out, for the end of a sentence.
fn why(left_out: &LeftOut) -> String {
    match left_out.reasons().first() {
        Some((count, name, reason)) => format!("; {count} of them, {name} among them: {reason}"),
        None => ": it has none, or its symbols are stripped".to_owned(),
    }
}

impl From<WorkError> for RecordError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Thread(error) => Self::Thread(error),
            WorkError::OutOfMemory(error) => Self::OutOfMemory(error),
        }
    }
}
