//! Non-stop mode: threads stop one by one while others run, and are told of by notifications.

use std::collections::VecDeque;

use tracewire_model::ThreadId;
use tracewire_packets::family::resume::{ResumeActions, ResumeKind};
use tracewire_packets::family::stop::{StopField, StopReply};
use tracewire_packets::{Failure, Notification, Reply};
use tracewire_target_linux::Happened;

use super::program::LiveProgram;
use super::run::News;
use crate::session::Unasked;

/// Whether the mode is on, and what the client has not taken note of yet.
#[derive(Debug, Default)]
pub(super) struct NonStop {
    pub(super) on: bool,
    queue: VecDeque<News>,
    /// The first of the queue has been told, and the client has yet to ask for the next.
    outstanding: bool,
    /// It was told in answer to `?`, and the others are told unasked.
    one: bool,
}

impl NonStop {
    /// Whether the client has yet to be told, or to take note, of a thread's stop.
    fn is_queued(&self, thread: ThreadId) -> bool {
        self.queue
            .iter()
            .any(|news| matches!(news, News::Thread(_, queued) if *queued == thread))
    }

    /// Forgets what was to be told of a process. What has been told stays until the client takes note of it.
    pub(super) fn forget(&mut self, process: u32) {
        let mut kept = self.outstanding;
        self.queue.retain(|news| {
            std::mem::take(&mut kept) || !matches!(news, News::Thread(of, _) if *of == process)
        });
    }
}

impl LiveProgram {
    pub(super) fn set_non_stop(&mut self, on: bool) {
        if self.non_stop.on && !on {
            self.stand();
        }
        self.non_stop = NonStop {
            on,
            ..NonStop::default()
        };
        self.attention.want_everything(on);
        self.inferiors.tracees.forget_interruption();
    }

    /// `vCont`: each thread does what is said of it, and others what they did.
    pub(super) fn act(&mut self, actions: &ResumeActions) -> Reply {
        for (process, thread) in self.inferiors.threads() {
            if actions.of(process, thread.0) == Some(ResumeKind::Stop)
                && let Some(process) = self.inferiors.of_mut(process)
            {
                process.stop_thread(thread);
            }
        }
        self.untouched.clear();
        // What the client does not know to stand, or to be there, it cannot mean.
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

    /// The threads, each with its process, that the client does not know to stand.
    fn queued(&self) -> Vec<(u32, ThreadId)> {
        let mut children = Vec::new();
        for news in &self.non_stop.queue {
            let News::Thread(_, thread) = news else {
                continue;
            };
            let fields = self.told.get(thread).map(|told| told.fields.as_slice());
            for field in fields.unwrap_or_default() {
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

    /// `?`: tells of a thread that stands, of the one that was last told of if it can be. The others' stops are told when
    /// the client has taken note of that, by notifications: GDB 13 fails an assertion of its own when it is told of
    /// several while it connects.
    pub(super) fn all_stops(&mut self) -> Reply {
        self.let_untouched_go();
        let mut standing: VecDeque<_> = self
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
        let last = standing
            .iter()
            .position(|news| matches!(news, News::Thread(_, thread) if Some(*thread) == self.last));
        if let Some(last) = last.and_then(|last| standing.remove(last)) {
            standing.push_front(last);
        }
        self.non_stop.queue = standing;
        let reply = self.told_next();
        self.non_stop.one = self.non_stop.outstanding;
        reply
    }

    /// A process that was attached to before any client came stood for an all-stop client's sake. In this mode its first
    /// thread is enough, as for gdbserver.
    fn let_untouched_go(&mut self) {
        let untouched = std::mem::take(&mut self.untouched);
        // One that cannot go on is gone, which is told.
        let _ = self.resume(|process, thread| {
            let others = thread.0 != process && untouched.contains(&process);
            others.then_some(ResumeKind::Continue)
        });
    }

    /// The threads of a process stand, and the client has yet to be told.
    pub(super) fn queue_all_of(&mut self, process: u32) {
        let threads = self.inferiors.threads().into_iter();
        let own = threads.filter(|(of, _)| *of == process);
        self.non_stop
            .queue
            .extend(own.map(|(process, thread)| News::Thread(process, thread)));
    }

    /// `vStopped`: the client knows of the last one.
    pub(super) fn next_stop(&mut self) -> Reply {
        if self.non_stop.outstanding {
            self.non_stop.queue.pop_front();
        }
        if std::mem::take(&mut self.non_stop.one) {
            self.non_stop.outstanding = false;
            return Reply::Ok;
        }
        self.told_next()
    }

    fn told_next(&mut self) -> Reply {
        let next = self.first_in_queue();
        self.non_stop.outstanding = next.is_some();
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

    /// Waits for something that the client is to be told of.
    pub(super) fn await_news(&mut self) -> Unasked {
        while self.non_stop.on {
            if !self.non_stop.outstanding
                && let Some(reply) = self.first_in_queue()
            {
                self.non_stop.outstanding = true;
                return Unasked::Notification(Notification::Stop(reply));
            }
            if !self.inferiors.tracees.any_runs() {
                return Unasked::Nothing;
            }
            match self.await_event() {
                Ok(Happened::Interrupted) => {
                    if self.attention.stop_is_wanted() {
                        self.interrupt_current();
                    }
                    return Unasked::Interrupted;
                }
                Ok(Happened::NothingRuns) if !self.client.none_resumed => {
                    return Unasked::Nothing;
                }
                Ok(happened) => {
                    if let Happened::In(process, event) = happened {
                        self.hold(process, event);
                    }
                    let news = self.news(happened);
                    self.non_stop.queue.push_back(news);
                }
                Err(_) => return Unasked::Nothing,
            }
        }
        Unasked::Nothing
    }

    /// Sends the selected process what the terminal's interrupt key does.
    pub(super) fn interrupt_current(&mut self) {
        if let Some(process) = self.inferiors.process() {
            process.interrupt();
        }
    }
}
