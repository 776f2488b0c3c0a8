//! `seal`: a checksum for trace files of GDB and others.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use tracewire_views::words;

use crate::answer::Answer;
use crate::execution::{self, Kind};
use crate::open;
use crate::progress::Progress;

pub const HELP: &str = "\
GDB's format has nothing that shows a damaged value. What Tracewire writes ends with a checksum, \
with which `check` names every change; a file of GDB's, or of a stub's, gets one here: a line after the end marker, where \
no reader looks. No other byte of the file is changed.

Exit status 0 when every FILE has a checksum now, or had the right one before; 1 when one has errors, and then it is left as \
it is; 2 when one cannot be read or written.

Example:
  tracewire seal gdb.tf && tracewire check gdb.tf";

#[derive(Args, Debug)]
pub struct SealArguments {
    /// The trace files
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
}

/// `seal`.
pub fn seal(arguments: &SealArguments) -> anyhow::Result<Answer> {
    let mut answer = Answer::Yes;
    for path in &arguments.files {
        if !seal_one(path)? {
            answer = Answer::No;
        }
    }
    Ok(answer)
}

/// Returns whether the file has a checksum now.
fn seal_one(path: &Path) -> anyhow::Result<bool> {
    let shown = path.display();
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) || path == "-" {
        bail!("{shown} is no ordinary file: there is no end that a line could be added to");
    }
    let file = match execution::kind(path)? {
        Kind::TraceFile(_) => open::doubtful_trace_file(path)?,
        Kind::Execution(_) => bail!(
            "{shown} is an execution trace; expected a trace file (of an execution trace the compact form has checksums: \
             `tracewire convert`)"
        ),
    };
    if file.lean().is_some() {
        bail!("{shown} is a lean recording, whose blocks have their checksums");
    }
    let progress = Progress::over_frames(path, &file);
    let report = tracewire_diagnose::check(&file);
    drop(progress);
    if !report.is_good() {
        let errors = words::count(report.errors, "error");
        message!(
            "tracewire: {shown}: {errors}; it is left as it is (`tracewire check` lists them, `tracewire repair` saves what \
             is whole)"
        );
        return Ok(false);
    }
    if let Some(checksum) = file.checksum() {
        message!("tracewire: {shown}: it has its checksum already ({checksum})");
        return Ok(true);
    }
    let checksum =
        tracewire_diagnose::seal(&file).with_context(|| format!("{shown} cannot be sealed"))?;
    message!("tracewire: {shown}: {checksum}");
    Ok(true)
}
