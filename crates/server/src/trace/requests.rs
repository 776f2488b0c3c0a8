//! Dispatch of the tracepoint packets.

use tracewire_experiment::{Mechanism, Target};
use tracewire_model::{Address, Status, TracepointUsage, VariableNumber, kgtp_warning};
use tracewire_packets::tracepoint::{BufferSize, TraceRequest};
use tracewire_packets::{Failure, Reply};

use super::Trace;
use super::buffer::DEFAULT_SIZE;
use crate::answers::done;

/// The length of a jump on x86, in bytes.
const JUMP_LENGTH: u64 = 5;

impl Trace {
    /// Answers a request. Without a target nothing is inserted in a program, and no run can be started.
    pub(crate) fn answer(
        &mut self,
        request: &TraceRequest,
        mut target: Option<&mut impl Target>,
    ) -> Reply {
        // Frames that pads have collected by now count.
        self.experiment.look();
        if let Some(error) = self.complete_before(request, target.as_deref_mut()) {
            return error;
        }
        match request {
            TraceRequest::Initialize => {
                self.definitions.clear();
                self.read_only.clear();
                self.selected = None;
                self.stop_note = None;
                self.forget_frames();
                self.client_variables.clear();
                // Without a target there is no run that could end.
                let now = target.as_ref().map_or(0, |target| target.now());
                let target = target.map(|target| target as &mut dyn Target);
                done(self.experiment.clear(target, now).is_ok())
            }
            TraceRequest::Define { definition } => self.define(definition, target),
            TraceRequest::Actions { actions } => self.actions(actions, target),
            TraceRequest::Source { source } => self.source(source, target),
            TraceRequest::Variable { variable } => {
                if let Some(warning) = kgtp_warning(&variable.name) {
                    (self.notices)(&format!("tracewire: warning: {warning}"));
                }
                self.client_variables.insert(variable.number);
                self.experiment.define_variable(variable.clone());
                Reply::Ok
            }
            TraceRequest::ReadOnly { ranges } => {
                self.read_only.clone_from(&ranges.0);
                Reply::Ok
            }
            TraceRequest::Enable { number, address } => {
                self.set_enabled(*number, *address, true, target)
            }
            TraceRequest::Disable { number, address } => {
                self.set_enabled(*number, *address, false, target)
            }
            TraceRequest::Start => match target {
                Some(target) => self.start(target),
                None => Reply::Error(Failure::text("there is no program")),
            },
            TraceRequest::Stop => self.stop(target),
            TraceRequest::Disconnected { on } => {
                self.disconnected = *on;
                Reply::Ok
            }
            TraceRequest::Circular { on } => self.make_circular(*on, target),
            TraceRequest::BufferSize { .. } if self.experiment.is_running() => Reply::Error(
                Failure::text("the size of the trace buffer cannot change during a run"),
            ),
            TraceRequest::BufferSize { size } => {
                self.size = match size {
                    BufferSize::Default => DEFAULT_SIZE,
                    BufferSize::Bytes(bytes) => *bytes,
                };
                Reply::Ok
            }
            TraceRequest::Notes { notes } => self.notes(notes),
            TraceRequest::Save { file } => self.save(file),
            TraceRequest::SelectFrame { frame } => self.select_frame(*frame),
            TraceRequest::Status => Reply::TraceStatus(Box::new(Status::from(self.status()))),
            TraceRequest::Usage { number, address } => self
                .experiment
                .tracepoints()
                .find(|tracepoint| tracepoint.definition().key() == (*number, *address))
                .map_or(NO_HITS, |tracepoint| {
                    Reply::TracepointUsage(tracepoint.usage())
                }),
            TraceRequest::VariableValue { number } => self.variable_value(*number),
            TraceRequest::FirstPiece => {
                self.pieces = self
                    .tracepoints()
                    .iter()
                    .flat_map(|tracepoint| tracepoint.definition.records(None, 0))
                    .collect::<Vec<_>>()
                    .into_iter();
                self.pieces
                    .next()
                    .map_or(Reply::End, Reply::DefinitionRecord)
            }
            TraceRequest::MorePieces => self
                .pieces
                .next()
                .map_or(Reply::End, Reply::DefinitionRecord),
            TraceRequest::FirstVariable => {
                // The newest first, as gdbserver, which GDB turns round.
                let mut variables = self.known_variables();
                variables.reverse();
                self.variables = variables.into_iter();
                self.variables.next().map_or(Reply::End, Reply::Variable)
            }
            TraceRequest::MoreVariables => {
                self.variables.next().map_or(Reply::End, Reply::Variable)
            }
            TraceRequest::FirstMarkers
            | TraceRequest::MoreMarkers
            | TraceRequest::MarkersAt { .. } => Reply::End,
            TraceRequest::Buffer { offset, length } => self.buffer(*offset, *length),
            TraceRequest::MinimumFastLength => Reply::Length(self.shortest_fast()),
            TraceRequest::Relocated { .. } | TraceRequest::RelocationFailed { .. } => {
                Reply::Unsupported
            }
        }
    }

    /// The least length of an instruction at which any fast tracepoint is accepted. If the mechanism need not be a jump, a
    /// tracepoint that cannot be one is a trap. Otherwise GDB must refuse shorter ones, since they would prevent the run from
    /// starting: a jump takes this much, and over a shorter instruction it is not always possible.
    fn shortest_fast(&self) -> u64 {
        match self.experiment.mechanism() {
            Mechanism::Jump => JUMP_LENGTH,
            Mechanism::Best | Mechanism::Trap => 1,
        }
    }

    fn variable_value(&mut self, number: VariableNumber) -> Reply {
        let value = match self.selected_frame(|frame| frame.variable(number)) {
            Some(in_frame) => in_frame,
            // A builtin one has a value only for a thread that is at a tracepoint.
            None => self.experiment.variable(number),
        };
        Reply::VariableValue(value)
    }
}

/// A request with the target's form of addresses: GDB extends those of some machines.
pub(crate) fn with_addresses(
    request: &TraceRequest,
    place: &dyn Fn(Address) -> Address,
) -> TraceRequest {
    let mut request = request.clone();
    match &mut request {
        TraceRequest::Define { definition } => definition.address = place(definition.address),
        TraceRequest::Actions { actions } => actions.address = place(actions.address),
        TraceRequest::Source { source } => source.address = place(source.address),
        TraceRequest::Usage { address, .. } => *address = place(*address),
        TraceRequest::Enable { address, .. } | TraceRequest::Disable { address, .. } => {
            address.0 = place(address.0);
        }
        TraceRequest::ReadOnly { ranges } => {
            for range in &mut ranges.0 {
                // A section ends before the address space does.
                let size = range.end.saturating_sub(range.start);
                let start = place(Address(range.start)).0;
                *range = start..start.saturating_add(size);
            }
        }
        _ => {}
    }
    request
}

/// The answer about a tracepoint that is not defined, or not at this address: it has no hits there. It is no error,
/// since GDB asks for each location that it knows. A location may be in a library that was just loaded, and not defined
/// yet; at an error GDB aborts `tstatus`.
pub(crate) const NO_HITS: Reply = Reply::TracepointUsage(TracepointUsage { hits: 0, bytes: 0 });
