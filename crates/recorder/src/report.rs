//! How a recording went.

use tracewire_experiment::{Losses, Missing};
use tracewire_model::{
    Aggregate, AggregateTable, StatusFields, ThreadId, Tracepoint, TracepointNumber,
};
use tracewire_script::Pending;
use tracewire_target_linux::Event;

use crate::stop::Stop;

/// What one file has of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileShare {
    /// How many frames it has.
    pub frames: u64,
    /// How many frames were lost since the file before was finished.
    pub lost: u64,
    /// How many hits were skipped since then, because of a rate or a budget.
    pub skipped: u64,
}

/// How a recording went.
#[derive(Debug)]
pub struct Report {
    /// Why the run is over.
    pub ending: Ending,
    /// How long the run was, in microseconds.
    pub lasted: u64,
    /// How many frames the file has, how many were made, and what else its status line says.
    pub status: StatusFields,
    /// Every tracepoint of the run at each of its addresses, with its hits and what served it.
    pub tracepoints: Vec<Tracepoint>,
    /// Values that could not be read, by tracepoint.
    pub missing: Vec<(TracepointNumber, Missing)>,
    /// Locations that were never found.
    pub pending: Vec<Pending>,
    /// The process; none behind a stub.
    pub process: Option<ThreadId>,
    /// Whether it was started for the recording.
    pub spawned: bool,
    /// Frames that pads could not keep.
    pub losses: Losses,
    /// How many processes it has made that had a copy of its memory with tracepoints in it, and were not recorded.
    pub released_children: u64,
    /// What the last trace file has, where there are several ([`Recorder::rotate`](crate::Recorder::rotate)); else all of the above.
    pub last_file: FileShare,
    /// What was counted.
    pub aggregates: Vec<(TracepointNumber, Aggregate, AggregateTable)>,
}

/// Why a run is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The program has ended.
    Program(Event),
    /// A pass count, a full buffer or an error of an action: [`Report::status`] says which.
    Itself,
    /// The program has executed another one, which is recorded apart.
    Executed,
    /// The program has executed one for another machine.
    OtherMachine,
    /// An error, which [`RecordError::Failed`](crate::RecordError::Failed) has; in words.
    Failed(String),
    /// The program behind a stub has ended, or has stopped for good: how, in words.
    Stub(String),
    /// It was asked to end.
    Stopped(Stop),
}

impl Report {
    /// Whether the run has seen a hit: there is a frame of it, or it was counted.
    #[must_use]
    pub fn saw_something(&self) -> bool {
        let mut tables = self.aggregates.iter();
        self.created() > 0 || tables.any(|(_, _, table)| !table.is_empty())
    }

    /// How many frames the file has.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.status.frames.unwrap_or(0)
    }

    /// How many frames were made, with those that were not kept.
    #[must_use]
    pub fn created(&self) -> u64 {
        self.status.frames_created.unwrap_or(0)
    }

    /// Whether the program is gone.
    #[must_use]
    pub const fn program_ended(&self) -> bool {
        matches!(
            self.ending,
            Ending::Program(_) | Ending::Executed | Ending::Stub(_)
        )
    }

    /// Waits for the end of a program that was started for the recording and goes on without tracepoints.
    pub fn wait_for_program(&self) {
        if !self.spawned || self.program_ended() {
            return;
        }
        if let Some(process) = self.process {
            wait_for_end(process);
        }
    }
}

/// Waits for the end of a program that was started here and goes on.
pub fn wait_for_end(process: ThreadId) {
    let mut status = 0;
    let Ok(id) = libc::pid_t::try_from(process.0) else {
        return;
    };
    loop {
        // SAFETY: the status is a good place for an int; any number may be asked for.
        let waited = unsafe { libc::waitpid(id, &raw mut status, libc::__WALL) };
        // A stop of the program is its own affair and its shell's.
        let interrupted = std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if waited == id || !interrupted {
            return;
        }
    }
}

/// How a program ended, in words.
#[must_use]
pub fn program_words(event: &Event) -> String {
    match event {
        Event::Exited(code) => format!("the program exited with code {code}"),
        Event::Killed {
            signal,
            core_dumped,
        } => format!(
            "the program was killed by signal {signal}{}{}",
            signal_name(*signal),
            if *core_dumped { " and dumped core" } else { "" }
        ),
        _ => "the program has ended".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGQUIT => " (SIGQUIT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGTRAP => " (SIGTRAP)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGALRM => " (SIGALRM)",
        libc::SIGTERM => " (SIGTERM)",
        libc::SIGSYS => " (SIGSYS)",
        _ => "",
    }
}
