//! One debugger's view of a saved trace: which frame is selected.

use tracewire_arch::RegisterLayout;
use tracewire_model::{
    Address, ByteOrder, FrameNumber, RegisterNumber, TracepointNumber, TracepointUsage,
    VariableNumber,
};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::family::resume::ResumeRequest;
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer, TransferRequest};
use tracewire_packets::tracepoint::{
    FrameInfo, FramePart, FrameSelection, SelectedFrame, TraceRequest,
};
use tracewire_packets::{
    Failure, HexBytes, Reply, Request, Signal, ThreadList, ThreadSelector, Which,
};
use tracewire_tracefile::{Block, Frame, Search};

use super::{SavedTrace, process, refusal};
use crate::session::{Answer, PACKET_SIZE, Responder};
use crate::trace::buffer::nothing_asked_for;
use crate::trace::{NO_HITS, static_data};

/// The one thread there is. A frame may tell which thread of the program it is of, but GDB must find the same thread
/// whatever the frame.
const THREAD: ThreadSelector = ThreadSelector {
    process: None,
    thread: Which::One(1),
};

/// What GDB's user reads when the program is to do something.
const NO_PROGRAM: &str = "This is a saved trace: no program runs here. Look at frames with tfind.";

/// A session with one debugger.
#[derive(Debug)]
pub struct SavedSession<'a> {
    trace: &'a SavedTrace,
    selected: Option<FrameNumber>,
    next_piece: usize,
    next_variable: usize,
}

impl<'a> SavedSession<'a> {
    /// A session that has no frame selected.
    #[must_use]
    pub const fn new(trace: &'a SavedTrace) -> Self {
        Self {
            trace,
            selected: None,
            next_piece: 0,
            next_variable: 0,
        }
    }

    fn frame(&self) -> Option<Frame<'a>> {
        self.trace.file.frame(self.selected?)
    }

    fn trace_request(&mut self, request: &TraceRequest) -> Answer {
        let reply = match request {
            TraceRequest::Status => Reply::TraceStatus(Box::new(self.trace.status.clone())),
            TraceRequest::SelectFrame { frame } => self.select(*frame),
            TraceRequest::Usage { number, address } => self.usage(*number, *address),
            TraceRequest::VariableValue { number } => {
                Reply::VariableValue(self.frame().and_then(|frame| self.value(&frame, *number)))
            }
            TraceRequest::FirstPiece => {
                self.next_piece = 1;
                self.trace.piece(0)
            }
            TraceRequest::MorePieces => {
                self.next_piece = self.next_piece.saturating_add(1);
                self.trace.piece(self.next_piece - 1)
            }
            TraceRequest::FirstVariable => {
                self.next_variable = 1;
                self.trace.variable(0)
            }
            TraceRequest::MoreVariables => {
                self.next_variable = self.next_variable.saturating_add(1);
                self.trace.variable(self.next_variable - 1)
            }
            TraceRequest::FirstMarkers
            | TraceRequest::MoreMarkers
            | TraceRequest::MarkersAt { .. } => Reply::End,
            TraceRequest::Buffer { offset, length } => self.buffer(*offset, *length),
            TraceRequest::MinimumFastLength => Reply::Length(0),
            // GDB sends these when it is told what to do with the next run, which need not come.
            TraceRequest::Disconnected { .. }
            | TraceRequest::Circular { .. }
            | TraceRequest::BufferSize { .. }
            | TraceRequest::Notes { .. }
            | TraceRequest::ReadOnly { .. } => Reply::Ok,
            TraceRequest::Initialize
            | TraceRequest::Define { .. }
            | TraceRequest::Actions { .. }
            | TraceRequest::Source { .. }
            | TraceRequest::Variable { .. }
            | TraceRequest::Enable { .. }
            | TraceRequest::Disable { .. }
            | TraceRequest::Start
            | TraceRequest::Stop
            | TraceRequest::Save { .. } => return Answer::failed(&refusal(request)),
            TraceRequest::Relocated { .. } | TraceRequest::RelocationFailed { .. } => {
                Reply::Unsupported
            }
        };
        reply.into()
    }

    fn select(&mut self, selection: FrameSelection) -> Reply {
        let search = match selection {
            FrameSelection::None => {
                self.selected = None;
                return Reply::Ok;
            }
            FrameSelection::Number(number) => Search::Number(number),
            FrameSelection::Pc(address) => Search::ProgramCounter(address),
            FrameSelection::Tracepoint(number) => Search::Tracepoint(number),
            FrameSelection::Within { start, end } => Search::Range { start, end },
            FrameSelection::Outside { start, end } => Search::Outside { start, end },
        };
        let found = self.trace.file.find(search, self.selected);
        if let Some(frame) = &found {
            self.selected = Some(frame.number());
        }
        Reply::Frame(SelectedFrame {
            frame: found.as_ref().map(Frame::number),
            tracepoint: found.as_ref().map(Frame::tracepoint),
        })
    }

    /// What the file tells of a tracepoint, or else what its frames do.
    fn usage(&self, number: TracepointNumber, address: Address) -> Reply {
        let tracepoints = self.trace.file.description().tracepoints();
        let wanted = tracepoints.iter().find(|tracepoint| {
            tracepoint.definition.number == number && tracepoint.definition.address == address
        });
        match wanted {
            Some(tracepoint) => Reply::TracepointUsage(tracepoint.usage.unwrap_or_else(|| {
                self.trace
                    .file
                    .find_all(Search::Tracepoint(number), None)
                    .filter(|frame| frame.program_counter().is_none_or(|pc| pc == address))
                    .fold(TracepointUsage::default(), |usage, frame| TracepointUsage {
                        hits: usage.hits + 1,
                        bytes: usage.bytes.saturating_add(frame.bytes().len() as u64),
                    })
            })),
            None => NO_HITS,
        }
    }

    fn value(&self, frame: &Frame<'_>, number: VariableNumber) -> Option<i64> {
        frame.variable(number)
    }

    fn buffer(&self, offset: u64, length: u64) -> Reply {
        if length == 0 {
            return nothing_asked_for();
        }
        let buffer = self.trace.buffer();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| buffer.get(offset..));
        match rest {
            Some([]) | None => Reply::End,
            Some(rest) => {
                let most = usize::try_from(length)
                    .unwrap_or(usize::MAX)
                    .min(PACKET_SIZE / 2);
                Reply::TraceBuffer(rest.get(..most).unwrap_or(rest).to_vec())
            }
        }
    }

    /// All registers, unavailable where the frame does not have them. Where it has none, its place is told all the
    /// same, as gdbserver does, so that GDB can show it. Without a frame the program counter is 0, which is nowhere:
    /// GDB refuses a target whose program counter is not available.
    fn registers(&self) -> RegisterBytes {
        let frame = self.frame();
        let layout = self.layout();
        let size = layout.map(|layout| layout.size() as usize);
        if let Some(mut block) = frame.as_ref().and_then(Frame::known_register_block)
            && size.is_none_or(|size| block.len() <= size)
        {
            // A block may end before the last registers, which then were not collected.
            block.resize(size.unwrap_or(block.len()), None);
            return RegisterBytes(block);
        }
        let mut bytes = vec![None; size.unwrap_or(0)];
        let place = match &frame {
            Some(frame) => frame.program_counter(),
            None => Some(Address(0)),
        };
        if let (Some(place), Some(register)) =
            (place, layout.and_then(RegisterLayout::program_counter))
        {
            let (start, width) = (register.offset as usize, register.size() as usize);
            let value = self.trace.file.byte_order().u64_bytes(place.0);
            let value = match self.trace.file.byte_order() {
                ByteOrder::Little => value.get(..width),
                ByteOrder::Big => value.get(value.len().saturating_sub(width)..),
            };
            for (byte, value) in bytes.iter_mut().skip(start).zip(value.unwrap_or_default()) {
                *byte = Some(*value);
            }
        }
        RegisterBytes(bytes)
    }

    fn layout(&self) -> Option<&'a RegisterLayout> {
        self.trace.registers.as_ref()?.layout.as_ref()
    }

    fn register(&self, number: RegisterNumber) -> Reply {
        let Some(register) = self.layout().and_then(|layout| layout.by_number(number)) else {
            return Reply::Error(Failure::text("There is no such register"));
        };
        let bytes = self.registers().0;
        let (start, size) = (register.offset as usize, register.size() as usize);
        match bytes.get(start..start.saturating_add(size)) {
            Some(bytes) => Reply::Registers(RegisterBytes(bytes.to_vec())),
            None => Reply::Registers(RegisterBytes(vec![None; size])),
        }
    }

    /// Memory, from the frame, or what of the program cannot change.
    fn memory(&self, address: Address, length: u64, most: usize) -> Vec<Option<u8>> {
        let mut memory = vec![None; usize::try_from(length).unwrap_or(usize::MAX).min(most)];
        if let Some(frame) = self.frame() {
            frame.read_memory(address, &mut memory);
        }
        self.trace.read_only_memory(address, &mut memory);
        memory
    }

    /// The bytes before the first one that is not known.
    fn known(&self, address: Address, length: u64, most: usize) -> Vec<u8> {
        self.memory(address, length, most)
            .into_iter()
            .map_while(|byte| byte)
            .collect()
    }

    /// All bytes before the first one that is not known, however many, read little by little: a request can name any
    /// length.
    fn known_run(&self, address: Address, length: u64) -> Vec<u8> {
        const STEP: u64 = 0x10000;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length.min(LARGEST_SEARCH) {
            let step = STEP.min(length - bytes.len() as u64);
            let known = self.known(address.offset(bytes.len() as i64), step, STEP as usize);
            let complete = known.len() as u64 == step;
            bytes.extend(known);
            if !complete {
                break;
            }
        }
        bytes
    }

    fn memory_request(&self, request: &MemoryRequest) -> Answer {
        let reply = match request {
            MemoryRequest::Read { address, length } => {
                match self.known(*address, *length, PACKET_SIZE / 2) {
                    // An empty reply, even to a read of nothing, would say that there is no such packet.
                    known if known.is_empty() => Reply::Error(Failure::Number(1)),
                    known => Reply::Memory(known),
                }
            }
            MemoryRequest::ReadBinary { address, length } => {
                let mut known = self.known(*address, *length, PACKET_SIZE);
                known.truncate(tracewire_packets::escaped_prefix(&known, PACKET_SIZE - 1));
                if known.is_empty() && *length > 0 {
                    Reply::Error(Failure::Number(1))
                } else {
                    Reply::BinaryMemory(known)
                }
            }
            MemoryRequest::Search {
                address,
                length,
                pattern,
            } => {
                let known = self.known_run(*address, *length);
                let wanted = pattern.0.as_slice();
                let found = known
                    .windows(wanted.len().max(1))
                    .position(|window| window.get(..wanted.len()) == Some(wanted));
                match found {
                    Some(place) => Reply::Found(Some(address.offset(place as i64))),
                    None if known.len() as u64 == *length => Reply::Found(None),
                    // As gdbserver: there is memory in the way that cannot be read.
                    None => Reply::Error(Failure::Number(0)),
                }
            }
            MemoryRequest::Checksum { address, length } => {
                let known = self.known_run(*address, *length);
                if known.len() as u64 == *length {
                    Reply::Checksum(checksum(&known))
                } else {
                    Reply::Error(Failure::Number(1))
                }
            }
            MemoryRequest::Write { .. } | MemoryRequest::WriteBinary { .. } => {
                Reply::Error(Failure::text("A saved trace cannot be written to"))
            }
            _ => Reply::Unsupported,
        };
        reply.into()
    }

    fn transfer(&self, window: &Transfer) -> Reply {
        let Operation::Read { length } = window.operation else {
            return Reply::Unsupported;
        };
        let object = match (&window.object, self.trace.program()) {
            (Object::Features, _) => match (&self.trace.registers, window.annex.as_str()) {
                (Some(registers), "target.xml") => registers.xml.clone().into_bytes(),
                _ => return Reply::Error(Failure::Number(0)),
            },
            (Object::TraceframeInfo, _) => match self.frame() {
                Some(frame) => info(&frame).to_xml().into_bytes(),
                None => return Reply::Error(Failure::text("No trace frame is selected")),
            },
            (Object::StaticTraceData, _) => {
                let Some(frame) = self.frame() else {
                    return Reply::Error(Failure::text("No trace frame is selected"));
                };
                static_data(&frame)
            }
            (Object::AuxiliaryVector, Some(program)) => process::auxiliary_vector(program),
            (Object::ExecFile, Some(program)) => {
                program.path.to_string_lossy().into_owned().into_bytes()
            }
            (Object::LibrariesSvr4, Some(_)) => {
                process::libraries(self.trace.images.iter().skip(1)).into_bytes()
            }
            _ => return Reply::Unsupported,
        };
        Reply::Chunk(Chunk::window(&object, window.offset, length, PACKET_SIZE))
    }

    fn process_request(&self, request: &ProcessRequest) -> Answer {
        match request {
            ProcessRequest::WhyStopped | ProcessRequest::Attach { .. } => {
                stop(vec![StopField::Thread(THREAD)]).into()
            }
            ProcessRequest::Detach { .. } => Answer::Last(Reply::Ok),
            ProcessRequest::KillOne { .. } => Answer::Last(Reply::Ok),
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

    fn monitor(&self, command: &HexBytes) -> Answer {
        match command.0.trim_ascii() {
            b"info" => Answer::Output(self.trace.summary(), Reply::Ok),
            b"help" => Answer::Output(HELP.to_owned(), Reply::Ok),
            _ => Answer::Output(format!("Unknown monitor command.\n{HELP}"), Reply::Ok),
        }
    }
}

const HELP: &str = "monitor info -- The trace file, its frames, and where its modules are\n\
                    monitor help -- This text\n";

/// How many bytes a search or a checksum looks at.
const LARGEST_SEARCH: u64 = 256 << 20;

fn stop(fields: Vec<StopField>) -> Reply {
    Reply::Stop(StopReply::Stopped {
        signal: Signal::TRAP,
        fields,
    })
}

fn info(frame: &Frame<'_>) -> FrameInfo {
    let parts = frame.blocks().filter_map(|block| match block {
        Block::Memory { address, bytes } => Some(FramePart::Memory {
            start: address,
            length: bytes.len() as u64,
        }),
        Block::Variable { number, .. } if !tracewire_tracefile::describes_frame(number) => {
            Some(FramePart::Variable(number))
        }
        _ => None,
    });
    FrameInfo(parts.collect())
}

/// The checksum of `qCRC`: CRC-32 with GDB's polynomial, most significant bit first, from all ones, not inverted.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte) << 24, |sum, _| {
            sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    })
}

impl Responder for SavedSession<'_> {
    fn features(&mut self, _client: &FeatureList) -> FeatureList {
        *self = Self::new(self.trace);
        let mut features = FeatureList::default();
        if self.trace.registers.is_some() {
            features.announce("qXfer:features:read");
        }
        if self.trace.program().is_some() {
            for object in ["auxv", "exec-file", "libraries-svr4"] {
                features.announce(&format!("qXfer:{object}:read"));
            }
        }
        for feature in [
            "qXfer:traceframe-info:read",
            "qXfer:statictrace:read",
            "TracepointSource",
            "TraceStateVariables",
            "ConditionalTracepoints",
            "FastTracepoints",
            "StaticTracepoints",
            "tracenz",
        ] {
            features.announce(feature);
        }
        features
    }

    fn respond(&mut self, request: &Request) -> Answer {
        let answer = self.answer(request);
        // What was read of a file that was cut meanwhile is not what the file had.
        match (answer, self.trace.file.verify()) {
            (Answer::Reply(_) | Answer::Output(..), Err(cut)) => Answer::failed(&cut.to_string()),
            (answer, _) => answer,
        }
    }
}

impl SavedSession<'_> {
    fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::Trace(request) => self.trace_request(request),
            Request::Memory(request) => self.memory_request(request),
            Request::Register(RegisterRequest::ReadAll) => {
                Reply::Registers(self.registers()).into()
            }
            Request::Register(RegisterRequest::Read { register }) => {
                self.register(*register).into()
            }
            Request::Register(_) => Answer::failed("A saved trace cannot be written to"),
            Request::Thread(request) => match request {
                ThreadRequest::Select { .. }
                | ThreadRequest::SelectForResuming { .. }
                | ThreadRequest::IsAlive { .. } => Reply::Ok.into(),
                ThreadRequest::Current => Reply::CurrentThread(THREAD).into(),
                ThreadRequest::FirstThreads => Reply::Threads(ThreadList(vec![THREAD])).into(),
                ThreadRequest::MoreThreads => Reply::End.into(),
                ThreadRequest::Describe { .. } => {
                    Reply::Text(HexBytes(b"saved trace".to_vec())).into()
                }
                _ => Reply::Unsupported.into(),
            },
            Request::Transfer(TransferRequest::Transfer { window }) => self.transfer(window).into(),
            Request::Process(request) => self.process_request(request),
            Request::Resume(ResumeRequest::Supported) => Reply::Unsupported.into(),
            Request::Resume(ResumeRequest::Interrupt) => Reply::Ok.into(),
            Request::Resume(_) => Answer::Output(
                format!("{NO_PROGRAM}\n"),
                stop(vec![StopField::Thread(THREAD)]),
            ),
            // Where nothing runs, every breakpoint is as good as inserted; so GDB gets to the point of being told that
            // nothing runs.
            Request::Breakpoint(_) => Reply::Ok.into(),
            Request::File(_)
            | Request::Setting(_)
            | Request::FileIo(_)
            | Request::Feature(_)
            | Request::Unknown(_) => Reply::Unsupported.into(),
        }
    }
}
