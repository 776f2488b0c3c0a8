//! Live programs for GDB: the work of gdbserver, on x86-64 Linux.
//!
//! A [`LiveProgram`] is the debugged processes and a trace experiment on one of them, which outlive any client.
//! [`serve`] serves one client after the other. In all-stop mode all threads stop when one does, and nothing is
//! answered while they run. In non-stop mode each thread stops alone, and everything is answered meanwhile. A second
//! thread reads the client's input, and urgent input ends the wait for the programs.
//!
//! Fork, vfork and exec are reported if the client supports it.
//!
//! Further services: breakpoints with conditions and commands are evaluated where they are hit (`breakpoints`). There
//! are tables of the process and of the system (`debuggee`, `libraries`, `osdata`), and commands of the server
//! (`monitor help`). Files can be read anywhere, and written and removed only below the server's directory (`files`).
//! USDT probes are markers for static tracepoints (`markers`).
//!
//! `qOffsets` is not answered: GDB finds the program by the auxiliary vector, and would use the answer before it has
//! read the register description. There is no memory map, because Linux has none for a debugger.

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
mod signals;
mod stops;
mod tracing;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::trace::SaveFolder;
pub use dialect::DisabledPackets;
pub use program::LiveProgram;

use crate::acceptor::{AcceptedClient, Acceptor};
use crate::handshake::Admission;
use crate::log::SessionLog;
use crate::serve::Clients;
use crate::session::{Ended, run_on};
use crate::trace::buffer;
use crate::transport::Listener;
use breakpoints::Words;
use connection::Client;

/// Serves live programs to one client after the other. It ends when no program is left, when a client has detached from
/// the last or killed it, or through a [`ShutdownHandle`](crate::ShutdownHandle); with `once`, after the first client.
///
/// When a connection is lost, stopped threads stay stopped, and running ones run on: signals are delivered and
/// breakpoints ignored until the next client comes, which stops them. A trace run goes on if the client has requested
/// it (`QTDisconnected:1`), else it ends.
///
/// A client that detaches during a trace run that is to go on (`set disconnected-tracing on`) leaves the program
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
    program.diagnostics.show_packets_of(log);
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
        program.notify(&transport.introduction());
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
        // The end of one client's connection does not affect the next one.
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
            program.notify(
                "Remote side has terminated connection.  GDBserver will reopen the connection.",
            );
        }
    }
}

/// Runs the programs until there is a client.
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
