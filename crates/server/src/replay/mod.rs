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

use tracewire_target_replay::Execution;

pub use session::ReplaySession;

use crate::log::SessionLog;
use crate::serve::{Clients, serve_each};
use crate::trace::SaveFolder;
use crate::transport::Listener;

/// Serves a recording to all who come, each at an instant of its own; standard input and output have one client anyway.
/// Traces are saved where `save` says, and `notices` takes what the user of the server should know, line by line.
///
/// # Errors
/// When clients cannot be accepted. One client's trouble is its own.
pub fn serve(
    listener: &Listener,
    recording: &(impl Execution + Sync),
    save: Option<&SaveFolder>,
    notices: fn(&str),
    log: &SessionLog,
    clients: Clients<'_>,
) -> io::Result<()> {
    let session = || ReplaySession::new(recording, save.cloned(), notices);
    serve_each(listener, session, log, clients)
}
