//! Bringing all threads to a stop, and what a stop tells.

use nix::errno::Errno;

use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::maps::ThreadStatus;
use crate::patience::wait_within;
use crate::process::Process;
use crate::ptrace::{Resume, Running, Status, Stopped, Tid};
use crate::sharing::share_memory;
use crate::thread::{News, Pending, Thread};
use crate::wait_queue;
use crate::width::Width;
use tracewire_fail_point::fail_point;

/// What `si_code` is in the stop of a thread that is about to end.
const EXIT_STOP: i32 = libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8;

impl Process {
    /// Stops every thread. A thread that waits in vfork stays there, one that is about to end is left to it, and one that
    /// sleeps in the kernel and cannot be stopped there is left asleep: none of them executes anything of the program.
    pub(crate) fn halt(&mut self) -> Result<(), Error> {
        self.threads.interrupt();
        self.await_halt()
    }

    /// Waits until every thread has stopped; all have been asked to.
    pub(crate) fn await_halt(&mut self) -> Result<(), Error> {
        // Whoever tells something is heard: a thread that becomes another program is stopped only once the others
        // are gone, and those are gone only once their end has been heard.
        while self.threads.any_can_be_stopped() {
            fail_point!("halt/waiting");
            match self.wait_while_awake() {
                Ok(Some((id, status))) if self.claims(id) => self.halted(id, status),
                Ok(Some((id, status))) => wait_queue::keep(id, status),
                Ok(None) => self.threads.leave_asleep(),
                // A signal of ours does not end the wait.
                Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => self.forget_threads(Thread::can_be_stopped),
                Err(error) => return Err(Error::system("waitpid", self.threads.process(), error)),
            }
        }
        Ok(())
    }

    /// Takes note of what a wait tells while all threads are to stop.
    pub(crate) fn halted(&mut self, id: Tid, status: Status) {
        self.note(id, status);
        let how = self.way_out_of_call(id);
        if matches!(status, Status::Event(_) | Status::SystemCall)
            && let Some(thread) = self.threads.get_mut(id)
            && thread.pending.is_none()
            && !thread.waits_for_vfork()
            && thread.stopped().is_some()
        {
            // In the middle of a system call: on to its end, where registers are its own.
            thread.interrupt_next();
            thread.go_on(how, 0);
        }
    }

    /// Takes note of what a wait tells of a known thread. What cannot wait is done; what can is left pending.
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
                    thread.mid_call = true;
                    self.note_birth(id, event);
                }
            }
            Status::Event(libc::PTRACE_EVENT_VFORK_DONE) => {
                let news = (self.debugger.reports().vforks && self.is_debugged(id))
                    .then_some(News::VforkDone);
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.mid_call = true;
                    thread.in_vfork = None;
                    thread.news = thread.news.or(news);
                }
            }
            Status::Event(_) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.mid_call = true;
                }
            }
            Status::Interrupted => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.interrupt_due.set(false);
                    if let Some(stopped) = thread.stopped() {
                        undo_interruption(self.program.width(), stopped);
                    }
                }
            }
            Status::GroupStop(_) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.interrupt_due.set(false);
                    thread.group_stopped = true;
                    thread.rejoin_group_stop = false;
                }
            }
            Status::SystemCall => self.note_call(id),
            Status::Signal(_) => {
                if let Some(thread) = self.threads.get_mut(id) {
                    thread.has_stopped();
                    thread.takes_signal = true;
                    thread.approved = false;
                    let info = thread
                        .stopped()
                        .and_then(|stopped| stopped.signal_info().ok());
                    match info {
                        // Killed meanwhile by an exec or an exit, it stands at its end already.
                        Some(info) if info.si_code == EXIT_STOP => {
                            thread.exiting = true;
                            thread.go_on(Resume::Continue, 0);
                        }
                        // A thread that is gone tells of its end next.
                        info => {
                            thread.approved = info.is_some_and(|info| thread.was_sent(&info));
                            thread.granted = thread.approved;
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

    /// A process has become another program.
    fn note_exec(&mut self, id: Tid) {
        let Some(process) = self.threads.get(id).map(|thread| thread.process) else {
            return;
        };
        let group = ThreadStatus::read(id)
            .ok()
            .and_then(|status| status.number("Tgid"));
        if process == self.threads.process() && group.is_some_and(|group| group != process) {
            // It was a thread to the debugger alone.
            self.forget_threads(|thread| thread.id == id);
            Running::born(id).stopped().detach(0);
            return;
        }
        if process != self.threads.process() {
            // It has left the memory it shared with the traced one.
            self.threads.end_vfork(process);
            self.forget_threads(|thread| thread.process == process);
            if self.debugger.forget_child(process) {
                self.separate(id);
            } else {
                Running::born(id).stopped().detach(0);
            }
            return;
        }
        self.forget_threads(|thread| thread.id != id && thread.process == process);
        let mut thread = Thread::new(process, id, Running::born(id));
        thread.has_stopped();
        self.threads.add(thread);
        // The old memory is still open, and may have others in it.
        self.release_unborn();
        self.release_strangers();
        self.forget_image();
        self.finish_exec(id);
    }

    /// How a thread gets from the middle of a system call to its end.
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

    /// A thread stands in the middle of becoming another program: takes it to its first instruction.
    pub(crate) fn finish_exec(&mut self, id: Tid) {
        // From the middle of the call to its end, where a first instruction is next.
        loop {
            let how = self.way_out_of_call(id);
            let Some(thread) = self.threads.get_mut(id) else {
                return;
            };
            thread.interrupt_next();
            thread.go_on(how, 0);
            match self.answer_of(id) {
                Ok((Status::Event(_), _)) => {
                    if let Some(thread) = self.threads.get_mut(id) {
                        thread.has_stopped();
                    }
                }
                Ok((status, _)) => {
                    self.note(id, status);
                    break;
                }
                Err(_) => return,
            }
        }
        self.new_image();
        let call = self.caught_exec(id);
        if let Some(thread) = self.threads.get_mut(id) {
            thread.news = Some(News::Exec);
            // The new program stands where the call returns.
            thread.pending = call.or(thread.pending.take());
        }
    }

    /// Whether a thread that a wait has reported is one of this process, which it then has. A new thread is reported by
    /// itself as well as by the one that has made it, in any order, and by itself alone where the other one was killed.
    pub(crate) fn claims(&mut self, id: Tid) -> bool {
        if self.threads.has(id) {
            return true;
        }
        let group = ThreadStatus::read(id)
            .ok()
            .and_then(|status| status.number("Tgid"))
            .filter(|group| *group != id);
        let process = self
            .threads
            .iter()
            .map(|thread| thread.process)
            .find(|process| Some(*process) == group);
        if let Some(process) = process {
            self.take_in_thread(process, id, true);
        }
        process.is_some()
    }

    fn take_in_thread(&mut self, process: Tid, id: Tid, is_thread: bool) {
        let mut thread = Thread::new(process, id, Running::born(id));
        if is_thread
            && self.debugger.reports().threads
            && self.debugger.is_there()
            && self.is_known(process)
        {
            thread.news = Some(News::Created);
        }
        self.threads.add(thread);
    }

    /// A traced thread has made a thread or a process.
    fn note_birth(&mut self, parent: Tid, event: i32) {
        let Some(child) = self
            .threads
            .stopped(parent)
            .and_then(|stopped| stopped.event_message().ok())
            .and_then(|message| Tid::try_from(message).ok())
        else {
            return;
        };
        let family = self.threads.process_of(parent);
        let status = ThreadStatus::read(child);
        if status.as_ref().is_err_and(is_gone) && !wait_queue::threads().contains(&child) {
            // It was reported by itself, has been claimed, and its end has been noted, all before its maker reported it: nothing
            // more will ever be heard of it.
            return;
        }
        let group = status.ok().and_then(|status| status.number("Tgid"));
        self.follower.born(parent, child);
        // To a debugger, whoever is made to run beside the others in their memory is one of them.
        let is_thread = event == libc::PTRACE_EVENT_CLONE
            && (group == Some(family)
                || self.is_debugged(parent) && self.shares_memory(parent, child, event));
        if event == libc::PTRACE_EVENT_VFORK
            && let Some(parent) = self.threads.get_mut(parent)
        {
            parent.in_vfork = Some(child);
        }
        if is_thread || self.shares_memory(parent, child, event) {
            let process = if is_thread {
                family
            } else {
                group.unwrap_or(child)
            };
            if !self.threads.has(child) {
                self.take_in_thread(process, child, is_thread);
            }
            if !is_thread
                && event == libc::PTRACE_EVENT_VFORK
                && self.debugger.reports().vforks
                && self.is_debugged(parent)
            {
                self.take_in(parent, child);
                return;
            }
            if let Some((_, status)) = wait_queue::take(|id| id == child) {
                self.note(child, status);
                // Its stop has been heard already: no wait will bring it up again.
                self.threads.make_ready_once(child);
            }
        } else if self.debugger.reports().forks && self.is_debugged(parent) {
            self.keep_copy(parent, child);
        } else {
            self.release_copy(child);
        }
    }

    /// A child with a copy of the memory goes its own way, without our breakpoints.
    pub(crate) fn release_copy(&mut self, child: Tid) {
        let Some(status) = first_stop(child) else {
            return;
        };
        let stopped = Running::born(child).stopped();
        let _ = self.memory.uncover_copy(child);
        self.program.semaphores.lower_in_copy(child);
        if let Ok(registers) = stopped.registers()
            && let Some(address) = self.true_address(registers.rip)
        {
            let _ = stopped.set_instruction_pointer(address);
        }
        stopped.detach(match status {
            Status::Signal(signal) if signal != libc::SIGTRAP => signal,
            _ => 0,
        });
    }

    /// Whether a child shares the memory of its parent.
    fn shares_memory(&self, parent: Tid, child: Tid, event: i32) -> bool {
        match share_memory(parent, child) {
            Some(shared) => shared,
            // The kernel is built without it: what was asked for tells.
            None => match event {
                libc::PTRACE_EVENT_FORK => false,
                libc::PTRACE_EVENT_VFORK => true,
                _ => self.asked_to_share_memory(parent),
            },
        }
    }

    /// Whether the clone that a thread is in asks for `CLONE_VM`.
    fn asked_to_share_memory(&self, parent: Tid) -> bool {
        let Some(registers) = self.threads.registers(parent) else {
            return false;
        };
        let flags = match registers.orig_rax as libc::c_long {
            libc::SYS_clone3 => self.memory.read_u64(registers.rdi).unwrap_or(0),
            _ => registers.rdi,
        };
        flags & libc::CLONE_VM as u64 != 0
    }
}

/// Whether an error of a thread's file says that there is no such thread: its end has been waited for.
fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// What a new process has stopped for: the kernel stops it before its first instruction. None when it is gone.
pub(crate) fn first_stop(child: Tid) -> Option<Status> {
    let status = match wait_queue::take(|id| id == child) {
        Some((_, status)) => status,
        None => wait_within(child).ok()??,
    };
    // An end that was heard too.
    let ended = wait_queue::take(|id| id == child).is_some();
    (!ended && !matches!(status, Status::Exited(_) | Status::Killed(..))).then_some(status)
}

/// Some system calls fail with `EINTR` when the thread is merely stopped (signal(7) lists them). Where no signal
/// is the reason, the call is started again, so that the program does not notice us.
fn undo_interruption(width: Width, stopped: &Stopped) {
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
    let not_restarted: &[libc::c_long] = match width {
        Width::Bits64 => &NOT_RESTARTED,
        Width::Bits32 => &NOT_RESTARTED_32,
    };
    if registers.rax as i32 != -libc::EINTR
        || !not_restarted.contains(&(registers.orig_rax as libc::c_long))
    {
        return;
    }
    let Ok(status) = ThreadStatus::read(stopped.id()) else {
        return;
    };
    let pending = status.signals("SigPnd") | status.signals("ShdPnd");
    if pending & !status.signals("SigBlk") == 0 {
        registers.rip = registers.rip.wrapping_sub(2);
        registers.rax = registers.orig_rax;
        let _ = stopped.set_registers(&registers);
    }
}
