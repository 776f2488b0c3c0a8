//! The answers that are the same in all sessions.
//!
//! A session is a [`Debuggee`] with registers, memory and threads in its own form. [`respond`] makes replies of them,
//! so these packets are answered in one place. What only some sessions have is a method with a default, or an extension
//! trait ([`Writable`]).

mod memory;
mod objects;
mod registers;
mod search;
mod threads;

use std::borrow::Cow;
use std::ops::Range;

use tracewire_model::{Address, RegisterNumber};
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::family::transfer::{Transfer, TransferRequest};
use tracewire_packets::{Failure, HexBytes, Reply, Request, ThreadSelector};
use tracewire_tracefile::Frame;

use crate::session::Answer;

pub(crate) use objects::{Object, escaped};
pub(crate) use threads::{ThreadEntry, named};

/// Why nothing is written while a trace frame is selected.
pub(crate) const FRAME_IS_FIXED: &str = "A trace frame cannot be written to";

/// The program or trace of a session.
pub(crate) trait Debuggee {
    /// All registers of the selected frame or thread; `None` if there is no thread.
    fn registers(&mut self) -> Option<RegisterBytes>;

    /// The place of a register among them.
    fn register_place(&self, number: RegisterNumber) -> Option<Range<usize>>;

    /// Memory of the selected frame or the program, up to the first byte that is not known.
    fn memory(&mut self, address: Address, length: usize) -> Vec<u8>;

    /// Access for changing registers and memory.
    ///
    /// # Errors
    /// Why nothing can be changed now, as a message for the user.
    fn writable(&mut self) -> Result<&mut dyn Writable, &'static str>;

    /// The description of the registers; `None` if there is no program.
    fn target_xml(&self) -> Option<Cow<'_, str>>;

    /// The threads there are now.
    fn threads(&self) -> Vec<ThreadSelector>;

    /// The thread whose registers are meant.
    fn current_thread(&self) -> Option<ThreadSelector>;

    /// Whether a thread is alive. By default all are.
    fn is_alive(&self, thread: &ThreadSelector) -> bool {
        _ = thread;
        true
    }

    /// Selects the thread whose registers are meant; whether there is such a thread.
    fn select(&mut self, thread: &ThreadSelector) -> bool {
        self.is_alive(thread)
    }

    /// Selects the threads that run when no `vCont` selects them. Returns whether there are such threads.
    fn select_to_resume(&mut self, thread: &ThreadSelector) -> bool {
        self.select(thread)
    }

    /// Extra information about a thread for the user.
    fn describe_thread(&self, thread: &ThreadSelector) -> Option<String> {
        _ = thread;
        None
    }

    /// The threads with names and cpus; `None` if the session has no such table.
    fn thread_table(&mut self) -> Option<Vec<ThreadEntry>> {
        None
    }

    /// The address of a thread-local variable.
    fn thread_local(&mut self, thread: &ThreadSelector, module: Address, offset: u64) -> Reply {
        _ = (thread, module, offset);
        Reply::Unsupported
    }

    /// Shows the selected trace frame to a function; whether one is selected.
    fn show_frame(&mut self, see: &mut dyn FnMut(&Frame<'_>)) -> bool;

    /// Whether there may be static tracepoints.
    fn has_probes(&self) -> bool {
        false
    }

    /// An object that is particular to the session.
    fn object(&mut self, window: &Transfer) -> Object {
        _ = window;
        Object::Unknown
    }

    /// Writes a part of an object.
    fn write_object(&mut self, window: &Transfer, bytes: &[u8]) -> Reply {
        _ = (window, bytes);
        Reply::Unsupported
    }
}

/// A program whose registers and memory can be changed.
pub(crate) trait Writable {
    /// Writes registers of the selected thread, from this place among all on; whether they can be written.
    fn write_registers(&mut self, start: usize, bytes: &[u8]) -> bool;

    /// Writes memory; whether all of it can be written.
    fn write_memory(&mut self, address: Address, bytes: &[u8]) -> bool;
}

/// A process that was attached to, and that the client cannot end.
pub(crate) trait Attached {
    /// Why the program is stopped.
    fn stop(&self) -> StopReply;

    /// The client detaches.
    fn detach(&mut self) {}

    /// A command of the user's (`monitor`).
    fn monitor(&mut self, command: &HexBytes) -> Answer {
        _ = command;
        Reply::Unsupported.into()
    }
}

/// Answers the requests that are the same in all sessions; others are not supported.
pub(crate) fn respond(of: &mut dyn Debuggee, request: &Request) -> Answer {
    match request {
        Request::Memory(request) => memory::answer(of, request).into(),
        Request::Register(request) => registers::answer(of, request).into(),
        Request::Thread(request) => threads::answer(of, request).into(),
        Request::Transfer(TransferRequest::Transfer { window }) => {
            objects::answer(of, window).into()
        }
        _ => Reply::Unsupported.into(),
    }
}

/// Answers for a process that was attached to.
pub(crate) fn attached(of: &mut dyn Attached, request: &ProcessRequest) -> Answer {
    match request {
        // `target extended-remote` finds the existing process, and a client that has sent a token attaches to it.
        ProcessRequest::WhyStopped | ProcessRequest::Attach { .. } => Reply::Stop(of.stop()).into(),
        ProcessRequest::ExtendedMode | ProcessRequest::Symbol { .. } => Reply::Ok.into(),
        // When GDB quits, it detaches from an attached process, and does not ask whether to kill it.
        ProcessRequest::Attached { .. } => Reply::Attached(true).into(),
        ProcessRequest::Detach { .. } => {
            of.detach();
            Answer::Last(Reply::Ok)
        }
        ProcessRequest::KillOne { .. } => Answer::Last(Reply::Ok),
        ProcessRequest::Kill => Answer::End,
        ProcessRequest::Monitor { command } => of.monitor(command),
        _ => Reply::Unsupported.into(),
    }
}

/// `OK`, or an error.
pub(crate) fn done(done: bool) -> Reply {
    if done { Reply::Ok } else { FAILED }
}

/// An error without a text.
pub(crate) const FAILED: Reply = Reply::Error(Failure::Number(1));
