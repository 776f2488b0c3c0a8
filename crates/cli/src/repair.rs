//! `repair`: writes a valid trace file of the whole parts of a cut or damaged one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{ArgGroup, Args, ValueHint};
use tracewire_diagnose::repair::{Change, DamagedFile, Salvage};
use tracewire_tracefile::HEADER;
use tracewire_tracefile::lean::is_lean;
use tracewire_views::words;

use crate::answer::Answer;
use crate::output::Output;
use crate::progress::Progress;

pub const HELP: &str = "\
Every whole line and every whole frame is kept byte for byte; what is not whole is left out, and said. The result has no \
errors for `tracewire check`, and GDB opens it. A file that nothing is wrong with comes out as it is. A block of an unknown \
kind is taken for some stub's own where several frames have one of that kind, else for damage to its frame.

Exit status 0 when the good file is written, whatever was lost; 1 when nothing in IN is of a trace file, and then no file \
is written; 2 when IN cannot be read or OUT cannot be written.

Examples:
  tracewire repair cut.tf -o good.tf
  tracewire repair cut.tf --in-place";

/// How many changes are listed one by one.
const MOST_PRINTED: usize = 1000;

#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("result").required(true),
    override_usage = "tracewire repair IN -o OUT\n       tracewire repair IN --in-place"
)]
pub struct RepairArguments {
    /// The damaged trace file
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The trace file to write; - for standard output
    #[arg(short, long, value_name = "OUT", group = "result", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace IN itself, once the good file is whole
    #[arg(long, group = "result")]
    pub in_place: bool,
}

/// `repair`.
pub fn repair(arguments: &RepairArguments) -> anyhow::Result<Answer> {
    let source = &arguments.file;
    let output = Output::new(arguments.output.as_ref().unwrap_or(source))?;
    let out = output.path().to_owned();
    if !arguments.in_place && is_same(source, &out) {
        bail!(
            "{} is the damaged file itself; choose another OUT, or replace it with --in-place",
            out.display()
        );
    }
    let file = DamagedFile::open(source)?;
    let bytes = file.as_bytes();
    if is_lean(bytes) {
        bail!(
            "{} is a lean recording, whose blocks are whole or left out: `tracewire convert` writes a trace file of those that are whole",
            source.display()
        );
    }
    let progress = Progress::reading(source);
    let salvage = tracewire_diagnose::repair::Salvage::of(bytes);
    drop(progress);
    if !is_trace_file(bytes, &salvage) {
        message!(
            "tracewire: {}: nothing in it is of a trace file; no file is written",
            source.display()
        );
        return Ok(Answer::No);
    }
    let progress = Progress::reading(source);
    salvage.write(&out)?;
    drop(progress);
    tell(bytes, &salvage, source);
    let kept = words::count(salvage.frames().count() as u64, "frame");
    let declared = salvage
        .declared_frames()
        .map(|declared| format!(" of {declared}"));
    message!(
        "tracewire: {}: {kept}{}",
        output.shown().display(),
        declared.unwrap_or_default()
    );
    output.deliver()?;
    Ok(Answer::Yes)
}

fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a file was a trace file once: its beginning is that of one, or it has a line of one.
fn is_trace_file(bytes: &[u8], salvage: &Salvage<'_>) -> bool {
    let start = bytes.get(..HEADER.len()).unwrap_or(bytes);
    // A size that was determined, definitions that were made up and the number of frames are no lines of the file.
    let made_up = |change: &&Change| {
        matches!(
            change,
            Change::RegisterBlockSize(_) | Change::TracepointMadeUp(_) | Change::Status
        )
    };
    let made_up = salvage.changes().iter().filter(made_up).count();
    let description = salvage.description();
    let known = description.lines().count() - description.unknown_lines().count();
    (!start.is_empty() && HEADER.starts_with(start)) || known > made_up
}

/// Prints on stderr what was lost, and where.
fn tell(bytes: &[u8], salvage: &Salvage<'_>, source: &Path) {
    let mut frames = salvage.frames().peekable();
    let mut before = 0_u64;
    let changes = salvage.changes();
    for (index, change) in changes.iter().enumerate() {
        let mut place = String::new();
        if let Change::BytesLost { offset, .. } = change {
            // Frames are parts of `bytes`, so the difference is their offset.
            let at = |frame: &&[u8]| (frame.as_ptr().addr() - bytes.as_ptr().addr()) as u64;
            while frames.next_if(|frame| at(frame) < *offset).is_some() {
                before += 1;
            }
            place = match before {
                0 => ", before the first frame that is whole".to_owned(),
                _ => format!(", after what is frame {} now", before - 1),
            };
        }
        if index < MOST_PRINTED {
            message!("tracewire: {}: {change}{place}", source.display());
        }
    }
    if let Some(more @ 1..) = changes.len().checked_sub(MOST_PRINTED) {
        message!("tracewire: {}: {more} more changes", source.display());
    }
    if changes.is_empty() {
        message!("tracewire: {}: nothing is wrong with it", source.display());
    }
}
