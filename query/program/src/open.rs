//! A trace file and its program.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, words};

/// Files of the program, where they are not where they were.
#[derive(clap::Args, Clone, Debug)]
pub struct ProgramArguments {
    /// The program or a library of it, where it is not at its place any more; may be given several times
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
}

/// A trace file, open.
pub fn trace_file(path: &Path) -> anyhow::Result<TraceFile> {
    TraceFile::open(path)
        .with_context(|| format!("{} cannot be read as a trace file", path.display()))
}

impl ProgramArguments {
    /// The program of a trace file. What is to be known of its files goes to stderr.
    pub fn program(&self, path: &Path, file: &TraceFile) -> anyhow::Result<Program> {
        let program = Program::of(file, &self.elf).with_context(|| path.display().to_string())?;
        for note in &program.notes {
            eprintln!("{}: {}", path.display(), words::printable_lines(note));
        }
        if program.is_empty() {
            eprintln!(
                "{}: nothing is known of the program, so there are no values: name it with --elf",
                path.display()
            );
        }
        Ok(program)
    }
}
