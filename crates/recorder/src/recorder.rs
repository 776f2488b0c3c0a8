//! What is to be recorded, and the recording of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracewire_debuginfo::{DebugFileSource, TypeRules};
use tracewire_experiment::Mechanism;
use tracewire_expr::CollectLimits;
use tracewire_model::ThreadId;
use tracewire_packets::ConnectionAddress;
use tracewire_script::{Excessive, Script, ScriptError};
use tracewire_target_linux::{Process, Settings};
use tracewire_target_remote::{Options as StubOptions, Stub};

use crate::buffer::BufferSize;
use crate::error::RecordError;
use crate::observer::{Observer, RecordEvent};
use crate::priority::Priority;
use crate::recording::Recording;
use crate::report::Report;
use crate::stop::StopHandle;
use crate::upstream;

/// Records what tracepoints in a program see.
///
/// It is made for a program ([`spawn`](Self::spawn), [`attach`](Self::attach)), learns what to record, and records it
/// ([`record`](Self::record)). Nothing happens to the program before that.
#[derive(Debug)]
pub struct Recorder {
    start: Start,
    options: RecordOptions,
    stop: StopHandle,
}

/// The program.
#[derive(Debug)]
enum Start {
    Spawn {
        program: OsString,
        arguments: Vec<OsString>,
    },
    Attach(ThreadId),
    Upstream {
        address: ConnectionAddress,
        options: StubOptions,
        programs: Vec<PathBuf>,
    },
}

/// What is to be recorded.
#[derive(Debug, Default)]
pub(crate) struct RecordOptions {
    pub script: Script,
    pub output: PathBuf,
    pub buffer: Option<BufferSize>,
    pub duration: Option<Duration>,
    pub mechanism: Mechanism,
    pub pending: bool,
    pub keep_going: bool,
    pub type_rules: Option<Arc<TypeRules>>,
    pub collect_limits: CollectLimits,
    pub confirm: Confirm,
    pub debug_files: Option<Arc<dyn DebugFileSource>>,
    pub names_folder: Option<PathBuf>,
}

type Question = dyn Fn(&[Excessive]) -> bool + Send + Sync;

/// Whether patterns with very many places are meant.
#[derive(Clone)]
pub(crate) struct Confirm(Arc<Question>);

impl Confirm {
    pub fn ask(&self, excessive: &[Excessive]) -> bool {
        (self.0)(excessive)
    }
}

impl Default for Confirm {
    fn default() -> Self {
        Self(Arc::new(|_| false))
    }
}

impl fmt::Debug for Confirm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Confirm")
    }
}

impl Recorder {
    /// Records a program from its first instruction on. Its standard streams are the caller's.
    #[must_use]
    pub fn spawn<A: Into<OsString>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::new(Start::Spawn {
            program: program.as_ref().to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        })
    }

    /// Records a process that runs, with all its threads.
    #[must_use]
    pub fn attach(process: ThreadId) -> Self {
        Self::new(Start::Attach(process))
    }

    /// Records the program behind a GDB stub, with the symbols of these programs, else of the one that the stub names.
    #[must_use]
    pub fn upstream(
        address: ConnectionAddress,
        options: StubOptions,
        programs: Vec<PathBuf>,
    ) -> Self {
        Self::new(Start::Upstream {
            address,
            options,
            programs,
        })
    }

    fn new(start: Start) -> Self {
        Self {
            start,
            options: RecordOptions::default(),
            stop: StopHandle::default(),
        }
    }

    /// Adds a tracepoint: `LOCATION [if CONDITION] [: EXPRESSIONS]`, as in `work if size > 4096 : $args, *request`.
    ///
    /// # Errors
    /// When the text is none.
    pub fn tracepoint(&mut self, specification: &str) -> Result<&mut Self, ScriptError> {
        self.options.script.read_specification(specification)?;
        Ok(self)
    }

    /// Replaces the script: the tracepoints, the variables, and the settings of the run.
    pub fn script(&mut self, script: Script) -> &mut Self {
        self.options.script = script;
        self
    }

    /// The trace file to write. While the run lasts, the frames of a linear buffer go to a file beside it, with
    /// `.recording` after the name, which is a good trace file at every moment.
    pub fn output(&mut self, path: impl AsRef<Path>) -> &mut Self {
        path.as_ref().clone_into(&mut self.options.output);
        self
    }

    /// How much to keep. Otherwise the script says it, or it is 1 GiB, linear.
    pub fn buffer(&mut self, size: BufferSize) -> &mut Self {
        self.options.buffer = Some(size);
        self
    }

    /// Ends the run after so long, without the time for which the program is stopped for the recording.
    pub fn duration(&mut self, duration: Option<Duration>) -> &mut Self {
        self.options.duration = duration;
        self
    }

    /// What serves tracepoints. Otherwise jumps where they can be, else traps.
    pub fn mechanism(&mut self, mechanism: Mechanism) -> &mut Self {
        self.options.mechanism = mechanism;
        self
    }

    /// Whether locations that are nowhere in the program wait for a library that is opened later. Otherwise they are an
    /// error.
    pub fn pending(&mut self, pending: bool) -> &mut Self {
        self.options.pending = pending;
        self
    }

    /// Whether tracepoints that cannot be set are left out, with an event. Otherwise they are an error.
    pub fn keep_going(&mut self, keep_going: bool) -> &mut Self {
        self.options.keep_going = keep_going;
        self
    }

    /// The rules that say what values of certain types lead to, which is collected with them. Otherwise the built-in ones.
    pub fn type_rules(&mut self, rules: Arc<TypeRules>) -> &mut Self {
        self.options.type_rules = Some(rules);
        self
    }

    /// Has debug information that is not on this machine come from a source.
    pub fn take_debug_files_from(&mut self, source: Arc<dyn DebugFileSource>) -> &mut Self {
        self.options.debug_files = Some(source);
        self
    }

    /// Keeps the names in large debug information in a folder, which need not be there, so that the next recording of such a program
    /// or library begins sooner.
    pub fn keep_names_in(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.options.names_folder = Some(folder.as_ref().to_owned());
        self
    }

    /// What is asked whether patterns are meant that have more than [`MOST_PLACES`](tracewire_script::MOST_PLACES) places, before
    /// anything is put in. It is called on another thread; a program that was attached to runs meanwhile. Otherwise they are an
    /// error.
    pub fn confirm(
        &mut self,
        confirm: impl Fn(&[Excessive]) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.options.confirm = Confirm(Arc::new(confirm));
        self
    }

    /// How much is collected of what strings, containers and pointers with an owner lead to.
    pub fn collect_limits(&mut self, limits: CollectLimits) -> &mut Self {
        self.options.collect_limits = limits;
        self
    }

    /// Ends the run from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Records until the program ends, the run ends itself, or it is stopped; then takes everything out of the program, detaches,
    /// and writes the trace file. The program is then as it was, and runs on unless it has ended.
    ///
    /// # Errors
    /// When the run cannot begin, or ends in an error: [`RecordError`] says what is left.
    pub fn record(self, observer: &mut dyn Observer) -> Result<Report, RecordError> {
        // A program that is started would inherit it.
        let priority = matches!(self.start, Start::Attach(_)).then(Priority::raise);
        let (process, spawned) = match &self.start {
            Start::Attach(process) => (Process::attach(*process, Settings::default())?, false),
            Start::Spawn { program, arguments } => (
                Process::spawn(program, arguments, Settings::default())?,
                true,
            ),
            Start::Upstream {
                address,
                options,
                programs,
            } => {
                let stub = Stub::connect(address, options)?;
                return upstream::record(stub, programs, self.options, self.stop, observer);
            }
        };
        self.stop.watch(process.interrupter());
        if process.jumps_taken_over() > 0 {
            observer.event(RecordEvent::JumpsTakenOver(process.jumps_taken_over()));
        }
        let recording = Recording::begin(process, spawned, self.options, self.stop, observer)?;
        drop(priority);
        recording.run()
    }
}

/// Leaves a program that is not going to be recorded: one that was attached to goes on, one that was started for
/// this has not run yet and is killed.
pub(crate) fn leave(process: Process, spawned: bool) {
    if spawned {
        process.kill();
    } else {
        // A process that is gone needs nothing, and there is nobody to tell of others.
        let _ = process.detach();
    }
}
