//! `gdbserver`: live programs, to GDB, with gdbserver's own command line.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use tracewire_packets::ConnectionAddress;
use tracewire_server::Listener;
use tracewire_server::live::{DisabledPackets, LiveProgram, serve};
use tracewire_target_linux::{Foreground, Launch, Surroundings};

use crate::answer::Answer;
use crate::arguments::Mechanism;
use crate::clients::ClientArguments;
use crate::record::signals::Signals;
use tracewire_recorder::out_of_memory;

pub const HELP: &str = "\
The program is stopped before its first instruction, at the same addresses each time, until a debugger connects. Without \
a host this machine alone can connect, but any user of it, and every client can do what you can. The path of a Unix \
socket lets nobody in but you and root; unix: alone chooses one. --auth lets those in on TCP who know the word in a file: \
they connect with `target extended-remote`, and give it with `monitor auth`. When a debugger goes away without a word, a stopped program stays stopped and a running \
one runs on, with its trace run if `set disconnected-tracing on` was given; with --once the server ends then, lets go what it \
was attached to and kills what it has started. When a debugger kills the program or lets it go, the server ends. With \
--multi the server lives on (`target extended-remote`), and the debugger says what to run or to attach to.

Examples:
  tracewire gdbserver ./gdb.sock ./program --its-own argument
      and in GDB:  target remote ./gdb.sock
  tracewire gdbserver --attach unix: 1234
  tracewire gdbserver --multi --auth ~/.gdb-token :2345
      and in GDB:  target extended-remote :2345
                   monitor auth 0123456789abcdef...
  tracewire gdbserver --wrapper env LD_BIND_NOW=1 -- :2345 ./program
  gdb -ex 'target remote | tracewire gdbserver --once - ./program' ./program";

#[derive(Args, Debug)]
#[command(version)]
pub struct GdbserverArguments {
    /// Where to listen: the path of a Unix socket (unix: for one of its own choice), HOST:PORT or :PORT (on loopback), or - for standard input and output
    #[arg(value_name = "ADDRESS")]
    pub address: ConnectionAddress,
    /// The program and its arguments; with --attach, the number of a process
    #[arg(value_name = "PROGRAM", num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
    /// Attach to a running process
    #[arg(long)]
    pub attach: bool,
    /// A policy that must have `debuggers = true`, besides /etc/tracewire.toml if there is one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub policy: Option<std::path::PathBuf>,
    /// Start without a program, and go on when the last one is gone
    #[arg(long)]
    pub multi: bool,
    /// What programs are started by, up to a `--`: a program and its arguments
    #[arg(long, value_name = "WRAPPER", num_args = 1.., value_terminator = "--", allow_hyphen_values = true)]
    pub wrapper: Vec<OsString>,
    /// Start programs at the same addresses each time (the default)
    #[arg(long, overrides_with = "no_disable_randomization")]
    pub disable_randomization: bool,
    /// Start programs at random addresses
    #[arg(long)]
    pub no_disable_randomization: bool,
    /// Start programs by a shell (the default)
    #[arg(long, overrides_with = "no_startup_with_shell")]
    pub startup_with_shell: bool,
    /// Start programs without a shell
    #[arg(long)]
    pub no_startup_with_shell: bool,
    /// What serves tracepoints [default: jumps where they can be, else traps]
    #[arg(long, value_enum, value_name = "MECHANISM")]
    pub mechanism: Option<Mechanism>,
    /// Packets not to understand: vCont, T, Tthread, qC, qfThreadInfo, threads; or not to send: qRelocInsn
    #[arg(long, value_name = "PACKETS", value_delimiter = ',')]
    pub disable_packet: Vec<String>,
    #[command(flatten)]
    pub clients: ClientArguments,
    /// Taken for gdbserver's sake: --debug-log has more
    #[arg(long, hide = true)]
    pub debug: bool,
    /// Taken for gdbserver's sake: --debug-log has more
    #[arg(long, hide = true)]
    pub remote_debug: bool,
    /// Taken for gdbserver's sake: --debug-log has more
    #[arg(long, hide = true)]
    pub event_loop_debug: bool,
    /// Taken for gdbserver's sake: --debug-log has the time
    #[arg(long, hide = true, value_name = "FORMAT")]
    pub debug_format: Option<String>,
    /// Taken for gdbserver's sake: --debug-log has more
    #[arg(long, hide = true, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,
}

/// `gdbserver`.
pub fn gdbserver(mut arguments: GdbserverArguments) -> anyhow::Result<Answer> {
    let log = arguments.clients.log()?;
    // `--attach` may also be the first word of the program, as in earlier versions.
    if arguments
        .program
        .first()
        .is_some_and(|word| word == "--attach")
    {
        arguments.program.remove(0);
        arguments.attach = true;
    }
    if arguments.program.is_empty() && !arguments.multi {
        bail!("no program is named (see --help)");
    }
    crate::policy::check_debugger(arguments.policy.as_deref())?;
    let stdio = arguments.address == ConnectionAddress::Stdio;
    let token = arguments.clients.token()?;
    let listener = listen(&arguments.address)?;
    let _foreground = Foreground::now();
    // Before there is any other thread.
    let signals = Signals::block();
    out_of_memory::reserve().context("there is not the memory that a run needs to end in order")?;
    let mut program = LiveProgram::new(
        launch(&arguments, stdio),
        arguments.clients.save_folder(),
        |text| message!("{text}"),
    );
    if let Some(mechanism) = arguments.mechanism {
        program.set_mechanism(mechanism.into());
    }
    program.disable(disabled(&arguments.disable_packet)?);
    crate::clients::end_at_signal(signals, program.shutdown())?;
    if arguments.attach {
        program.attach(number(&arguments.program)?)?;
    } else if !arguments.program.is_empty() {
        program.start()?;
    }
    // The wording is gdbserver's, for scripts that wait for it.
    if let Some(address) = listener.local() {
        message!("Listening on port {}", address.port());
    } else if !stdio {
        message!("Listening on {listener}");
    }
    let clients = arguments.clients.clients(token.as_ref());
    serve(&listener, &mut program, &log, clients)?;
    drop(listener);
    program.finish();
    Ok(Answer::Yes)
}

fn listen(address: &ConnectionAddress) -> anyhow::Result<Listener> {
    Listener::bind(address).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            // In gdbserver's wording, for scripts that then try another port.
            anyhow::anyhow!("Can't bind address: Address already in use.")
        } else {
            anyhow::Error::new(error).context(format!("cannot listen at {address}"))
        }
    })
}

fn launch(arguments: &GdbserverArguments, stdio: bool) -> Launch {
    let mut words = arguments.program.iter().cloned();
    let mut launch = Launch::new(words.next().unwrap_or_default(), words.collect());
    if arguments.attach {
        launch = Launch::new("", Vec::new());
    }
    launch.surroundings = if stdio {
        Surroundings::WithoutStreams
    } else {
        Surroundings::OwnGroup
    };
    launch.randomized = arguments.no_disable_randomization;
    launch.ends_with_tracer = true;
    launch.shell = !arguments.no_startup_with_shell;
    launch.wrapper.clone_from(&arguments.wrapper);
    launch
}

/// The number of the process to attach to.
fn number(words: &[OsString]) -> anyhow::Result<u32> {
    let text = words
        .first()
        .filter(|_| words.len() == 1)
        .and_then(|word| word.to_str())
        .unwrap_or_default();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.with_context(|| {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        format!("`{}` is not the number of a process", words.join(" "))
    })
}

fn disabled(packets: &[String]) -> anyhow::Result<DisabledPackets> {
    let mut disabled = DisabledPackets::default();
    for packet in packets {
        match packet.as_str() {
            "vCont" => disabled.resume = true,
            "qRelocInsn" => disabled.relocation = true,
            "Tthread" => disabled.stopped_thread = true,
            "qC" => disabled.current_thread = true,
            "qfThreadInfo" => disabled.thread_list = true,
            "T" => disabled.stop_fields = true,
            "threads" => {
                disabled.resume = true;
                disabled.stopped_thread = true;
                disabled.current_thread = true;
                disabled.thread_list = true;
            }
            other => bail!(
                "--disable-packet: `{other}` is none of vCont, T, Tthread, qC, qfThreadInfo, qRelocInsn, threads"
            ),
        }
    }
    Ok(disabled)
}
