//! What policies allow of a run, and the logs of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracewire_model::ThreadId;
use tracewire_script::{Placed, Script};

use crate::audit::{Audit, AuditEntry, AuditEvent};
use crate::error::RecordError;
use crate::policy::{Denied, Policy};

/// The policies that hold for a run, and the logs of it.
#[derive(Clone, Debug, Default)]
pub struct Oversight {
    pub policies: Vec<Policy>,
    pub audits: Vec<Arc<dyn Audit>>,
}

impl Oversight {
    /// Whether a process may be recorded.
    pub fn check_process(&self, process: ThreadId) -> Result<(), RecordError> {
        let mut policies = self.policies.iter();
        let denied = policies.find_map(|policy| policy.check_process(process).err());
        denied.map_or(Ok(()), |denied| Err(self.denied(process, denied)))
    }

    /// Whether tracepoints may be at places.
    pub fn check_places(&self, process: ThreadId, placed: &[Placed]) -> Result<(), RecordError> {
        let denied = placed.iter().find_map(|one| self.check_place(one).err());
        denied.map_or(Ok(()), |denied| Err(self.denied(process, denied)))
    }

    /// Whether a tracepoint may be at a place.
    pub fn check_place(&self, placed: &Placed) -> Result<(), Denied> {
        let mut policies = self.policies.iter();
        policies.try_for_each(|policy| policy.check_place(placed))
    }

    /// Whether the calls of functions may be followed.
    pub fn check_functions(&self, process: ThreadId, names: &[&str]) -> Result<(), RecordError> {
        let denied = names
            .iter()
            .find_map(|name| self.check_function(name).err());
        denied.map_or(Ok(()), |denied| Err(self.denied(process, denied)))
    }

    /// Whether the calls of a function may be followed.
    pub fn check_function(&self, name: &str) -> Result<(), Denied> {
        let mut policies = self.policies.iter();
        policies.try_for_each(|policy| policy.check_function(name))
    }

    fn denied(&self, process: ThreadId, denied: Denied) -> RecordError {
        let reason = denied.to_string();
        let logged = self.log(process, AuditEvent::Denied { reason: &reason });
        // What is forbidden is not done, whether that can be logged or not.
        logged.map_or_else(RecordError::Audit, |()| denied.into())
    }

    /// A process is recorded from now on. Its program, for the end.
    pub fn begin(&self, process: ThreadId, script: &Script) -> Result<PathBuf, RecordError> {
        let tracepoints = script.tracepoints.iter();
        let locations: Vec<&str> = tracepoints
            .map(|tracepoint| tracepoint.location.text())
            .collect();
        self.begin_at(process, &locations)
    }

    /// The same, with these locations.
    pub fn begin_at(&self, process: ThreadId, locations: &[&str]) -> Result<PathBuf, RecordError> {
        let event = AuditEvent::Begin { locations };
        self.log(process, event).map_err(RecordError::Audit)?;
        Ok(program_of(process))
    }

    /// A process is recorded no longer.
    pub fn end(&self, process: ThreadId, program: &Path, frames: u64) -> Result<(), RecordError> {
        let logged = self.log_of(process, program, AuditEvent::End { frames });
        logged.map_err(RecordError::Audit)
    }

    fn log(&self, process: ThreadId, event: AuditEvent<'_>) -> io::Result<()> {
        self.log_of(process, &program_of(process), event)
    }

    fn log_of(&self, process: ThreadId, program: &Path, event: AuditEvent<'_>) -> io::Result<()> {
        let entry = AuditEntry {
            process,
            program,
            event,
        };
        self.audits.iter().try_for_each(|audit| audit.log(&entry))
    }
}

/// The file of a process's program; empty where that cannot be read.
fn program_of(process: ThreadId) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default()
}
