//! QEMU for a debugger: its stub is behind a proxy, and the plugin carries out the debugger's tracepoints.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tracewire_packets::ConnectionAddress;
use tracewire_server::proxy::{Proxy, Tracepoints, serve};
use tracewire_server::{Clients, Listener, SaveFolder, SessionLog};
use tracewire_target_remote::{Options, Plugin, Stub};

use super::{QemuArguments, joined, qemu_command, spawn};
use crate::answer::Answer;

/// How long QEMU's answers may take. One that is started with much memory is slow at first.
const LIMIT: Duration = Duration::from_secs(30);

/// How often it is looked whether QEMU has made its socket, or has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// `qemu --gdb`.
pub fn run(
    arguments: &QemuArguments,
    address: &ConnectionAddress,
    plugin: PathBuf,
) -> anyhow::Result<Answer> {
    let listener =
        Listener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let folder = tempfile::tempdir()?;
    let control = folder.path().join("control");
    let stub_socket = folder.path().join("stub");
    let stub_listener = UnixListener::bind(&stub_socket)?;
    // QEMU has it, too.
    fcntl(&stub_listener, FcntlArg::F_SETFD(FdFlag::empty())).map_err(io::Error::from)?;
    let socket = format!(
        "socket,fd={},server=on,wait=off,id=tracewire",
        stub_listener.as_raw_fd()
    );
    let options = vec![joined("control=", control.as_os_str())];
    let mut command = qemu_command(plugin, options, &arguments.command)?;
    command.args(["-S", "-chardev", &socket, "-gdb", "chardev:tracewire"]);
    let mut child = spawn(command)?;
    drop(stub_listener);
    let (stub, plugin) =
        match wait_for(&control, &mut child).and_then(|()| connect(&stub_socket, &control)) {
            Ok(connected) => connected,
            Err(error) => {
                // It has ended, or is of no use. What it has said is above.
                let ended = child.try_wait()?;
                child.kill()?;
                child.wait()?;
                return Err(match ended {
                    Some(status) => anyhow!("QEMU ended with {status}"),
                    None => error,
                });
            }
        };
    let save = arguments.files.clone().map(SaveFolder);
    let mut proxy = Proxy::new(stub, Tracepoints::Own, save)?;
    proxy.use_plugin(plugin, |words| message!("{words}"));
    if !listener.is_stdio() {
        message!("tracewire: QEMU waits for GDB: target remote {listener}");
    }
    let qemu = watch(child, proxy.has_client(), address.clone());
    serve(&listener, &mut proxy, &SessionLog::none(), Clients::ANY)?;
    drop(listener);
    let status = qemu
        .join()
        .map_err(|_| anyhow!("waiting for QEMU has failed"))??;
    if !status.success() {
        bail!("QEMU ended with {status}");
    }
    Ok(Answer::Yes)
}

/// Waits until QEMU has made a socket.
fn wait_for(socket: &Path, child: &mut Child) -> anyhow::Result<()> {
    while !socket.exists() {
        if let Some(status) = child.try_wait()? {
            bail!("QEMU ended with {status}");
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn connect(stub: &Path, control: &Path) -> anyhow::Result<(Stub, Plugin)> {
    let address = ConnectionAddress::Unix(stub.to_owned());
    let plugin = Plugin::connect(control, LIMIT)?;
    let options = Options {
        architecture: Some(plugin.machine()),
        limit: LIMIT,
    };
    Ok((Stub::connect(&address, &options)?, plugin))
}

/// Waits for the end of QEMU. Where no debugger is connected, this program ends with it.
fn watch(
    mut child: Child,
    has_client: Arc<AtomicBool>,
    address: ConnectionAddress,
) -> JoinHandle<io::Result<ExitStatus>> {
    thread::spawn(move || {
        let status = child.wait()?;
        if has_client.load(Ordering::SeqCst) {
            return Ok(status);
        }
        if let ConnectionAddress::Unix(path) = address {
            let _ = std::fs::remove_file(path);
        }
        message!("tracewire: QEMU ended with {status}");
        std::process::exit(if status.success() { 0 } else { 2 })
    })
}
