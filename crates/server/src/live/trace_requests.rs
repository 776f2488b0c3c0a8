//! Which tracepoint packet is answered by what.

use tracewire_packets::tracepoint::{BufferSize, TraceRequest};
use tracewire_packets::{Failure, Reply};
use tracewire_target_linux::Process;
use tracewire_tracefile::{Status, StopReason, VariableNumber};

use super::buffer::DEFAULT_SIZE;
use super::program::{LiveProgram, done};
use super::trace::{Trace, now};

impl LiveProgram {
    pub(super) fn trace_request(&mut self, request: &TraceRequest) -> Reply {
        if matches!(request, TraceRequest::Start) {
            self.inferiors.trace_current();
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
        let trace = &mut self.trace;
        let reply = match self.inferiors.traced_mut() {
            Some(process) if touches => process
                .at_rest(|process| change(trace, Some(process), request))
                .unwrap_or_else(|error| Some(Reply::Error(Failure::text(&error.to_string())))),
            process => change(trace, process, request),
        };
        if let Some(reply) = reply {
            return reply;
        }
        match request {
            TraceRequest::Variable { variable } => {
                trace.experiment.define_variable(variable.clone());
                Reply::Ok
            }
            TraceRequest::ReadOnly { ranges } => {
                trace.read_only.clone_from(&ranges.0);
                self.add_loaded_ranges();
                Reply::Ok
            }
            TraceRequest::Disconnected { on } => {
                trace.disconnected = *on;
                Reply::Ok
            }
            TraceRequest::Circular { on } => {
                trace.circular = *on;
                Reply::Ok
            }
            TraceRequest::BufferSize { size } => {
                trace.size = match size {
                    BufferSize::Default => DEFAULT_SIZE,
                    BufferSize::Bytes(bytes) => *bytes,
                };
                Reply::Ok
            }
            TraceRequest::Notes { notes } => trace.notes(notes),
            TraceRequest::Save { file } => trace.save(file),
            TraceRequest::SelectFrame { frame } => self.select_frame(*frame),
            TraceRequest::Status => Reply::TraceStatus(Box::new(Status::from(trace.status()))),
            TraceRequest::Usage { number, address } => trace
                .experiment
                .tracepoints()
                .find(|tracepoint| tracepoint.definition().key() == (*number, *address))
                .map_or(Reply::Unsupported, |tracepoint| {
                    Reply::TracepointUsage(tracepoint.usage())
                }),
            TraceRequest::VariableValue { number } => self.variable_value(*number),
            TraceRequest::FirstPiece => {
                trace.pieces = trace
                    .tracepoints()
                    .iter()
                    .flat_map(|tracepoint| tracepoint.definition.pieces(None, 0))
                    .collect::<Vec<_>>()
                    .into_iter();
                trace.pieces.next().map_or(Reply::End, Reply::Piece)
            }
            TraceRequest::MorePieces => trace.pieces.next().map_or(Reply::End, Reply::Piece),
            TraceRequest::FirstVariable => {
                // The newest first, as gdbserver, which GDB turns round.
                let mut variables = trace.told_variables();
                variables.reverse();
                trace.variables = variables.into_iter();
                trace.variables.next().map_or(Reply::End, Reply::Variable)
            }
            TraceRequest::MoreVariables => {
                trace.variables.next().map_or(Reply::End, Reply::Variable)
            }
            TraceRequest::FirstMarkers
            | TraceRequest::MoreMarkers
            | TraceRequest::MarkersAt { .. } => Reply::End,
            TraceRequest::Buffer { offset, length } => trace.buffer(*offset, *length),
            TraceRequest::MinimumFastLength => Reply::Length(1),
            // Those that change the program have been answered.
            _ => Reply::Unsupported,
        }
    }

    fn variable_value(&mut self, number: VariableNumber) -> Reply {
        let value = match self.selected_frame(|frame| frame.variable(number)) {
            Some(in_frame) => in_frame,
            // A builtin one has a value only for a thread that is at a tracepoint.
            None => self.trace.experiment.variable(number),
        };
        Reply::VariableValue(value)
    }
}

/// Requests that may change the program: their replies, none for other requests.
fn change(
    trace: &mut Trace,
    process: Option<&mut Process>,
    request: &TraceRequest,
) -> Option<Reply> {
    Some(match request {
        TraceRequest::Initialize => {
            trace.definitions.clear();
            trace.read_only.clear();
            trace.selected = None;
            done(process.is_none_or(|process| trace.experiment.clear(process, now()).is_ok()))
        }
        TraceRequest::Define { definition } => trace.define(definition, process),
        TraceRequest::Actions { actions } => trace.actions(actions, process),
        TraceRequest::Source { source } => trace.source(source, process),
        TraceRequest::Enable { number, address } => {
            trace.set_enabled(*number, *address, true, process)
        }
        TraceRequest::Disable { number, address } => {
            trace.set_enabled(*number, *address, false, process)
        }
        TraceRequest::Start => match process {
            Some(process) => trace.start(process),
            None => Reply::Error(Failure::text("there is no program")),
        },
        TraceRequest::Stop => {
            let stopped = process.is_none_or(|process| {
                let stopped = trace
                    .experiment
                    .stop(process, StopReason::Command, None, now());
                stopped.is_ok()
            });
            done(stopped)
        }
        _ => return None,
    })
}
