//! The program and the session with it: which request is answered by what.

use tracewire_experiment::MemoryRead;
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::memory::MemoryRequest;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::family::register::{RegisterBytes, RegisterRequest};
use tracewire_packets::family::setting::{CaughtSyscalls, SettingRequest};
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::family::transfer::TransferRequest;
use tracewire_packets::{
    Failure, HexBytes, Numbers, Reply, Request, Signal, ThreadList, ThreadSelector, Which,
};
use tracewire_target_linux::{CaughtCalls, Interrupter, Process};
use tracewire_tracefile::{Address, RegisterNumber, ThreadId, X86Registers};

use super::breakpoints::{Programs, Words};
use super::files::Files;
use super::signals;
use super::trace::{SaveFolder, Trace};
use crate::session::{Answer, PACKET_SIZE, Responder};

/// A process that is debugged, and a trace experiment on it.
#[derive(Debug)]
pub struct LiveProgram {
    /// None once it has been let go or killed.
    pub(super) process: Option<Process>,
    pub(super) id: u32,
    attached: bool,
    pub(super) registers: X86Registers,
    pub(super) interrupter: Interrupter,
    /// Whose registers are meant (`Hg`).
    pub(super) selected: Option<ThreadId>,
    /// Who goes on when no `vCont` says so (`Hc`).
    pub(super) resumed: ThreadSelector,
    /// Why the program stands.
    pub(super) stop: StopReply,
    pub(super) client: ClientFeatures,
    files: Files,
    pub(super) trace: Trace,
    pub(super) programs: Programs,
    /// Where the words of breakpoint commands go.
    pub(super) words: Words,
}

/// What the client can take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientFeatures {
    pub(super) multiprocess: bool,
    pub(super) software_breakpoints: bool,
    pub(super) hardware_breakpoints: bool,
    pub(super) exec_events: bool,
}

/// The registers that every stop tells of: `rbp`, `rsp` and `rip`.
pub(super) const EXPEDITED: [RegisterNumber; 3] =
    [RegisterNumber(6), RegisterNumber(7), RegisterNumber(16)];

impl LiveProgram {
    /// Takes a process that stands still, and says whether it was attached to: a client that goes lets such a one go,
    /// and kills one that was started for it.
    #[must_use]
    pub fn new(mut process: Process, attached: bool, save: Option<SaveFolder>) -> Self {
        let registers = Process::machine_registers();
        process.set_registers(registers);
        // Until the client says otherwise, it is told of every signal.
        process.pass_signals([]);
        let id = process.id().0;
        let mut program = Self {
            id,
            attached,
            registers,
            interrupter: process.interrupter(),
            selected: None,
            resumed: ThreadSelector::ANY,
            stop: StopReply::Signal(Signal(0)),
            client: ClientFeatures::default(),
            files: Files::default(),
            trace: Trace::new(registers, save),
            programs: Programs::default(),
            words: Words::default(),
            process: Some(process),
        };
        let thread = program.any_thread();
        let signal = if attached { Signal(0) } else { Signal::TRAP };
        program.stop = program.stopped(thread, signal, Vec::new());
        program
    }

    /// The process's number.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Whether there is nothing left to serve.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.process.as_ref().is_none_or(Process::has_ended)
    }

    /// Whether the program is traced on, or prints on, without a client.
    pub(super) fn traces_on(&self) -> bool {
        !self.is_gone() && (self.trace.outlives_client() || self.programs.persist())
    }

    pub(super) fn begin_session(&mut self) {
        if let Some(process) = &self.process {
            process.forget_interruption();
        }
        self.client = ClientFeatures::default();
        self.selected = None;
        self.resumed = ThreadSelector::ANY;
        self.files = Files::default();
        self.trace.selected = None;
    }

    pub(super) fn end_session(&mut self) {
        self.files = Files::default();
        if let Some(process) = &mut self.process {
            self.trace.client_gone(process);
        }
    }

    /// Lets go what was attached to, and kills what was started.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        match self.process.take() {
            Some(process) if self.attached => {
                // It may have ended; there is nobody to tell of anything else.
                let _ = process.detach();
            }
            Some(process) => process.kill(),
            None => {}
        }
    }

    pub(super) fn any_thread(&self) -> ThreadId {
        let own = ThreadId(self.id);
        self.process
            .as_ref()
            .and_then(|process| process.own_threads().next())
            .unwrap_or(own)
    }

    /// The thread that registers are read from.
    pub(super) fn thread(&self) -> ThreadId {
        self.selected
            .filter(|thread| self.is_alive(*thread))
            .unwrap_or_else(|| self.any_thread())
    }

    fn is_alive(&self, thread: ThreadId) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| process.own_threads().any(|own| own == thread))
    }

    pub(super) fn selector(&self, thread: ThreadId) -> ThreadSelector {
        ThreadSelector {
            process: self.client.multiprocess.then_some(Which::One(self.id)),
            thread: Which::One(thread.0),
        }
    }

    fn thread_request(&mut self, request: &ThreadRequest) -> Reply {
        let meant = |selector: &ThreadSelector| match selector.thread {
            Which::One(thread) => Some(ThreadId(thread)),
            Which::Any | Which::All => None,
        };
        match request {
            ThreadRequest::SelectForResuming { thread } => {
                self.resumed = *thread;
                Reply::Ok
            }
            ThreadRequest::Select { thread } => match meant(thread) {
                Some(thread) if !self.is_alive(thread) => Reply::Error(Failure::Number(1)),
                thread => {
                    self.selected = thread;
                    Reply::Ok
                }
            },
            ThreadRequest::IsAlive { thread } => {
                if meant(thread).is_some_and(|thread| self.is_alive(thread)) {
                    Reply::Ok
                } else {
                    Reply::Error(Failure::Number(1))
                }
            }
            ThreadRequest::Current => Reply::CurrentThread(self.selector(self.thread())),
            ThreadRequest::FirstThreads => {
                let threads: Vec<ThreadSelector> = match &self.process {
                    Some(process) => process
                        .own_threads()
                        .map(|thread| self.selector(thread))
                        .collect(),
                    None => Vec::new(),
                };
                if threads.is_empty() {
                    Reply::End
                } else {
                    Reply::Threads(ThreadList(threads))
                }
            }
            ThreadRequest::MoreThreads => Reply::End,
            _ => Reply::Unsupported,
        }
    }

    /// Memory of the program, as far as it can be read.
    pub(super) fn live_memory(&mut self, address: Address, length: usize) -> Vec<u8> {
        let Some(process) = self.process.as_mut().filter(|process| !process.has_ended()) else {
            return Vec::new();
        };
        let mut piece = [MemoryRead {
            address,
            bytes: vec![0; length],
            filled: 0,
        }];
        process.read_memory(&mut piece);
        let [
            MemoryRead {
                mut bytes, filled, ..
            },
        ] = piece;
        bytes.truncate(filled);
        bytes
    }

    fn memory(&mut self, address: Address, length: u64, most: usize) -> Vec<u8> {
        let length = usize::try_from(length).unwrap_or(most).min(most);
        if self.trace.selected.is_some() {
            self.frame_memory(address, length)
        } else {
            self.live_memory(address, length)
        }
    }

    fn memory_request(&mut self, request: &MemoryRequest) -> Reply {
        match request {
            MemoryRequest::Read { address, length } => {
                let bytes = self.memory(*address, *length, PACKET_SIZE / 2);
                if bytes.is_empty() && *length > 0 {
                    Reply::Error(Failure::Number(1))
                } else {
                    Reply::Memory(bytes)
                }
            }
            MemoryRequest::Write { address, data } => self.write(*address, &data.0),
            MemoryRequest::WriteBinary { address, data } => self.write(*address, &data.0),
            _ => Reply::Unsupported,
        }
    }

    fn write(&mut self, address: Address, bytes: &[u8]) -> Reply {
        if bytes.is_empty() {
            return Reply::Ok;
        }
        if self.trace.selected.is_some() {
            return Reply::Error(Failure::text("A trace frame cannot be written to"));
        }
        let written = self
            .process
            .as_mut()
            .is_some_and(|process| process.write_memory(address, bytes).is_ok());
        done(written)
    }

    /// All registers of the selected thread, or of the selected frame.
    fn all_registers(&mut self) -> Option<RegisterBytes> {
        if self.trace.selected.is_some() {
            return self.frame_registers();
        }
        let thread = self.thread();
        let block = self.process.as_mut()?.register_block(thread)?;
        Some(RegisterBytes::known(&block))
    }

    fn register_request(&mut self, request: &RegisterRequest) -> Reply {
        let failed = || Reply::Error(Failure::Number(1));
        match request {
            RegisterRequest::ReadAll => self.all_registers().map_or_else(failed, Reply::Registers),
            RegisterRequest::Read { register } => {
                let Some((start, size)) = self
                    .process
                    .as_ref()
                    .and_then(|process| process.register_place(*register))
                else {
                    return failed();
                };
                self.all_registers()
                    .and_then(|all| Some(all.0.get(start..start + size)?.to_vec()))
                    .map_or_else(failed, |bytes| Reply::Registers(RegisterBytes(bytes)))
            }
            RegisterRequest::Write { .. } | RegisterRequest::WriteAll { .. }
                if self.trace.selected.is_some() =>
            {
                Reply::Error(Failure::text("A trace frame cannot be written to"))
            }
            RegisterRequest::WriteAll { bytes } => done(self.set_registers(0, &bytes.0)),
            RegisterRequest::Write { register, bytes } => {
                let place = self
                    .process
                    .as_ref()
                    .and_then(|process| process.register_place(*register));
                match place {
                    Some((start, size)) if size == bytes.0.len() => {
                        done(self.set_registers(start, &bytes.0))
                    }
                    _ => failed(),
                }
            }
        }
    }

    fn set_registers(&mut self, start: usize, bytes: &[u8]) -> bool {
        let thread = self.thread();
        let Some(process) = &mut self.process else {
            return false;
        };
        let Some(mut block) = process.register_block(thread) else {
            return false;
        };
        for (byte, new) in block.iter_mut().skip(start).zip(bytes) {
            *byte = *new;
        }
        process.set_register_block(thread, &block).is_some()
    }

    fn process_request(&mut self, request: &ProcessRequest) -> Answer {
        match request {
            ProcessRequest::WhyStopped => Reply::Stop(self.stop.clone()).into(),
            ProcessRequest::Attached { .. } => Reply::Attached(self.attached).into(),
            ProcessRequest::Detach { process } => {
                if process.is_some_and(|process| process != self.id) {
                    return Reply::Error(Failure::Number(1)).into();
                }
                if self.traces_on() {
                    return Answer::Last(Reply::Ok);
                }
                self.trace.stop_for_good(self.process.as_mut());
                match self.process.take().map(Process::detach) {
                    None | Some(Ok(())) => Answer::Last(Reply::Ok),
                    Some(Err(error)) => {
                        Answer::Last(Reply::Error(Failure::text(&error.to_string())))
                    }
                }
            }
            ProcessRequest::KillOne { process } => {
                if *process != self.id {
                    return Reply::Error(Failure::Number(1)).into();
                }
                if let Some(process) = self.process.take() {
                    process.kill();
                }
                Answer::Last(Reply::Ok)
            }
            ProcessRequest::Kill => {
                if let Some(process) = self.process.take() {
                    process.kill();
                }
                Answer::End
            }
            ProcessRequest::Symbol { .. } => Reply::Ok.into(),
            ProcessRequest::Monitor { command } => monitor(command),
            _ => Reply::Unsupported.into(),
        }
    }

    fn setting(&mut self, request: &SettingRequest) -> Reply {
        match request {
            SettingRequest::PassSignals {
                signals: Numbers { list, .. },
            } => {
                if let Some(process) = &mut self.process {
                    process.pass_signals(signals::named(list));
                }
                Reply::Ok
            }
            SettingRequest::ProgramSignals {
                signals: Numbers { list, .. },
            } => {
                if let Some(process) = &mut self.process {
                    process.program_signals(signals::named(list));
                }
                Reply::Ok
            }
            SettingRequest::CatchSyscalls { what } => {
                if let Some(process) = &mut self.process {
                    process.catch_system_calls(match what {
                        CaughtSyscalls::None => CaughtCalls::None,
                        CaughtSyscalls::All => CaughtCalls::All,
                        CaughtSyscalls::These(numbers) => {
                            CaughtCalls::These(numbers.iter().copied().collect())
                        }
                    });
                }
                Reply::Ok
            }
            SettingRequest::NonStop { on: false } => Reply::Ok,
            _ => Reply::Unsupported,
        }
    }
}

const HELP: &str = "monitor exit -- End the server, and the program unless it was attached to\n\
                    monitor help -- This text\n";

fn monitor(HexBytes(command): &HexBytes) -> Answer {
    let text = match command.trim_ascii() {
        b"exit" => return Answer::Last(Reply::Ok),
        b"help" => HELP.to_owned(),
        _ => format!("Unknown monitor command.\n{HELP}"),
    };
    Answer::Output(text, Reply::Ok)
}

pub(super) fn done(yes: bool) -> Reply {
    if yes {
        Reply::Ok
    } else {
        Reply::Error(Failure::Number(1))
    }
}

impl Responder for LiveProgram {
    fn features(&mut self, client: &FeatureList) -> FeatureList {
        self.client = ClientFeatures {
            multiprocess: client.supports("multiprocess"),
            software_breakpoints: client.supports("swbreak"),
            hardware_breakpoints: client.supports("hwbreak"),
            exec_events: client.supports("exec-events"),
        };
        let mut features = FeatureList::default();
        for feature in [
            "QPassSignals",
            "QProgramSignals",
            "qXfer:auxv:read",
            "qXfer:siginfo:read",
            "qXfer:features:read",
            "qXfer:threads:read",
            "qXfer:exec-file:read",
            "qXfer:traceframe-info:read",
            "multiprocess",
            "exec-events",
            "swbreak",
            "hwbreak",
            "ConditionalBreakpoints",
            "BreakpointCommands",
            "QCatchSyscalls",
            "vContSupported",
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
            Request::Memory(request) => self.memory_request(request).into(),
            Request::Register(request) => self.register_request(request).into(),
            Request::Resume(request) => self.resume_request(request).into(),
            Request::Breakpoint(request) => match &mut self.process {
                Some(process) => self.programs.respond(process, request).into(),
                None => Reply::Error(Failure::Number(1)).into(),
            },
            Request::Trace(request) => self.trace_request(request).into(),
            Request::Thread(request) => self.thread_request(request).into(),
            Request::Transfer(TransferRequest::Transfer { window }) => self.transfer(window).into(),
            Request::File(request) => self.files.respond(request).into(),
            Request::Process(request) => self.process_request(request),
            Request::Setting(request) => self.setting(request).into(),
            Request::FileIo(_) | Request::Feature(_) | Request::Unknown(_) => {
                Reply::Unsupported.into()
            }
        }
    }
}

impl Drop for LiveProgram {
    fn drop(&mut self) {
        self.end();
    }
}
