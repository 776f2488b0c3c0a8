//! Live programs, to GDB: what gdbserver does, on x86-64 Linux.
//!
//! A [`LiveProgram`] is the processes that are debugged and a trace experiment on one of them, which outlive any client;
//! [`serve`] lets one client after the other at them. In all-stop mode all threads stop when one does, and nothing is
//! answered while they run. In non-stop mode each stops for itself, and everything is answered meanwhile. A thread of its
//! own reads what the client sends: what is to be heard at once breaks the wait for the programs.
//!
//! Processes are told of as they fork, vfork and exec, where the client can take it.
//!
//! What the server does for GDB beside that: breakpoints with conditions and commands are evaluated where they are hit
//! (`breakpoints`); tables of the process and of the system (`debuggee`, `libraries`, `osdata`), files (`files`: read anywhere,
//! written and removed below the folder that the server was given and nowhere else), markers for static tracepoints
//! (`markers`), and commands of its own (`monitor help`).
//!
//! `qOffsets` is not answered: GDB knows where the program is from the auxiliary vector, and would take the answer before
//! it has asked which registers there are. There is no memory map: Linux has none to tell a debugger of.

mod breakpoints;
mod connection;
mod debuggee;
mod dialect;
mod file_system;
mod files;
mod inferiors;
mod interrupts;
mod launcher;
mod libraries;
mod markers;
mod monitor;
mod non_stop;
mod osdata;
mod processes;
mod program;
mod run;
mod shutdown;
mod signals;
mod stops;
mod tracing;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::trace::SaveFolder;
pub use dialect::DisabledPackets;
pub use program::LiveProgram;
pub use shutdown::ShutdownHandle;

use crate::acceptor::{AcceptedClient, Acceptor};
use crate::handshake::Admission;
use crate::log::SessionLog;
use crate::serve::Clients;
use crate::session::{Ended, run_on};
use crate::trace::buffer;
use crate::transport::Listener;
use breakpoints::Words;
use connection::Client;

/// Serves live programs to one client after the other, until none is left or a client has detached from the last or
/// killed it, or a [`ShutdownHandle`] has said so; with `once`, to the first one only.
///
/// When a connection is lost, what is stopped stays stopped, and what runs runs on: signals are passed to it and
/// breakpoints passed over until the next client comes, which stops it. A trace run goes on if the client has said so
/// (`QTDisconnected:1`), else it ends.
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
    Clients { once, token }: Clients<'_>,
) -> io::Result<()> {
    if listener.is_stdio() {
        program.breakpoints.print_to(Words::Errors);
    }
    program.diagnostics.packets = log.shown();
    program.shutdown.waits_at(listener)?;
    let mut unattended = false;
    let admission = token.map(|token| Admission {
        token,
        features: dialect::announced(),
        hint: String::new(),
    });
    let mut acceptor = Acceptor::new(listener, admission);
    loop {
        acceptor.hint(|| program.hint());
        let received = if unattended {
            receive_while_running(&mut acceptor, program)
        } else {
            acceptor.accept()
        };
        if program.shutdown.is_over() {
            return Ok(());
        }
        let AcceptedClient {
            transport,
            input,
            opening,
        } = received?;
        program.shutdown.serves(Some(&transport))?;
        program.tell(&transport.introduction());
        program.begin_session();
        let processes = program.inferiors.ids();
        let unseen = processes.into_iter().filter(|_| token.is_some());
        program.launcher.hide(unseen);
        let ended = {
            let (interrupter, attention) = (program.interrupter(), program.attention.clone());
            let mut client = Client::new(transport, &input, interrupter, attention)?;
            run_on(&mut client, Client::has_sent, program, log, opening)
        };
        program.shutdown.serves(None)?;
        let runs = program.end_session();
        // What one client's connection comes to is no matter of the next one's.
        let left = matches!(ended, Ok(Ended::Left));
        let traced = left && program.traces_on();
        if traced {
            program.resume_all();
        }
        unattended = traced || runs;
        let over = program.is_gone() && !program.launcher.is_extended();
        if over || once || program.shutdown.is_over() || listener.is_stdio() || left && !traced {
            return Ok(());
        }
        if !left {
            program.tell(
                "Remote side has terminated connection.  GDBserver will reopen the connection.",
            );
        }
    }
}

/// Lets the programs run until there is a client.
fn receive_while_running(
    acceptor: &mut Acceptor<'_>,
    program: &mut LiveProgram,
) -> io::Result<AcceptedClient> {
    let interrupter = program.interrupter();
    let is_received = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let received = acceptor.accept();
            is_received.store(true, Ordering::Release);
            interrupter.interrupt();
            received
        });
        program.run_unattended(|| is_received.load(Ordering::Acquire));
        receiving
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("accepting clients has failed")))
    })
}
