//! The features that the client supports, and the packets that are disabled.

use tracewire_model::ThreadId;
use tracewire_packets::family::features::FeatureList;
use tracewire_packets::family::resume::ResumeRequest;
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::family::thread::ThreadRequest;
use tracewire_packets::{Request, Signal, ThreadSelector, Which};

use crate::trace::{announce_frames, announce_runs};

/// Packets that are treated as unknown, to test a debugger (`--disable-packet`).
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
    /// `qRelocInsn`, which we send: the client copies no instructions.
    pub relocation: bool,
}

/// The part of the protocol that a session uses.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    disabled: DisabledPackets,
    client: Client,
}

/// The client's features.
#[derive(Clone, Copy, Debug, Default)]
struct Client {
    multiprocess: bool,
    software_breakpoints: bool,
    hardware_breakpoints: bool,
    exec_events: bool,
    none_resumed: bool,
    /// It copies instructions.
    relocates: bool,
}

/// The features that a session announces to any client.
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

impl Dialect {
    pub(super) const fn disable(&mut self, disabled: DisabledPackets) {
        self.disabled = disabled;
    }

    /// A client begins.
    pub(super) fn forget_client(&mut self) {
        self.client = Client::default();
    }

    /// Stores the features that the client announces.
    pub(super) fn learn(&mut self, features: &FeatureList) {
        self.client = Client {
            multiprocess: features.supports("multiprocess"),
            software_breakpoints: features.supports("swbreak"),
            hardware_breakpoints: features.supports("hwbreak"),
            exec_events: features.supports("exec-events"),
            none_resumed: features.supports("no-resumed"),
            relocates: features.supports("qRelocInsn"),
        };
    }

    /// Whether a request is understood.
    pub(super) const fn understands(&self, request: &Request) -> bool {
        !match request {
            Request::Resume(ResumeRequest::Supported | ResumeRequest::Continue { .. }) => {
                self.disabled.resume
            }
            Request::Thread(ThreadRequest::Current) => self.disabled.current_thread,
            Request::Thread(ThreadRequest::FirstThreads | ThreadRequest::MoreThreads) => {
                self.disabled.thread_list
            }
            _ => false,
        }
    }

    /// A process, if the client supports several.
    pub(super) fn process(&self, process: u32) -> Option<u32> {
        self.client.multiprocess.then_some(process)
    }

    pub(super) fn selector(&self, process: u32, thread: ThreadId) -> ThreadSelector {
        ThreadSelector {
            process: self.process(process).map(Which::One),
            thread: Which::One(thread.0),
        }
    }

    /// Whether the client can take a reason for a stop.
    pub(super) const fn takes(&self, field: &StopField) -> bool {
        match field {
            StopField::SoftwareBreakpoint => self.client.software_breakpoints,
            StopField::HardwareBreakpoint => self.client.hardware_breakpoints,
            StopField::Exec(_) => self.client.exec_events,
            _ => true,
        }
    }

    /// Whether the client supports the report that nothing runs.
    pub(super) const fn reports_none_resumed(&self) -> bool {
        self.client.none_resumed
    }

    /// Whether the client copies instructions.
    pub(super) const fn relocates(&self) -> bool {
        self.client.relocates && !self.disabled.relocation
    }

    /// A stop of a thread on a cpu.
    pub(super) fn stop(
        &self,
        signal: Signal,
        mut fields: Vec<StopField>,
        thread: ThreadSelector,
        cpu: u32,
    ) -> StopReply {
        if self.disabled.stop_fields {
            return StopReply::Signal(signal);
        }
        if !self.disabled.stopped_thread {
            fields.push(StopField::Thread(thread));
            fields.push(StopField::Core(cpu));
        }
        StopReply::Stopped { signal, fields }
    }
}
