//! System calls that a debugger wants to know of.

use tracewire_experiment::{Hit, HitHandler};
use tracewire_model::Address;

use crate::debugger::CaughtCalls;
use crate::event::{Event, StopCause, stopped};
use crate::process::Process;
use crate::ptrace::Tid;
use crate::thread::{AtCall, Pending, Thread};
use crate::trace_me::is_trace_me;
use crate::width::Width;

/// The results by which the kernel says to itself that a call is to be made again.
const RESTARTS: std::ops::RangeInclusive<i32> = -516..=-512;

impl Thread {
    /// It has stopped as it enters or leaves a system call.
    fn note_call(
        &mut self,
        width: Width,
        may_ask_to_be_traced: bool,
        caught: Option<&CaughtCalls>,
    ) {
        // `restart_syscall`, by which the kernel makes some of them again.
        let restart = match width {
            Width::Bits64 => 219,
            Width::Bits32 => 0,
        };
        self.has_stopped();
        let Some((leaves, registers)) = self
            .stopped()
            .and_then(|stopped| Some((stopped.leaves_system_call(), stopped.registers().ok()?)))
        else {
            return;
        };
        let number = registers.orig_rax as u32;
        self.enters_call = !leaves;
        if may_ask_to_be_traced && !leaves && is_trace_me(width, &registers) {
            self.pending = Some(Pending::TraceMe);
            return;
        }
        let stepped = leaves && std::mem::take(&mut self.steps_call);
        let again = !leaves
            && self
                .restarts_call
                .take()
                .is_some_and(|before| before == number || restart == number);
        // It was taken out of the call by a request of ours to stop, and will make it again at once: nothing to tell.
        let result = registers.rax as i32;
        if leaves
            && !stepped
            && self.interrupt_due.get()
            && (RESTARTS.contains(&result) || result == -libc::EINTR)
        {
            self.restarts_call = Some(number);
        } else if caught.is_some_and(|caught| caught.holds(number)) && !again {
            self.pending = Some(Pending::Call(AtCall {
                number,
                leaves,
                stepped,
            }));
        } else if stepped {
            self.pending = Some(Pending::Stepped);
        } else if self.news.is_some() {
            self.left_call = leaves.then_some(number);
        }
    }
}

impl Process {
    /// Says which system calls stop a thread of the process from now on.
    pub fn catch_system_calls(&mut self, caught: CaughtCalls) {
        self.debugger.catch(caught);
    }

    /// Whether a thread is to stop at system calls.
    pub(crate) fn catches_calls(&self, id: Tid) -> bool {
        self.debugger.catches_calls()
            && self
                .threads
                .get(id)
                .is_some_and(|thread| thread.process == self.threads.process())
    }

    /// A thread has stopped as it enters or leaves a system call.
    pub(crate) fn note_call(&mut self, id: Tid) {
        let may_ask = self.may_ask_to_be_traced(id);
        let (width, own) = (self.program.width(), self.threads.process());
        if let Some(thread) = self.threads.get_mut(id) {
            let caught = (thread.process == own).then_some(self.debugger.caught_calls());
            thread.note_call(width, may_ask, caught);
        }
    }

    /// The return of the call by which a thread has become another program, if a debugger wants to know of it.
    pub(crate) fn caught_exec(&self, id: Tid) -> Option<Pending> {
        let number = match self.program.width() {
            Width::Bits64 => 59,
            Width::Bits32 => 11,
        };
        (self.catches_calls(id) && self.debugger.caught_calls().holds(number)).then_some(
            Pending::Call(AtCall {
                number,
                leaves: true,
                stepped: false,
            }),
        )
    }

    /// A debugger lets a thread go on: it may be told first of the system call that the thread has left. And as the news in
    /// the middle of it came before its end, to those who ask the kernel, a step takes the thread there and no further.
    pub(crate) fn note_left_call(&mut self, id: Tid, steps: bool) {
        let catches = self.catches_calls(id);
        let Some(thread) = self.threads.get_mut(id) else {
            return;
        };
        let Some(number) = thread.left_call.take() else {
            return;
        };
        if thread.pending.is_some() {
            return;
        }
        if catches && self.debugger.caught_calls().holds(number) {
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
            && self.threads.get(id).is_some_and(|thread| thread.stepping)
            && let Some(registers) = self.threads.registers(id)
        {
            let outcome = self.tell(id, Hit::Step(Address(registers.rip)), registers, handler)?;
            if let Some(thread) = self.threads.get_mut(id) {
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
