//! Notifications to systemd (sd_notify(3)), if it has started the agent.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Reports a state. Without systemd, or on an error, nothing happens.
pub fn tell(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        // The agent works without the notification.
        let _ = send(&socket, state);
    }
}

fn send(socket: &OsStr, state: &str) -> std::io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let state = match state {
        // systemd requires the time of the monotonic clock.
        "RELOADING=1" => format!("{state}\nMONOTONIC_USEC={}", monotonic_us()),
        state => state.to_owned(),
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

fn monotonic_us() -> u64 {
    // The time since the system was started, which is the value of the clock.
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = uptime
        .split(' ')
        .next()
        .and_then(|seconds| seconds.parse::<f64>().ok());
    seconds.map_or(0, |seconds| (seconds * 1e6) as u64)
}
