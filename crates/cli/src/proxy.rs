//! `proxy`: tracepoints in front of any stub.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueHint};
use tracewire_arch::Architecture;
use tracewire_packets::ConnectionAddress;
use tracewire_server::Listener;
use tracewire_server::proxy::{Proxy, Tracepoints, serve};
use tracewire_target_remote::{Options, Plugin, Stub, upstream_address};

use crate::answer::Answer;
use crate::clients::ClientArguments;
use crate::record::signals::Signals;

pub const HELP: &str = "\
GDB connects here with `target remote`, as it would to the stub, and has its tracepoints besides: trace, actions, tstart, tfind, tsave. \
Other packets go to the stub and back as they are; only breakpoints and resumptions at a tracepoint are handled here, and features \
that would be in the way are not announced. A tracepoint is a breakpoint at the stub, which the proxy steps over.

A stub that has tracepoints of its own keeps them, unless --hide-tracepoints is given. Where it cannot save a trace (`tsave -r`), it is saved here.

In front of a QEMU that was started with Tracewire's plugin and its option control=SOCKET, --qemu-plugin names that socket. Tracepoints are then \
evaluated and collected inside QEMU, and the guest does not stop at them. `tracewire qemu --gdb` does all of it.

When the stub does not answer, or does what it must not, the trace run ends with the reason in `tstatus`, and its frames can still be looked at. A program that ran goes on \
without tracepoints where the stub lets it. So it is after ^C or SIGTERM of the proxy.

Examples:
  qemu-system-arm -M virt -kernel firmware.elf -gdb tcp::1234 -S
  tracewire proxy :2345 --upstream localhost:1234
      and in GDB:  target remote :2345
  tracewire proxy ./trace.sock --upstream unix:./stub.sock --files .
  tracewire proxy :2345 --upstream localhost:3333 --architecture mipsel";

#[derive(Args, Debug)]
pub struct ProxyArguments {
    /// Where GDB connects: the path of a Unix socket (unix: for one of its own choice), HOST:PORT or :PORT (on loopback), or - for standard input and output
    #[arg(value_name = "ADDRESS")]
    pub address: ConnectionAddress,
    /// The stub: HOST:PORT, unix:PATH, or - for standard input and output
    #[arg(long, value_name = "ADDRESS", value_parser = upstream_address)]
    pub upstream: ConnectionAddress,
    /// The machine, where the stub does not describe it, or has another byte order than usual
    #[arg(long, value_name = "NAME")]
    pub architecture: Option<Architecture>,
    /// Do not let tracepoints of the stub's own pass
    #[arg(long)]
    pub hide_tracepoints: bool,
    /// The control socket of Tracewire's plugin in the QEMU whose stub it is: tracepoints then do not stop the guest
    #[arg(long, value_name = "SOCKET", value_hint = ValueHint::FilePath)]
    pub qemu_plugin: Option<PathBuf>,
    /// How long the stub may take to answer
    #[arg(long, value_name = "SECONDS", value_parser = crate::value_parser::parse_seconds, default_value = "10")]
    pub timeout: Duration,
    #[command(flatten)]
    pub clients: ClientArguments,
}

/// `proxy`.
pub fn proxy(arguments: ProxyArguments) -> anyhow::Result<Answer> {
    if arguments.address == ConnectionAddress::Stdio
        && arguments.upstream == ConnectionAddress::Stdio
    {
        bail!("only one of the debugger and the stub can be at standard input and output");
    }
    let log = arguments.clients.log()?;
    let token = arguments.clients.token()?;
    let listener = Listener::bind(&arguments.address)
        .with_context(|| format!("cannot listen at {}", arguments.address))?;
    let plugin = (arguments.qemu_plugin.as_deref())
        .map(|socket| {
            let plugin = Plugin::connect(socket, arguments.timeout);
            plugin.with_context(|| format!("{}", socket.display()))
        })
        .transpose()?;
    // A QEMU without a target description is asked for its machine so.
    let of_plugin = plugin.as_ref().map(Plugin::machine);
    let options = Options {
        architecture: arguments.architecture.or(of_plugin),
        limit: arguments.timeout,
    };
    let stub = Stub::connect(&arguments.upstream, &options)?;
    let tracepoints = if arguments.hide_tracepoints {
        Tracepoints::Own
    } else {
        Tracepoints::OfStubFirst
    };
    let machine = stub.machine().architecture();
    let machine = machine.map_or_else(|| "an unnamed machine".to_owned(), |it| it.to_string());
    let mut proxy = Proxy::new(stub, tracepoints, arguments.clients.save_folder())?;
    if let Some(plugin) = plugin {
        proxy.use_plugin(plugin, |words| message!("{words}"));
    }
    if proxy.passes_tracepoints() {
        message!(
            "tracewire: the stub has tracepoints of its own, which are let pass; --hide-tracepoints puts Tracewire's in their place"
        );
    }
    if !listener.is_stdio() {
        message!(
            "tracewire: {machine} at {}; in GDB: target remote {listener}",
            arguments.upstream
        );
    }
    // There is no other thread yet.
    crate::clients::end_at_signal(Signals::block(), proxy.shutdown())?;
    let clients = arguments.clients.clients(token.as_ref());
    serve(&listener, &mut proxy, &log, clients)?;
    match proxy.lost() {
        Some(reason) => bail!("the stub at {}: {reason}", arguments.upstream),
        None => Ok(Answer::Yes),
    }
}
