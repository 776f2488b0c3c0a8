//! A recorded execution for GDB: a program that runs both ways.
//!
//! Each client has its own instant, breakpoints, watchpoints and experiment, so any number of them can use one
//! recording. `reverse-stepi`, `reverse-continue`, `reverse-finish` and the rest work as forward commands do. They find
//! where they stop through the index, however far that is. A trace run is `tstart` and a movement forward, over the
//! tracepoints on its way; its frames are examined as usual.
//!
//! Nothing can be changed: registers and memory are read-only.

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

/// Serves a recording to all clients, each with its own instant; standard input and output have only one client. Traces
/// are saved where `save` says, and `notices` gets messages for the server's user, line by line.
///
/// # Errors
/// When clients cannot be accepted. An error of one client's connection ends only that one.
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
