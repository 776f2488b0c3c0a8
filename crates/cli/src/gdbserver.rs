//! `gdbserver`: a live program, to GDB, with gdbserver's own command line.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueHint};
use tracewire_server::live::{LiveProgram, SaveFolder, serve};
use tracewire_server::{ListenAddress, Listener, SessionLog};
use tracewire_target_linux::{Process, Settings, Surroundings, without_randomization};
use tracewire_tracefile::{ThreadId, X86Registers};

use crate::Answer;

pub const HELP: &str = "\
The program stands before its first instruction, at the same addresses each time, until a debugger connects. Without \
a host this machine alone can connect. A debugger that goes away without a word finds the program where it left it; \
when it kills the program or lets it go, the server ends.

Examples:
  tracewire gdbserver :2345 ./program --its-own argument
      and in GDB:  target remote :2345
  tracewire gdbserver --attach :2345 1234
  gdb -ex 'target remote | tracewire gdbserver --once - ./program' ./program";

#[derive(Args, Debug)]
pub struct GdbserverArguments {
    /// Where to listen: HOST:PORT or :PORT (on loopback), the path of a Unix socket, or - for standard input and output
    #[arg(value_name = "ADDRESS")]
    pub address: ListenAddress,
    /// The program and its arguments; with --attach, the number of a process
    #[arg(value_name = "PROGRAM", required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
    /// Attach to a running process
    #[arg(long)]
    pub attach: bool,
    /// End when the first debugger goes
    #[arg(long)]
    pub once: bool,
    /// Where debuggers may have traces saved (`tsave -r`); without it, nowhere
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub files: Option<PathBuf>,
    /// Write every packet to a file, with its time and meaning
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub debug_log: Option<PathBuf>,
}

/// `gdbserver`.
pub fn gdbserver(arguments: GdbserverArguments) -> anyhow::Result<Answer> {
    let log = match &arguments.debug_log {
        Some(path) => SessionLog::create(path)
            .with_context(|| format!("{} cannot be written", path.display()))?,
        None => SessionLog::none(),
    };
    let stdio = arguments.address == ListenAddress::Stdio;
    let process = start(&arguments, stdio)?;
    let id = process.id();
    let mut program = LiveProgram::new(arguments.files.map(SaveFolder));
    program.add(process, arguments.attach);
    match listen(&arguments.address) {
        Ok(listener) => {
            // The words that scripts wait for are gdbserver's.
            if let Some(address) = listener.local() {
                anstream::eprintln!("Listening on port {}", address.port());
            } else if !stdio {
                anstream::eprintln!("Listening on {listener}");
            }
            serve(&listener, &mut program, &log, arguments.once)?;
        }
        Err(error) => {
            program.finish();
            return Err(error);
        }
    }
    if !program.is_gone() && arguments.attach {
        anstream::eprintln!("tracewire: process {id} goes on by itself");
    }
    program.finish();
    Ok(Answer::Yes)
}

fn listen(address: &ListenAddress) -> anyhow::Result<Listener> {
    Listener::bind(address).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            // As gdbserver says it, for scripts that then try another port.
            anyhow::anyhow!("Can't bind address: Address already in use.")
        } else {
            anyhow::Error::new(error).context(format!("cannot listen at {address}"))
        }
    })
}

fn start(arguments: &GdbserverArguments, stdio: bool) -> anyhow::Result<Process> {
    let settings = Settings {
        registers: X86Registers::Core,
        follow_cpu: true,
    };
    let (program, rest) = arguments
        .program
        .split_first()
        .context("no program is named")?;
    if arguments.attach {
        let number = program
            .to_str()
            .filter(|_| rest.is_empty())
            .and_then(|text| text.parse().ok())
            .with_context(|| {
                format!(
                    "`{}` is not the number of a process",
                    program.to_string_lossy()
                )
            })?;
        let process = Process::attach(ThreadId(number), settings)?;
        anstream::eprintln!("Attached; pid = {number}");
        return Ok(process);
    }
    let surroundings = if stdio {
        Surroundings::WithoutStreams
    } else {
        Surroundings::OwnGroup
    };
    let process =
        without_randomization(|| Process::spawn_in(program, rest, surroundings, settings))?;
    anstream::eprintln!(
        "Process {} created; pid = {}",
        program.to_string_lossy(),
        process.id()
    );
    Ok(process)
}
