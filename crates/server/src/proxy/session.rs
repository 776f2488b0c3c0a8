//! One client at a stub: which packet passes, and which is answered here.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracewire_packets::family::breakpoint::BreakpointRequest;
use tracewire_packets::family::features::{FeatureList, FeatureRequest};
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::RegisterRequest;
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::family::transfer::{Object, TransferRequest};
use tracewire_packets::log::Direction;
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, HexBytes, Reply, ReplyKind, Request, Which};
use tracewire_target_remote::{RemoteError, Stop, StopEvent, Stub};

use super::client::Client;
use super::features::{for_stub, merged};
use super::frames::FrameView;
use super::resume::{ClientReport, Plan};
use super::{Proxy, is_end, saving};
use crate::answers::respond;
use crate::log::SessionLog;
use crate::session::{Answer, Ended};
use crate::trace::with_addresses;

/// The longest wait before the client and the stub are checked again, in milliseconds.
const TICK: u16 = 200;

/// A client's session.
pub(super) struct Session<'p> {
    proxy: &'p mut Proxy,
    client: Client,
    log: &'p SessionLog,
    waiting: Option<Waiting>,
}

/// A request that has been let pass.
struct Waiting {
    /// None of one that follows no grammar.
    request: Option<Request>,
}

impl<'p> Session<'p> {
    pub(super) fn new(proxy: &'p mut Proxy, client: Client, log: &'p SessionLog) -> Self {
        Self {
            proxy,
            client,
            log,
            waiting: None,
        }
    }

    /// Serves the client until it goes.
    pub(super) fn run(mut self) -> io::Result<Ended> {
        for request in std::mem::take(&mut self.client.earlier) {
            // The client has its answers.
            if let Request::Feature(FeatureRequest::Supported { features }) = &request {
                let features = features.clone().unwrap_or_default();
                let answered = self.features(&features).map(drop);
                self.check(answered);
            }
        }
        loop {
            while self.is_idle() {
                let Some(payload) = self.client.next() else {
                    break;
                };
                // An interrupt was for what ran before.
                if let Some(ended) = self.request(&payload) {
                    return Ok(ended);
                }
            }
            if self.client.is_gone() {
                return Ok(Ended::Vanished);
            }
            self.follow()?;
        }
    }

    /// Whether the next packet of the client can be looked at.
    const fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.proxy.running.is_none()
    }

    /// Waits for either side, and takes what comes.
    fn follow(&mut self) -> io::Result<()> {
        if !self.proxy.stub().has_input() || self.proxy.lost.is_some() {
            self.wait()?;
        }
        if self.proxy.lost.is_some() {
            return Ok(());
        }
        if self.proxy.running.is_some() {
            if self.client.take_interrupt() {
                let interrupted = self.proxy.interrupt();
                self.check(interrupted);
            }
            while let Some(answer) = self.client.next_file_answer() {
                let sent = self.proxy.target.stub_mut().send(&answer);
                self.check(sent);
            }
            let again = self.proxy.interrupt_again();
            self.check(again);
            self.proxy.look_inside_again();
        }
        let received = self.proxy.receive_now();
        match received {
            Ok(Some(payload)) => self.take_packet(payload),
            Ok(None) => {}
            // No client waits for an answer.
            Err(error) if self.is_idle() => _ = self.proxy.fail(&error),
            Err(error) => self.failed(&error),
        }
        Ok(())
    }

    /// Waits until there is something to read from either side.
    fn wait(&mut self) -> io::Result<()> {
        let client = if self.client.has_room() {
            PollFlags::POLLIN
        } else {
            PollFlags::empty()
        };
        if self.proxy.lost.is_none() {
            let flushed = self.proxy.target.stub_mut().flush();
            self.check(flushed);
        }
        let mut descriptors = vec![PollFd::new(self.client.descriptor(), client)];
        if self.proxy.lost.is_none() {
            let stub = self.proxy.stub().as_fd();
            descriptors.push(PollFd::new(stub, PollFlags::POLLIN));
        }
        // An interrupted wait is looked at as one that is over.
        let _ = poll(&mut descriptors, PollTimeout::from(TICK));
        let readable = descriptors.first().and_then(PollFd::any) == Some(true);
        if readable && self.client.has_room() {
            self.client.read();
        }
        Ok(())
    }

    /// A packet of the stub.
    fn take_packet(&mut self, payload: Vec<u8>) {
        if self.proxy.running.is_some() {
            let client = &mut self.client;
            let report = self
                .proxy
                .while_running(payload, &mut || client.wants_stop());
            self.send_report(report);
            return;
        }
        let Some(waiting) = self.waiting.take() else {
            // No client has asked for it.
            return;
        };
        // Output of a command of the user's comes before its answer.
        let is_output = payload.len() > 1 && payload.starts_with(b"O") && payload != b"OK";
        let may_print = matches!(
            waiting.request,
            Some(Request::Process(ProcessRequest::Monitor { .. }))
        );
        if is_output && may_print {
            self.send_raw(&payload);
            self.waiting = Some(waiting);
            return;
        }
        let payload = self.passes_back(&waiting, payload);
        self.send_raw(&payload);
    }

    /// What an answer of the stub changes, and the answer as the client is to have it.
    fn passes_back(&mut self, waiting: &Waiting, mut payload: Vec<u8>) -> Vec<u8> {
        let done = payload == b"OK";
        let target = &mut self.proxy.target;
        match &waiting.request {
            Some(Request::Breakpoint(BreakpointRequest::Insert {
                kind,
                address,
                length,
                ..
            })) if done => {
                let at = target.stub().machine().canonical(*address);
                target.breakpoints_mut().debugger_has(*kind, at, *length);
            }
            Some(Request::Thread(ThreadRequest::Select { thread })) if done => {
                let one = Some(*thread).filter(|thread| matches!(thread.thread, Which::One(_)));
                target.stub_mut().note_selected(one);
                self.proxy.selected = one;
            }
            Some(Request::Register(
                RegisterRequest::Write { .. } | RegisterRequest::WriteAll { .. },
            )) => target.registers_changed(),
            Some(Request::Memory(MemoryRequest::Read { address, .. }))
                if target
                    .breakpoints()
                    .shows_in(*address, payload.len() as u64 / 2) =>
            {
                if let Ok(Reply::Memory(mut bytes)) = Reply::parse(ReplyKind::Memory, &payload) {
                    let at = target.stub().machine().canonical(*address);
                    target.breakpoints().hide(at, &mut bytes);
                    payload = Reply::Memory(bytes).to_bytes();
                }
            }
            Some(Request::Memory(MemoryRequest::ReadBinary { address, .. }))
                if target
                    .breakpoints()
                    .shows_in(*address, payload.len() as u64) =>
            {
                let parsed = Reply::parse(ReplyKind::BinaryMemory, &payload);
                if let Ok(Reply::BinaryMemory(mut bytes)) = parsed {
                    let at = target.stub().machine().canonical(*address);
                    target.breakpoints().hide(at, &mut bytes);
                    payload = Reply::BinaryMemory(bytes).to_bytes();
                }
            }
            Some(Request::Process(ProcessRequest::WhyStopped)) => {
                let stop = match StopEvent::parse(payload.clone()) {
                    StopEvent::Stopped(stop) => {
                        self.proxy.selected = stop.thread;
                        Some(stop)
                    }
                    _ => None,
                };
                let again = target.answered_why(stop);
                self.check(again);
            }
            Some(Request::Process(
                ProcessRequest::Run { .. }
                | ProcessRequest::Attach { .. }
                | ProcessRequest::Restart { .. },
            )) => {
                target.program_gone();
                self.proxy.look_inside();
                let Proxy { trace, target, .. } = &mut *self.proxy;
                if let Some(trace) = trace {
                    trace.program_gone(target, "the program has become another one");
                }
                self.proxy.end_inside();
                let target = &mut self.proxy.target;
                if let StopEvent::Stopped(stop) = StopEvent::parse(payload.clone()) {
                    target.note_stop(stop);
                }
            }
            _ => {}
        }
        payload
    }

    /// A packet of the client; how the session has ended, when it has.
    fn request(&mut self, payload: &[u8]) -> Option<Ended> {
        let parsed = Request::parse(payload);
        self.log
            .packet(Direction::Request, payload, || match &parsed {
                Ok(request) => request.explain(),
                Err(error) => format!("malformed: {error}"),
            });
        // What is not known is the stub's affair.
        let Ok(request) = parsed else {
            self.pass(payload, None);
            return None;
        };
        let frame = (self.proxy.trace.as_ref()).is_some_and(|trace| trace.has_selected_frame());
        match &request {
            Request::Feature(FeatureRequest::Supported { features }) => {
                let features = features.clone().unwrap_or_default();
                match self.features(&features) {
                    Ok(features) => self.send(&Reply::Features(features)),
                    Err(error) => self.failed(&error),
                }
            }
            Request::Setting(SettingRequest::NoAcknowledgements) => {
                self.send(&Reply::Ok);
                self.client.stop_acknowledging();
            }
            Request::Setting(SettingRequest::NonStop { on: true })
                if !self.proxy.passes_tracepoints() =>
            {
                self.send(&Reply::Unsupported);
            }
            Request::Trace(request) if !self.proxy.passes_tracepoints() => self.trace(request),
            Request::Trace(TraceRequest::Save { file }) if self.proxy.lost.is_none() => {
                let saved = self.save(payload, file);
                match saved {
                    Ok(answer) => self.send_raw(&answer),
                    Err(error) => self.failed(&error),
                }
            }
            Request::Memory(_) | Request::Register(_) if frame => self.of_frame(&request),
            Request::Transfer(TransferRequest::Transfer { window })
                if window.object == Object::TraceframeInfo && !self.proxy.passes_tracepoints() =>
            {
                self.of_frame(&request);
            }
            Request::Resume(resume) => {
                let current = self.proxy.selected;
                match Plan::of(payload, resume, current) {
                    Some(plan) if self.proxy.lost.is_none() => {
                        let report = self
                            .synchronize()
                            .and_then(|()| self.proxy.resume(plan, &mut self.client));
                        self.send_report(report);
                    }
                    _ => self.pass(payload, Some(request)),
                }
            }
            Request::Breakpoint(breakpoint) if !self.proxy.passes_tracepoints() => {
                let passes = self.breakpoint(breakpoint);
                if passes {
                    self.pass(payload, Some(request));
                } else {
                    self.send(&Reply::Ok);
                }
            }
            Request::Process(ProcessRequest::Detach { process }) => {
                let processes = &mut self.proxy.processes;
                if process.is_some_and(|process| processes.leaves_others(process)) {
                    // The client follows the other side of a fork.
                    self.pass(payload, Some(request));
                } else {
                    return self.detach(payload);
                }
            }
            Request::Process(ProcessRequest::Kill) => {
                self.stop_tracing();
                let sent = self.proxy.target.stub_mut().send(payload);
                self.check(sent);
                return Some(Ended::Left);
            }
            Request::Process(ProcessRequest::KillOne { .. }) => {
                self.stop_tracing();
                self.pass(payload, Some(request));
            }
            _ => self.pass(payload, Some(request)),
        }
        None
    }

    /// Asks the stub for its features on the client's behalf, and adds to them.
    fn features(&mut self, client: &FeatureList) -> Result<FeatureList, RemoteError> {
        let features = Some(for_stub(client));
        let request = Request::from(FeatureRequest::Supported { features });
        let answer = self.proxy.target.stub_mut().request(&request.to_bytes())?;
        let has_tracepoints = !self.proxy.passes_tracepoints();
        Ok(merged(&Stub::features_of(&answer), has_tracepoints))
    }

    fn trace(&mut self, request: &TraceRequest) {
        let machine = self.proxy.target.stub().machine().clone();
        let request = with_addresses(request, &|address| machine.canonical(address));
        if matches!(request, TraceRequest::Start)
            && self.proxy.lost.is_none()
            && let Err(error) = self.proxy.target.pass_here()
        {
            self.failed(&error);
            return;
        }
        self.proxy.before_trace(&request);
        let Proxy { trace, target, .. } = &mut *self.proxy;
        let mut reply = match trace {
            Some(trace) => trace.answer(&request, Some(target)),
            None => Reply::Unsupported,
        };
        self.proxy.end_inside();
        // GDB recognizes its own tracepoints by their addresses, when it connects again.
        if let Reply::DefinitionRecord(record) = &mut reply {
            record.address = machine.address_form().of(record.address);
        }
        self.send(&reply);
    }

    /// Has the stub save its trace, or saves it for the stub.
    fn save(&mut self, payload: &[u8], name: &HexBytes) -> Result<Vec<u8>, RemoteError> {
        let stub = self.proxy.target.stub_mut();
        let answer = stub.request(payload)?;
        if !answer.is_empty() {
            return Ok(answer);
        }
        let folder = self.proxy.save.as_ref();
        saving::save(stub, folder, name).map(|reply| reply.to_bytes())
    }

    /// Answers from the selected trace frame.
    fn of_frame(&mut self, request: &Request) {
        let Proxy { trace, target, .. } = &mut *self.proxy;
        let Some(trace) = trace else {
            return;
        };
        let answer = respond(&mut FrameView { trace, target }, request);
        if let Answer::Reply(reply) = answer {
            self.send(&reply);
        }
    }

    /// Whether the stub must know of a breakpoint of the client's.
    fn breakpoint(&mut self, request: &BreakpointRequest) -> bool {
        let (kind, address) = match request {
            BreakpointRequest::Insert { kind, address, .. }
            | BreakpointRequest::Remove { kind, address, .. } => (*kind, *address),
        };
        let at = self.proxy.canonical(address);
        let breakpoints = self.proxy.target.breakpoints_mut();
        match request {
            BreakpointRequest::Insert { length, .. } => {
                let passes = breakpoints.debugger_inserts(kind, at);
                if !passes {
                    breakpoints.debugger_has(kind, at, *length);
                }
                passes
            }
            BreakpointRequest::Remove { .. } => breakpoints.debugger_removes(kind, at),
        }
    }

    fn stop_tracing(&mut self) {
        self.proxy.look_inside();
        let Proxy { trace, target, .. } = &mut *self.proxy;
        if let Some(trace) = trace {
            trace.stop_for_good(Some(target));
        }
        self.proxy.end_inside();
    }

    fn detach(&mut self, payload: &[u8]) -> Option<Ended> {
        let goes_on = (self.proxy.trace.as_ref()).is_some_and(|trace| trace.outlives_client());
        if goes_on && self.proxy.lost.is_none() {
            self.send(&Reply::Ok);
            let removed = self.proxy.target.remove_debuggers_breakpoints();
            self.check(removed);
            self.proxy.run_again();
            return Some(Ended::Left);
        }
        self.stop_tracing();
        if self.proxy.lost.is_some() {
            self.send(&Reply::Ok);
            return Some(Ended::Left);
        }
        match self.proxy.target.stub_mut().request(payload) {
            Ok(answer) => self.send_raw(&answer),
            // It has gone with that.
            Err(RemoteError::Closed) => self.send(&Reply::Ok),
            Err(error) => self.failed(&error),
        }
        Some(Ended::Left)
    }

    /// Lets a packet pass to the stub.
    fn pass(&mut self, payload: &[u8], request: Option<Request>) {
        if let Some(lost) = &self.proxy.lost {
            let failure = Failure::text(lost);
            self.send(&Reply::Error(failure));
            return;
        }
        let sent = self
            .synchronize()
            .and_then(|()| self.proxy.target.restore())
            .and_then(|()| self.proxy.target.stub_mut().send(payload));
        match sent {
            Ok(()) => self.waiting = Some(Waiting { request }),
            Err(error) => self.failed(&error),
        }
    }

    /// Has the stub select the thread that the client believes to be selected.
    fn synchronize(&mut self) -> Result<(), RemoteError> {
        match self.proxy.selected {
            Some(thread) => self.proxy.target.stub_mut().select(Some(thread)),
            None => Ok(()),
        }
    }

    /// Tells the client what has come of letting the program run.
    fn send_report(&mut self, report: Result<ClientReport, RemoteError>) {
        match report {
            Ok(ClientReport::Nothing) => {}
            Ok(ClientReport::Aside(payload)) => self.send_raw(&payload),
            Ok(ClientReport::Stopped(packets)) => {
                // The interrupt has been granted.
                self.client.take_interrupt();
                for payload in packets {
                    self.send_raw(&payload);
                }
            }
            Err(error) => self.failed_running(&error),
        }
    }

    /// An error while the program ran: the trace run is over, and the client gets the reason. The program runs on, where the client did not ask
    /// for a stop, or is stopped.
    fn failed_running(&mut self, error: &RemoteError) {
        let words = self.proxy.fail(error);
        let was_stopped = self.proxy.target.last_stop().cloned();
        let Some(stop) = was_stopped.filter(|_| !is_end(error)) else {
            self.proxy.running = None;
            self.send(&Reply::Error(Failure::text(&words)));
            return;
        };
        let text = format!("tracewire: the trace run has ended: {words}\n");
        let text = HexBytes(text.into_bytes());
        self.send(&Reply::Output(text));
        match self.proxy.run_on() {
            Ok(Some(report)) => self.send_report(Ok(report)),
            Ok(None) => self.send_stop(&stop),
            Err(error) => {
                self.proxy.fail(&error);
                self.send_stop(&stop);
            }
        }
    }

    /// Reports a stop that may be that of a tracepoint, of which the client does not know.
    fn send_stop(&mut self, stop: &Stop) {
        match stop.is_trap() {
            true => self.send_raw(&stop.with_signal(tracewire_packets::Signal(0))),
            false => self.send_raw(&stop.payload),
        }
    }

    /// Something went wrong at a request that the client waits for.
    fn failed(&mut self, error: &RemoteError) {
        if self.proxy.running.is_some() {
            return self.failed_running(error);
        }
        let words = self.proxy.fail(error);
        self.waiting = None;
        self.send(&Reply::Error(Failure::text(&words)));
    }

    /// Keeps an error. The client gets it if it waits for the program.
    fn check(&mut self, result: Result<(), RemoteError>) {
        match result {
            Ok(()) => {}
            Err(error) if self.proxy.running.is_some() => self.failed_running(&error),
            Err(error) => _ = self.proxy.fail(&error),
        }
    }

    fn send(&mut self, reply: &Reply) {
        let payload = reply.to_bytes();
        self.log
            .packet(Direction::Reply, &payload, || reply.to_string());
        self.client.send(&payload);
    }

    fn send_raw(&mut self, payload: &[u8]) {
        self.log.packet(Direction::Reply, payload, || {
            "as the stub has sent it".to_owned()
        });
        self.client.send(payload);
    }
}

impl Proxy {
    /// A packet that has come from the stub by now.
    pub(super) fn receive_now(&mut self) -> Result<Option<Vec<u8>>, RemoteError> {
        let received = self
            .target
            .stub_mut()
            .receive(Instant::now() + Duration::ZERO);
        match (&received, self.running.clone()) {
            (Err(RemoteError::Refused { .. }), Some(running)) => match self.halt(running)? {
                Some(gone) => Ok(Some(gone)),
                None => received,
            },
            _ => received,
        }
    }
}
