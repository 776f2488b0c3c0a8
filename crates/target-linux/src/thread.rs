//! The state of each traced thread.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use tracewire_model::Address;

use crate::event::StopCause;
use crate::ptrace::{Resume, Running, Stopped, Tid};
use crate::stop_times;

/// A traced thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: Tid,
    /// Its process. One other than the traced one shares its memory (a child of vfork).
    pub(crate) process: Tid,
    pub(crate) state: State,
    /// When it stopped.
    pub(crate) stopped_since: Option<Instant>,
    /// The kind of its last stop.
    pub(crate) phase: Phase,
    /// The reason of its stop, until it is handled.
    pub(crate) pending: Option<Pending>,
    /// The address of the breakpoint that it is at and that has been reported. The kernel's `rip` may differ; the
    /// thread goes on with the displaced instruction.
    pub(crate) at: Option<u64>,
    /// It executes single steps, for a `while-stepping`.
    pub(crate) stepping: bool,
    /// Its address when the current step began.
    pub(crate) stepped_from: u64,
    /// Its signal mask, while it is stepped without `SIGTRAP` in it.
    pub(crate) lent_mask: Option<u64>,
    /// The current step is over a system call, and ends where the call is left.
    pub(crate) steps_call: bool,
    /// It will reach a breakpoint again without having passed it: the breakpoint and the stack pointer.
    pub(crate) repeated: Option<(u64, u64)>,
    /// A debugger keeps it stopped while others run.
    pub(crate) held: bool,
    /// A debugger steps it while it is within these addresses; an empty range is one step.
    pub(crate) debug_step: Option<Range<u64>>,
    /// The state of the pending signal for the debugger.
    pub(crate) signal: SignalReport,
    /// Signals that were sent to it for the debugger, which are not reported to the debugger when they arrive.
    pub(crate) sent: Vec<i32>,
    /// It was taken out of a group stop, which it must join again.
    pub(crate) rejoin_group_stop: bool,
    /// It waits in vfork until this child has ended or called exec; it cannot be stopped there.
    pub(crate) in_vfork: Option<Tid>,
    /// The generation of the watches in its debug registers; 0 while they are empty.
    pub(crate) armed: u64,
    /// The cause of a stop by its debug registers, until it is reported to a debugger.
    pub(crate) triggered: Option<StopCause>,
    /// The watched memory that it has written to, until it is reported.
    pub(crate) written: Vec<(Address, u64)>,
    /// The writes were reported, and the trap of the debug registers is still to be handled.
    pub(crate) has_reported_writes: bool,
    /// It was asked to stop, and has not stopped for that request yet.
    pub(crate) interrupt_due: Cell<bool>,
    /// The system call that it was taken out of, unnoticed, and that it will enter again.
    pub(crate) restarts_call: Option<u32>,
    /// The system call that it was in when it had something to report, and that it has left since. A debugger may catch
    /// its return when it resumes the thread.
    pub(crate) left_call: Option<u32>,
    /// It sleeps in the kernel and has not answered a request to stop, which is still pending: it stops before it
    /// executes anything of the program.
    pub(crate) asleep: bool,
    /// It executes the instruction at this address in its place, with its breakpoint out, and takes its time.
    pub(crate) in_place: Option<u64>,
    /// The registers to restore at its next stop: it has not returned from a remote system call.
    pub(crate) lent_registers: Option<Box<libc::user_regs_struct>>,
    /// It is about to end; no stop is to be expected.
    pub(crate) exiting: bool,
    /// An end or a change of it that has not been reported yet.
    pub(crate) news: Option<News>,
    /// A debugger has requested that it stops while others run.
    pub(crate) stop_wanted: bool,
    /// Since it last ran, an unreported fault of it has been looked for.
    pub(crate) surfaced: bool,
    pub(crate) cpu: CpuSource,
}

/// Whether a thread can be touched.
#[derive(Debug)]
pub(crate) enum State {
    Running(Running),
    Stopped(Stopped),
}

/// The kind of stop that a thread is in, which decides what can be done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Between two instructions, or nothing more is known.
    Plain,
    /// It can be resumed with a signal.
    TakesSignal,
    /// Where it enters a system call.
    EntersCall,
    /// In the middle of a system call, where some registers are not its own.
    InCall,
    /// It is in a group stop.
    GroupStop,
}

/// Whether the signal that a thread is about to get has been reported to a debugger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SignalReport {
    /// Nothing.
    New,
    /// It was reported.
    Reported,
    /// The debugger has decided that the program gets it.
    Granted,
}

/// Changes of threads that may be reported to a debugger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// It has become another program.
    Exec,
    /// It has made a process with a copy of its memory.
    Forked(Tid),
    /// It has made a process that shares its memory, and waits for it.
    Vforked(Tid),
    /// The process that shared its memory has left it.
    VforkDone,
    /// It has just been made.
    Created,
}

/// The reason of a stop.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A step over a system call is done.
    Stepped,
    /// It enters the system call with which it requests to be traced by its parent.
    TraceMe,
    /// It enters or leaves a system call that a debugger catches.
    Call(AtCall),
    /// A signal that it is to get. A breakpoint's trap is one of them.
    Signal(libc::siginfo_t),
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

impl Thread {
    pub(crate) fn new(process: Tid, id: Tid, running: Running) -> Self {
        Self {
            id,
            process,
            state: State::Running(running),
            stopped_since: None,
            phase: Phase::Plain,
            pending: None,
            signal: SignalReport::New,
            at: None,
            stepping: false,
            stepped_from: 0,
            lent_mask: None,
            steps_call: false,
            repeated: None,
            held: false,
            debug_step: None,
            sent: Vec::new(),
            rejoin_group_stop: false,
            in_vfork: None,
            armed: 0,
            triggered: None,
            written: Vec::new(),
            has_reported_writes: false,
            interrupt_due: Cell::new(false),
            restarts_call: None,
            left_call: None,
            asleep: false,
            in_place: None,
            lent_registers: None,
            exiting: false,
            news: None,
            stop_wanted: false,
            surfaced: false,
            cpu: CpuSource::default(),
        }
    }

    /// Whether the signal was sent for the debugger, which then knows of it.
    pub(crate) fn was_sent(&mut self, info: &libc::siginfo_t) -> bool {
        // SAFETY: a signal that was sent names its sender; it is plain data in any case.
        let ours = info.si_code == libc::SI_TKILL
            && unsafe { info.si_pid() }.cast_unsigned() == std::process::id();
        let place = self.sent.iter().position(|sent| *sent == info.si_signo);
        match place {
            Some(place) if ours => {
                self.sent.swap_remove(place);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn stopped(&self) -> Option<&Stopped> {
        match &self.state {
            State::Stopped(stopped) => Some(stopped),
            State::Running(_) => None,
        }
    }

    /// Its registers, if it is stopped and has not ended.
    pub(crate) fn registers(&self) -> Option<libc::user_regs_struct> {
        self.stopped()?.registers().ok()
    }

    /// Whether it has a stop or news that is not handled yet.
    pub(crate) fn has_something_to_tell(&self) -> bool {
        self.news.is_some()
            || self.pending.is_some()
            || self.stop_wanted
            || !self.written.is_empty()
    }

    /// Whether its debug registers have made the trap that it is stopped for.
    pub(crate) const fn is_triggered(&self) -> bool {
        self.triggered.is_some() || !self.written.is_empty() || self.has_reported_writes
    }

    /// Whether it is stopped where it begins to wait for its child, which has not been reported yet.
    pub(crate) fn waits_for_vfork(&self) -> bool {
        self.in_vfork.is_some() && matches!(self.news, Some(News::Vforked(_)))
    }

    /// Whether it executes single steps, for any reason.
    pub(crate) fn steps(&self) -> bool {
        self.stepping || self.debug_step.is_some()
    }

    /// Whether a request to stop it will be answered.
    pub(crate) fn can_be_stopped(&self) -> bool {
        matches!(self.state, State::Running(_))
            && self.in_vfork.is_none()
            && !self.exiting
            && !self.asleep
    }

    /// Notes that a wait has reported a stop.
    pub(crate) fn has_stopped(&mut self) {
        self.phase = Phase::Plain;
        self.surfaced = false;
        let state = std::mem::replace(&mut self.state, State::Running(Running::born(self.id)));
        self.state = match state {
            State::Running(running) => {
                self.stopped_since = Some(Instant::now());
                State::Stopped(running.stopped())
            }
            stopped @ State::Stopped(_) => stopped,
        };
        self.asleep = false;
        let State::Stopped(stopped) = &self.state else {
            return;
        };
        if let Some(mask) = self.lent_mask.take() {
            let _ = stopped.set_signal_mask(mask);
        }
        if let Some(registers) = self.lent_registers.take() {
            let _ = stopped.set_registers(&registers);
        }
    }

    /// Resumes it, if it is stopped.
    pub(crate) fn go_on(&mut self, how: Resume, signal: i32) {
        let state = std::mem::replace(&mut self.state, State::Running(Running::born(self.id)));
        if let State::Stopped(stopped) = state {
            self.has_reported_writes = false;
            self.state = State::Running(stopped.resume(how, signal));
            if let Some(since) = self.stopped_since.take() {
                stop_times::note(since);
            }
        }
    }

    /// Makes it stop, when it is resumed, before it executes anything.
    pub(crate) fn interrupt_next(&self) {
        if let State::Stopped(stopped) = &self.state {
            self.interrupt_due.set(true);
            stopped.interrupt();
        }
    }

    /// Asks it to stop, if it runs.
    pub(crate) fn interrupt(&self) {
        if let State::Running(running) = &self.state {
            self.interrupt_due.set(true);
            running.interrupt();
        }
    }
}

/// How the cpu of a thread is found out.
#[derive(Debug, Default)]
pub(crate) struct CpuSource {
    /// The address of the cpu number in the thread's `struct rseq`, which the kernel keeps up to date.
    rseq: Option<u64>,
    /// `/proc/PID/task/TID/stat`, for threads without one.
    stat: Option<File>,
}

/// The offset of `cpu_id` in the kernel's `struct rseq`.
const RSEQ_CPU_ID: u64 = 4;

impl CpuSource {
    /// The address of four bytes that hold the cpu, if the thread has such.
    pub(crate) fn address(&mut self, thread: &Stopped) -> Option<u64> {
        if self.rseq.is_none() {
            self.rseq = thread
                .rseq_area()
                .map(|area| area.wrapping_add(RSEQ_CPU_ID));
        }
        self.rseq
    }

    /// The cpu by the kernel's own record; 0 if the thread has ended.
    pub(crate) fn recorded(&mut self, thread: Tid) -> u32 {
        if self.stat.is_none() {
            self.stat = File::open(format!("/proc/{thread}/task/{thread}/stat")).ok();
        }
        let mut bytes = [0; 1024];
        self.stat
            .as_ref()
            .and_then(|stat| stat.read_at(&mut bytes, 0).ok())
            .and_then(|length| processor(bytes.get(..length)?))
            .unwrap_or(0)
    }
}

/// The field `processor` of a stat line.
fn processor(line: &[u8]) -> Option<u32> {
    // The second field is a name in parentheses, which can contain any byte.
    let end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
    // It is the 39th field, and the rest starts with the third.
    rest.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_cpu_is_found_behind_an_odd_name() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("12 (a) b) S {}", fields.join(" "));
        assert_eq!(super::processor(line.as_bytes()), Some(39));
    }
}
