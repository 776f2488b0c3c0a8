//! System calls that a debugger wants to know of.

use std::collections::BTreeSet;

use tracewire_experiment::{Hit, HitHandler};
use tracewire_model::Address;

use crate::debug::{StopCause, stopped};
use crate::event::Event;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::thread::Pending;
use crate::trace_me::is_trace_me;
use crate::width::Width;

/// Which system calls stop a thread as it enters and as it leaves them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum CaughtCalls {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those with these numbers, which are the program's own: a 32-bit program counts otherwise.
    These(BTreeSet<u32>),
}

impl CaughtCalls {
    fn holds(&self, number: u32) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::These(numbers) => numbers.contains(&number),
        }
    }
}

/// A thread at a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AtCall {
    /// The call's number.
    pub(crate) number: u32,
    /// Whether it leaves it.
    pub(crate) leaves: bool,
    /// Whether a step was over the call, and is done.
    pub(crate) stepped: bool,
}

/// The results by which the kernel says to itself that a call is to be made again.
const RESTARTS: std::ops::RangeInclusive<i32> = -516..=-512;

impl Process {
    /// Says which system calls stop a thread of the process from now on.
    pub fn catch_system_calls(&mut self, caught: CaughtCalls) {
        self.caught_calls = caught;
    }

    /// Whether a thread is to stop at system calls.
    pub(crate) fn catches_calls(&self, id: Tid) -> bool {
        self.caught_calls != CaughtCalls::None
            && self
                .threads
                .get(&id)
                .is_some_and(|thread| thread.process == self.id)
    }

    /// A thread has stopped as it enters or leaves a system call.
    pub(crate) fn note_call(&mut self, id: Tid) {
        let own = self.id;
        let watched = self.may_ask_to_be_traced(id);
        // `restart_syscall`, by which the kernel makes some of them again.
        let restart = match self.width {
            Width::Bits64 => 219,
            Width::Bits32 => 0,
        };
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        thread.has_stopped();
        let Some((leaves, registers)) = thread
            .stopped()
            .and_then(|stopped| Some((stopped.leaves_system_call(), stopped.registers().ok()?)))
        else {
            return;
        };
        let number = registers.orig_rax as u32;
        thread.enters_call = !leaves;
        if watched && !leaves && is_trace_me(self.width, &registers) {
            thread.pending = Some(Pending::TraceMe);
            return;
        }
        let stepped = leaves && std::mem::take(&mut thread.steps_call);
        let again = !leaves
            && thread
                .restarts_call
                .take()
                .is_some_and(|before| before == number || restart == number);
        // It was taken out of the call by a request of ours to stop, and will make it again at once: nothing to tell.
        let result = registers.rax as i32;
        if leaves
            && !stepped
            && thread.interrupt_due.get()
            && (RESTARTS.contains(&result) || result == -libc::EINTR)
        {
            thread.restarts_call = Some(number);
        } else if thread.process == own && self.caught_calls.holds(number) && !again {
            thread.pending = Some(Pending::Call(AtCall {
                number,
                leaves,
                stepped,
            }));
        } else if stepped {
            thread.pending = Some(Pending::Stepped);
        } else if thread.news.is_some() {
            thread.left_call = leaves.then_some(number);
        }
    }

    /// The return of the call by which a thread has become another program, if a debugger wants to know of it.
    pub(crate) fn caught_exec(&self, id: Tid) -> Option<Pending> {
        let number = match self.width {
            Width::Bits64 => 59,
            Width::Bits32 => 11,
        };
        (self.catches_calls(id) && self.caught_calls.holds(number)).then_some(Pending::Call(
            AtCall {
                number,
                leaves: true,
                stepped: false,
            },
        ))
    }

    /// A debugger lets a thread go on: it may be told first of the system call that the thread has left. And as the news in
    /// the middle of it came before its end, to those who ask the kernel, a step takes the thread there and no further.
    pub(crate) fn note_left_call(&mut self, id: Tid, steps: bool) {
        let catches = self.catches_calls(id);
        let Some(thread) = self.threads.get_mut(&id) else {
            return;
        };
        let Some(number) = thread.left_call.take() else {
            return;
        };
        if thread.pending.is_some() {
            return;
        }
        if catches && self.caught_calls.holds(number) {
            thread.pending = Some(Pending::Call(AtCall {
                number,
                leaves: true,
                stepped: false,
            }));
        } else if steps {
            thread.pending = Some(Pending::Stepped);
        }
    }

    /// Tells of a thread at a system call.
    pub(crate) fn call_reached(
        &mut self,
        id: Tid,
        call: AtCall,
        handler: &mut dyn HitHandler,
    ) -> Option<Event> {
        if call.stepped
            && self.threads.get(&id).is_some_and(|thread| thread.stepping)
            && let Some(registers) = self
                .stopped(id)
                .and_then(|stopped| stopped.registers().ok())
        {
            let outcome = self.tell(id, Hit::Step(Address(registers.rip)), registers, handler)?;
            if let Some(thread) = self.threads.get_mut(&id) {
                thread.stepping = outcome.step && !outcome.run_ended;
            }
        }
        let cause = if call.leaves {
            StopCause::CallReturn(call.number)
        } else {
            StopCause::CallEntry(call.number)
        };
        self.is_debugged(id).then(|| stopped(id, cause))
    }
}
