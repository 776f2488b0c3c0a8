//! What is wrong with a GDB trace file, and where.
//!
//! A trace file tells everything twice: what the run was asked to do (tracepoints, actions, agent expressions), and what
//! came of it (frames, counts, times). [`check()`] holds the one against the other. What `tracewire_tracefile` finds by itself
//! (structure, the target description, values that plain actions ask for) is in the same list; what needs agent
//! expressions is found here:
//!
//! - expressions that no target could evaluate, and what they name that is not defined, with the line;
//! - what expressions should have collected: each is **run again on the frame it filled**, with the frame's own registers
//!   and memory, so that `collect j->next->name` names the very address whose bytes are not there. A value that
//!   the frame does not tell ends that, as far as memory is concerned: what cannot be told is no finding;
//! - frames that their condition would not have let be made, where the frame tells all that the condition reads;
//! - counts, times and places that contradict one another: more frames than hits, more steps than asked for, frames made
//!   before the start or somewhere else than their tracepoint is.
//!
//! An **error** is damage or a contradiction: something will be shown wrong or not at all. A **warning** is what a reader
//! should know: a value that could not be read at the time, a clock that was set back, what GDB will refuse.
//!
//! One pass for structure and one for meaning, one frame in memory at a time, at most [`LISTED`] findings of a kind kept. A
//! file cannot make it take hours: when running expressions, or holding other actions against frames, has taken as many steps
//! as a file of its size may cost, that is given up, and a warning says from which frame on.
//!
//! ```
//! use tracewire_check::{Severity, check};
//! use tracewire_tracefile::TraceFile;
//!
//! // `collect *(int*)0x2000` as an expression (const16 0x2000, trace_quick 4, end), and a frame without it.
//! let bytes = b"\x7fTRACE0\nR 4\nstatus 0;tstop::0;tframes:1\ntp T1:1000:E:0:0\ntp A1:1000:X6,2320000d0427\n\n\
//!     \x01\x00\x0d\x00\x00\x00M\x00\x30\x00\x00\x00\x00\x00\x00\x02\x00ab\0\0\0\0";
//! let report = check(&TraceFile::from_bytes(bytes.to_vec())?);
//! assert!(report.is_good());
//! let finding = &report.findings[0];
//! assert_eq!(finding.severity(), Severity::Warning);
//! assert_eq!(
//!     finding.to_string(),
//!     "frame 0, offset 91: memory of 4 bytes at 0x2000 should have been collected by an expression, \
//!      and could not be read or is lost"
//! );
//! # Ok::<(), tracewire_tracefile::OpenError>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod again;
mod description;
mod expression;
mod fault;
mod frames;
mod source;

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use tracewire_agent_expr::verify;
use tracewire_tracefile::TraceFile;
pub use tracewire_tracefile::check::{Place, Severity};
use tracewire_tracefile::repair::{Expression, Salvage};

pub use again::Defined;
pub use fault::{ExpressionRole, Fault, Finding, Wanted};

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

/// What makes two findings be of one kind.
#[derive(PartialEq, Eq, Hash)]
enum Kind {
    File(Discriminant<tracewire_tracefile::check::Fault>),
    Own(Discriminant<Fault>),
}

/// What is whole of a file that may be damaged anywhere. Lines with expressions that cannot be evaluated are not: what is
/// written of it has no errors for [`check()`].
#[must_use]
pub fn salvage(bytes: &[u8]) -> Salvage<'_> {
    Salvage::with_good_expressions(bytes, &|what, code| {
        verify(code).is_ok_and(|verified| what != Expression::Condition || verified.has_result())
    })
}

/// Looks for everything that is wrong with a file.
#[must_use]
pub fn check(file: &TraceFile) -> Report {
    let mut report = Report::default();
    let mut counts: HashMap<Kind, u64> = HashMap::new();
    let mut take = |finding: Finding| {
        let kind = match &finding.fault {
            Fault::File(fault) => Kind::File(discriminant(fault)),
            own => Kind::Own(discriminant(own)),
        };
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
    tracewire_tracefile::check::check(file, &mut |finding| {
        take(Finding {
            place: finding.place,
            fault: Fault::File(finding.fault),
        });
    });
    description::check(file, &mut take);
    frames::check(file, &mut take);
    report.findings.sort_by_key(|finding| match finding.place {
        Place::File => (0, 0),
        Place::Line(line) => (1, line as u64),
        Place::Offset(offset) | Place::Frame(_, offset) => (2, offset),
    });
    report
}
