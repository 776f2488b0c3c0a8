//! The tracepoint packets, on a program that may be running.

use tracewire_packets::tracepoint::TraceRequest;
use tracewire_packets::{Failure, Reply};
use tracewire_tracefile::TracepointKind;

use super::program::LiveProgram;

impl LiveProgram {
    pub(super) fn trace_request(&mut self, request: &TraceRequest) -> Reply {
        if matches!(request, TraceRequest::Start) {
            self.inferiors.trace_current();
            let machine = self.machine();
            self.trace.set_machine(machine);
        }
        // What goes into the program or comes out of it needs all its threads to stand.
        let touches = self.trace.experiment.is_running()
            && matches!(
                request,
                TraceRequest::Initialize
                    | TraceRequest::Define { .. }
                    | TraceRequest::Actions { .. }
                    | TraceRequest::Source { .. }
                    | TraceRequest::Enable { .. }
                    | TraceRequest::Disable { .. }
                    | TraceRequest::Stop
            )
            || matches!(request, TraceRequest::Start);
        match request {
            TraceRequest::FirstMarkers => return self.markers.first(self.inferiors.process()),
            TraceRequest::MoreMarkers => return self.markers.more(),
            TraceRequest::MarkersAt { address } => {
                return self.markers.at(self.inferiors.process(), *address);
            }
            TraceRequest::Define { definition } if definition.kind == TracepointKind::Static => {
                let process = self.inferiors.traced_mut();
                if let Some(refusal) = self.markers.prepare(process, definition) {
                    return refusal;
                }
            }
            _ => {}
        }
        let trace = &mut self.trace;
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
