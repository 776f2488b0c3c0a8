//! The program and the session with it: which request is answered by what.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tracewire_arch::{Architecture, X86Registers};
use tracewire_experiment::Mechanism;
use tracewire_model::{RegisterNumber, ThreadId};
use tracewire_packets::family::breakpoint::BreakpointRequest;
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::resume::ResumeRequest;
use tracewire_packets::family::setting::{CaughtSyscalls, SettingRequest};
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::{Numbers, Reply, Request, ThreadSelector, Which};
use tracewire_target_linux::{CaughtCalls, Interrupter, Launch, Process, await_end};

use super::breakpoints::{Programs, Words};
use super::connection::Attention;
use super::ender::Ender;
use super::files::Files;
use super::inferiors::Inferiors;
use super::markers::Markers;
use super::monitor::Diagnostics;
use super::non_stop::NonStop;
use super::osdata::OsTables;
use super::run::Told;
use super::signals;
use super::trace_requests::Relocations;
use crate::answers::{FAILED, respond};
use crate::session::{Answer, Responder, Unasked};
use crate::trace::{SaveFolder, Trace, TraceMachine, announce_frames, announce_runs};

/// The processes that are debugged, and a trace experiment on one of them.
#[derive(Debug)]
pub struct LiveProgram {
    pub(super) inferiors: Inferiors,
    /// The program that is started, or was last.
    pub(super) launch: Launch,
    /// The connection outlives the programs (`target extended-remote`).
    pub(super) extended: bool,
    /// Where what a user of the server should know goes.
    notices: fn(&str),
    /// The processes that were attached to and that no client has let go on yet.
    pub(super) untouched: BTreeSet<u32>,
    /// A program that was started and let go, whose end is waited for.
    pub(super) left_behind: Option<u32>,
    pub(super) disabled: DisabledPackets,
    pub(super) relocations: Relocations,
    pub(super) registers: X86Registers,
    /// What was told of threads that stand since.
    pub(super) told: BTreeMap<ThreadId, Told>,
    /// The thread that was last told of.
    pub(super) last: Option<ThreadId>,
    pub(super) client: ClientFeatures,
    files: Files,
    pub(super) diagnostics: Diagnostics,
    pub(super) os_tables: OsTables,
    pub(super) trace: Trace,
    pub(super) programs: Programs,
    pub(super) markers: Markers,
    /// Where the words of breakpoint commands go.
    pub(super) words: Words,
    pub(super) non_stop: NonStop,
    pub(super) ender: Ender,
    pub(super) attention: Arc<Attention>,
}

/// Packets that are not understood, to see what a debugger does then (`--disable-packet`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DisabledPackets {
    /// `vCont`.
    pub resume: bool,
    /// Threads in stop replies.
    pub stopped_thread: bool,
    /// `qC`.
    pub current_thread: bool,
    /// `qfThreadInfo`.
    pub thread_list: bool,
    /// `T` stop replies, with `S` in their place.
    pub stop_fields: bool,
    /// `qRelocInsn`, which we send: no instruction is given to the client to be copied.
    pub relocation: bool,
}

impl DisabledPackets {
    /// Whether a request is not understood.
    const fn includes(&self, request: &Request) -> bool {
        match request {
            Request::Resume(ResumeRequest::Supported | ResumeRequest::Continue { .. }) => {
                self.resume
            }
            Request::Thread(ThreadRequest::Current) => self.current_thread,
            Request::Thread(ThreadRequest::FirstThreads | ThreadRequest::MoreThreads) => {
                self.thread_list
            }
            _ => false,
        }
    }
}

/// What the client can take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientFeatures {
    pub(super) multiprocess: bool,
    pub(super) software_breakpoints: bool,
    pub(super) hardware_breakpoints: bool,
    pub(super) exec_events: bool,
    pub(super) none_resumed: bool,
    /// It copies instructions.
    pub(super) relocates: bool,
}

/// The registers that every stop tells of: `rbp`, `rsp` and `rip`, or `esp`, `ebp` and `eip`.
pub(super) const fn expedited(architecture: Architecture) -> [RegisterNumber; 3] {
    match architecture {
        Architecture::I386 => [RegisterNumber(4), RegisterNumber(5), RegisterNumber(8)],
        _ => [RegisterNumber(6), RegisterNumber(7), RegisterNumber(16)],
    }
}

/// The file of a process's program, by the name that the process itself would know it by.
pub(super) fn program_file(process: u32) -> Option<Vec<u8>> {
    let file = std::fs::read_link(format!("/proc/{process}/exe")).ok()?;
    let root = std::fs::read_link(format!("/proc/{process}/root")).ok();
    let own = root
        .filter(|root| root.parent().is_some())
        .and_then(|root| Some(Path::new("/").join(file.strip_prefix(root).ok()?)));
    let name = own.unwrap_or(file);
    Some(name.into_os_string().into_encoded_bytes())
}

impl LiveProgram {
    /// What a session announces, whatever the client.
    pub(super) fn announced() -> FeatureList {
        let mut features = FeatureList::default();
        for feature in [
            "QPassSignals",
            "QProgramSignals",
            "qXfer:auxv:read",
            "qXfer:siginfo:read",
            "qXfer:siginfo:write",
            "qXfer:libraries-svr4:read",
            "augmented-libraries-svr4-read",
            "qXfer:osdata:read",
            "qXfer:features:read",
            "qXfer:threads:read",
            "qXfer:exec-file:read",
            "multiprocess",
            "fork-events",
            "vfork-events",
            "exec-events",
            "QThreadEvents",
            "QStartupWithShell",
            "QEnvironmentHexEncoded",
            "QEnvironmentReset",
            "QEnvironmentUnset",
            "QSetWorkingDir",
            "QDisableRandomization",
            "QNonStop",
            "vCont",
            "no-resumed",
            "swbreak",
            "hwbreak",
            "ConditionalBreakpoints",
            "BreakpointCommands",
            "QCatchSyscalls",
            "vContSupported",
        ] {
            features.announce(feature);
        }
        announce_frames(&mut features, true);
        announce_runs(&mut features, true);
        features
    }

    /// What a client is to do that has just given the server's token.
    pub(super) fn hint(&self) -> String {
        let processes = self.inferiors.ids();
        match processes.as_slice() {
            [] => "You are let in.\n".to_owned(),
            processes => {
                let numbers: Vec<String> = processes.iter().map(u32::to_string).collect();
                format!("You are let in. In GDB: attach {}\n", numbers.join(" or "))
            }
        }
    }

    /// Nothing to debug yet; what is started when nothing else is said, where clients may have traces saved, and where
    /// what the user of the server should know goes, line by line: gdbserver's own words, for scripts that wait for them.
    #[must_use]
    pub fn new(launch: Launch, save: Option<SaveFolder>, notices: fn(&str)) -> Self {
        let registers = Process::machine_registers();
        let mut trace = Trace::new(TraceMachine::x86(registers, Architecture::X86_64), save);
        trace.markers = true;
        let inferiors = Inferiors::new(registers);
        Self {
            ender: Ender::new(inferiors.tracees.interrupter()),
            inferiors,
            launch,
            extended: false,
            notices,
            untouched: BTreeSet::new(),
            left_behind: None,
            disabled: DisabledPackets::default(),
            relocations: Relocations::default(),
            registers,
            told: BTreeMap::new(),
            last: None,
            client: ClientFeatures::default(),
            files: Files::default(),
            diagnostics: Diagnostics::default(),
            os_tables: OsTables::default(),
            trace,
            programs: Programs::default(),
            markers: Markers::default(),
            words: Words::default(),
            non_stop: NonStop::default(),
            attention: Arc::default(),
        }
    }

    /// Chooses what serves tracepoints: by default jumps where they can be, else traps.
    pub fn set_mechanism(&mut self, mechanism: Mechanism) {
        self.trace.experiment.set_mechanism(mechanism);
    }

    /// Has packets not understood, as an older stub would not.
    pub const fn disable(&mut self, disabled: DisabledPackets) {
        self.disabled = disabled;
    }

    /// Tells the server's user something.
    pub(super) fn tell(&self, text: &str) {
        (self.notices)(text);
    }

    /// A handle that ends the service from another thread.
    #[must_use]
    pub fn ender(&self) -> Ender {
        self.ender.clone()
    }

    pub(super) fn interrupter(&self) -> Interrupter {
        self.inferiors.tracees.interrupter()
    }

    /// Whether there is nothing left to serve.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.inferiors.is_empty()
    }

    /// Whether the program is traced on, or prints on, without a client.
    pub(super) fn traces_on(&self) -> bool {
        !self.is_gone() && (self.trace.outlives_client() || self.programs.persist())
    }

    pub(super) fn begin_session(&mut self) {
        self.set_non_stop(false);
        // What ran without a client stands for the new one.
        self.stand();
        self.attention.stop_is_wanted();
        self.inferiors.begin_session();
        self.client = ClientFeatures::default();
        self.files = Files::new(self.trace.folder());
        self.trace.selected = None;
    }

    /// The client has gone; whether something runs on. Nothing is stopped for it.
    pub(super) fn end_session(&mut self) -> bool {
        self.files = Files::default();
        let trace = &mut self.trace;
        if let Some(process) = self.inferiors.traced_mut() {
            // What cannot be stopped now is stopped when it stands.
            let _ = process.at_rest(|process| trace.client_gone(process));
        }
        self.inferiors.tracees.any_runs()
    }

    /// Lets go what was attached to, and kills what was started. Then waits for the end of what was started and let go as
    /// the last, as gdbserver does: whoever has started the server may take its end for the program's. In extended mode the
    /// server is there for any number of programs, and ends when it is told to.
    pub fn finish(mut self) {
        self.end();
        if let Some(process) = self.left_behind.take()
            && !self.extended
        {
            await_end(ThreadId(process));
        }
    }

    fn end(&mut self) {
        let (attached, started): (Vec<u32>, Vec<u32>) = self
            .inferiors
            .ids()
            .into_iter()
            .partition(|process| self.inferiors.was_attached(*process) == Some(true));
        for (words, processes) in [
            ("Killing process(es):", &started),
            ("Detaching process(es):", &attached),
        ] {
            if !processes.is_empty() {
                let numbers: Vec<String> = processes.iter().map(u32::to_string).collect();
                self.tell(&format!("{words} {}", numbers.join(" ")));
            }
        }
        for process in started {
            self.kill(process);
        }
        for process in attached {
            // It may have ended; there is nobody to tell of anything else.
            let _ = self.let_process_go(process);
        }
    }

    /// The machine of the program that is selected.
    pub(super) fn machine(&self) -> TraceMachine {
        let architecture = self
            .inferiors
            .process()
            .map_or(Architecture::X86_64, Process::architecture);
        TraceMachine::x86(self.registers, architecture)
    }

    /// The thread that registers are read from; 0 when there is none.
    pub(super) fn thread(&self) -> ThreadId {
        self.inferiors.thread().unwrap_or(ThreadId(0))
    }

    pub(super) fn selector(&self, process: u32, thread: ThreadId) -> ThreadSelector {
        ThreadSelector {
            process: self.client.multiprocess.then_some(Which::One(process)),
            thread: Which::One(thread.0),
        }
    }

    fn breakpoint_request(&mut self, request: &BreakpointRequest) -> Reply {
        let reply = self.inferiors.process_mut().and_then(|process| {
            process
                .at_rest(|process| self.programs.respond(process, request))
                .ok()
        });
        self.diagnostics.hardware(|| {
            let uses = self.inferiors.process().map(Process::watches);
            format!("{request:?}: debug registers {uses:x?}")
        });
        reply.unwrap_or(FAILED)
    }

    fn setting(&mut self, request: &SettingRequest) -> Reply {
        if let Some(reply) = self.launch_setting(request) {
            return reply;
        }
        match request {
            SettingRequest::PassSignals {
                signals: Numbers { list, .. },
            } => {
                self.inferiors
                    .set(|wishes| wishes.passed = Some(signals::named(list).collect()));
                Reply::Ok
            }
            SettingRequest::ProgramSignals {
                signals: Numbers { list, .. },
            } => {
                self.inferiors
                    .set(|wishes| wishes.wanted = Some(signals::named(list).collect()));
                Reply::Ok
            }
            SettingRequest::CatchSyscalls { what } => {
                let caught = match what {
                    CaughtSyscalls::None => CaughtCalls::None,
                    CaughtSyscalls::All => CaughtCalls::All,
                    CaughtSyscalls::These(numbers) => {
                        CaughtCalls::These(numbers.iter().copied().collect())
                    }
                };
                // A child by vfork, in whose parent's memory we are, is not the one that is meant.
                let current = self.inferiors.current();
                if let Some(process) = self
                    .inferiors
                    .process_mut()
                    .filter(|process| Some(process.id().0) == current)
                {
                    process.catch_system_calls(caught);
                }
                Reply::Ok
            }
            SettingRequest::NonStop { on } => {
                self.set_non_stop(*on);
                Reply::Ok
            }
            SettingRequest::ThreadEvents { on } => {
                self.inferiors.set(|wishes| wishes.reports.threads = *on);
                Reply::Ok
            }
            _ => Reply::Unsupported,
        }
    }
}

impl Responder for LiveProgram {
    fn features(&mut self, client: &FeatureList) -> FeatureList {
        self.client = ClientFeatures {
            multiprocess: client.supports("multiprocess"),
            software_breakpoints: client.supports("swbreak"),
            hardware_breakpoints: client.supports("hwbreak"),
            exec_events: client.supports("exec-events"),
            none_resumed: client.supports("no-resumed"),
            relocates: client.supports("qRelocInsn"),
        };
        self.inferiors.set(|wishes| {
            wishes.reports.forks = client.supports("fork-events");
            wishes.reports.vforks = client.supports("vfork-events");
        });
        Self::announced()
    }

    /// Nothing runs, for what has stopped by itself is being told of, perhaps: the next run is stopped.
    fn interrupted(&mut self) {
        if !self.non_stop.on {
            self.attention.owe_stop();
        }
    }

    fn unasked(&mut self) -> Unasked {
        self.await_news()
    }

    fn respond(&mut self, request: &Request) -> Answer {
        match request {
            request if self.disabled.includes(request) => Reply::Unsupported.into(),
            Request::Trace(request) => self.trace_request(request).into(),
            Request::Resume(request) => self.resume_request(request),
            Request::Breakpoint(request) => self.breakpoint_request(request).into(),
            Request::Process(request) => self.process_request(request),
            Request::Setting(request) => self.setting(request).into(),
            Request::File(request) => self.files.respond(request).into(),
            request => respond(self, request),
        }
    }
}

impl Drop for LiveProgram {
    fn drop(&mut self) {
        self.end();
    }
}
