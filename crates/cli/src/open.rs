//! Opening a trace file and the program after it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use tracewire_arch::{Architecture, StandardRegisters};
use tracewire_exec_trace::record::DataOrder;
use tracewire_exec_trace::text::Format;
use tracewire_model::ThreadId;
use tracewire_tracefile::{IndexCache, OpenError, Part, TraceFile};
use tracewire_views::{Program, ProgramFiles, architecture_of, settle_architecture, words};

use crate::debuginfod::DebuginfodArguments;
use crate::execution;
use crate::progress::Progress;

/// The parser of `--architecture`, whose values help lists.
pub fn architectures() -> impl TypedValueParser<Value = Architecture> {
    ArchitectureParser
}

/// Machines in a byte order that there is no table for: clap would name the one in the other order as a similar one.
const OTHER_ORDERS: [(&str, &str, Architecture); 5] = [
    ("aarch64_be", "big-endian AArch64", Architecture::Aarch64),
    ("arm64_be", "big-endian AArch64", Architecture::Aarch64),
    ("riscv32be", "big-endian RISC-V", Architecture::Riscv32),
    ("riscv64be", "big-endian RISC-V", Architecture::Riscv64),
    (
        "ppcle",
        "little-endian PowerPC of 32 bits",
        Architecture::PowerPc,
    ),
];

#[derive(Clone)]
struct ArchitectureParser;

impl ArchitectureParser {
    fn names() -> PossibleValuesParser {
        PossibleValuesParser::new(Architecture::ALL.iter().map(|machine| machine.name()))
    }
}

impl TypedValueParser for ArchitectureParser {
    type Value = Architecture;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Architecture, clap::Error> {
        let other = OTHER_ORDERS.iter().find(|(name, ..)| value == *name);
        if let Some((name, words, known)) = other {
            let message = format!(
                "{name}: {words} is not known; {known} is {}-endian\n",
                known.byte_order()
            );
            return Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command));
        }
        let parser = Self::names().try_map(|name| name.parse::<Architecture>());
        parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = Architecture::ALL.iter().map(|machine| machine.name());
        Some(Box::new(names.map(PossibleValue::new)))
    }
}

/// Which machine a file is of, for files that do not tell.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Machine {
    /// The machine, for a file that does not tell; by default the program's, else the only one whose registers fit
    #[arg(long, value_name = "NAME", value_parser = architectures())]
    pub architecture: Option<Architecture>,
    /// How a Tarmac trace writes data: as one number, or as bytes in the order of memory; by default as the registers say that are
    /// loaded and stored
    #[arg(long, value_name = "ORDER")]
    pub data_order: Option<WrittenData>,
}

/// How data are written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrittenData {
    // The most significant digit first. (Words for each value would make the help of all options long.)
    Number,
    // The byte of the lowest address first.
    Memory,
}

impl From<WrittenData> for DataOrder {
    fn from(written: WrittenData) -> Self {
        match written {
            WrittenData::Number => Self::Number,
            WrittenData::Memory => Self::LowestAddressFirst,
        }
    }
}

impl Machine {
    /// Refuses options for execution traces.
    pub fn refuse_data_order(self) -> anyhow::Result<()> {
        match self.data_order {
            Some(_) => {
                anyhow::bail!("--data-order is for execution traces, and this is a trace file")
            }
            None => Ok(()),
        }
    }

    /// Opens a trace file of this machine.
    pub fn trace_file(self, path: &Path, elf: &[PathBuf]) -> anyhow::Result<TraceFile> {
        let mut file = trace_file(path)?;
        self.settle(&mut file, path, elf)?;
        Ok(file)
    }

    /// Determines the machine of an open file, and prints a message on stderr if it has no known registers.
    pub fn settle(self, file: &mut TraceFile, path: &Path, elf: &[PathBuf]) -> anyhow::Result<()> {
        let shown = path.display();
        self.refuse_data_order()?;
        settle_architecture(file, self.architecture, elf).with_context(|| shown.to_string())?;
        let machine = self.architecture.or_else(|| architecture_of(file));
        if let (Some(machine), None, Some(size)) =
            (machine, file.layout(), file.register_block_size())
        {
            let sets = StandardRegisters::all(machine);
            let sizes: Vec<_> = sets.iter().map(|set| set.size().to_string()).collect();
            message!(
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

/// Opens a trace file that may have been damaged since it was indexed, even if its time is unchanged: its frames are located in the
/// file itself.
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
        // Every command that takes a trace file has checked for an execution trace first.
        Err(OpenError::Header) if let Some(reason) = execution::nothing_in(path) => {
            anyhow::bail!("{shown} cannot be used: {reason}")
        }
        Err(OpenError::Header) => anyhow::bail!(
            "{shown} cannot be used: it is no trace file, as `tracewire record` and GDB's `tsave` write it, and no execution \
             trace (the text of {}, or its compact form)",
            Format::titles()
        ),
        opened => opened.with_context(|| format!("{shown} cannot be used")),
    }
}

/// Finds the program's symbols, and prints on stderr what is missing.
pub fn program(
    file: &TraceFile,
    named: &[PathBuf],
    debuginfod: DebuginfodArguments,
) -> anyhow::Result<Program> {
    let files = program_files(named, debuginfod)?;
    let program = Program::with_files(file, files)?;
    report_program(file, &program, named, &mut HashSet::new());
    Ok(program)
}

/// Where files of programs are, by the arguments.
pub fn program_files(
    named: &[PathBuf],
    debuginfod: DebuginfodArguments,
) -> anyhow::Result<ProgramFiles> {
    Ok(ProgramFiles {
        named: named.to_owned(),
        debug_files: debuginfod.source()?,
        ..ProgramFiles::default()
    })
}

/// Opens the files of a run of several processes, and their programs. What is missing is reported once.
pub fn run(
    parts: &[Part],
    named: &[PathBuf],
    debuginfod: DebuginfodArguments,
    machine: Machine,
) -> anyhow::Result<Vec<(ThreadId, TraceFile, Program)>> {
    let files = program_files(named, debuginfod)?;
    let mut said = HashSet::new();
    let opened = parts.iter().map(|part| {
        let file = machine.trace_file(&part.path, named)?;
        let program = Program::with_files(&file, files.clone())?;
        report_program(&file, &program, named, &mut said);
        Ok((part.process, file, program))
    });
    opened.collect()
}

/// Prints on stderr what is missing of a program, except for earlier messages.
pub fn report_program(
    file: &TraceFile,
    program: &Program,
    named: &[PathBuf],
    said: &mut HashSet<String>,
) {
    for note in &program.notes {
        if said.insert(note.clone()) {
            message!("tracewire: warning: {}", words::printable(note));
        }
    }
    if file.description().modules().is_empty() && named.is_empty() && file.frame_count() > 0 {
        message!(
            "tracewire: note: the trace file does not say which program it is of; --elf PROGRAM adds names and values"
        );
    }
}
