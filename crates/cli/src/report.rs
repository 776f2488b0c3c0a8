//! `report`: a run or an execution trace as one HTML page.

use std::collections::HashSet;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use tracewire_debuginfo::TypeRules;
use tracewire_model::ThreadId;
use tracewire_report::{
    ExecutionParts, MemoryHistory, RunOptions, RunPart, write_execution, write_run,
};
use tracewire_tracefile::TraceFile;
use tracewire_views::{Program, words};

use crate::answer::Answer;
use crate::execution::{self, Kind, MemoryPlace, Source};
use crate::progress::Progress;
use crate::{frame_output, open, output, several};

pub const HELP: &str = "\
The page loads nothing and needs no other file: open it, print it, attach it to a ticket. It has what was asked, the hits over time, what \
values there were, how long spans took, counts, a table of hits that filters, and the source lines of the places, as far as the files are \
on this machine. Of an execution trace it has the calls, the coverage, and accesses to memory.

A reader of the page sees the collected values and the source lines. --no-source leaves the lines out.

Examples:
  tracewire report run.tf -o run.html
  tracewire report run/ -o run.html
  tracewire report big.tf -o big.html --rows 1000000
  tracewire report cpu.trace -o cpu.html --elf firmware.elf --memory 'table[2].count'";

#[derive(Args, Debug)]
pub struct ReportArguments {
    /// The trace file, the folder of a run of several processes, or the execution trace; - for standard input
    #[arg(value_name = "RUN", value_hint = ValueHint::AnyPath)]
    pub run: PathBuf,
    /// The page to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Put so many hits into the table at most, the first ones; all are counted [default: 100000]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        hide_default_value = true
    )]
    pub rows: u64,
    /// Of an execution trace: the history of this memory, by its address or a variable of --elf; may be given several times
    #[arg(long, value_name = "PLACE[,LEN]", value_parser = execution::parse_place)]
    pub memory: Vec<MemoryPlace>,
    /// Leave source lines out
    #[arg(long)]
    pub no_source: bool,
    /// The program, one of its libraries, or a directory that has them, as /proc/PID/root of a container; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub elf: Vec<PathBuf>,
    /// Show values by their members, as GDB does without pretty-printers
    #[arg(long, conflicts_with = "types")]
    pub raw: bool,
    #[command(flatten)]
    pub types: crate::types::TypeArguments,
    #[command(flatten)]
    pub debuginfod: crate::debuginfod::DebuginfodArguments,
    #[command(flatten)]
    pub machine: open::Machine,
}

/// A trace file of the run, before it is opened.
struct Named {
    name: String,
    path: PathBuf,
    process: Option<ThreadId>,
    parent: Option<ThreadId>,
}

/// `report`.
pub fn report(arguments: &ReportArguments) -> anyhow::Result<Answer> {
    let page = Page::new(&arguments.output)?;
    let shown = |path: &Path| path.display().to_string();
    let (named, _kept) = match several::parts_of(&arguments.run)? {
        Some(parts) => {
            let parts = parts.into_iter().map(|part| Named {
                name: shown(&part.path),
                path: part.path,
                process: Some(part.process),
                parent: part.parent,
            });
            (parts.collect::<Vec<_>>(), None)
        }
        None => match execution::kind(&arguments.run)? {
            Kind::Execution(source) => return of_execution(source, arguments, page),
            Kind::TraceFile(path) => {
                let named = Named {
                    name: shown(&arguments.run),
                    path: path.to_path_buf(),
                    process: None,
                    parent: None,
                };
                (vec![named], Some(path))
            }
        },
    };
    if !arguments.memory.is_empty() {
        bail!("--memory is for execution traces, and this is a trace file");
    }
    let rules = match arguments.raw {
        true => Arc::new(TypeRules::none()),
        false => arguments.types.rules()?,
    };
    let files = open::program_files(&arguments.elf, arguments.debuginfod)?;
    let mut said = HashSet::new();
    let mut opened: Vec<(TraceFile, Program)> = Vec::new();
    for one in &named {
        let file = arguments.machine.trace_file(&one.path, &arguments.elf)?;
        let mut program = Program::with_files(&file, files.clone())?;
        open::report_program(&file, &program, &arguments.elf, &mut said);
        program.set_type_rules(&rules);
        opened.push((file, program));
    }
    let parts: Vec<_> = named
        .iter()
        .zip(&opened)
        .map(|(named, (file, program))| RunPart {
            name: named.name.clone(),
            process: named.process,
            parent: named.parent,
            origin: frame_output::origin(file),
            file,
            program,
        })
        .collect();
    let options = RunOptions {
        title: title(&arguments.run),
        most_rows: arguments.rows,
        with_source: !arguments.no_source,
    };
    let written = page.write(&arguments.output, |out| {
        let _progress = Progress::begin(|_| "writing the report".to_owned());
        Ok(write_run(&parts, &options, out)?)
    })?;
    let rows = match written.rows < written.hits {
        true => format!(
            ", the first {} of them in the table; --rows N takes more",
            written.rows
        ),
        false => String::new(),
    };
    message!(
        "tracewire: {} in {} ({}){rows}",
        words::count(written.hits, "hit"),
        words::printable(&shown(&arguments.output)),
        words::bytes(fs::metadata(&arguments.output)?.len()),
    );
    Ok(Answer::Yes)
}

fn of_execution(source: Source, arguments: &ReportArguments, page: Page) -> anyhow::Result<Answer> {
    let opened = source.open(&arguments.elf, arguments.machine)?;
    let memory = arguments.memory.iter().map(|place| {
        let (first, last) = place.bounds(&opened)?;
        Ok(MemoryHistory {
            name: place.name(),
            first,
            last,
        })
    });
    let memory = memory.collect::<anyhow::Result<Vec<_>>>()?;
    if opened.registers.is_none() {
        message!(
            "tracewire: note: the calls are left out, because the trace does not say which machine it is of: add --architecture NAME \
             or --elf PROGRAM"
        );
    }
    let parts = ExecutionParts {
        title: &title(&arguments.run),
        recording: &opened.recording,
        registers: opened.registers.as_ref(),
        symbols: opened.symbols.as_ref(),
        memory: &memory,
        with_source: !arguments.no_source,
    };
    page.write(&arguments.output, |out| Ok(write_execution(&parts, out)?))?;
    message!(
        "tracewire: {} in {} ({})",
        words::count(opened.recording.len(), "instruction"),
        words::printable(&arguments.output.display().to_string()),
        words::bytes(fs::metadata(&arguments.output)?.len()),
    );
    Ok(Answer::Yes)
}

/// The title of a page: the name of its file or directory.
fn title(run: &Path) -> String {
    if run.as_os_str() == "-" {
        return "standard input".to_owned();
    }
    let name = run.file_name().unwrap_or(run.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The page's file, made beside its name and moved there when it is complete.
struct Page {
    path: PathBuf,
    beside: tempfile::NamedTempFile,
}

impl Page {
    fn new(output: &Path) -> anyhow::Result<Self> {
        let path = output::check(output)?;
        let folder = path.parent().filter(|one| !one.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let beside = tempfile::NamedTempFile::new_in(folder)
            .with_context(|| format!("cannot make a file in {}", folder.display()))?;
        Ok(Self { path, beside })
    }

    fn write<T>(
        mut self,
        shown: &Path,
        write: impl FnOnce(&mut BufWriter<&mut fs::File>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let cannot = || format!("cannot write {}", shown.display());
        let mut out = BufWriter::with_capacity(1 << 16, self.beside.as_file_mut());
        let written = write(&mut out).with_context(cannot)?;
        out.flush().with_context(cannot)?;
        drop(out);
        tracewire_mapped_file::verify()?;
        self.beside.persist(&self.path).with_context(cannot)?;
        Ok(written)
    }
}
