//! Tracepoints in front of a stub that has none, to GDB.
//!
//! A [`Proxy`] is a debugger at a stub ([`RemoteTarget`]) and a trace experiment on the stub's program; [`serve`] lets one client after the
//! other at it. Packets pass through as they are, with these exceptions:
//!
//! - Tracepoint packets are answered here, and announced in `qSupported` beside what the stub announces. While a trace frame is
//!   selected, registers and memory are the frame's.
//! - A resumption is let pass where no tracepoint is in the program. Else threads are brought past the tracepoints that they are at, and a stop at
//!   a tracepoint is collected and resumed from, without the client. A stop at a breakpoint of the client's is reported, and a step is one step,
//!   whatever tracepoint is there.
//! - `Z0` and `Z1` where a tracepoint has such a breakpoint are kept here.
//! - Non-stop mode, and conditions and commands of breakpoints, are not announced: the client has its own.
//!
//! The tracepoint packets of a stub that has tracepoints of its own pass, except `QTSave` where the stub does not have it.
//!
//! With Tracewire's plugin in the QEMU behind the stub ([`Proxy::use_plugin`]), the plugin carries out runs, and no tracepoint is at the stub.
//!
//! The stub is not trusted to answer. What it does wrong ends the trace run, whose status has the reason; frames can be looked at.

mod client;
mod features;
mod frames;
mod inside;
mod processes;
mod resume;
mod saving;
mod session;
mod unattended;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracewire_experiment::{Mechanism, Target};
use tracewire_model::StopReason;
use tracewire_packets::ThreadSelector;
use tracewire_target_remote::{RemoteError, RemoteTarget, Stub};

use crate::acceptor::Acceptor;
use crate::handshake::Admission;
use crate::log::SessionLog;
use crate::serve::Clients;
use crate::session::Ended;
use crate::shutdown::ShutdownHandle;
use crate::trace::{SaveFolder, Trace, TraceMachine};
use crate::transport::Listener;
use client::Client;
use inside::Inside;
use processes::Processes;
use resume::{Plan, Running};
use session::Session;

/// Whose tracepoints a client sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracepoints {
    /// The stub's, where it has some; else Tracewire's.
    OfStubFirst,
    /// Tracewire's.
    Own,
}

/// A debugger at a stub, with a trace experiment on its program.
#[derive(Debug)]
pub struct Proxy {
    target: RemoteTarget,
    /// None where the stub has tracepoints of its own, which are let pass.
    trace: Option<Trace>,
    /// Where the trace of a stub that has tracepoints of its own is saved.
    save: Option<SaveFolder>,
    running: Option<Running>,
    /// What the client wants to run, while threads are brought past tracepoints for it. An error leaves it here.
    on_the_way: Option<Plan>,
    /// The thread that the client has selected, or that the last stop reply named.
    selected: Option<ThreadSelector>,
    processes: Processes,
    /// Why nothing more is asked of the stub.
    lost: Option<String>,
    /// The plugin in the QEMU behind the stub, if there is one.
    inside: Option<Inside>,
    /// Where messages for the user go.
    notices: fn(&str),
    has_client: Arc<AtomicBool>,
    /// A stop was reported as an interrupt that the stub may still report by itself.
    owes_interrupt: bool,
    shutdown: ShutdownHandle,
}

impl Proxy {
    /// A debugger at a stub. Traces may be saved in the directory.
    ///
    /// # Errors
    /// When the stub does not answer.
    pub fn new(
        mut stub: Stub,
        tracepoints: Tracepoints,
        save: Option<SaveFolder>,
    ) -> Result<Self, RemoteError> {
        let is_own = tracepoints == Tracepoints::Own || !has_tracepoints(&mut stub)?;
        let machine = stub.machine();
        let trace = is_own.then(|| {
            let trace_machine = TraceMachine {
                layout: machine.block().clone(),
                xml: machine.target_xml().to_owned(),
                byte_order: machine.byte_order(),
            };
            let mut trace = Trace::new(trace_machine, save.clone());
            // No code runs in the program but its own.
            trace.experiment.set_mechanism(Mechanism::Trap);
            trace.experiment.set_address_form(machine.address_form());
            trace
        });
        Ok(Self {
            target: RemoteTarget::new(stub),
            trace,
            save,
            running: None,
            on_the_way: None,
            selected: None,
            processes: Processes::default(),
            lost: None,
            inside: None,
            notices: |_| {},
            has_client: Arc::default(),
            owes_interrupt: false,
            shutdown: ShutdownHandle::new(None),
        })
    }

    /// Whether a client is served at the moment.
    #[must_use]
    pub fn has_client(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_client)
    }

    /// A handle that ends [`serve`] from another thread: the tracepoints come out of the stub's program, which is left as it is.
    #[must_use]
    pub fn shutdown(&self) -> ShutdownHandle {
        self.shutdown.clone()
    }

    /// Whether the stub has tracepoints of its own, which are let pass.
    #[must_use]
    pub const fn passes_tracepoints(&self) -> bool {
        self.trace.is_none()
    }

    /// The stub.
    #[must_use]
    pub const fn stub(&self) -> &Stub {
        self.target.stub()
    }

    /// Why nothing more is asked of the stub.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// Takes note of what the stub has done wrong: the trace run is over. In words.
    fn fail(&mut self, error: &RemoteError) -> String {
        let words = error.to_string();
        // The stub's fault is the reason; the plugin is likely to be gone with it.
        let _ = self.take_progress();
        if is_end(error) {
            self.lost.get_or_insert_with(|| words.clone());
            self.running = None;
        }
        if let Some(trace) = &mut self.trace {
            let now = self.target.now();
            let text = Some(words.clone());
            // What cannot be taken out of a stub that is gone need not be.
            let _ = trace
                .experiment
                .stop(&mut self.target, StopReason::Error, text, now);
        }
        self.end_inside();
        words
    }

    /// What a trace run that has ended by itself has left in the program comes out.
    fn take_out(&mut self) {
        if self.target.take_run_ended()
            && let Some(trace) = &mut self.trace
        {
            trace.take_out(&mut self.target);
        }
    }

    /// The client has gone, without a word or with one. The program is left as it was: it runs, or it does not.
    fn end_session(&mut self) {
        let was_running = self.running.is_some();
        if was_running && let Err(error) = self.stop_program() {
            self.fail(&error);
        }
        if let Err(error) = self.target.remove_debuggers_breakpoints() {
            self.fail(&error);
        }
        self.look_inside();
        if let Some(trace) = &mut self.trace {
            match self.shutdown.is_over() {
                true => trace.stop_for_good(Some(&mut self.target)),
                false => trace.client_gone(&mut self.target),
            }
            trace.select_program();
        }
        self.end_inside();
        if was_running {
            self.run_again();
        }
    }

    /// Lets a program that ran before run again. What its tracepoints do wrong ends the trace run; then it runs without them.
    fn run_again(&mut self) {
        for _ in 0..2 {
            if self.lost.is_some() {
                return;
            }
            match self.resume_all() {
                Ok(()) => return,
                Err(error) => _ = self.fail(&error),
            }
        }
    }
}

/// Whether nothing more can be asked of a stub after an error.
const fn is_end(error: &RemoteError) -> bool {
    matches!(
        error,
        RemoteError::Io(_)
            | RemoteError::Closed
            | RemoteError::Silent { .. }
            | RemoteError::Unreadable(_)
    )
}

/// Whether the stub has tracepoints, whatever it announces. A run that it has, and its frames, stay.
fn has_tracepoints(stub: &mut Stub) -> Result<bool, RemoteError> {
    let status = stub.request(b"qTStatus")?;
    match status.as_slice() {
        [b'T', b'1', ..] => Ok(true),
        [b'T', ..] if !status.windows(8).any(|window| window == b"tnotrun:") => Ok(true),
        [b'T', ..] => Ok(stub.request(b"QTinit")? == b"OK"),
        _ => Ok(false),
    }
}

/// Serves clients, one after the other, until the stub is gone, or a client has detached, or the first one has gone with `once`.
///
/// # Errors
/// When clients cannot be accepted.
pub fn serve(
    listener: &Listener,
    proxy: &mut Proxy,
    log: &SessionLog,
    Clients { once, token }: Clients<'_>,
) -> io::Result<()> {
    let admission = token.map(|token| Admission {
        token,
        features: features::merged(proxy.stub().features(), proxy.trace.is_some()),
        hint: "You are let in. In GDB: attach 1\n".to_owned(),
    });
    proxy.shutdown.waits_at(listener)?;
    let mut acceptor = Acceptor::new(listener, admission);
    loop {
        let received = if proxy.running.is_some() {
            unattended::receive(&mut acceptor, proxy)
        } else {
            acceptor.accept()
        };
        if proxy.shutdown.is_over() {
            proxy.end_session();
            return Ok(());
        }
        let received = received?;
        if proxy.running.is_some()
            && let Err(error) = proxy.stop_program()
        {
            proxy.fail(&error);
        }
        proxy.shutdown.serves(Some(&received.transport))?;
        let client = Client::new(received);
        proxy.has_client.store(true, Ordering::SeqCst);
        let ended = Session::new(proxy, client, log).run();
        proxy.has_client.store(false, Ordering::SeqCst);
        proxy.shutdown.serves(None)?;
        let left = matches!(ended, Ok(Ended::Left));
        let goes_on = proxy.trace.as_ref().is_some_and(Trace::outlives_client);
        if !left || goes_on {
            proxy.end_session();
        }
        let is_over = proxy.lost.is_some() || proxy.shutdown.is_over();
        if once || listener.is_stdio() || left && !goes_on || is_over {
            return Ok(());
        }
    }
}
