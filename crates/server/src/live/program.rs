//! The program and its session, with the dispatch of requests.

use std::path::Path;
use std::sync::Arc;

use tracewire_arch::Architecture;
use tracewire_experiment::Mechanism;
use tracewire_model::{RegisterNumber, ThreadId};
use tracewire_packets::family::breakpoint::BreakpointRequest;
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::setting::{CaughtSyscalls, SettingRequest};
use tracewire_packets::{Numbers, Reply, Request};
use tracewire_target_linux::{CaughtCalls, Interrupter, Launch, Process, await_end};

use super::breakpoints::Breakpoints;
use super::connection::Attention;
use super::dialect::{Dialect, DisabledPackets, announced};
use super::files::Files;
use super::inferiors::Inferiors;
use super::launcher::Launcher;
use super::monitor::Diagnostics;
use super::non_stop::NonStop;
use super::osdata::OsTables;
use super::signals;
use super::stops::Stops;
use super::tracing::Tracing;
use crate::answers::{FAILED, respond};
use crate::session::{Answer, Responder, Unsolicited};
use crate::shutdown::ShutdownHandle;
use crate::trace::{SaveFolder, TraceMachine};

/// The processes that are debugged, and a trace experiment on one of them.
#[derive(Debug)]
pub struct LiveProgram {
    pub(super) inferiors: Inferiors,
    pub(super) launcher: Launcher,
    pub(super) dialect: Dialect,
    pub(super) stops: Stops,
    pub(super) non_stop: NonStop,
    pub(super) breakpoints: Breakpoints,
    pub(super) tracing: Tracing,
    files: Files,
    pub(super) os_tables: OsTables,
    pub(super) diagnostics: Diagnostics,
    pub(super) shutdown: ShutdownHandle,
    pub(super) attention: Arc<Attention>,
}

/// The registers in every stop reply: `rbp`, `rsp` and `rip`, or `esp`, `ebp` and `eip`.
pub(super) const fn expedited(architecture: Architecture) -> [RegisterNumber; 3] {
    match architecture {
        Architecture::I386 => [RegisterNumber(4), RegisterNumber(5), RegisterNumber(8)],
        _ => [RegisterNumber(6), RegisterNumber(7), RegisterNumber(16)],
    }
}

/// The path of a process's program, as the process sees it.
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
    /// The hint for a client that has just sent the server's token.
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

    /// A server without a program yet. `launch` is the default for what is started, and `save` is where clients may
    /// save traces. `notices` gets messages for the server's user, line by line, in gdbserver's wording, for scripts
    /// that wait for them.
    #[must_use]
    pub fn new(launch: Launch, save: Option<SaveFolder>, notices: fn(&str)) -> Self {
        let registers = Process::machine_registers();
        let inferiors = Inferiors::new(registers);
        Self {
            shutdown: ShutdownHandle::new(Some(inferiors.tracees.interrupter())),
            inferiors,
            launcher: Launcher::new(launch),
            dialect: Dialect::default(),
            stops: Stops::default(),
            non_stop: NonStop::default(),
            breakpoints: Breakpoints::default(),
            tracing: Tracing::new(
                TraceMachine::x86(registers, Architecture::X86_64),
                save,
                notices,
            ),
            files: Files::default(),
            os_tables: OsTables::default(),
            diagnostics: Diagnostics::new(notices),
            attention: Arc::default(),
        }
    }

    /// Chooses the mechanism for tracepoints: by default jumps where possible, else traps.
    pub fn set_mechanism(&mut self, mechanism: Mechanism) {
        self.tracing.trace.experiment.set_mechanism(mechanism);
    }

    /// Has packets not understood, as an older stub would not.
    pub const fn disable(&mut self, disabled: DisabledPackets) {
        self.dialect.disable(disabled);
    }

    /// Sends a message to the server's user.
    pub(super) fn notify(&self, text: &str) {
        self.diagnostics.notify(text);
    }

    /// A handle that ends the service from another thread.
    #[must_use]
    pub fn shutdown(&self) -> ShutdownHandle {
        self.shutdown.clone()
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
        !self.is_gone() && (self.tracing.trace.outlives_client() || self.breakpoints.persist())
    }

    pub(super) fn begin_session(&mut self) {
        self.set_non_stop(false);
        // Programs that ran without a client are stopped for the new one.
        self.stop_all();
        self.attention.stop_is_wanted();
        self.inferiors.begin_session();
        self.dialect.forget_client();
        self.files = Files::new(self.tracing.trace.folder());
        self.tracing.trace.select_program();
    }

    /// The client has gone. Returns whether something runs on. Nothing is stopped for it.
    pub(super) fn end_session(&mut self) -> bool {
        self.files = Files::default();
        let trace = &mut self.tracing.trace;
        if let Some(process) = self.inferiors.traced_mut() {
            // A program that cannot be stopped now is stopped at its next stop.
            let _ = process.at_rest(|process| trace.client_gone(process));
        }
        self.inferiors.tracees.any_runs()
    }

    /// Detaches from what was attached to, and kills what was started. Then waits for the end of the last program that
    /// was started and detached, as gdbserver does: a script that has started the server may take its end for the
    /// program's. In extended mode the server serves any number of programs, and ends on request.
    pub fn finish(mut self) {
        self.end();
        if let Some(process) = self.launcher.awaited() {
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
                self.notify(&format!("{words} {}", numbers.join(" ")));
            }
        }
        for process in started {
            self.kill(process);
        }
        for process in attached {
            // It may have ended; another error could not be reported to anyone.
            let _ = self.let_process_go(process);
        }
    }

    /// The machine of the program that is selected.
    pub(super) fn machine(&self) -> TraceMachine {
        let architecture = self
            .inferiors
            .process()
            .map_or(Architecture::X86_64, Process::architecture);
        TraceMachine::x86(self.inferiors.registers(), architecture)
    }

    /// The thread that registers are read from; 0 when there is none.
    pub(super) fn thread(&self) -> ThreadId {
        self.inferiors.thread().unwrap_or(ThreadId(0))
    }

    fn breakpoint_request(&mut self, request: &BreakpointRequest) -> Reply {
        let reply = self.inferiors.process_mut().and_then(|process| {
            process
                .at_rest(|process| self.breakpoints.respond(process, request))
                .ok()
        });
        self.diagnostics.hardware(|| {
            let uses = self.inferiors.process().map(Process::watches);
            format!("{request:?}: debug registers {uses:x?}")
        });
        reply.unwrap_or(FAILED)
    }

    fn setting(&mut self, request: &SettingRequest) -> Reply {
        if let Some(reply) = self.launcher.set(request) {
            return reply;
        }
        match request {
            SettingRequest::PassSignals {
                signals: Numbers { list, .. },
            } => {
                self.inferiors.pass_signals(signals::named(list).collect());
                Reply::Ok
            }
            SettingRequest::ProgramSignals {
                signals: Numbers { list, .. },
            } => {
                let signals = signals::named(list).collect();
                self.inferiors.program_signals(signals);
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
                self.inferiors.report_threads(*on);
                Reply::Ok
            }
            _ => Reply::Unsupported,
        }
    }
}

impl Responder for LiveProgram {
    fn features(&mut self, client: &FeatureList) -> FeatureList {
        self.dialect.learn(client);
        let forks = client.supports("fork-events");
        let vforks = client.supports("vfork-events");
        self.inferiors.report_forks(forks, vforks);
        announced()
    }

    /// Nothing runs: a stop may be about to be reported. The next run is interrupted.
    fn interrupted(&mut self) {
        if !self.non_stop.on {
            self.attention.owe_stop();
        }
    }

    fn unsolicited(&mut self) -> Unsolicited {
        self.await_news()
    }

    fn respond(&mut self, request: &Request) -> Answer {
        match request {
            request if !self.dialect.understands(request) => Reply::Unsupported.into(),
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
