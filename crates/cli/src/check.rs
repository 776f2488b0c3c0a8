//! `check`: everything that is wrong with a trace file.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tracewire_diagnose::{Finding, LISTED, Place, Severity};
use tracewire_tracefile::TraceFile;
use tracewire_views::words;

use crate::answer::Answer;
use crate::execution::{self, Kind};
use crate::progress::Progress;
use crate::{open, several, stdout};

pub const HELP: &str = "\
An error is damage or a contradiction, a warning what a reader should know. Exit status 1 when there is an error.
A value that has changed since it was collected shows where the file ends with a checksum, as those of Tracewire do; \
`tracewire seal` adds one to a file of GDB's.

Of an execution trace: lines that cannot be read, loads that contradict what memory held, a program counter that jumps \
without a branch, lines that are missing, time that goes backwards, a text that is cut.

Examples:
  tracewire check run.tf
  tracewire check --json run.tf | jq 'select(.severity == \"error\")'";

#[derive(Args, Debug)]
pub struct CheckArguments {
    /// The trace file or execution trace; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The program, for its machine
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// One JSON object a line instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub machine: open::Machine,
}

/// `check`.
pub fn check(arguments: &CheckArguments) -> anyhow::Result<Answer> {
    if let Some(parts) = several::parts_of(&arguments.file)? {
        let mut answer = Answer::Yes;
        for part in parts {
            if check_file(arguments, &part.path, &part.path)? == Answer::No {
                answer = Answer::No;
            }
        }
        return Ok(answer);
    }
    match execution::kind(&arguments.file)? {
        Kind::Execution(source) => execution::check::run(&source, arguments),
        Kind::TraceFile(path) => check_file(arguments, &path, &arguments.file),
    }
}

/// Checks the trace file at `path`, which the user calls `shown`.
fn check_file(arguments: &CheckArguments, path: &Path, shown: &Path) -> anyhow::Result<Answer> {
    let mut file = open::doubtful_trace_file(path)?;
    arguments.machine.settle(&mut file, path, &arguments.elf)?;
    let progress = Progress::over_frames(shown, &file);
    let report = tracewire_diagnose::check(&file);
    drop(progress);
    let mut output = stdout::output();
    for finding in &report.findings {
        if arguments.json {
            writeln!(output, "{}", json(finding))?;
        } else {
            let fault = words::printable(&finding.to_string());
            writeln!(output, "{}: {fault}", severity(finding))?;
        }
    }
    output.flush()?;
    if report.unlisted() > 0 {
        message!(
            "tracewire: {} more are not listed: at most {LISTED} of a kind are",
            report.unlisted()
        );
    }
    message!(
        "tracewire: {}: {}, {}, {}{}",
        shown.display(),
        words::count(file.frame_count(), "frame"),
        words::count(report.errors, "error"),
        words::count(report.warnings, "warning"),
        unguarded(&file)
    );
    Ok(if report.is_good() {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// The damage that no check can find in this file.
fn unguarded(file: &TraceFile) -> &'static str {
    let status = file.description().status();
    if file.lean().is_some()
        || file.checksum().is_some()
        || status.is_some_and(|status| status.fields.sealed)
    {
        ""
    } else {
        "; it has no checksum, so that a changed value may not show (`tracewire seal` adds one)"
    }
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity() {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn json(finding: &Finding) -> Value {
    let mut object = json!({ "severity": severity(finding) });
    match finding.place {
        Place::File => {}
        Place::Line(line) => object["line"] = line.into(),
        Place::Offset(offset) => object["offset"] = offset.into(),
        Place::Frame(frame, offset) => {
            object["offset"] = offset.into();
            object["frame"] = frame.0.into();
        }
    }
    object["message"] = finding.fault.to_string().into();
    object
}
