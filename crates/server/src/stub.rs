//! A session with a custom target: a [`StubTarget`] describes the machine, and [`Stub`] answers GDB for it.
//!
//! The target is stopped whenever GDB asks, and executes one instruction at a time. The stub handles breakpoints,
//! threads, parts of the target description, trace frames and all tracepoint packets. A target that reports hits
//! ([`StubTarget::traced`]) has tracepoints, too.
//!
//! `examples/own_target.rs` is such a target in 80 lines.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use tracewire_arch::{LayoutError, RegisterLayout};
use tracewire_experiment::{HitHandler, Target, TargetError};
use tracewire_model::{Address, ByteOrder, RegisterNumber, ThreadId};
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointRequest};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::resume::{ResumeKind, ResumeRequest};
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::{Failure, Reply, Request, Signal, ThreadSelector};
use tracewire_tracefile::Frame;

use crate::answers::{
    Attached, Debuggee, FRAME_IS_FIXED, Writable, attached, done, named, respond,
};
use crate::session::{Answer, Responder};
use crate::trace::{SaveFolder, Trace, TraceMachine, announce_frames, announce_runs};

/// The number of the one process.
const PROCESS: u32 = 1;

/// How many instructions are executed before the stub reports a stop as for an interrupt: it does not read the client's input
/// meanwhile.
const MOST: u64 = 1 << 24;

/// The machine of a [`Stub`].
pub trait StubTarget {
    /// The type that serves tracepoints: [`NoTracepoints`], or `Self`.
    type Traced: Target;

    /// The target description, as GDB reads it (manual, "Target Descriptions"). Registers are numbered in its order.
    fn description(&self) -> &str;

    /// The order of bytes in registers and memory.
    fn byte_order(&self) -> ByteOrder {
        ByteOrder::Little
    }

    /// The current threads. The first one is selected when a client connects.
    fn threads(&self) -> Vec<ThreadId> {
        vec![ThreadId(1)]
    }

    /// The program counter of a thread.
    fn program_counter(&self, thread: ThreadId) -> Address;

    /// All registers of a thread in the order of the description, in the machine's byte order.
    fn registers(&self, thread: ThreadId) -> Vec<u8>;

    /// Writes all registers of a thread; whether they can be written.
    fn write_registers(&mut self, thread: ThreadId, bytes: &[u8]) -> bool {
        let _ = (thread, bytes);
        false
    }

    /// Memory, up to the first byte that cannot be read.
    fn read_memory(&self, address: Address, length: usize) -> Vec<u8>;

    /// Writes memory; whether all of it can be written.
    fn write_memory(&mut self, address: Address, bytes: &[u8]) -> bool {
        let _ = (address, bytes);
        false
    }

    /// Whether a breakpoint can be at an address.
    fn is_code(&self, address: Address) -> bool {
        let _ = address;
        true
    }

    /// Executes one instruction, and reports the hits of tracepoints, if the target has them.
    fn step(&mut self, hits: &mut dyn HitHandler) -> Stepped;

    /// How many instructions are executed before the stub reports a stop by itself.
    fn most(&self) -> u64 {
        MOST
    }

    /// The target of tracepoints; `None` without tracepoints.
    fn traced(&mut self) -> Option<&mut Self::Traced> {
        None
    }
}

/// The result of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stepped {
    /// The thread that executes the next one.
    Next(ThreadId),
    /// The program has ended with this exit code.
    Exited(u32),
}

/// The type for a target without tracepoints.
#[derive(Clone, Copy, Debug)]
pub enum NoTracepoints {}

impl Target for NoTracepoints {
    fn insert(&mut self, _: Address) -> Result<(), TargetError> {
        match *self {}
    }

    fn remove(&mut self, _: Address) -> Result<(), TargetError> {
        match *self {}
    }
}

/// A session with a custom target. It outlives its clients, as that with a live program does.
#[derive(Debug)]
pub struct Stub<T> {
    target: T,
    layout: RegisterLayout,
    trace: Trace,
    breakpoints: BTreeSet<Address>,
    selected: ThreadId,
    stop: StopReply,
}

impl<T: StubTarget> Stub<T> {
    /// A session with a target, stopped before its first instruction. Traces may be saved in the directory.
    ///
    /// # Errors
    /// When the target's description is none.
    pub fn new(target: T, save: Option<SaveFolder>) -> Result<Self, LayoutError> {
        let xml = target.description().to_owned();
        let layout = RegisterLayout::parse(&xml)?;
        let machine = TraceMachine {
            byte_order: target.byte_order(),
            layout: layout.clone(),
            xml,
        };
        Ok(Self {
            selected: target.threads().first().copied().unwrap_or(ThreadId(1)),
            target,
            layout,
            trace: Trace::new(machine, save),
            breakpoints: BTreeSet::new(),
            stop: StopReply::Signal(Signal::TRAP),
        })
    }

    /// The target.
    pub const fn target(&self) -> &T {
        &self.target
    }

    /// Whether a trace run is on.
    #[must_use]
    pub const fn is_tracing(&self) -> bool {
        self.trace.experiment.is_running()
    }

    /// The client has disconnected without a request; its breakpoints are removed.
    pub fn client_gone(&mut self) {
        self.breakpoints.clear();
        if let Some(traced) = self.target.traced() {
            self.trace.client_gone(traced);
        }
        self.trace.select_program();
    }

    fn has_ended(&self) -> bool {
        matches!(self.stop, StopReply::Exited { .. })
    }

    /// Runs the program for `most` instructions, or until a breakpoint.
    fn run(&mut self, most: u64) -> Reply {
        if self.has_ended() {
            return Reply::Error(Failure::Number(1));
        }
        let mut signal = if most == 1 {
            Signal::TRAP
        } else {
            Signal::INTERRUPT
        };
        for _ in 0..most {
            let stepped = self.target.step(&mut self.trace.experiment);
            if let Some(traced) = self.target.traced() {
                self.trace.take_out(traced);
            }
            match stepped {
                Stepped::Next(thread) => self.selected = thread,
                Stepped::Exited(status) => {
                    if let Some(traced) = self.target.traced() {
                        self.trace.program_gone(traced, "the program has ended");
                    }
                    self.stop = StopReply::Exited {
                        status,
                        process: None,
                    };
                    return Reply::Stop(self.stop.clone());
                }
            }
            let pc = self.target.program_counter(self.selected);
            if self.breakpoints.contains(&pc) {
                signal = Signal::TRAP;
                break;
            }
        }
        self.stop = StopReply::Stopped {
            signal,
            fields: vec![StopField::Thread(ThreadSelector::of(
                PROCESS,
                self.selected.0,
            ))],
        };
        Reply::Stop(self.stop.clone())
    }

    fn resume(&mut self, request: &ResumeRequest) -> Reply {
        let most = self.target.most();
        match request {
            ResumeRequest::Supported => Reply::ResumeActions(b"cCsS".to_vec()),
            ResumeRequest::Continue { actions } => {
                let steps = actions.0.first().is_some_and(|action| {
                    matches!(
                        action.kind,
                        ResumeKind::Step
                            | ResumeKind::StepWithSignal(_)
                            | ResumeKind::StepRange { .. }
                    )
                });
                self.run(if steps { 1 } else { most })
            }
            ResumeRequest::ContinueFrom { .. } | ResumeRequest::ContinueWithSignal { .. } => {
                self.run(most)
            }
            ResumeRequest::StepFrom { .. } | ResumeRequest::StepWithSignal { .. } => self.run(1),
            _ => Reply::Unsupported,
        }
    }

    fn breakpoint(&mut self, request: &BreakpointRequest) -> Reply {
        match request {
            BreakpointRequest::Insert {
                kind: BreakpointKind::Software,
                address,
                ..
            } => {
                let code = self.target.is_code(*address);
                if code {
                    self.breakpoints.insert(*address);
                }
                done(code)
            }
            BreakpointRequest::Remove {
                kind: BreakpointKind::Software,
                address,
                ..
            } => {
                self.breakpoints.remove(address);
                Reply::Ok
            }
            _ => Reply::Unsupported,
        }
    }
}

impl<T: StubTarget> Debuggee for Stub<T> {
    fn registers(&mut self) -> Option<RegisterBytes> {
        let program = || Some(RegisterBytes::known(&self.target.registers(self.selected)));
        self.trace.registers(program)
    }

    fn register_place(&self, number: RegisterNumber) -> Option<Range<usize>> {
        let register = self.layout.by_number(number)?;
        let start = register.offset as usize;
        Some(start..start + register.size() as usize)
    }

    fn memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let program = || self.target.read_memory(address, length);
        self.trace.memory(address, length, program)
    }

    fn writable(&mut self) -> Result<&mut dyn Writable, &'static str> {
        match self.trace.has_selected_frame() {
            true => Err(FRAME_IS_FIXED),
            false => Ok(self),
        }
    }

    fn target_xml(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.target.description()))
    }

    fn threads(&self) -> Vec<ThreadSelector> {
        let threads = self.target.threads().into_iter();
        threads
            .map(|thread| ThreadSelector::of(PROCESS, thread.0))
            .collect()
    }

    fn current_thread(&self) -> Option<ThreadSelector> {
        Some(ThreadSelector::of(PROCESS, self.selected.0))
    }

    fn select(&mut self, thread: &ThreadSelector) -> bool {
        let Some(thread) = named(thread) else {
            return true;
        };
        let found = self.target.threads().contains(&thread);
        if found {
            self.selected = thread;
        }
        found
    }

    fn is_alive(&self, thread: &ThreadSelector) -> bool {
        named(thread).is_some_and(|thread| self.target.threads().contains(&thread))
    }

    fn show_frame(&mut self, see: &mut dyn FnMut(&Frame<'_>)) -> bool {
        self.trace.selected_frame(see).is_some()
    }
}

impl<T: StubTarget> Attached for Stub<T> {
    fn stop(&self) -> StopReply {
        self.stop.clone()
    }

    fn detach(&mut self) {
        if !self.trace.outlives_client() {
            self.trace.stop_for_good(self.target.traced());
        }
    }
}

impl<T: StubTarget> Writable for Stub<T> {
    fn write_registers(&mut self, start: usize, bytes: &[u8]) -> bool {
        let mut all = self.target.registers(self.selected);
        for (byte, new) in all.iter_mut().skip(start).zip(bytes) {
            *byte = *new;
        }
        self.target.write_registers(self.selected, &all)
    }

    fn write_memory(&mut self, address: Address, bytes: &[u8]) -> bool {
        self.target.write_memory(address, bytes)
    }
}

impl<T: StubTarget> Responder for Stub<T> {
    fn features(&mut self, _client: &FeatureList) -> FeatureList {
        let mut features = FeatureList::default();
        for feature in ["multiprocess", "qXfer:features:read"] {
            features.announce(feature);
        }
        if self.target.traced().is_some() {
            announce_frames(&mut features, false);
            announce_runs(&mut features, true);
        }
        features
    }

    fn respond(&mut self, request: &Request) -> Answer {
        match request {
            Request::Trace(request) => match self.target.traced() {
                Some(traced) => self.trace.answer(request, Some(traced)).into(),
                None => Reply::Unsupported.into(),
            },
            Request::Resume(request) => self.resume(request).into(),
            Request::Breakpoint(request) => self.breakpoint(request).into(),
            Request::Setting(SettingRequest::NonStop { on: false }) => Reply::Ok.into(),
            Request::Process(request) => attached(self, request),
            request => respond(self, request),
        }
    }
}
