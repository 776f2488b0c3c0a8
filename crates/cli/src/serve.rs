//! `serve`: serves a trace file or an execution trace to GDB.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueHint};
use tracewire_packets::ConnectionAddress;
use tracewire_server::saved::SavedTrace;
use tracewire_server::{Listener, replay, serve_saved};
use tracewire_target_replay::{Execution, Recorded};
use tracewire_views::{check_architecture, words};

use crate::answer::Answer;
use crate::clients::ClientArguments;
use crate::execution::{self, Kind, Source};
use crate::open;

pub const HELP: &str = "\
In GDB, `target remote` with the same address looks at the trace. Several debuggers may, each at a place of its own. \
Nothing can be changed.

A trace file: tstatus, tfind, tdump, print, info tracepoints.

An execution trace runs both ways: break, watch, rwatch, stepi, continue, reverse-stepi, reverse-continue, \
reverse-finish; `monitor help` says how to go elsewhere in time. `trace`, `tstart` and `continue` make a trace run over \
it, `tfind` looks at what it collected.

Without a HOST only this machine can connect, but any user of it; a HOST of * lets anyone. The path of a Unix socket lets \
nobody in but you and root; unix: alone chooses one. --auth lets those in on TCP who know the word in a file: they connect \
with `target extended-remote`, give it with `monitor auth`, and `attach 1`.

Examples:
  tracewire serve ./trace.sock run.tf --elf ./program
      and in GDB:  target remote ./trace.sock
  tracewire serve :2345 cpu.trace --elf firmware.elf
  gdb -ex 'target remote | tracewire serve - run.tf' ./program";

#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Where debuggers connect: the path of a Unix socket (unix: for one of its own choice), HOST:PORT or :PORT (on loopback), or - for standard input and output
    #[arg(value_name = "ADDRESS")]
    pub address: ConnectionAddress,
    /// The trace file or execution trace
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The program that was traced, for a file that does not tell
    #[arg(long, value_name = "ELF", value_hint = ValueHint::FilePath)]
    pub elf: Option<PathBuf>,
    /// What to add to the program's addresses; by default found from the tracepoints that were set at functions
    #[arg(long, value_name = "HEX", requires = "elf", value_parser = hexadecimal)]
    pub bias: Option<u64>,
    #[command(flatten)]
    pub machine: open::Machine,
    #[command(flatten)]
    pub clients: ClientArguments,
}

fn hexadecimal(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "expected a hexadecimal number".to_owned())
}

/// The served file.
enum Served {
    Saved(Box<SavedTrace>),
    Recorded(Box<Recorded>, PathBuf),
}

/// `serve`.
pub fn serve(arguments: &ServeArguments) -> anyhow::Result<Answer> {
    let log = arguments.clients.log()?;
    let listener = listener(arguments)?;
    let token = arguments.clients.token()?;
    let file = arguments.file.display();
    // GDB may connect while a large trace is indexed.
    let waits = || {
        if !listener.is_stdio() {
            message!(
                "tracewire: {file} is being read; it can be looked at soon: target remote {listener}"
            );
        }
    };
    let served =
        listener.keep_clients_while(waits, || match execution::kind(&arguments.file)? {
            Kind::TraceFile(path) => {
                saved_trace(arguments, &path).map(|trace| Served::Saved(Box::new(trace)))
            }
            Kind::Execution(source) => recorded(arguments, source),
        })?;
    let clients = arguments.clients.clients(token.as_ref());
    match served {
        Served::Saved(trace) => {
            if !listener.is_stdio() {
                let frames = trace.file().frame_count();
                message!("tracewire: {file}, {frames} frames; in GDB: target remote {listener}");
            }
            serve_saved(&listener, &trace, &log, clients)?;
        }
        Served::Recorded(recorded, shown) => {
            if !listener.is_stdio() {
                let (count, machine) = (recorded.instructions(), recorded.machine().architecture());
                message!(
                    "tracewire: {}, {count} instructions of {machine}; in GDB: target remote {listener}",
                    shown.display()
                );
            }
            let files = arguments.clients.save_folder();
            let notices = |text: &str| message!("{text}");
            replay::serve(
                &listener,
                &*recorded,
                files.as_ref(),
                notices,
                &log,
                clients,
            )?;
            if let Some(problem) = recorded.problem() {
                message!(
                    "tracewire: warning: {}",
                    words::printable(&problem.to_string())
                );
            }
        }
    }
    Ok(Answer::Yes)
}

fn recorded(arguments: &ServeArguments, source: Source) -> anyhow::Result<Served> {
    if arguments.bias.is_some() {
        anyhow::bail!(
            "--bias is for trace files: an execution trace has the addresses of its program"
        );
    }
    let opened = source.open(arguments.elf.as_slice(), arguments.machine)?;
    opened.machine()?;
    opened.tell_content();
    let shown = opened.shown().to_owned();
    let recorded = Recorded::new(opened.recording).with_context(|| shown.display().to_string())?;
    Ok(Served::Recorded(Box::new(recorded), shown))
}

fn listener(arguments: &ServeArguments) -> anyhow::Result<Listener> {
    Listener::bind(&arguments.address)
        .with_context(|| format!("cannot listen at {}", arguments.address))
}

fn saved_trace(arguments: &ServeArguments, path: &Path) -> anyhow::Result<SavedTrace> {
    let file = open::trace_file(path)?;
    arguments.machine.refuse_data_order()?;
    if let Some(architecture) = arguments.machine.architecture {
        check_architecture(&file, architecture)
            .with_context(|| arguments.file.display().to_string())?;
    }
    let mut trace = SavedTrace::new(file);
    if let Some(architecture) = arguments.machine.architecture {
        trace.set_architecture(architecture);
    }
    if let Some(elf) = &arguments.elf {
        trace.set_program(elf, arguments.bias)?;
    }
    for problem in trace.problems() {
        message!(
            "tracewire: warning: {}",
            words::printable(&problem.to_string())
        );
    }
    let file = arguments.file.display();
    if !trace.knows_registers() {
        anyhow::bail!(
            "{file} does not say which machine it is of, and GDB must know: add --elf PROGRAM or --architecture NAME"
        );
    }
    Ok(trace)
}
