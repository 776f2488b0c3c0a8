//! Tracing the live program: the tracepoint packets, on a program that may be running.

use tracewire_model::{Address, TracepointKind};
use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, Reply};

use super::breakpoints::{Breakpoints, Handler};
use super::markers::Markers;
use super::program::LiveProgram;
use crate::trace::{SaveFolder, Trace, TraceMachine};

/// The experiment, and its state in a live program.
#[derive(Debug)]
pub(super) struct Tracing {
    pub(super) trace: Trace,
    markers: Markers,
    relocations: Relocations,
}

impl Tracing {
    pub(super) fn new(machine: TraceMachine, save: Option<SaveFolder>, notices: fn(&str)) -> Self {
        let trace = Trace::new(machine, save);
        Self {
            trace: trace.with_markers().with_notices(notices),
            markers: Markers::default(),
            relocations: Relocations::default(),
        }
    }

    /// The handler of hits while the program runs.
    pub(super) fn handler<'h>(&'h mut self, breakpoints: &'h Breakpoints) -> Handler<'h> {
        Handler {
            experiment: &mut self.trace.experiment,
            breakpoints,
            markers: &self.markers.values,
        }
    }
}

/// The instructions that the client is asked to copy (`qRelocInsn`) before a run starts.
#[derive(Debug, Default)]
struct Relocations {
    /// The instructions that it has not been asked for.
    left: Vec<Address>,
    /// The instruction that it is asked for now.
    asked: Option<Address>,
}

impl LiveProgram {
    pub(super) fn trace_request(&mut self, request: &TraceRequest) -> Reply {
        let started = match request {
            TraceRequest::Start => {
                self.inferiors.trace_current();
                let machine = self.machine();
                self.tracing.trace.set_machine(machine);
                self.tracing.relocations = Relocations {
                    left: self.sites_to_relocate(),
                    asked: None,
                };
                true
            }
            TraceRequest::Relocated { size } => self.is_relocated(Some(*size)),
            TraceRequest::RelocationFailed { .. } => self.is_relocated(None),
            _ => false,
        };
        if !started {
            return self.answer_trace(request);
        }
        match self.next_relocation() {
            Some(question) => question,
            None => self.answer_trace(&TraceRequest::Start),
        }
    }

    /// The sites of fast tracepoints to insert, for a client that copies instructions.
    fn sites_to_relocate(&self) -> Vec<Address> {
        if !self.dialect.relocates() {
            return Vec::new();
        }
        self.tracing
            .trace
            .experiment
            .tracepoints()
            .map(|tracepoint| tracepoint.definition())
            .filter(|definition| {
                definition.enabled && matches!(definition.kind, TracepointKind::Fast { .. })
            })
            .map(|definition| definition.address)
            .collect()
    }

    /// Handles the client's answer. Returns whether a question was open.
    fn is_relocated(&mut self, size: Option<u64>) -> bool {
        let Some(site) = self.tracing.relocations.asked.take() else {
            return false;
        };
        if let Some(process) = self.inferiors.traced_mut() {
            process.copy_is_made(site, size);
        }
        true
    }

    /// The next question, if one is left. None is asked for an instruction whose copy we prefer to make.
    fn next_relocation(&mut self) -> Option<Reply> {
        let process = self.inferiors.traced_mut()?;
        while let Some(from) = self.tracing.relocations.left.pop() {
            if let Ok(Some(to)) = process.at_rest(|process| process.room_for_copy(from)) {
                self.tracing.relocations.asked = Some(from);
                return Some(Reply::Relocate { from, to });
            }
        }
        None
    }

    /// GDB reports read-only sections of a position-independent program at their link addresses: their load addresses are meant.
    fn add_loaded_ranges(&mut self) {
        let modules = self
            .inferiors
            .traced_mut()
            .and_then(|process| process.modules().ok())
            .unwrap_or_default();
        let Some(program) = modules.first().filter(|program| program.load_bias != 0) else {
            return;
        };
        let bias = program.load_bias;
        let loaded: Vec<_> = self
            .tracing
            .trace
            .read_only()
            .iter()
            .filter_map(|range| Some(range.start.checked_add(bias)?..range.end.checked_add(bias)?))
            .filter(|range| range.start >= program.start.0 && range.end <= program.end.0)
            .collect();
        self.tracing.trace.add_read_only(loaded);
    }

    fn answer_trace(&mut self, request: &TraceRequest) -> Reply {
        // Inserting or removing tracepoints needs all threads to be stopped.
        let touches = self.tracing.trace.experiment.is_running()
            && matches!(
                request,
                TraceRequest::Initialize
                    | TraceRequest::Define { .. }
                    | TraceRequest::Actions { .. }
                    | TraceRequest::Source { .. }
                    | TraceRequest::Enable { .. }
                    | TraceRequest::Disable { .. }
                    | TraceRequest::Circular { .. }
                    | TraceRequest::Stop
            )
            || matches!(request, TraceRequest::Start);
        match request {
            TraceRequest::FirstMarkers => {
                return self.tracing.markers.first(self.inferiors.process());
            }
            TraceRequest::MoreMarkers => return self.tracing.markers.more(),
            TraceRequest::MarkersAt { address } => {
                return self.tracing.markers.at(self.inferiors.process(), *address);
            }
            TraceRequest::Define { definition } if definition.kind == TracepointKind::Static => {
                let process = self.inferiors.traced_mut();
                if let Some(refusal) = self.tracing.markers.prepare(process, definition) {
                    return refusal;
                }
            }
            _ => {}
        }
        let trace = &mut self.tracing.trace;
        let reply = match self.inferiors.traced_mut() {
            Some(process) if touches => process
                .at_rest(|process| trace.answer(request, Some(process)))
                .unwrap_or_else(|error| Reply::Error(Failure::text(&error.to_string()))),
            process => trace.answer(request, process),
        };
        if matches!(request, TraceRequest::ReadOnly { .. }) {
            self.add_loaded_ranges();
        }
        reply
    }
}
