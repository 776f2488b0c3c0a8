//! The check of what was recorded: every test that records or saves a file calls it.

use std::path::Path;

use tracewire_diagnose::Fault;
use tracewire_tracefile::TraceFile;

/// Fails the test if `check` reports anything about a recorded or saved file, including warnings.
#[track_caller]
pub fn assert_clean(file: &Path) {
    assert_clean_but(file, |_| false);
}

/// As [`assert_clean`], except for findings that the test expects.
#[track_caller]
pub fn assert_clean_but(file: &Path, expected: impl Fn(&Fault) -> bool) {
    let trace = TraceFile::open(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let report = tracewire_diagnose::check(&trace);
    let findings: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| !expected(&finding.fault))
        .map(ToString::to_string)
        .collect();
    assert!(
        findings.is_empty(),
        "{} is not without fault:\n{}",
        file.display(),
        findings.join("\n")
    );
}

/// A value that could not be read when the frame was made.
pub fn is_unreadable(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::NotCollected(_) | Fault::NotCollectedByExpression(_)
    )
}

/// Memory that another thread wrote between two readings of it for one frame.
pub fn is_written_in_between(fault: &Fault) -> bool {
    matches!(fault, Fault::Disagreement(_))
}

/// Data of a probe, which GDB does not read from files.
pub fn is_static_data(fault: &Fault) -> bool {
    matches!(fault, Fault::StaticData)
}
