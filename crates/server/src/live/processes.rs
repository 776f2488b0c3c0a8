//! Processes that start and end at the client's request.

use tracewire_model::ThreadId;
use tracewire_packets::family::process::ProcessRequest;
use tracewire_packets::{Failure, Reply};
use tracewire_target_linux::Error;

use super::program::LiveProgram;
use crate::session::Answer;

impl LiveProgram {
    pub(super) fn process_request(&mut self, request: &ProcessRequest) -> Answer {
        match request {
            ProcessRequest::WhyStopped => self.why_stopped().into(),
            ProcessRequest::NextStop => self.next_stop().into(),
            ProcessRequest::Attached { process } => {
                let process = process.or_else(|| self.inferiors.current());
                process
                    .and_then(|process| self.inferiors.was_attached(process))
                    .map_or(Reply::Error(Failure::Number(1)), Reply::Attached)
                    .into()
            }
            ProcessRequest::Detach { process } => {
                let process = process.or_else(|| self.inferiors.current());
                match process.filter(|process| self.inferiors.was_attached(*process).is_some()) {
                    Some(process) => self.detach(process),
                    None => Reply::Error(Failure::Number(1)).into(),
                }
            }
            ProcessRequest::KillOne { process } => {
                if self.inferiors.was_attached(*process).is_none() {
                    return Reply::Error(Failure::Number(1)).into();
                }
                self.kill(*process);
                Reply::Ok.into()
            }
            ProcessRequest::Kill => {
                self.kill_all();
                if self.launcher.is_extended() {
                    Answer::Silence
                } else {
                    Answer::End
                }
            }
            ProcessRequest::ExtendedMode => {
                self.launcher.extend();
                Reply::Ok.into()
            }
            ProcessRequest::Run { arguments } => self.restart(arguments).into(),
            ProcessRequest::Attach { process } => self.attach_again(*process).into(),
            ProcessRequest::Restart { .. } if self.launcher.is_extended() => {
                self.kill_all();
                self.notify("GDBserver restarting");
                if self.launcher.has_program()
                    && let Err(error) = self.start()
                {
                    self.notify(&format!("tracewire: {error}"));
                }
                Answer::Silence
            }
            ProcessRequest::Symbol { .. } => Reply::Ok.into(),
            ProcessRequest::Monitor { command } => self.monitor(command),
            // GDB takes them from the auxiliary vector. An answer would make it read registers before it has read their
            // description.
            ProcessRequest::Offsets => Reply::Unsupported.into(),
            _ => Reply::Unsupported.into(),
        }
    }

    /// The reply is the last one if the server has nothing left to do.
    fn last_or_not(&self, reply: Reply) -> Answer {
        if self.inferiors.is_empty() && !self.launcher.is_extended() {
            Answer::Last(reply)
        } else {
            Answer::Reply(reply)
        }
    }

    fn detach(&mut self, id: u32) -> Answer {
        if self.traces_on() && self.inferiors.traced() == Some(id) {
            self.notify(
                "Disconnected tracing in effect, leaving gdbserver attached to the process",
            );
            return Answer::Last(Reply::Ok);
        }
        self.notify(&format!("Detaching from process {id}"));
        let started = self.inferiors.was_attached(id) == Some(false);
        let reply = match self.let_process_go(id) {
            Ok(()) => Reply::Ok,
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        };
        let answer = self.last_or_not(reply);
        if started && matches!(answer, Answer::Last(_)) {
            self.launcher.leave_behind(id);
        }
        answer
    }

    fn kill_all(&mut self) {
        if !self.inferiors.is_empty() {
            self.notify("Killing all inferiors");
        }
        for process in self.inferiors.ids() {
            self.kill(process);
        }
    }

    /// Detaches from a process.
    pub(super) fn let_process_go(&mut self, id: u32) -> Result<(), Error> {
        for child in self.inferiors.unreported_children(id) {
            if let Some(child) = self.inferiors.remove(child) {
                child.detach()?;
            }
        }
        self.forget_stops(id);
        if self.inferiors.traced() == Some(id) {
            self.tracing
                .trace
                .stop_for_good(self.inferiors.traced_mut());
        }
        let shared = self
            .inferiors
            .of_mut(id)
            .filter(|process| process.id().0 != id)
            .map(|process| process.let_child_go(ThreadId(id)));
        match (shared, self.inferiors.remove(id)) {
            (Some(result), _) => result,
            (None, Some(process)) => process.detach(),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn kill(&mut self, id: u32) {
        for child in self.inferiors.unreported_children(id) {
            if let Some(child) = self.inferiors.remove(child) {
                child.kill();
            }
        }
        self.forget_stops(id);
        if let Some(process) = self
            .inferiors
            .of_mut(id)
            .filter(|process| process.id().0 != id)
        {
            process.kill_child(ThreadId(id));
        }
        let traced = self.inferiors.traced() == Some(id);
        if let Some(mut process) = self.inferiors.remove(id) {
            if traced {
                self.tracing
                    .trace
                    .program_gone(&mut process, "the program was killed");
            }
            process.kill();
        }
    }
}
