#![doc = include_str!("../README.md")]
//!
//! # Findings
//!
//! [`check_structure()`] looks at structure, the target description, and values that plain actions ask for. [`check()`] adds what needs agent expressions:
//!
//! - expressions that no target could evaluate, and undefined names in them, with the line;
//! - what expressions should have collected. Each is **run again on the frame it filled**, with the frame's own registers and memory. So
//!   `collect j->next->name` names the very address whose bytes are missing. A value that the frame does not have ends that;
//! - frames whose condition is false, where the frame has all that the condition reads;
//! - counts, times and places that contradict each other. Examples are more frames than hits, more steps than asked for, and frames before the
//!   start or away from their tracepoint.
//!
//! An **error** is damage or a contradiction: something is shown wrong or not at all. A **warning** is what a reader should know. Examples are a
//! value that could not be read, a clock that was set back, and what GDB refuses.
//!
//! The check makes one pass for structure and one for meaning. It keeps one frame in memory, and at most [`LISTED`] findings of a kind. Its time is
//! bounded: it gives up running expressions after as many steps as a file of its size may cost. A warning then says from which frame
//! on.
//!
//! # Repair and checksums
//!
//! [`repair::repair`] writes a valid file of all that is whole in a damaged one, and lists what it changed. [`seal()`] adds a checksum to a good file
//! of another writer.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod description;
mod expression;
mod finding;
mod frames;
mod redefinition;
pub mod repair;
mod seal;
mod source;
mod structure;

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use tracewire_tracefile::TraceFile;

pub use finding::{ExpressionRole, Fault, Finding, Place, Severity, Wanted};
pub use redefinition::Defined;
pub use seal::{SealError, seal};
pub use structure::check_structure;

/// How many findings of one kind are listed; the others are counted.
pub const LISTED: u64 = 100;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// What is wrong, in the file's order: what concerns the file as a whole, lines, frames and offsets. At most [`LISTED`]
    /// of one kind.
    pub findings: Vec<Finding>,
    /// How many errors there are, those not listed among them.
    pub errors: u64,
    /// How many warnings there are, those not listed among them.
    pub warnings: u64,
}

impl Report {
    /// Whether there is no error. A warning does not make a file bad.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.errors == 0
    }

    /// How many findings are not listed.
    #[must_use]
    pub const fn unlisted(&self) -> u64 {
        (self.errors + self.warnings).saturating_sub(self.findings.len() as u64)
    }
}

/// Looks for everything that is wrong with a file.
#[must_use]
pub fn check(file: &TraceFile) -> Report {
    let mut report = Report::default();
    let mut counts: HashMap<Discriminant<Fault>, u64> = HashMap::new();
    let mut take = |finding: Finding| {
        let kind = discriminant(&finding.fault);
        match finding.severity() {
            Severity::Error => report.errors += 1,
            Severity::Warning => report.warnings += 1,
        }
        let count = counts.entry(kind).or_default();
        *count += 1;
        if *count <= LISTED {
            report.findings.push(finding);
        }
    };
    check_structure(file, &mut take);
    description::check(file, &mut take);
    frames::check(file, &mut take);
    report.findings.sort_by_key(|finding| match finding.place {
        Place::File => (0, 0),
        Place::Line(line) => (1, line as u64),
        Place::Offset(offset) | Place::Frame(_, offset) => (2, offset),
    });
    report
}
