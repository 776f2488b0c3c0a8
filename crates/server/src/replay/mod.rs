//! A recorded execution, to GDB: a program that runs both ways.
//!
//! A client stands at an instant of its own, and has breakpoints, watchpoints and an experiment of its own: any number of
//! them look at one recording. `reverse-stepi`, `reverse-continue`, `reverse-finish` and the rest work as forward ones do, and
//! go to where they stop at once, however far that is. A trace run is made by `tstart` and a movement forward, over the
//! tracepoints on its way; its frames are looked at as ever.
//!
//! Nothing can be changed: registers and memory are what they were.

mod monitor;
mod run;
mod session;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracewire_target_replay::Execution;

pub use session::ReplaySession;

use crate::log::SessionLog;
use crate::session::run as run_session;
use crate::trace::SaveFolder;
use crate::transport::Listener;

/// How many clients may look at a recording at once; those over it are refused.
const MOST_CLIENTS: usize = 64;

/// Serves a recording to all who come, each at an instant of its own. With `once`, to the first one, and then it is
/// over; standard input and output have one client anyway. Traces are saved where `save` says.
///
/// # Errors
/// When clients cannot be accepted. One client's trouble is its own.
pub fn serve(
    listener: &Listener,
    recording: &(impl Execution + Sync),
    save: Option<&SaveFolder>,
    log: &SessionLog,
    once: bool,
) -> io::Result<()> {
    if once || listener.is_stdio() {
        let mut transport = listener.accept()?;
        let mut session = ReplaySession::new(recording, save.cloned());
        run_session(&mut transport, &mut session, log)?;
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
                let mut session = ReplaySession::new(recording, save.cloned());
                // A client that is lost is not this one's trouble.
                let _ = run_session(&mut transport, &mut session, log);
                clients.fetch_sub(1, Ordering::Relaxed);
            });
        }
    })
}
