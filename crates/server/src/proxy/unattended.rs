//! A program that runs, and is traced, while no client is there.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracewire_target_remote::RemoteError;

use super::Proxy;
use super::resume::ClientReport;
use crate::acceptor::{AcceptedClient, Acceptor};

/// Lets the program run until there is a client.
pub(super) fn receive(
    acceptor: &mut Acceptor<'_>,
    proxy: &mut Proxy,
) -> io::Result<AcceptedClient> {
    let (ours, theirs) = UnixStream::pair()?;
    std::thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let received = acceptor.accept();
            // Its end is what the other side waits for.
            drop(theirs);
            received
        });
        while let Err(error) = run(proxy, &ours) {
            proxy.fail(&error);
            // Where the stub goes on, so does the program, without tracepoints.
            if !matches!(proxy.run_on(), Ok(Some(ClientReport::Nothing))) {
                break;
            }
        }
        receiving
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("accepting clients has failed")))
    })
}

/// Follows the program until somebody has connected, or it has stopped for good.
fn run(proxy: &mut Proxy, connected: &UnixStream) -> Result<(), RemoteError> {
    while proxy.running.is_some() {
        if !proxy.stub().has_input() {
            proxy.target.stub_mut().flush()?;
            // Rounded up, so that the time has come after it.
            let timeout = (proxy.next_look_inside())
                .and_then(|left| PollTimeout::try_from(left.as_millis() + 1).ok())
                .unwrap_or(PollTimeout::NONE);
            let mut descriptors = [
                PollFd::new(connected.as_fd(), PollFlags::POLLIN),
                PollFd::new(proxy.stub().as_fd(), PollFlags::POLLIN),
            ];
            // An interrupted wait is looked at as one that is over.
            let _ = poll(&mut descriptors, timeout);
            let [connected, _] = &descriptors;
            if connected.any() == Some(true) {
                return Ok(());
            }
        }
        proxy.look_inside_again();
        if let Some(payload) = proxy.receive_now()? {
            // A stop for anything else waits for a client.
            proxy.while_running(payload, &mut || false)?;
        }
    }
    Ok(())
}
