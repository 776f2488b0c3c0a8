//! Ending the service from another thread, with orderly detaches.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::socket::{Shutdown, shutdown};
use tracewire_target_linux::Interrupter;

use crate::transport::{Listener, Transport};

/// A handle that ends [`live::serve`](crate::live::serve) or [`proxy::serve`](crate::proxy::serve) from another thread: the client is dropped as if it
/// had disconnected, and no more are accepted. On standard input and output it takes effect at the next input, or when the program stops.
#[derive(Clone, Debug)]
pub struct ShutdownHandle {
    state: Arc<State>,
    /// Ends a wait for a live program; a stub has none.
    interrupter: Option<Interrupter>,
}

#[derive(Debug, Default)]
struct State {
    over: AtomicBool,
    /// The listening descriptor while clients are awaited, and the current client.
    waits: Mutex<(Option<OwnedFd>, Option<Transport>)>,
}

impl ShutdownHandle {
    pub(crate) fn new(interrupter: Option<Interrupter>) -> Self {
        Self {
            state: Arc::default(),
            interrupter,
        }
    }

    fn waits(&self) -> MutexGuard<'_, (Option<OwnedFd>, Option<Transport>)> {
        // The lock's holders do not panic, and the state would be valid if one did.
        self.state
            .waits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the service.
    pub fn end(&self) {
        self.state.over.store(true, Ordering::SeqCst);
        let waits = self.waits();
        if let Some(listener) = &waits.0 {
            // A wait for a client on a socket that is shut down ends; it may have been closed before.
            let _ = shutdown(listener.as_raw_fd(), Shutdown::Both);
        }
        if let Some(client) = &waits.1 {
            client.close();
        }
        drop(waits);
        if let Some(interrupter) = &self.interrupter {
            interrupter.interrupt();
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state.over.load(Ordering::SeqCst)
    }

    /// Clients are waited for there.
    pub(crate) fn waits_at(&self, listener: &Listener) -> io::Result<()> {
        self.waits().0 = listener.duplicate()?;
        Ok(())
    }

    /// Sets the current client; `None` when it has gone.
    pub(crate) fn serves(&self, client: Option<&Transport>) -> io::Result<()> {
        let client = client.map(Transport::duplicate).transpose()?;
        let mut waits = self.waits();
        if self.is_over()
            && let Some(client) = &client
        {
            client.close();
        }
        waits.1 = client;
        Ok(())
    }
}
