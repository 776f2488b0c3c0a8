//! Where a process comes from that is to be recorded, and how it is left.

use std::ffi::{OsStr, OsString};

use tracewire_model::ThreadId;
use tracewire_target_linux::{Approach, Priority, Process, Settings};

use crate::error::RecordError;
use crate::together::Way;

/// The program of a process.
#[derive(Debug)]
pub(crate) enum ProcessStart {
    Spawn {
        program: OsString,
        arguments: Vec<OsString>,
    },
    Attach(ThreadId),
    /// As `Attach`, of a process that has started during the run.
    Found(ThreadId),
}

impl ProcessStart {
    /// The process, where it is there already.
    pub const fn attached(&self) -> Option<ThreadId> {
        match self {
            Self::Attach(process) | Self::Found(process) => Some(*process),
            Self::Spawn { .. } => None,
        }
    }

    /// The tracer's priority until the recording has begun. A program that is started would inherit it.
    pub fn priority(&self, raise: impl FnOnce() -> Priority) -> Option<Priority> {
        matches!(self, Self::Attach(_) | Self::Found(_)).then(raise)
    }

    /// How a process comes to others of its run and goes with them.
    pub const fn way(&self) -> Way {
        match self {
            Self::Attach(_) => Way::Whole,
            Self::Spawn { .. } | Self::Found(_) => Way::End,
        }
    }

    /// Looks at a program that runs, or says which one is to be started.
    pub fn approach(&self) -> Result<Approached<'_>, RecordError> {
        Ok(match self {
            Self::Attach(process) => {
                Approached::Running(Approach::begin(*process)?, Origin::Attached)
            }
            Self::Found(process) => Approached::Running(Approach::begin(*process)?, Origin::Found),
            Self::Spawn { program, arguments } => Approached::ToStart { program, arguments },
        })
    }
}

/// A program that is about to be started, or attached to.
pub enum Approached<'s> {
    Running(Approach, Origin),
    ToStart {
        program: &'s OsStr,
        arguments: &'s [OsString],
    },
}

impl Approached<'_> {
    /// Starts the program or attaches to it.
    pub fn process(self) -> Result<(Process, Origin), RecordError> {
        let settings = Settings::default();
        Ok(match self {
            Self::Running(approach, origin) => (approach.attach(settings)?, origin),
            Self::ToStart { program, arguments } => (
                Process::spawn(program, arguments, settings)?,
                Origin::Started,
            ),
        })
    }
}

/// Where a process comes from that is to be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was started for the recording and is stopped before its first instruction.
    Started,
    /// It ran before.
    Attached,
    /// It has started during the run, and runs.
    Found,
    /// A recorded process has made it. It is stopped, with a copy of that one's memory.
    Forked,
    /// It, or a child that shared the memory of a recorded process, has become another program, and is stopped before its first
    /// instruction.
    Executed,
}

impl Origin {
    /// Whether it is there for the recording alone, until that has begun.
    pub const fn is_started(self) -> bool {
        matches!(self, Self::Started)
    }

    /// Whether it was found during a run. Then a tracepoint that it cannot have is not an error of the run.
    pub const fn is_followed(self) -> bool {
        matches!(self, Self::Found | Self::Forked | Self::Executed)
    }

    /// Whether its trace file is kept where it has no frames.
    pub const fn keeps_empty_file(self) -> bool {
        !self.is_followed()
    }
}

/// Leaves a program that is not going to be recorded: one that was started for this has not run yet and is killed, the others go on.
pub(crate) fn leave(process: Process, origin: Origin) {
    if origin.is_started() {
        process.kill();
    } else {
        // A process that is gone needs nothing, and no observer hears of the others.
        let _ = process.detach();
    }
}
