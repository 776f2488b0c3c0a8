//! Opening a trace file and the program behind it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tracewire_tracefile::{IndexCache, TraceFile};
use tracewire_views::Program;

/// Opens a trace file. The frame index of a large one is kept for the next time.
pub fn trace_file(path: &Path) -> anyhow::Result<TraceFile> {
    let shown = path.display();
    if path.is_dir() {
        anyhow::bail!("{shown} is a folder; expected a trace file");
    }
    let opened = match IndexCache::of_user() {
        Some(cache) => TraceFile::open_cached(path, &cache),
        None => TraceFile::open(path),
    };
    opened.with_context(|| {
        format!(
            "{shown} cannot be used; expected a file that `tracewire record` or GDB's `tsave` wrote"
        )
    })
}

/// Finds the program's symbols, and says on stderr what is missing.
pub fn program(file: &TraceFile, named: &[PathBuf]) -> anyhow::Result<Program> {
    let program = Program::of(file, named)?;
    for note in &program.notes {
        anstream::eprintln!("tracewire: warning: {note}");
    }
    if file.description().modules().is_empty() && named.is_empty() && file.frame_count() > 0 {
        anstream::eprintln!(
            "tracewire: note: the trace file does not say which program it is of; --elf PROGRAM adds names and values"
        );
    }
    Ok(program)
}
