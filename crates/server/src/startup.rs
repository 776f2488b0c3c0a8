//! Clients that connect while the server still prepares something, such as the index of a large trace.
//!
//! GDB waits two seconds for each reply, and takes a later one for the answer to another request. Bytes outside of
//! packets extend the wait: GDB ignores acknowledgements that it does not expect.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::transport::{Listener, Transport};

/// How often a client is sent a byte; well below GDB's two seconds.
const TICK: Duration = Duration::from_millis(500);

/// How many clients may wait.
const MOST_WAITING: usize = 64;

impl Listener {
    /// Prepares something, and meanwhile accepts clients and keeps them waiting: [`Self::accept`] returns them
    /// afterwards. `waits` is called once if it takes a moment.
    pub fn keep_clients_while<T>(
        &self,
        waits: impl FnOnce() + Send,
        make: impl FnOnce() -> T,
    ) -> T {
        // Dropped when it is made, also by a panic, which ends the waiting.
        let Ok((end, ended)) = UnixStream::pair() else {
            return make();
        };
        std::thread::scope(|scope| {
            scope.spawn(move || self.keep_clients(&ended, waits));
            let made = make();
            drop(end);
            made
        })
    }

    /// Accepts clients and keeps them waiting until the other end of `ended` is closed.
    fn keep_clients(&self, ended: &UnixStream, waits: impl FnOnce()) {
        let mut waits = Some(waits);
        let mut kept: Vec<Transport> = Vec::new();
        // A client that has disconnected before it is accepted must not block.
        let is_open = self.set_nonblocking(true).is_ok();
        let mut next = Instant::now() + TICK;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let listener = self
                .descriptor()
                .filter(|_| is_open && kept.len() < MOST_WAITING);
            let mut descriptors: Vec<PollFd<'_>> = std::iter::once(ended.as_fd())
                .chain(listener)
                .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
                .collect();
            // An interrupted wait counts as one that is over.
            let _ = poll(&mut descriptors, timeout);
            if descriptors.first().and_then(PollFd::any) == Some(true) {
                break;
            }
            if descriptors.get(1).and_then(PollFd::any) == Some(true)
                && let Ok(Some(transport)) = self.accept_one()
            {
                kept.push(transport);
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + TICK;
            if let Some(waits) = waits.take() {
                waits();
                if self.is_stdio() {
                    kept.push(Transport::Stdio);
                }
            }
            kept.retain_mut(|transport| {
                let sent = transport.write_all(b"+");
                sent.and_then(|()| transport.flush()).is_ok()
            });
        }
        // If this fails, the next accept reports it.
        let _ = self.set_nonblocking(false);
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.extend(
            kept.into_iter()
                .filter(|kept| !matches!(kept, Transport::Stdio)),
        );
    }
}
