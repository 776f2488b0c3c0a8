//! One client at a recording: which request is answered by what.

use std::fmt::Write;

use tracewire_model::{Address, RegisterNumber, ThreadId};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer, TransferRequest};
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, HexBytes, Reply, Request, ThreadList, ThreadSelector, Which};
use tracewire_target_replay::{Execution, Replay, canonical, extends_addresses};

use super::run::stopped;
use crate::session::{Answer, PACKET_SIZE, Responder};
use crate::trace::{SaveFolder, Trace, TraceMachine};

/// The process that all cpus belong to.
pub(super) const PROCESS: u32 = 1;

const UNCHANGEABLE: &str = "A recorded execution cannot be changed";

/// A client's instant, what it has set, and its trace run.
#[derive(Debug)]
pub struct ReplaySession<'a, E> {
    pub(super) recording: &'a E,
    pub(super) replay: Replay<&'a E>,
    pub(super) trace: Trace,
    /// Whose registers are meant (`Hg`).
    pub(super) selected: Option<ThreadId>,
    /// Who goes on when no `vCont` says so (`Hc`).
    resumed: ThreadSelector,
    /// Why the recording stands.
    pub(super) stop: StopReply,
    /// Whether the client knows `swbreak`.
    pub(super) software_breakpoints: bool,
    /// Whether the user wants zeros for registers that are not known.
    pub(super) zeros: bool,
}

pub(super) fn selector(thread: ThreadId) -> ThreadSelector {
    ThreadSelector {
        process: None,
        thread: Which::One(thread.0),
    }
}

impl<'a, E: Execution> ReplaySession<'a, E> {
    /// Stands at the beginning.
    #[must_use]
    pub fn new(recording: &'a E, save: Option<SaveFolder>) -> Self {
        let replay = Replay::new(recording);
        let machine = recording.machine();
        let machine = TraceMachine {
            layout: machine.layout().clone(),
            xml: machine.target_xml().to_owned(),
            byte_order: machine.byte_order(),
        };
        let mut trace = Trace::new(machine, save);
        if extends_addresses(recording.machine()) {
            trace.experiment.extend_addresses();
        }
        Self {
            recording,
            trace,
            selected: None,
            resumed: ThreadSelector::ANY,
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
        match self.resumed.thread {
            Which::One(thread) => ThreadId(thread),
            Which::Any | Which::All => self.thread(),
        }
    }

    pub(super) fn go_to(&mut self, number: u64) {
        self.replay.go_to(number);
        self.selected = None;
        self.stop = stopped(self.replay.current_thread(), None);
    }

    fn thread_request(&mut self, request: &ThreadRequest) -> Reply {
        let meant = |selector: &ThreadSelector| match selector.thread {
            Which::One(thread) => Some(ThreadId(thread)),
            Which::Any | Which::All => None,
        };
        let missing =
            |thread: Option<ThreadId>| thread.is_some_and(|thread| !self.replay.has_thread(thread));
        match request {
            ThreadRequest::SelectForResuming { thread }
            | ThreadRequest::Select { thread }
            | ThreadRequest::IsAlive { thread }
                if missing(meant(thread)) =>
            {
                Reply::Error(Failure::Number(1))
            }
            ThreadRequest::SelectForResuming { thread } => {
                self.resumed = *thread;
                Reply::Ok
            }
            ThreadRequest::Select { thread } => {
                self.selected = meant(thread);
                Reply::Ok
            }
            ThreadRequest::IsAlive { .. } => Reply::Ok,
            ThreadRequest::Current => Reply::CurrentThread(selector(self.thread())),
            ThreadRequest::FirstThreads => {
                Reply::Threads(ThreadList(self.replay.threads().map(selector).collect()))
            }
            ThreadRequest::MoreThreads => Reply::End,
            ThreadRequest::Describe { thread } => {
                let cpu = meant(thread).map_or(0, |thread| thread.0.saturating_sub(1));
                Reply::Text(HexBytes(format!("cpu {cpu}").into_bytes()))
            }
            _ => Reply::Unsupported,
        }
    }

    /// All registers, of the selected frame or at this instant.
    fn all_registers(&mut self) -> RegisterBytes {
        if let Some(bytes) = self.trace.frame_registers() {
            return bytes;
        }
        let block = self.replay.registers(self.thread());
        let bytes = block.bytes.iter().zip(&block.known);
        let told = |known: bool| known || self.zeros;
        RegisterBytes(
            bytes
                .map(|(byte, known)| told(*known).then_some(*byte))
                .collect(),
        )
    }

    fn register(&mut self, number: RegisterNumber) -> Reply {
        let layout = self.recording.machine().layout();
        let Some(register) = layout.by_number(number) else {
            return Reply::Error(Failure::text("There is no such register"));
        };
        let (start, size) = (register.offset as usize, register.size() as usize);
        let bytes = self.all_registers().0;
        let bytes = bytes.get(start..start.saturating_add(size));
        Reply::Registers(RegisterBytes(
            bytes.map_or_else(|| vec![None; size], <[_]>::to_vec),
        ))
    }

    /// Memory up to the first byte that is not known.
    fn memory(&mut self, address: Address, length: u64, most: usize) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(most).min(most);
        let address = canonical(self.recording.machine(), address);
        let now = |session: &Self| {
            let mut bytes = vec![None; length];
            session.replay.memory(session.thread(), address, &mut bytes);
            bytes
                .into_iter()
                .map_while(|byte| byte)
                .collect::<Vec<u8>>()
        };
        if self.trace.selected.is_none() {
            return now(self);
        }
        let frame = self.trace.frame_memory(address, length);
        if !frame.wants_constant() {
            return frame.known();
        }
        frame.with_constant(&now(self))
    }

    fn memory_request(&mut self, request: &MemoryRequest) -> Reply {
        let known = |bytes: Vec<u8>, length: u64, reply: fn(Vec<u8>) -> Reply| {
            if bytes.is_empty() && length > 0 {
                Reply::Error(Failure::Number(1))
            } else {
                reply(bytes)
            }
        };
        match request {
            MemoryRequest::Read { length: 0, .. } => Reply::Error(Failure::Number(1)),
            MemoryRequest::Read { address, length } => {
                let bytes = self.memory(*address, *length, PACKET_SIZE / 2);
                known(bytes, *length, Reply::Memory)
            }
            MemoryRequest::ReadBinary { address, length } => {
                let mut bytes = self.memory(*address, *length, PACKET_SIZE);
                let fits = tracewire_packets::escaped_prefix(&bytes, PACKET_SIZE - 1);
                bytes.truncate(fits);
                known(bytes, *length, Reply::BinaryMemory)
            }
            MemoryRequest::Write { .. } | MemoryRequest::WriteBinary { .. } => {
                Reply::Error(Failure::text(UNCHANGEABLE))
            }
            _ => Reply::Unsupported,
        }
    }

    fn transfer(&mut self, window: &Transfer) -> Reply {
        let Operation::Read { length } = window.operation else {
            return Reply::Unsupported;
        };
        let object = match window.object {
            Object::Features if window.annex == "target.xml" => {
                self.recording.machine().target_xml().as_bytes().to_vec()
            }
            Object::Features => return Reply::Error(Failure::Number(0)),
            Object::Threads => self.threads().into_bytes(),
            Object::TraceframeInfo => match self.trace.frame_info() {
                Some(info) => info.to_xml().into_bytes(),
                None => return Reply::Error(Failure::text("No trace frame is selected")),
            },
            _ => return Reply::Unsupported,
        };
        Reply::Chunk(Chunk::window(&object, window.offset, length, PACKET_SIZE))
    }

    fn threads(&self) -> String {
        let mut text = String::from("<threads>\n");
        for thread in self.replay.threads() {
            let cpu = thread.0.saturating_sub(1);
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "<thread id=\"{:x}\" core=\"{cpu}\" name=\"cpu {cpu}\"/>",
                thread.0
            );
        }
        text.push_str("</threads>\n");
        text
    }

    fn process_request(&mut self, request: &ProcessRequest) -> Answer {
        match request {
            ProcessRequest::WhyStopped | ProcessRequest::Attach { .. } => {
                Reply::Stop(self.stop.clone()).into()
            }
            ProcessRequest::Detach { .. } | ProcessRequest::KillOne { .. } => {
                Answer::Last(Reply::Ok)
            }
            ProcessRequest::Kill => Answer::End,
            // `target extended-remote` finds what there is, and whoever has given a token attaches to it.
            ProcessRequest::ExtendedMode => Reply::Ok.into(),
            // GDB detaches when it quits from what was attached to, and does not ask whether to kill it.
            ProcessRequest::Attached { .. } => Reply::Attached(true).into(),
            ProcessRequest::Symbol { .. } => Reply::Ok.into(),
            ProcessRequest::Monitor { command } => self.monitor(command),
            _ => Reply::Unsupported.into(),
        }
    }

    fn trace_request(&mut self, request: &TraceRequest) -> Reply {
        let machine = self.recording.machine();
        if matches!(request, TraceRequest::Disconnected { on: true }) {
            return Reply::Error(Failure::text(
                "nothing runs on without a client: a trace run over a recorded execution ends with it",
            ));
        }
        let request = in_memory(request, &|address| canonical(machine, address));
        self.trace.answer(&request, Some(&mut self.replay))
    }
}

/// A definition as the recording has its addresses.
fn in_memory(request: &TraceRequest, place: &dyn Fn(Address) -> Address) -> TraceRequest {
    let mut request = request.clone();
    match &mut request {
        TraceRequest::Define { definition } => definition.address = place(definition.address),
        TraceRequest::Actions { actions } => actions.address = place(actions.address),
        TraceRequest::Source { source } => source.address = place(source.address),
        TraceRequest::Usage { address, .. } => *address = place(*address),
        TraceRequest::Enable { address, .. } | TraceRequest::Disable { address, .. } => {
            address.0 = place(address.0);
        }
        TraceRequest::ReadOnly { ranges } => {
            for range in &mut ranges.0 {
                // A section ends before the address space does.
                let size = range.end.saturating_sub(range.start);
                let start = place(Address(range.start)).0;
                *range = start..start.saturating_add(size);
            }
        }
        _ => {}
    }
    request
}

impl<E: Execution> Responder for ReplaySession<'_, E> {
    fn features(&mut self, client: &FeatureList) -> FeatureList {
        self.software_breakpoints = client.supports("swbreak");
        let mut features = FeatureList::default();
        for feature in [
            "qXfer:features:read",
            "qXfer:threads:read",
            "qXfer:traceframe-info:read",
            "vContSupported",
            "swbreak",
            "ReverseStep",
            "ReverseContinue",
            "ConditionalTracepoints",
            "TraceStateVariables",
            "TracepointSource",
            "FastTracepoints",
            "InstallInTrace",
            "EnableDisableTracepoints",
            "QTBuffer:size",
            "tracenz",
        ] {
            features.announce(feature);
        }
        features
    }

    fn respond(&mut self, request: &Request) -> Answer {
        match request {
            Request::Trace(request) => self.trace_request(request).into(),
            Request::Memory(request) => self.memory_request(request).into(),
            Request::Register(RegisterRequest::ReadAll) => {
                Reply::Registers(self.all_registers()).into()
            }
            Request::Register(RegisterRequest::Read { register }) => {
                self.register(*register).into()
            }
            Request::Register(_) => Answer::failed(UNCHANGEABLE),
            Request::Thread(request) => self.thread_request(request).into(),
            Request::Transfer(TransferRequest::Transfer { window }) => self.transfer(window).into(),
            Request::Process(request) => self.process_request(request),
            Request::Resume(request) => self.resume_request(request).into(),
            Request::Breakpoint(request) => self.breakpoint_request(request).into(),
            Request::File(_)
            | Request::Setting(_)
            | Request::FileIo(_)
            | Request::Feature(_)
            | Request::Unknown(_) => Reply::Unsupported.into(),
        }
    }
}
