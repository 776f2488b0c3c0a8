//! One debugger's view of a saved trace: which frame is selected.

use std::borrow::Cow;
use std::ops::Range;

use tracewire_arch::RegisterLayout;
use tracewire_model::{Address, FrameNumber, RegisterNumber, TracepointNumber, TracepointUsage};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::resume::ResumeRequest;
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::family::transfer::{self, Transfer};
use tracewire_packets::tracepoint::{FrameSelection, SelectedFrame, TraceRequest};
use tracewire_packets::{Failure, HexBytes, Reply, Request, Signal, ThreadSelector, Which};
use tracewire_tracefile::{Frame, Search};

use super::{SavedTrace, process, refusal};
use crate::answers::{Attached, Debuggee, Object, Writable, attached, respond};
use crate::session::{Answer, PACKET_SIZE, Responder};
use crate::trace::buffer::nothing_asked_for;
use crate::trace::{NO_HITS, announce_frames, registers_at, search};

/// The only thread. A frame may have a thread number of the program, but GDB must find the same thread in every frame.
const THREAD: ThreadSelector = ThreadSelector {
    process: None,
    thread: Which::One(1),
};

/// The message to GDB's user when the program is to run.
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

    fn trace_request(&mut self, request: &TraceRequest) -> Reply {
        match request {
            TraceRequest::Status => Reply::TraceStatus(Box::new(self.trace.status.clone())),
            TraceRequest::SelectFrame { frame } => self.select(*frame),
            TraceRequest::Usage { number, address } => self.usage(*number, *address),
            TraceRequest::VariableValue { number } => {
                Reply::VariableValue(self.frame().and_then(|frame| frame.variable(*number)))
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
            // GDB sends these when the user changes settings for the next run.
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
            | TraceRequest::Save { .. } => Reply::Error(Failure::text(&refusal(request))),
            TraceRequest::Relocated { .. } | TraceRequest::RelocationFailed { .. } => {
                Reply::Unsupported
            }
        }
    }

    fn select(&mut self, selection: FrameSelection) -> Reply {
        let Some(search) = search(selection) else {
            self.selected = None;
            return Reply::Ok;
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

    /// The hits and bytes of a tracepoint, from the file or else from its frames.
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

    fn layout(&self) -> Option<&'a RegisterLayout> {
        self.trace.registers.as_ref()?.layout.as_ref()
    }
}

const HELP: &str = "monitor info -- The trace file, its frames, and where its modules are\n\
                    monitor help -- This text\n";

impl Debuggee for SavedSession<'_> {
    /// Registers that the frame does not have are unavailable. Without any, its program counter is still reported, as
    /// by gdbserver, so that GDB can show it. Without a frame the program counter is 0, which is no code: GDB refuses a
    /// target whose program counter is unavailable.
    fn registers(&mut self) -> Option<RegisterBytes> {
        let frame = self.frame();
        let layout = self.layout();
        let size = layout.map(|layout| layout.size() as usize);
        if let Some(mut block) = frame.as_ref().and_then(Frame::known_register_block)
            && size.is_none_or(|size| block.len() <= size)
        {
            // A block may end before the last registers, which then were not collected.
            block.resize(size.unwrap_or(block.len()), None);
            return Some(RegisterBytes(block));
        }
        let place = match &frame {
            Some(frame) => frame.program_counter(),
            None => Some(Address(0)),
        };
        let order = self.trace.file.byte_order();
        let registers = layout.map(|layout| registers_at(place, layout, order));
        Some(registers.unwrap_or_else(|| RegisterBytes(Vec::new())))
    }

    fn register_place(&self, number: RegisterNumber) -> Option<Range<usize>> {
        let register = self.layout()?.by_number(number)?;
        let start = register.offset as usize;
        Some(start..start + register.size() as usize)
    }

    /// From the frame, or from read-only parts of the program.
    fn memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let mut memory = vec![None; length];
        if let Some(frame) = self.frame() {
            frame.read_memory(address, &mut memory);
        }
        self.trace.read_only_memory(address, &mut memory);
        memory.into_iter().map_while(|byte| byte).collect()
    }

    fn writable(&mut self) -> Result<&mut dyn Writable, &'static str> {
        Err("A saved trace cannot be written to")
    }

    fn target_xml(&self) -> Option<Cow<'_, str>> {
        let registers = self.trace.registers.as_ref()?;
        Some(Cow::Borrowed(&registers.xml))
    }

    fn threads(&self) -> Vec<ThreadSelector> {
        vec![THREAD]
    }

    fn current_thread(&self) -> Option<ThreadSelector> {
        Some(THREAD)
    }

    fn describe_thread(&self, _: &ThreadSelector) -> Option<String> {
        Some("saved trace".to_owned())
    }

    fn show_frame(&mut self, see: &mut dyn FnMut(&Frame<'_>)) -> bool {
        self.frame().as_ref().map(see).is_some()
    }

    fn has_probes(&self) -> bool {
        true
    }

    fn object(&mut self, window: &Transfer) -> Object {
        let Some(program) = self.trace.program() else {
            return Object::Unknown;
        };
        Object::Bytes(match window.object {
            transfer::Object::AuxiliaryVector => process::auxiliary_vector(program),
            transfer::Object::ExecFile => program.path.to_string_lossy().into_owned().into_bytes(),
            transfer::Object::LibrariesSvr4 => {
                process::libraries(self.trace.images.iter().skip(1)).into_bytes()
            }
            _ => return Object::Unknown,
        })
    }
}

impl Attached for SavedSession<'_> {
    fn stop(&self) -> StopReply {
        StopReply::Stopped {
            signal: Signal::TRAP,
            fields: vec![StopField::Thread(THREAD)],
        }
    }

    fn monitor(&mut self, command: &HexBytes) -> Answer {
        let text = match command.0.trim_ascii() {
            b"info" => self.trace.summary(),
            b"help" => HELP.to_owned(),
            _ => format!("Unknown monitor command.\n{HELP}"),
        };
        Answer::Output(text, Reply::Ok)
    }
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
        announce_frames(&mut features, true);
        features
    }

    fn respond(&mut self, request: &Request) -> Answer {
        let answer = match request {
            Request::Trace(request) => self.trace_request(request).into(),
            Request::Resume(ResumeRequest::Supported) => Reply::Unsupported.into(),
            Request::Resume(ResumeRequest::Interrupt) => Reply::Ok.into(),
            Request::Resume(_) => {
                Answer::Output(format!("{NO_PROGRAM}\n"), Reply::Stop(self.stop()))
            }
            // Where nothing runs, every breakpoint counts as inserted, so that GDB gets as far as the error that
            // nothing runs.
            Request::Breakpoint(_) => Reply::Ok.into(),
            Request::Process(request) => attached(self, request),
            request => respond(self, request),
        };
        // Data read from a file that was truncated meanwhile is not valid.
        match (answer, self.trace.file.verify()) {
            (Answer::Reply(_) | Answer::Output(..), Err(cut)) => Answer::failed(&cut.to_string()),
            (answer, _) => answer,
        }
    }
}
