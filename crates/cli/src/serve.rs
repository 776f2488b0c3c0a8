//! `serve`: a trace file to GDB.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueHint};
use tracewire_server::saved::SavedTrace;
use tracewire_server::{ListenAddress, Listener, SessionLog, serve_saved};
use tracewire_tracefile::Architecture;
use tracewire_views::check_architecture;

use crate::Answer;
use crate::open;

pub const HELP: &str = "\
In GDB, `target remote` with the same address looks at the trace: tstatus, tfind, tdump, print, info tracepoints. \
Several debuggers may; each has its own frame selected. Nothing can be changed.

Without a HOST only this machine can connect. A HOST of * lets anyone: there is no password.

Examples:
  tracewire serve :2345 run.tf --elf ./program
  gdb -ex 'target remote | tracewire serve - run.tf' ./program";

#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Where debuggers connect: HOST:PORT or :PORT (on loopback), the path of a Unix socket, or - for standard input and output
    #[arg(value_name = "ADDRESS")]
    pub address: ListenAddress,
    /// The trace file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The program that was traced, for a file that does not tell
    #[arg(long, value_name = "ELF", value_hint = ValueHint::FilePath)]
    pub elf: Option<PathBuf>,
    /// What to add to the program's addresses; by default found from the tracepoints that were set at functions
    #[arg(long, value_name = "HEX", requires = "elf", value_parser = hexadecimal)]
    pub bias: Option<u64>,
    /// The machine, for a file that does not tell
    #[arg(long, value_name = "NAME", value_parser = open::architectures())]
    pub architecture: Option<Architecture>,
    /// End when the first debugger goes
    #[arg(long)]
    pub once: bool,
    /// Write every packet to a file, with its time and meaning
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub debug_log: Option<PathBuf>,
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "expected a hexadecimal number".to_owned())
}

/// `serve`.
pub fn serve(arguments: &ServeArguments) -> anyhow::Result<Answer> {
    let file = open::trace_file(&arguments.file)?;
    if let Some(architecture) = arguments.architecture {
        check_architecture(&file, architecture)
            .with_context(|| arguments.file.display().to_string())?;
    }
    let mut trace = SavedTrace::new(file);
    if let Some(architecture) = arguments.architecture {
        trace.set_architecture(architecture);
    }
    if let Some(elf) = &arguments.elf {
        trace.set_program(elf, arguments.bias)?;
    }
    for problem in trace.problems() {
        anstream::eprintln!("tracewire: warning: {problem}");
    }
    let file = arguments.file.display();
    if !trace.knows_registers() {
        anyhow::bail!(
            "{file} does not tell which machine it is of, and GDB must know: add --elf PROGRAM or --architecture NAME"
        );
    }
    let log = match &arguments.debug_log {
        Some(path) => SessionLog::create(path)
            .with_context(|| format!("{} cannot be written", path.display()))?,
        None => SessionLog::none(),
    };
    let listener = Listener::bind(&arguments.address)
        .with_context(|| format!("cannot listen at {}", arguments.address))?;
    if !listener.is_stdio() {
        let frames = trace.file().frame_count();
        anstream::eprintln!("tracewire: {file}, {frames} frames; in GDB: target remote {listener}");
    }
    serve_saved(&listener, &trace, &log, arguments.once)?;
    Ok(Answer::Yes)
}
