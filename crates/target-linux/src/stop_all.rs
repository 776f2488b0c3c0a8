//! Stops all threads of a process, and interprets each stop.

use nix::errno::Errno;

use crate::abi::Abi;
use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::maps;
use crate::maps::ThreadStatus;
use crate::ptrace::{Resume, Status, Stopped, Tid};
use crate::thread::{News, Pending, Phase, SignalReport, Thread};
use crate::tracee::Tracee;
use crate::wait_limit::{Ran, STOP_LIMIT, WaitLimit, wait_within};
use crate::wait_queue;
use tracewire_fail_point::fail_point;

/// The `si_code` in the stop of a thread that is about to end.
const EXIT_STOP: i32 = libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8;

impl Tracee {
    /// Stops every thread. A thread that waits in vfork, one that is about to end, and one that sleeps in the kernel
    /// and cannot be stopped there are left as they are: none of them executes anything of the program.
    pub(crate) fn stop_all(&mut self) -> Result<(), Error> {
        self.threads.interrupt();
        self.wait_until_all_stopped()
    }

    /// Waits until every thread has stopped; all were asked to.
    pub(crate) fn wait_until_all_stopped(&mut self) -> Result<(), Error> {
        // Every report is taken: a thread that calls exec is stopped only once the others have ended, and they have
        // ended only once they are reaped.
        while self.threads.any_can_be_stopped() {
            fail_point!("halt/waiting");
            match self.wait_while_awake() {
                Ok(Some((id, status))) if self.claims(id) => self.note_stop(id, status),
                Ok(Some((id, status))) => wait_queue::keep(id, status),
                Ok(None) => self.threads.leave_asleep(),
                // A signal to the tracer does not end the wait.
                Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => self.forget_threads(Thread::can_be_stopped),
                Err(error) => return Err(Error::system("waitpid", self.threads.process(), error)),
            }
        }
        Ok(())
    }

    /// Notes the report of a wait while all threads are to stop.
    pub(crate) fn note_stop(&mut self, id: Tid, status: Status) {
        self.note(id, status);
        let how = self.way_out_of_call(id);
        if matches!(status, Status::Event(_) | Status::SystemCall)
            && let Some(thread) = self.threads.get_mut(id)
            && thread.pending.is_none()
            && !thread.waits_for_vfork()
            && thread.stopped().is_some()
        {
            // In the middle of a system call: runs it to the end, where it has its own registers.
            thread.interrupt_next();
            thread.go_on(how, 0);
        }
    }

    /// Notes the report of a wait for a known thread. Urgent work is done now; the rest is left pending.
    pub(crate) fn note(&mut self, id: Tid, status: Status) {
        let in_place = self
            .threads
            .get_mut(id)
            .and_then(|thread| thread.in_place.take());
        self.note_status(id, status);
        if let Some(site) = in_place {
            self.leave_place(id, site);
        }
    }

    fn note_status(&mut self, id: Tid, status: Status) {
        match status {
            Status::Exited(_) | Status::Killed(..) => self.note_end(id, status),
            Status::Event(libc::PTRACE_EVENT_EXIT) => {
                let debugged = self.debugger.is_there();
                self.threads.note_exit_stop(id, debugged);
            }
            Status::Event(libc::PTRACE_EVENT_EXEC) => self.note_exec(id),
            Status::Event(
                event @ (libc::PTRACE_EVENT_CLONE
                | libc::PTRACE_EVENT_FORK
                | libc::PTRACE_EVENT_VFORK),
            ) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.phase = Phase::InCall;
                    self.note_birth(id, event);
                }
            }
            Status::Event(libc::PTRACE_EVENT_VFORK_DONE) => {
                let news = (self.debugger.reports().vforks && self.is_debugged(id))
                    .then_some(News::VforkDone);
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.phase = Phase::InCall;
                    thread.in_vfork = None;
                    thread.news = thread.news.or(news);
                }
            }
            Status::Event(_) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.phase = Phase::InCall;
                }
            }
            Status::Interrupted => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.interrupt_due.set(false);
                    if let Some(stopped) = thread.stopped() {
                        undo_interruption(self.program.abi(), stopped);
                    }
                }
            }
            Status::GroupStop(_) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.interrupt_due.set(false);
                    thread.phase = Phase::GroupStop;
                    thread.rejoin_group_stop = false;
                }
            }
            Status::SystemCall => self.note_call(id),
            Status::Signal(_) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.phase = Phase::TakesSignal;
                    thread.signal = SignalReport::New;
                    let info = thread
                        .stopped()
                        .and_then(|stopped| stopped.signal_info().ok());
                    match info {
                        // Killed meanwhile by an exec or an exit, it is already stopped at its end.
                        Some(info) if info.si_code == EXIT_STOP => {
                            thread.exiting = true;
                            thread.go_on(Resume::Continue, 0);
                        }
                        // A thread that has ended is reported next.
                        info => {
                            if info.is_some_and(|info| thread.was_sent(&info)) {
                                thread.signal = SignalReport::Granted;
                            }
                            thread.pending = info.map(Pending::Signal);
                        }
                    }
                }
                if status == Status::Signal(libc::SIGTRAP)
                    && let Some(thread) = self.threads.get_mut(id)
                {
                    self.debug_registers.note_trigger(thread);
                }
            }
        }
    }

    fn note_end(&mut self, id: Tid, status: Status) {
        self.threads.end_vfork(id);
        let Some(process) = self.threads.get(id).map(|thread| thread.process) else {
            return;
        };
        let debugged = self.is_debugged(id);
        self.forget_threads(|thread| thread.id == id);
        let status = self.threads.end_of(id, status);
        let end = match status {
            Status::Killed(signal, core_dumped) => Event::Killed {
                signal,
                core_dumped,
            },
            Status::Exited(code) => Event::Exited(code),
            _ => return,
        };
        if id == self.threads.process() {
            self.threads.ended = Some(end);
            self.release_strangers();
        } else if process == id {
            // A process by vfork has ended; its threads, if any, with it.
            self.forget_threads(|thread| thread.process == id);
            if self.debugger.forget_child(id) {
                self.threads.note_ending(id, end);
            }
        } else if debugged
            && self.debugger.reports().threads
            && let Status::Exited(code) = status
        {
            self.threads
                .note_ending(process, Event::ThreadExited(thread_id(id), code));
        }
    }

    /// How a thread is resumed to get from the middle of a system call to its end.
    pub(crate) fn way_out_of_call(&self, id: Tid) -> Resume {
        let asked = self
            .threads
            .get(id)
            .is_some_and(|thread| thread.steps_call || thread.news.is_some());
        if asked || self.catches_calls(id) || self.may_ask_to_be_traced(id) {
            Resume::ToSystemCall
        } else {
            Resume::Continue
        }
    }

    /// Waits for a report of any thread; `None` where all that are to stop have slept for some time.
    pub(crate) fn wait_while_awake(&self) -> Result<Option<(Tid, Status)>, Errno> {
        let mut wait_limit = WaitLimit::new(STOP_LIMIT);
        loop {
            if let Some(report) = wait_queue::take(|id| self.threads.has(id)) {
                return Ok(Some(report));
            }
            if let Some(report) = wait_queue::poll_any()? {
                return Ok(Some(report));
            }
            if !wait_limit.lasts() {
                let mut expected = self.threads.iter().filter(|thread| thread.can_be_stopped());
                if expected.any(|thread| maps::sleeps(thread.id)) {
                    return Ok(None);
                }
                wait_limit = WaitLimit::new(STOP_LIMIT);
            }
        }
    }

    /// Waits for a thread that runs alone. One that takes too long is stopped where it is.
    pub(crate) fn answer_of(&mut self, id: Tid) -> Result<(Status, bool), Ran> {
        let gone = |process: &mut Self| {
            process.forget_threads(|other| other.id == id);
            Ran::Otherwise
        };
        match wait_within(id) {
            Ok(Some(status)) => return Ok((status, false)),
            Ok(None) => {}
            Err(_) => return Err(gone(self)),
        }
        let Some(thread) = self.threads.get_mut(id) else {
            return Err(Ran::Otherwise);
        };
        if maps::is_zombie(id) {
            // The end of the first thread is reported when the other threads are reaped, and not before.
            thread.exiting = true;
            return Err(Ran::Otherwise);
        }
        thread.interrupt();
        match wait_within(id) {
            Ok(Some(status)) => Ok((status, true)),
            Ok(None) => {
                thread.asleep = true;
                Err(Ran::Late)
            }
            Err(_) => Err(gone(self)),
        }
    }

    /// Resumes a thread until it traps.
    pub(crate) fn go_to_trap(&mut self, id: Tid, how: Resume) -> Ran {
        loop {
            let Some(thread) = self.threads.get_mut(id) else {
                return Ran::Otherwise;
            };
            thread.go_on(how, 0);
            let (status, late) = match self.answer_of(id) {
                Ok(answer) => answer,
                Err(ran) => return ran,
            };
            let Some(thread) = self.threads.get_mut(id) else {
                return Ran::Otherwise;
            };
            match status {
                Status::Signal(libc::SIGTRAP) => {
                    thread.has_stopped();
                    self.debug_registers.note_trigger(thread);
                    return Ran::Through;
                }
                Status::GroupStop(_) => {
                    thread.has_stopped();
                    thread.rejoin_group_stop = true;
                }
                Status::Interrupted => {
                    thread.has_stopped();
                    if late {
                        thread.interrupt_due.set(false);
                        return Ran::Late;
                    }
                }
                status => {
                    self.note(id, status);
                    if self
                        .threads
                        .get(id)
                        .is_none_or(|thread| thread.stopped().is_none() || thread.pending.is_some())
                    {
                        return Ran::Otherwise;
                    }
                }
            }
        }
    }
}

/// Some system calls fail with `EINTR` after a mere stop (signal(7) lists them). If no signal is the reason, the call
/// is started again, so that the program does not notice the tracer.
fn undo_interruption(abi: Abi, stopped: &Stopped) {
    /// The same of i386: `epoll_wait`, `epoll_pwait`, `epoll_pwait2`, `rt_sigtimedwait` in its two forms, `io_getevents`,
    /// `semtimedop_time64`, `msgrcv`, and `ipc`, which has the older ones; `read`, `write`, `readv`, `writev`, `socketcall`,
    /// `connect`, `accept4`, `sendto`, `sendmsg`, `recvfrom`, `recvmsg`, `sendmmsg`, and `recvmmsg` in its two forms.
    const NOT_RESTARTED_32: [libc::c_long; 23] = [
        256, 319, 441, 177, 421, 247, 420, 401, 117, 3, 4, 145, 146, 102, 362, 364, 369, 370, 371,
        372, 345, 337, 417,
    ];
    const NOT_RESTARTED: [libc::c_long; 21] = [
        // Of sockets with a timeout (socket(7), SO_RCVTIMEO).
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
        libc::SYS_msgrcv,
    ];
    let Ok(mut registers) = stopped.registers() else {
        return;
    };
    let not_restarted: &[libc::c_long] = match abi {
        Abi::Bits64 => &NOT_RESTARTED,
        Abi::Bits32 => &NOT_RESTARTED_32,
    };
    if registers.rax as i32 != -libc::EINTR
        || !not_restarted.contains(&(registers.orig_rax as libc::c_long))
    {
        return;
    }
    let Ok(status) = ThreadStatus::read(stopped.id()) else {
        return;
    };
    let pending = status.set("SigPnd") | status.set("ShdPnd");
    if pending & !status.set("SigBlk") == 0 {
        registers.rip = registers.rip.wrapping_sub(2);
        registers.rax = registers.orig_rax;
        let _ = stopped.set_registers(&registers);
    }
}
