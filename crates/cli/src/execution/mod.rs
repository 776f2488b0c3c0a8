//! Execution traces on the command line.

pub mod analyze;
pub mod check;
pub mod collect;
pub mod convert;
pub mod diff;
pub mod etrace;
pub mod find;
pub mod info;
mod load_address;
pub mod memory;
mod open;
mod place;
pub mod show;

pub use open::{Kind, Source, elf_architecture, kind, nothing_in};
pub use place::{MemoryPlace, parse_place};

/// Refuses options that only mean something for the other kind of file, and says what this one is.
///
/// # Errors
/// When one of them is given.
pub fn refuse_options(given: &[(&str, bool)], this: FileKind) -> anyhow::Result<()> {
    let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    match this {
        FileKind::TraceFile => {
            anyhow::bail!("{name} is for execution traces, and this is a trace file")
        }
        FileKind::ExecutionTrace => {
            anyhow::bail!("{name} is for trace files, and this is an execution trace")
        }
    }
}

/// What a file is that `info`, `show` and `find` take.
#[derive(Clone, Copy, Debug)]
pub enum FileKind {
    TraceFile,
    ExecutionTrace,
}
