//! A live program, to GDB: what gdbserver does, on x86-64 Linux.
//!
//! A [`LiveProgram`] is a process and a trace experiment on it, which outlive any client; [`serve`] lets one client after
//! the other at them. All threads stop when one does (GDB's all-stop mode). While the program runs, a thread of its
//! own reads what the client sends, and an interrupt, or the client's going away, stops the program.

mod breakpoints;
mod connection;
mod files;
mod objects;
mod program;
mod run;
mod signals;
mod trace_requests;
mod traceframe;

use std::io;

pub use crate::trace::SaveFolder;
pub use program::LiveProgram;

use crate::log::SessionLog;
use crate::session::{Ended, run as run_session};
use crate::trace::{self, buffer};
use crate::transport::{Listener, Transport};
use breakpoints::Words;
use connection::Client;

/// Serves a live program to one client after the other, until the program has ended or a client has detached from it
/// or killed it; with `once`, to the first one only. When a client goes away without a word, the program stands and
/// waits for the next.
///
/// A client that detaches while a trace run is on that is to go on (`set disconnected-tracing on`) leaves the program
/// running and traced; the next one stops it and finds the frames.
///
/// # Errors
/// When clients cannot be accepted.
pub fn serve(
    listener: &Listener,
    program: &mut LiveProgram,
    log: &SessionLog,
    once: bool,
) -> io::Result<()> {
    if listener.is_stdio() {
        program.words = Words::Errors;
    }
    let mut unattended = false;
    loop {
        let transport = if unattended {
            accept_while_running(listener, program)?
        } else {
            listener.accept()?
        };
        program.begin_session();
        let ended = {
            let mut client = Client::new(transport, program.interrupter())?;
            run_session(&mut client, program, log)
        };
        program.end_session();
        // What one client's connection comes to is no matter of the next one's.
        let left = matches!(ended, Ok(Ended::Left));
        unattended = left && program.traces_on();
        if program.is_gone() || once || listener.is_stdio() || left && !unattended {
            return Ok(());
        }
    }
}

/// Lets the program run, and be traced, until there is a client.
fn accept_while_running(listener: &Listener, program: &mut LiveProgram) -> io::Result<Transport> {
    let interrupter = program.interrupter();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let accepted = listener.accept();
            interrupter.interrupt();
            accepted
        });
        program.run_unattended();
        accepting
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("accepting clients has failed")))
    })
}
