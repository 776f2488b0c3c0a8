//! The calls of a live program, followed as they come.
//!
//! Jump pads at the entry and the exits of each function write call events ([`tracewire_jump_pad::call_events`]), which are read
//! while the program runs. There is no trace file: what is kept is the tree of calls, and single calls where they are asked for.

mod plan;
mod run;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracewire_call_flow::{Call, CallTree, ListedCalls};
use tracewire_debuginfo::DebugFileSource;
use tracewire_model::ThreadId;

pub use plan::LeftOut;

use crate::audit::Audit;
use crate::error::RecordError;
use crate::observer::Warning;
use crate::origin::ProcessStart;
use crate::oversight::Oversight;
use crate::policy::Policy;
use crate::report::{Ending, wait_for_end};
use crate::stop::StopHandle;

/// Follows the calls of a program.
#[derive(Debug)]
pub struct CallRecorder {
    start: ProcessStart,
    options: CallOptions,
    stop: StopHandle,
}

/// What is to be followed.
#[derive(Clone, Debug, Default)]
struct CallOptions {
    patterns: Vec<String>,
    duration: Option<Duration>,
    hot: Option<u64>,
    keeps_threads: bool,
    listed: Option<ListedCalls>,
    debug_files: Option<Arc<dyn DebugFileSource>>,
    names_folder: Option<PathBuf>,
    oversight: Oversight,
}

/// What happens while calls are followed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallFlowEvent<'e> {
    /// Pads were put in.
    Armed {
        /// How many functions are followed with them.
        functions: usize,
        /// At how many places.
        sites: usize,
        /// How long that took, with the look at the symbols.
        took: Duration,
    },
    /// A function was called too often, and is followed no longer.
    SwitchedDown {
        /// Its name.
        function: &'e str,
        /// How often it was called in a second.
        rate: u64,
        /// Whether events were lost.
        lost: bool,
    },
    /// Something that the user should know.
    Warning(Warning),
}

/// How the following of calls went.
#[derive(Debug)]
pub struct CallReport {
    /// Why it is over.
    pub ending: Ending,
    /// The process.
    pub process: ThreadId,
    /// Whether it was started for this.
    pub spawned: bool,
    /// Who called whom.
    pub tree: CallTree,
    /// Single calls ([`CallRecorder::list`]).
    pub calls: Vec<Call>,
    /// Calls that were to be listed, and are not: there were too many.
    pub unlisted: u64,
    /// The counter when it began: times of calls are ticks from the start of the machine.
    pub begun: u64,
    /// How many events were lost.
    pub lost: u64,
    /// Exits of calls whose entry was not seen: they had begun before, or their events were lost.
    pub unmatched: u64,
    /// Threads that came when too many were followed already.
    pub threads_without_ring: u64,
    /// Functions that cannot be followed.
    pub left_out: LeftOut,
}

impl CallReport {
    /// How many nanoseconds so many ticks are, which is what times are in.
    #[must_use]
    pub fn nanoseconds(ticks: u64) -> u64 {
        tracewire_jump_pad::nanoseconds(ticks)
    }

    /// Waits for the end of a program that was started for this and goes on by itself.
    pub fn wait_for_program(&self) {
        if self.spawned && !matches!(self.ending, Ending::Program(_)) {
            wait_for_end(self.process);
        }
    }
}

impl CallRecorder {
    /// Follows the calls of a program from its first instruction on. Its standard streams are the caller's.
    #[must_use]
    pub fn spawn<A: Into<OsString>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::new(ProcessStart::Spawn {
            program: program.as_ref().to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        })
    }

    /// Follows the calls of a process that runs, in all its threads.
    #[must_use]
    pub fn attach(process: ThreadId) -> Self {
        Self::new(ProcessStart::Attach(process))
    }

    fn new(start: ProcessStart) -> Self {
        Self {
            start,
            options: CallOptions::default(),
            stop: StopHandle::default(),
        }
    }

    /// Follows the functions of a pattern: a name, `Cart::*`, `/regex/`, `MODULE:NAME`. Without any, all functions of the program's own
    /// file are followed.
    pub fn pattern(&mut self, pattern: &str) -> &mut Self {
        self.options.patterns.push(pattern.to_owned());
        self
    }

    /// Ends the run after so long.
    pub fn duration(&mut self, duration: Option<Duration>) -> &mut Self {
        self.options.duration = duration;
        self
    }

    /// Switches a function down that is called more often in a second, or has a large part of all calls while events are lost. None
    /// lets all be called as often as they are.
    pub fn hot(&mut self, calls_in_a_second: Option<u64>) -> &mut Self {
        self.options.hot = calls_in_a_second;
        self
    }

    /// Keeps threads apart in the tree.
    pub fn keep_threads(&mut self, keep: bool) -> &mut Self {
        self.options.keeps_threads = keep;
        self
    }

    /// Keeps calls one by one.
    pub fn list(&mut self, listed: Option<ListedCalls>) -> &mut Self {
        self.options.listed = listed;
        self
    }

    /// Has debug information that is not on this machine come from a source.
    pub fn take_debug_files_from(&mut self, source: Arc<dyn DebugFileSource>) -> &mut Self {
        self.options.debug_files = Some(source);
        self
    }

    /// Keeps the names in large debug information in a folder, as [`Recorder::keep_names_in`](crate::Recorder::keep_names_in).
    pub fn keep_names_in(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.options.names_folder = Some(folder.as_ref().to_owned());
        self
    }

    /// What may be followed. Each policy that is given holds.
    pub fn policy(&mut self, policy: Policy) -> &mut Self {
        self.options.oversight.policies.push(policy);
        self
    }

    /// Logs what is followed.
    pub fn audit(&mut self, log: Arc<dyn Audit>) -> &mut Self {
        self.options.oversight.audits.push(log);
        self
    }

    /// What ends the run from outside.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Follows the calls until the program ends or the run is stopped. Then nothing of Tracewire is in the program any more.
    ///
    /// # Errors
    /// When the program cannot be traced, or no function of it can be followed.
    pub fn run(
        self,
        observer: &mut dyn FnMut(CallFlowEvent<'_>),
    ) -> Result<CallReport, RecordError> {
        run::run(self, observer)
    }
}
