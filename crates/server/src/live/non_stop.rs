//! Non-stop mode: threads stop one by one while others run, and notifications report them.

use std::collections::VecDeque;

use tracewire_model::ThreadId;
use tracewire_packets::family::resume::{ResumeActions, ResumeKind};
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::{Failure, Notification, Reply};
use tracewire_target_linux::TraceesEvent;

use super::program::LiveProgram;
use super::run::News;
use crate::session::Unsolicited;

/// Whether the mode is on, and the stops that the client has not acknowledged yet.
#[derive(Debug, Default)]
pub(super) struct NonStop {
    pub(super) on: bool,
    queue: VecDeque<News>,
    first: First,
}

/// Whether the first stop in the queue has been reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum First {
    /// Nothing.
    #[default]
    Unknown,
    /// It was reported, and the client has not requested the next one yet.
    Reported,
    /// It was reported in answer to `?`. After the client's acknowledgement, the next is reported by a notification.
    Answered,
}

impl NonStop {
    /// Whether a thread's stop has not been reported, or not acknowledged.
    fn is_queued(&self, thread: ThreadId) -> bool {
        self.queue
            .iter()
            .any(|news| matches!(news, News::Thread(_, queued) if *queued == thread))
    }

    /// Drops the unreported stops of a process. A reported one stays until the client acknowledges it.
    pub(super) fn forget(&mut self, process: u32) {
        let mut kept = self.first != First::Unknown;
        self.queue.retain(|news| {
            std::mem::take(&mut kept) || !matches!(news, News::Thread(of, _) if *of == process)
        });
    }
}

impl LiveProgram {
    pub(super) fn set_non_stop(&mut self, on: bool) {
        if self.non_stop.on && !on {
            self.stop_all();
        }
        self.non_stop = NonStop {
            on,
            ..NonStop::default()
        };
        self.attention.want_everything(on);
        self.inferiors.tracees.forget_interruption();
    }

    /// `vCont`: each thread follows its action, and others go on as they are.
    pub(super) fn act(&mut self, actions: &ResumeActions) -> Reply {
        for (process, thread) in self.inferiors.threads() {
            if actions.of(process, thread.0) == Some(ResumeKind::Stop)
                && let Some(process) = self.inferiors.of_mut(process)
            {
                process.stop_thread(thread);
            }
        }
        self.launcher.take_untouched();
        // A thread that the client does not know, or not as stopped, is not meant.
        let queued = self.queued();
        let resumed = self.resume(|process, thread| {
            actions
                .of(process, thread.0)
                .filter(|kind| *kind != ResumeKind::Stop && !queued.contains(&(process, thread)))
        });
        match resumed {
            Ok(()) => Reply::Ok,
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        }
    }

    /// The threads, each with its process, that the client does not know as stopped.
    fn queued(&self) -> Vec<(u32, ThreadId)> {
        let mut children = Vec::new();
        for news in &self.non_stop.queue {
            let News::Thread(_, thread) = news else {
                continue;
            };
            for field in self.stops.fields(*thread) {
                if let StopField::Fork(child) | StopField::Vfork(child) = field {
                    children.push(*child);
                }
            }
        }
        self.inferiors
            .threads()
            .into_iter()
            .filter(|(process, thread)| {
                self.non_stop.is_queued(*thread)
                    || children
                        .iter()
                        .any(|child| child.matches(*process, thread.0))
            })
            .collect()
    }

    /// `?`: reports a stopped thread, the last reported one if possible. The stops of the others are reported by
    /// notifications after the client has acknowledged that one: GDB 13 fails an assertion when several are reported
    /// while it connects.
    pub(super) fn all_stops(&mut self) -> Reply {
        self.let_untouched_go();
        let mut stopped: VecDeque<_> = self
            .inferiors
            .threads()
            .into_iter()
            .filter(|(process, thread)| {
                self.inferiors
                    .of(*process)
                    .is_some_and(|process| process.is_held(*thread))
            })
            .map(|(process, thread)| News::Thread(process, thread))
            .collect();
        let last = stopped.iter().position(
            |news| matches!(news, News::Thread(_, thread) if self.stops.is_last(*thread)),
        );
        if let Some(last) = last.and_then(|last| stopped.remove(last)) {
            stopped.push_front(last);
        }
        self.non_stop.queue = stopped;
        self.report_first(First::Answered)
    }

    /// A process that was attached to before any client came was stopped for an all-stop client. In this mode its first
    /// thread is enough, as for gdbserver.
    fn let_untouched_go(&mut self) {
        let untouched = self.launcher.take_untouched();
        // One that cannot go on has ended, which is reported.
        let _ = self.resume(|process, thread| {
            let others = thread.0 != process && untouched.contains(&process);
            others.then_some(ResumeKind::Continue)
        });
    }

    /// The threads of a process are stopped, and that has not been reported.
    pub(super) fn queue_all_of(&mut self, process: u32) {
        let threads = self.inferiors.threads().into_iter();
        let own = threads.filter(|(of, _)| *of == process);
        self.non_stop
            .queue
            .extend(own.map(|(process, thread)| News::Thread(process, thread)));
    }

    /// `vStopped`: the client acknowledges the last one.
    pub(super) fn next_stop(&mut self) -> Reply {
        let known = std::mem::take(&mut self.non_stop.first);
        if known != First::Unknown {
            self.non_stop.queue.pop_front();
        }
        match known {
            First::Answered => Reply::Ok,
            First::Reported | First::Unknown => self.report_first(First::Reported),
        }
    }

    fn report_first(&mut self, how: First) -> Reply {
        let next = self.first_in_queue();
        self.non_stop.first = next.as_ref().map_or(First::Unknown, |_| how);
        next.map_or(Reply::Ok, Reply::Stop)
    }

    fn first_in_queue(&mut self) -> Option<StopReply> {
        match self.non_stop.queue.front()? {
            News::Other(reply) => Some(reply.clone()),
            News::Thread(process, thread) => {
                let (process, thread) = (*process, *thread);
                Some(self.stopped(process, thread))
            }
        }
    }

    /// Waits for an event that the client gets as a notification.
    pub(super) fn await_news(&mut self) -> Unsolicited {
        while self.non_stop.on {
            if self.non_stop.first == First::Unknown
                && let Some(reply) = self.first_in_queue()
            {
                self.non_stop.first = First::Reported;
                return Unsolicited::Notification(Notification::Stop(reply));
            }
            if !self.inferiors.tracees.any_runs() {
                return Unsolicited::Nothing;
            }
            match self.await_event() {
                Ok(TraceesEvent::Interrupted) => {
                    if self.attention.stop_is_wanted() {
                        self.interrupt_current();
                    }
                    return Unsolicited::Interrupted;
                }
                Ok(TraceesEvent::NothingRuns) if !self.dialect.reports_none_resumed() => {
                    return Unsolicited::Nothing;
                }
                Ok(happened) => {
                    if let TraceesEvent::In(process, event) = happened {
                        self.hold(process, event);
                    }
                    let news = self.news(happened);
                    self.non_stop.queue.push_back(news);
                }
                Err(_) => return Unsolicited::Nothing,
            }
        }
        Unsolicited::Nothing
    }

    /// Sends the selected process the signal of the terminal's interrupt key.
    pub(super) fn interrupt_current(&mut self) {
        if let Some(process) = self.inferiors.process() {
            process.interrupt();
        }
    }
}
