//! Clients that connect while what they want to look at is still being made ready, such as the index of a large trace.
//!
//! GDB waits two seconds for each reply, and takes one that comes later for the answer to something else. Bytes outside
//! of packets keep it waiting for as long as they come: it passes over acknowledgements for which it has sent nothing.

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
    /// Makes something ready, and meanwhile lets clients in and keeps them waiting: [`Self::accept`] gives them afterwards.
    /// `waits` is called once where it takes a moment.
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

    /// Lets clients in and keeps them waiting until the other end of `ended` is gone.
    fn keep_clients(&self, ended: &UnixStream, waits: impl FnOnce()) {
        let mut waits = Some(waits);
        let mut kept: Vec<Transport> = Vec::new();
        // One that is gone before it is accepted is not waited for.
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
            // An interrupted wait is looked at as one that is over.
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
        // Nothing can be done where that fails: the next accept says so.
        let _ = self.set_nonblocking(false);
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.extend(
            kept.into_iter()
                .filter(|kept| !matches!(kept, Transport::Stdio)),
        );
    }
}
