//! System calls that a debugger catches.

use crate::abi::Abi;
use crate::debugger::CaughtCalls;
use crate::thread::{AtCall, Pending, Phase, Thread};
use crate::trace_me::is_trace_me;

/// The results inside the kernel that mean that a call is to be made again.
const RESTARTS: std::ops::RangeInclusive<i32> = -516..=-512;

impl Thread {
    /// It has stopped as it enters or leaves a system call.
    pub(crate) fn note_call(
        &mut self,
        abi: Abi,
        may_ask_to_be_traced: bool,
        caught: Option<&CaughtCalls>,
    ) {
        // `restart_syscall`, by which the kernel restarts some of them.
        let restart = match abi {
            Abi::Bits64 => 219,
            Abi::Bits32 => 0,
        };
        self.has_stopped();
        let Some((leaves, registers)) = self
            .stopped()
            .and_then(|stopped| Some((stopped.leaves_system_call(), stopped.registers().ok()?)))
        else {
            return;
        };
        let number = registers.orig_rax as u32;
        if !leaves {
            self.phase = Phase::EntersCall;
        }
        if may_ask_to_be_traced && !leaves && is_trace_me(abi, &registers) {
            self.pending = Some(Pending::TraceMe);
            return;
        }
        let stepped = leaves && std::mem::take(&mut self.steps_call);
        let again = !leaves
            && self
                .restarts_call
                .take()
                .is_some_and(|before| before == number || restart == number);
        // The tracer's request to stop interrupted the call, which is made again at once: nothing to report.
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
