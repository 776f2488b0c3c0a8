//! A log of what was recorded, for an administrator.

use std::fmt;
use std::io;
use std::path::Path;

use tracewire_model::ThreadId;

/// Keeps a log of what is recorded. Its methods are called by several threads.
pub trait Audit: Send + Sync + fmt::Debug {
    /// Something is to be done, or has been done.
    ///
    /// # Errors
    /// When it cannot be logged. A recording that is to begin does not begin then.
    fn log(&self, entry: &AuditEntry<'_>) -> io::Result<()>;
}

/// What is logged of the recording of a process.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuditEntry<'e> {
    /// The process.
    pub process: ThreadId,
    /// The file of its program; empty where it cannot be read any more.
    pub program: &'e Path,
    /// What is done.
    pub event: AuditEvent<'e>,
}

/// What is done with a process.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AuditEvent<'e> {
    /// It is recorded from now on, with tracepoints at these locations.
    Begin {
        /// The locations, as the script has them.
        locations: &'e [&'e str],
    },
    /// It is recorded no longer.
    End {
        /// How many frames were made.
        frames: u64,
    },
    /// A policy has forbidden it.
    Denied {
        /// What the policy forbids.
        reason: &'e str,
    },
}
