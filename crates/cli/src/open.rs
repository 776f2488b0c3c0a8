//! Opening a trace file and the program behind it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tracewire_tracefile::{Architecture, IndexCache, OpenError, StandardRegisters, TraceFile};
use tracewire_views::{Program, architecture_of, settle_architecture, words};

use crate::progress::Progress;

/// What `--architecture` takes, listed by help.
pub fn architectures() -> impl TypedValueParser<Value = Architecture> {
    let names = Architecture::ALL.iter().map(|machine| machine.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Architecture>())
}

/// Which machine a file is of, for files that do not tell.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Machine {
    /// The machine, for a file that does not tell; by default the program's, else the only one whose registers fit
    #[arg(long, value_name = "NAME", value_parser = architectures())]
    pub architecture: Option<Architecture>,
}

impl Machine {
    /// Opens a trace file of this machine.
    pub fn trace_file(self, path: &Path, elf: &[PathBuf]) -> anyhow::Result<TraceFile> {
        let mut file = trace_file(path)?;
        self.settle(&mut file, path, elf)?;
        Ok(file)
    }

    /// Settles the machine of an open file, and says on stderr where that gives no registers.
    pub fn settle(self, file: &mut TraceFile, path: &Path, elf: &[PathBuf]) -> anyhow::Result<()> {
        let shown = path.display();
        settle_architecture(file, self.architecture, elf).with_context(|| shown.to_string())?;
        let machine = self.architecture.or_else(|| architecture_of(file));
        if let (Some(machine), None, Some(size)) =
            (machine, file.layout(), file.register_block_size())
        {
            let sets = StandardRegisters::all(machine);
            let sizes: Vec<_> = sets.iter().map(|set| set.size().to_string()).collect();
            anstream::eprintln!(
                "tracewire: warning: {shown}: its register blocks have {size} bytes, and register sets of {machine} \
                 {}: no registers are shown",
                sizes.join(" or ")
            );
        }
        Ok(())
    }
}

/// Opens a trace file. The frame index of a large one is kept for the next time.
pub fn trace_file(path: &Path) -> anyhow::Result<TraceFile> {
    opened(path, IndexCache::of_user().as_ref())
}

/// Opens a trace file that may have been damaged since it was indexed, when its time need not tell: its frames are looked
/// for in the file itself.
pub fn doubtful_trace_file(path: &Path) -> anyhow::Result<TraceFile> {
    opened(path, None)
}

fn opened(path: &Path, cache: Option<&IndexCache>) -> anyhow::Result<TraceFile> {
    let shown = path.display();
    if path.is_dir() {
        anyhow::bail!("{shown} is a folder; expected a trace file");
    }
    let _progress = Progress::reading(path);
    let opened = match cache {
        Some(cache) => TraceFile::open_cached(path, cache),
        None => TraceFile::open(path),
    };
    match opened {
        // Whatever takes a trace file has looked for an execution trace first.
        Err(OpenError::Header) => anyhow::bail!(
            "{shown} cannot be used: it is no trace file, as `tracewire record` and GDB's `tsave` write it, and no execution \
             trace (QEMU4V, MicroTESK, Tarmac or Nios II text, or its compact form)"
        ),
        opened => opened.with_context(|| format!("{shown} cannot be used")),
    }
}

/// Finds the program's symbols, and says on stderr what is missing.
pub fn program(file: &TraceFile, named: &[PathBuf]) -> anyhow::Result<Program> {
    let program = Program::of(file, named)?;
    for note in &program.notes {
        anstream::eprintln!("tracewire: warning: {}", words::printable(note));
    }
    if file.description().modules().is_empty() && named.is_empty() && file.frame_count() > 0 {
        anstream::eprintln!(
            "tracewire: note: the trace file does not say which program it is of; --elf PROGRAM adds names and values"
        );
    }
    Ok(program)
}
