//! Running and stepping, both ways, and the reason of the last stop.

use tracewire_model::{Address, ThreadId};
use tracewire_packets::family::breakpoint::{BreakpointKind, BreakpointRequest};
use tracewire_packets::family::resume::{ResumeActions, ResumeKind, ResumeRequest};
use tracewire_packets::family::stop::{ReplayEnd, StopField, StopReply, WatchKind};
use tracewire_packets::{Failure, Reply, Signal};
use tracewire_target_replay::{Execution, Stop, StopCause, Watch};

use super::session::{PROCESS, ReplaySession, cpu, selector};

/// The letters after `vCont?`.
const ACTIONS: &[u8] = b"cCsStr";

/// How the recording is to move forward.
enum Forward {
    Run,
    Step(ThreadId),
    StepRange(ThreadId, Address, Address),
}

impl<E: Execution> ReplaySession<'_, E> {
    pub(super) fn resume_request(&mut self, request: &ResumeRequest) -> Reply {
        let chosen = self.chosen_to_resume();
        match request {
            ResumeRequest::Supported => Reply::ResumeActions(ACTIONS.to_vec()),
            ResumeRequest::Continue { actions } => {
                let forward = self.forward(actions);
                self.run(forward)
            }
            // A recording takes no signal.
            ResumeRequest::ContinueFrom { address: None }
            | ResumeRequest::ContinueWithSignal { address: None, .. } => self.run(Forward::Run),
            ResumeRequest::StepFrom { address: None }
            | ResumeRequest::StepWithSignal { address: None, .. } => {
                self.run(Forward::Step(chosen))
            }
            ResumeRequest::ReverseContinue => {
                let stop = self.replay.run_back(&mut self.trace.experiment);
                self.stop_reply(stop)
            }
            ResumeRequest::ReverseStep => {
                let stop = self.replay.step_back(chosen, &mut self.trace.experiment);
                self.stop_reply(stop)
            }
            // A movement takes no time.
            ResumeRequest::Interrupt => Reply::Ok,
            _ => Reply::Error(Failure::text(
                "a recording goes on at its instant, and nowhere else",
            )),
        }
    }

    /// The combined effect of the actions: cpus cannot be held, so a thread that is stepped decides how far all go.
    fn forward(&self, actions: &ResumeActions) -> Forward {
        let step =
            self.replay
                .threads()
                .find_map(|thread| match actions.of(PROCESS, thread.0)? {
                    ResumeKind::Step | ResumeKind::StepWithSignal(_) => Some(Forward::Step(thread)),
                    ResumeKind::StepRange { start, end } => {
                        Some(Forward::StepRange(thread, start, end))
                    }
                    _ => None,
                });
        step.unwrap_or(Forward::Run)
    }

    fn run(&mut self, forward: Forward) -> Reply {
        let experiment = &mut self.trace.experiment;
        let stop = match forward {
            Forward::Run => self.replay.run(experiment),
            Forward::Step(thread) => self.replay.step(thread, experiment),
            Forward::StepRange(thread, start, end) => {
                self.replay.step_range(thread, start..end, experiment)
            }
        };
        // A run that has ended by itself needs no tracepoints any more.
        self.trace.take_out(&mut self.replay);
        self.stop_reply(stop)
    }

    fn stop_reply(&mut self, stop: Stop) -> Reply {
        let field = match stop.cause {
            StopCause::Step => None,
            StopCause::Breakpoint => self
                .software_breakpoints
                .then_some(StopField::SoftwareBreakpoint),
            StopCause::Watchpoint(watch, address) => {
                let kind = match watch {
                    Watch::Write => WatchKind::Write,
                    Watch::Read => WatchKind::Read,
                    Watch::Access => WatchKind::Access,
                };
                Some(StopField::Watch(kind, address))
            }
            StopCause::Begin => Some(StopField::ReplayLog(ReplayEnd::Begin)),
            StopCause::End => Some(StopField::ReplayLog(ReplayEnd::End)),
        };
        self.selected = Some(stop.thread);
        self.stop = stopped(stop.thread, field);
        Reply::Stop(self.stop.clone())
    }

    pub(super) fn breakpoint_request(&mut self, request: &BreakpointRequest) -> Reply {
        let (BreakpointRequest::Insert {
            kind,
            address,
            length,
            ..
        }
        | BreakpointRequest::Remove {
            kind,
            address,
            length,
        }) = *request;
        let watch = match kind {
            BreakpointKind::Software | BreakpointKind::Hardware => None,
            BreakpointKind::WriteWatchpoint => Some(Watch::Write),
            BreakpointKind::ReadWatchpoint => Some(Watch::Read),
            BreakpointKind::AccessWatchpoint => Some(Watch::Access),
        };
        match (request, watch) {
            (BreakpointRequest::Insert { .. }, None) => self.replay.insert_breakpoint(address),
            (BreakpointRequest::Remove { .. }, None) => self.replay.remove_breakpoint(address),
            (BreakpointRequest::Insert { .. }, Some(watch)) => {
                if let Some(why) = self.replay.execution().unwatchable() {
                    return Reply::Error(Failure::text(&why));
                }
                self.replay.insert_watchpoint(watch, address, length);
            }
            (BreakpointRequest::Remove { .. }, Some(watch)) => {
                self.replay.remove_watchpoint(watch, address, length);
            }
        }
        Reply::Ok
    }
}

/// A stop of a thread.
pub(super) fn stopped(thread: ThreadId, field: Option<StopField>) -> StopReply {
    let mut fields: Vec<StopField> = field.into_iter().collect();
    fields.push(StopField::Thread(selector(thread)));
    fields.push(StopField::Core(cpu(thread)));
    StopReply::Stopped {
        signal: Signal::TRAP,
        fields,
    }
}
