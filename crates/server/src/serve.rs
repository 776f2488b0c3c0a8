//! Serving clients, one after the other or several at once.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::log::SessionLog;
use crate::saved::{SavedSession, SavedTrace};
use crate::session::run;
use crate::transport::Listener;

/// How many clients may look at a saved trace at once; those over it wait.
const MOST_CLIENTS: usize = 64;

/// Serves a saved trace to all who come, each with a frame of its own selected. With `once`, to the first one, and
/// then it is over; standard input and output have one client anyway.
///
/// # Errors
/// When clients cannot be accepted. One client's trouble is its own.
pub fn serve_saved(
    listener: &Listener,
    trace: &SavedTrace,
    log: &SessionLog,
    once: bool,
) -> io::Result<()> {
    if once || listener.is_stdio() {
        let mut transport = listener.accept()?;
        run(&mut transport, &mut SavedSession::new(trace), log)?;
        return Ok(());
    }
    let clients = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        loop {
            let mut transport = listener.accept()?;
            if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
                clients.fetch_sub(1, Ordering::Relaxed);
                // Dropped, which closes it: GDB says so to its user.
                continue;
            }
            let clients = &clients;
            scope.spawn(move || {
                // A client that is lost is not this one's trouble.
                let _ = run(&mut transport, &mut SavedSession::new(trace), log);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}
