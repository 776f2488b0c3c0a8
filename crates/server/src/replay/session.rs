//! A client's session with a recording, with the dispatch of requests.

use std::borrow::Cow;
use std::ops::Range;

use tracewire_model::{Address, RegisterNumber, ThreadId};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, HexBytes, Reply, Request, ThreadSelector, Which};
use tracewire_target_replay::{Execution, Replay, address_form, canonical};
use tracewire_tracefile::Frame;

use super::run::stopped;
use crate::answers::{Attached, Debuggee, ThreadEntry, Writable, attached, named, respond};
use crate::session::{Answer, Responder};
use crate::trace::{
    SaveFolder, Trace, TraceMachine, announce_frames, announce_runs, with_addresses,
};

/// The process of all cpus.
pub(super) const PROCESS: u32 = 1;

/// A client's instant, its settings, and its trace run.
#[derive(Debug)]
pub struct ReplaySession<'a, E> {
    pub(super) recording: &'a E,
    pub(super) replay: Replay<&'a E>,
    pub(super) trace: Trace,
    /// The thread whose registers are used (`Hg`).
    pub(super) selected: Option<ThreadId>,
    /// The thread that runs when no `vCont` selects one (`Hc`).
    resumed: Option<ThreadId>,
    /// The reason of the last stop.
    pub(super) stop: StopReply,
    /// Whether the client supports `swbreak`.
    pub(super) software_breakpoints: bool,
    /// Whether unavailable registers are shown as zeros, at the user's request.
    pub(super) zeros: bool,
}

pub(super) fn selector(thread: ThreadId) -> ThreadSelector {
    ThreadSelector {
        process: None,
        thread: Which::One(thread.0),
    }
}

impl<'a, E: Execution> ReplaySession<'a, E> {
    /// Begins at the first instant. `notices` gets messages for the server's user, line by line.
    #[must_use]
    pub fn new(recording: &'a E, save: Option<SaveFolder>, notices: fn(&str)) -> Self {
        let replay = Replay::new(recording);
        let machine = recording.machine();
        let machine = TraceMachine {
            layout: machine.layout().clone(),
            xml: machine.target_xml().to_owned(),
            byte_order: machine.byte_order(),
        };
        let mut trace = Trace::new(machine, save).with_notices(notices);
        trace
            .experiment
            .set_address_form(address_form(recording.machine()));
        Self {
            recording,
            trace,
            selected: None,
            resumed: None,
            stop: stopped(replay.current_thread(), None),
            software_breakpoints: false,
            zeros: false,
            replay,
        }
    }

    /// The thread that registers are read from.
    fn thread(&self) -> ThreadId {
        self.selected
            .unwrap_or_else(|| self.replay.current_thread())
    }

    /// The thread that `s` and `bs` mean.
    pub(super) fn chosen_to_resume(&self) -> ThreadId {
        self.resumed.unwrap_or_else(|| self.thread())
    }

    pub(super) fn go_to(&mut self, number: u64) {
        self.replay.go_to(number);
        self.selected = None;
        self.stop = stopped(self.replay.current_thread(), None);
    }

    fn trace_request(&mut self, request: &TraceRequest) -> Reply {
        let machine = self.recording.machine();
        if matches!(request, TraceRequest::Disconnected { on: true }) {
            return Reply::Error(Failure::text(
                "nothing runs on without a client: a trace run over a recorded execution ends with it",
            ));
        }
        let request = with_addresses(request, &|address| canonical(machine, address));
        self.trace.answer(&request, Some(&mut self.replay))
    }
}

impl<E: Execution> Debuggee for ReplaySession<'_, E> {
    fn registers(&mut self) -> Option<RegisterBytes> {
        let thread = self.thread();
        self.trace.registers(|| {
            let block = self.replay.registers(thread);
            let bytes = block.bytes.iter().zip(&block.known);
            let is_given = |known: bool| known || self.zeros;
            let bytes = bytes.map(|(byte, known)| is_given(*known).then_some(*byte));
            Some(RegisterBytes(bytes.collect()))
        })
    }

    fn register_place(&self, number: RegisterNumber) -> Option<Range<usize>> {
        let register = self.recording.machine().layout().by_number(number)?;
        let start = register.offset as usize;
        Some(start..start + register.size() as usize)
    }

    fn memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let address = canonical(self.recording.machine(), address);
        let thread = self.thread();
        self.trace.memory(address, length, || {
            let mut bytes = vec![None; length];
            self.replay.memory(thread, address, &mut bytes);
            bytes.into_iter().map_while(|byte| byte).collect()
        })
    }

    fn writable(&mut self) -> Result<&mut dyn Writable, &'static str> {
        Err("A recorded execution cannot be changed")
    }

    fn target_xml(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.recording.machine().target_xml()))
    }

    fn threads(&self) -> Vec<ThreadSelector> {
        self.replay.threads().map(selector).collect()
    }

    fn current_thread(&self) -> Option<ThreadSelector> {
        Some(selector(self.thread()))
    }

    fn select(&mut self, thread: &ThreadSelector) -> bool {
        let found = self.is_alive(thread);
        if found {
            self.selected = named(thread);
        }
        found
    }

    fn select_to_resume(&mut self, thread: &ThreadSelector) -> bool {
        let found = self.is_alive(thread);
        if found {
            self.resumed = named(thread);
        }
        found
    }

    fn is_alive(&self, thread: &ThreadSelector) -> bool {
        named(thread).is_none_or(|thread| self.replay.has_thread(thread))
    }

    fn describe_thread(&self, thread: &ThreadSelector) -> Option<String> {
        let thread = named(thread).unwrap_or(ThreadId(1));
        Some(format!("cpu {}", cpu(thread)))
    }

    fn thread_table(&mut self) -> Option<Vec<ThreadEntry>> {
        let threads = self.replay.threads();
        let table = threads.map(|thread| ThreadEntry {
            process: None,
            thread,
            cpu: cpu(thread),
            name: format!("cpu {}", cpu(thread)),
        });
        Some(table.collect())
    }

    fn show_frame(&mut self, see: &mut dyn FnMut(&Frame<'_>)) -> bool {
        self.trace.selected_frame(see).is_some()
    }
}

impl<E: Execution> Attached for ReplaySession<'_, E> {
    fn stop(&self) -> StopReply {
        self.stop.clone()
    }

    fn monitor(&mut self, command: &HexBytes) -> Answer {
        self.command(command)
    }
}

impl<E: Execution> Responder for ReplaySession<'_, E> {
    fn features(&mut self, client: &FeatureList) -> FeatureList {
        self.software_breakpoints = client.supports("swbreak");
        let mut features = FeatureList::default();
        for feature in [
            "qXfer:features:read",
            "qXfer:threads:read",
            "vContSupported",
            "swbreak",
            "ReverseStep",
            "ReverseContinue",
        ] {
            features.announce(feature);
        }
        announce_frames(&mut features, false);
        announce_runs(&mut features, false);
        features
    }

    fn respond(&mut self, request: &Request) -> Answer {
        match request {
            Request::Trace(request) => self.trace_request(request).into(),
            Request::Resume(request) => self.resume_request(request).into(),
            Request::Breakpoint(request) => self.breakpoint_request(request).into(),
            Request::Process(request) => attached(self, request),
            request => respond(self, request),
        }
    }
}

/// The cpu of a thread.
pub(super) const fn cpu(ThreadId(thread): ThreadId) -> u32 {
    thread.saturating_sub(1)
}
