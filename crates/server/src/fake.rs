//! A session with a program that is not there, for tests of everything between a client and a target.
//!
//! The program is [`tracewire_experiment::fake::FakeTarget`]: three threads that go round a loop of sixteen instructions
//! and change memory on the way, the same at every run. What answers the tracepoint packets is what answers them for live
//! programs; the rest is no more than a client needs to let such a program run and to look at it.
//!
//! ```
//! use std::io::{Read, Write};
//! use tracewire_server::fake::FakeSession;
//! use tracewire_server::{SessionLog, run};
//!
//! let (mut here, mut debugger) = std::os::unix::net::UnixStream::pair()?;
//! debugger.write_all(b"$QTDP:1:1004:E:0:2#f8$QTStart#b3$c#63$qTStatus#49")?;
//! debugger.shutdown(std::net::Shutdown::Write)?;
//! run(&mut here, &mut FakeSession::new(None), &SessionLog::none())?;
//! drop(here);
//! let mut replies = String::new();
//! debugger.read_to_string(&mut replies)?;
//! // The run has ended at the tracepoint's second hit.
//! assert!(replies.contains("tpasscount:1"), "{replies}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeSet;

use tracewire_arch::RegisterLayout;
use tracewire_experiment::fake::{FakeTarget, Moment};
use tracewire_model::{Address, ByteOrder, ThreadId};
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointRequest};
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::family::resume::{ResumeKind, ResumeRequest};
use tracewire_packets::family::setting::SettingRequest;
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::family::transfer::{Chunk, Object, Operation, Transfer, TransferRequest};
use tracewire_packets::{Failure, Reply, Request, Signal, ThreadList, ThreadSelector, Which};

use crate::session::{Answer, PACKET_SIZE, Responder};
use crate::trace::{SaveFolder, Trace, TraceMachine, done};

/// Where the program's code starts; the instructions have four bytes each.
pub const CODE: Address = Address(0x1000);
/// Where the memory starts that it changes.
pub const DATA: Address = Address(0x2000);
/// How large each of the two is, in bytes.
pub const SIZE: u64 = 64;
/// The numbers of its threads.
pub const THREADS: [u32; 3] = [1, 2, 3];

/// How many instructions are executed before the program has ended.
const LIFE: u64 = 4096;
/// How many before it stops by itself, as if somebody had interrupted it.
const TURN: u64 = 256;

const PROCESS: u32 = 1;
/// The registers beside the program counter.
const REGISTERS: u16 = 4;

const XML: &str = "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target>\
    <feature name=\"org.tracewire.fake\">\
    <reg name=\"a\" bitsize=\"64\" regnum=\"0\"/><reg name=\"b\" bitsize=\"64\"/>\
    <reg name=\"c\" bitsize=\"64\"/><reg name=\"d\" bitsize=\"64\"/>\
    <reg name=\"pc\" bitsize=\"64\" type=\"code_ptr\"/></feature></target>";

/// The session. It outlives its clients, as that with a live program does.
#[derive(Debug)]
pub struct FakeSession {
    target: FakeTarget,
    trace: Trace,
    breakpoints: BTreeSet<Address>,
    /// How many instructions have been executed.
    age: u64,
    selected: ThreadId,
    stop: StopReply,
}

impl FakeSession {
    /// A program before its first instruction; traces may be saved in the folder.
    ///
    /// # Panics
    /// Never: the description of its registers is a good one.
    #[must_use]
    pub fn new(save: Option<SaveFolder>) -> Self {
        let layout = RegisterLayout::parse(XML)
            .unwrap_or_else(|error| unreachable!("a good description: {error}"));
        let machine = TraceMachine {
            layout,
            xml: XML.to_owned(),
            byte_order: ByteOrder::Little,
        };
        Self {
            target: program(),
            trace: Trace::new(machine, save),
            breakpoints: BTreeSet::new(),
            age: 0,
            selected: ThreadId(THREADS[0]),
            stop: StopReply::Signal(Signal::TRAP),
        }
    }

    /// Where tracepoints are in the program now.
    #[must_use]
    pub const fn inserted(&self) -> &BTreeSet<Address> {
        self.target.inserted()
    }

    /// Whether the trace run is on.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.trace.experiment.is_running()
    }

    /// The client has gone without a word, and its breakpoints with it.
    pub fn client_gone(&mut self) {
        self.breakpoints.clear();
        self.trace.client_gone(&mut self.target);
        self.trace.selected = None;
    }

    /// What the program does next.
    fn moment(&self) -> Moment {
        let [first, second, third] = THREADS;
        let thread = ThreadId([first, second, third, first][(self.age % 4) as usize]);
        let age = self.age;
        Moment {
            thread,
            cpu: thread.0,
            time: 1000 + age,
            pc: Address(CODE.0 + age % (SIZE / 4) * 4),
            registers: vec![age, DATA.0 + age % SIZE, age.wrapping_mul(0x9e37_79b9), 0],
            writes: vec![(Address(DATA.0 + age % SIZE), vec![age as u8])],
            killed: false,
        }
    }

    fn has_ended(&self) -> bool {
        self.age >= LIFE
    }

    /// Lets the program run: so many instructions, or until a breakpoint.
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
            let moment = self.moment();
            self.target.run(&moment, &mut self.trace.experiment);
            // What cannot be taken out now is tried again.
            self.trace.take_out(&mut self.target);
            self.age += 1;
            self.selected = self.moment().thread;
            if self.has_ended() {
                self.trace
                    .program_gone(&mut self.target, "the program has ended");
                // What was in it is gone with it.
                self.target = program();
                self.stop = StopReply::Exited {
                    status: 0,
                    process: None,
                };
                return Reply::Stop(self.stop.clone());
            }
            if self.breakpoints.contains(&self.moment().pc) {
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
                self.run(if steps { 1 } else { TURN })
            }
            ResumeRequest::ContinueFrom { .. } | ResumeRequest::ContinueWithSignal { .. } => {
                self.run(TURN)
            }
            ResumeRequest::StepFrom { .. } | ResumeRequest::StepWithSignal { .. } => self.run(1),
            _ => Reply::Unsupported,
        }
    }

    fn registers(&mut self) -> RegisterBytes {
        if let Some(frame) = self.trace.frame_registers() {
            return frame;
        }
        let moment = self.moment();
        let values = moment.registers.iter().chain([&moment.pc.0]);
        let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
        RegisterBytes::known(&bytes)
    }

    fn register(&mut self, request: &RegisterRequest) -> Reply {
        match request {
            RegisterRequest::ReadAll => Reply::Registers(self.registers()),
            RegisterRequest::Read { register } => {
                let start = usize::from(register.0) * 8;
                self.registers()
                    .0
                    .get(start..start + 8)
                    .map_or(Reply::Error(Failure::Number(1)), |bytes| {
                        Reply::Registers(RegisterBytes(bytes.to_vec()))
                    })
            }
            RegisterRequest::Write { .. } | RegisterRequest::WriteAll { .. } => {
                Reply::Error(Failure::text("the program's registers are what they are"))
            }
        }
    }

    fn memory(&mut self, request: &MemoryRequest) -> Reply {
        let (address, bytes) = match request {
            MemoryRequest::Read { address, length } => {
                let length = usize::try_from(*length).unwrap_or(usize::MAX);
                let length = length.min(PACKET_SIZE / 2);
                let bytes = if self.trace.selected.is_some() {
                    let memory = self.trace.frame_memory(*address, length);
                    memory.with_constant(&self.target.read(*address, length))
                } else {
                    self.target.read(*address, length)
                };
                return if bytes.is_empty() && length > 0 {
                    Reply::Error(Failure::Number(1))
                } else {
                    Reply::Memory(bytes)
                };
            }
            MemoryRequest::Write { address, data } => (*address, &data.0),
            MemoryRequest::WriteBinary { address, data } => (*address, &data.0),
            _ => return Reply::Unsupported,
        };
        if self.trace.selected.is_some() {
            return Reply::Error(Failure::text("A trace frame cannot be written to"));
        }
        let there = self.target.read(address, bytes.len()).len() == bytes.len();
        if there {
            self.target.write(address, bytes);
        }
        done(there)
    }

    fn breakpoint(&mut self, request: &BreakpointRequest) -> Reply {
        match request {
            BreakpointRequest::Insert {
                kind: BreakpointKind::Software,
                address,
                ..
            } => {
                // It has code in sixteen places.
                let code = (CODE.0..CODE.0 + SIZE).contains(&address.0);
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

    fn thread(&mut self, request: &ThreadRequest) -> Reply {
        let meant = |selector: &ThreadSelector| match selector.thread {
            Which::One(thread) => Some(thread),
            Which::Any | Which::All => None,
        };
        match request {
            ThreadRequest::SelectForResuming { thread } | ThreadRequest::Select { thread } => {
                match meant(thread) {
                    Some(thread) if !THREADS.contains(&thread) => {
                        return Reply::Error(Failure::Number(1));
                    }
                    Some(thread) => self.selected = ThreadId(thread),
                    None => {}
                }
                Reply::Ok
            }
            ThreadRequest::IsAlive { thread } => {
                done(meant(thread).is_some_and(|thread| THREADS.contains(&thread)))
            }
            ThreadRequest::Current => {
                Reply::CurrentThread(ThreadSelector::of(PROCESS, self.selected.0))
            }
            ThreadRequest::FirstThreads => Reply::Threads(ThreadList(
                THREADS.map(|id| ThreadSelector::of(PROCESS, id)).to_vec(),
            )),
            ThreadRequest::MoreThreads => Reply::End,
            _ => Reply::Unsupported,
        }
    }

    fn transfer(&mut self, window: &Transfer) -> Reply {
        let Operation::Read { length } = window.operation else {
            return Reply::Unsupported;
        };
        let object = match window.object {
            Object::Features if window.annex == "target.xml" => Some(XML.to_owned()),
            Object::TraceframeInfo => self.trace.frame_info().map(|info| info.to_xml()),
            Object::Features => None,
            _ => return Reply::Unsupported,
        };
        object.map_or(Reply::Error(Failure::Number(1)), |object| {
            let object = object.as_bytes();
            Reply::Chunk(Chunk::window(object, window.offset, length, PACKET_SIZE))
        })
    }

    fn process(&mut self, request: &ProcessRequest) -> Answer {
        match request {
            ProcessRequest::WhyStopped => Reply::Stop(self.stop.clone()).into(),
            ProcessRequest::Attached { .. } => Reply::Attached(true).into(),
            ProcessRequest::Detach { .. } => {
                if !self.trace.outlives_client() {
                    self.trace.stop_for_good(Some(&mut self.target));
                }
                Answer::Last(Reply::Ok)
            }
            _ => Reply::Unsupported.into(),
        }
    }
}

/// The program as it begins.
fn program() -> FakeTarget {
    let mut target = FakeTarget::new(ByteOrder::Little, REGISTERS);
    for start in [CODE, DATA] {
        let bytes: Vec<u8> = (0..SIZE as u8).collect();
        target.map(start, &bytes);
    }
    target
}

impl Responder for FakeSession {
    fn features(&mut self, _client: &FeatureList) -> FeatureList {
        let mut features = FeatureList::default();
        for feature in [
            "multiprocess",
            "qXfer:features:read",
            "qXfer:traceframe-info:read",
            "ConditionalTracepoints",
            "TraceStateVariables",
            "TracepointSource",
            "DisconnectedTracing",
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
            Request::Memory(request) => self.memory(request).into(),
            Request::Register(request) => self.register(request).into(),
            Request::Resume(request) => self.resume(request).into(),
            Request::Breakpoint(request) => self.breakpoint(request).into(),
            Request::Trace(request) => self.trace.answer(request, Some(&mut self.target)).into(),
            Request::Thread(request) => self.thread(request).into(),
            Request::Transfer(TransferRequest::Transfer { window }) => self.transfer(window).into(),
            Request::Process(request) => self.process(request),
            Request::Setting(SettingRequest::NonStop { on: false }) => Reply::Ok.into(),
            _ => Reply::Unsupported.into(),
        }
    }
}
