#![doc = include_str!("../README.md")]
//!
//! # Findings
//!
//! [`check_structure()`] checks structure, the target description, and the values of plain actions. [`check()`] adds checks with
//! agent expressions:
//!
//! - expressions that no target could evaluate, and undefined names in them, with the line;
//! - data that expressions should have collected. Each is **run again on the frame it filled**, with the frame's own registers and
//!   memory. So `collect j->next->name` names the exact address whose bytes are missing. The check of an
//!   expression ends at a value that the frame does not have;
//! - frames whose condition is false, where the frame has all that the condition reads;
//! - counts, times and places that contradict each other. Examples are more frames than hits, more steps than requested, and frames
//!   before the start or away from their tracepoint.
//!
//! An **error** is damage or a contradiction: something is shown wrong or not at all. A **warning** is something that a reader
//! should know. Examples are a value that could not be read, a clock that was set back, and lines that GDB refuses.
//!
//! The check makes one pass for structure and one for meaning. It keeps one frame in memory, and at most [`LISTED`] findings of a
//! kind. Its time is bounded: it stops running expressions after a limit of steps that depends on the file's size. A warning then
//! names the first frame without this check.
//!
//! # Repair and checksums
//!
//! [`repair::repair`] writes a valid file of the whole parts of a damaged one, and lists the changes. [`seal()`] adds a checksum to
//! a good file of another program.
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

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The findings, in the file's order: those about the file as a whole, lines, frames and offsets. At most [`LISTED`] of one
    /// kind.
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
