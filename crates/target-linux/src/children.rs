//! Threads and processes that the traced one makes, programs that it becomes, and processes that share its memory.
//!
//! `vfork`, and `clone` with `CLONE_VM` only, make such a process. A breakpoint in that memory would kill it by SIGTRAP
//! if it were not traced, and a jump could be written while it executes the bytes. The kernel traces children of traced
//! threads. Those that exist at attaching are looked for here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use nix::errno::Errno;
use tracewire_fail_point::fail_point;

use crate::abi::Abi;
use crate::attach::{is_gone, is_ours, refusal};
use crate::error::{Error, thread_id};
use crate::fast::Fast;
use crate::maps::{Image, ThreadStatus, all_processes, threads};
use crate::memory::Memory;
use crate::ptrace::{Running, Status, Tid};
use crate::remote::RemoteCalls;
use crate::thread::{News, Pending, Phase, State, Thread};
use crate::tracee::{Birth, Born, Children, Tracee};
use crate::wait_limit::{WaitLimit, wait_within};
use crate::wait_queue;

impl Tracee {
    /// A process has become another program.
    pub(crate) fn note_exec(&mut self, id: Tid) {
        let Some(process) = self.threads.get(id).map(|thread| thread.process) else {
            return;
        };
        let group = ThreadStatus::read(id)
            .ok()
            .and_then(|status| status.number("Tgid"));
        if process == self.threads.process() && group.is_some_and(|group| group != process) {
            // Only the debugger saw it as a thread.
            self.forget_threads(|thread| thread.id == id);
            wait_queue::release(Running::born(id).stopped(), 0);
            return;
        }
        if process != self.threads.process() {
            // It has left the memory it shared with the traced one.
            self.threads.end_vfork(process);
            self.forget_threads(|thread| thread.process == process);
            if self.debugger.forget_child(process) || self.children == Children::Followed {
                self.separate(id);
            } else {
                wait_queue::release(Running::born(id).stopped(), 0);
            }
            return;
        }
        self.forget_threads(|thread| thread.id != id && thread.process == process);
        let mut thread = Thread::new(process, id, Running::born(id));
        thread.has_stopped();
        self.threads.add(thread);
        // The old memory is still open, and other processes may use it.
        self.release_unborn();
        self.release_strangers();
        self.forget_image();
        self.finish_exec(id);
    }

    /// A thread is stopped within exec: runs it to the first instruction of its new program.
    pub(crate) fn finish_exec(&mut self, id: Tid) {
        // From the middle of the call to its end, where the first instruction is next.
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
            // The new program is stopped where the call returns.
            thread.pending = call.or(thread.pending.take());
        }
    }

    /// Whether a reported thread is one of this process, which then records it. The kernel reports a new thread and its
    /// maker in any order, and only the thread if the maker was killed.
    pub(crate) fn claims(&mut self, id: Tid) -> bool {
        self.threads.has(id) || group_of(id).is_some_and(|group| self.claims_new(id, group))
    }

    /// As [`claims`](Self::claims), of a thread that it does not know, with its process.
    pub(crate) fn claims_new(&mut self, id: Tid, process: Tid) -> bool {
        let is_ours = self.threads.iter().any(|thread| thread.process == process);
        if is_ours {
            self.take_in_thread(process, id, true);
        }
        is_ours
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
    pub(crate) fn note_birth(&mut self, parent: Tid, event: i32) {
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
        if status.as_ref().is_err_and(says_gone) && !wait_queue::threads().contains(&child) {
            // It was reported and claimed, and its end was noted, all before its maker reported it: no more reports
            // follow.
            return;
        }
        let group = status.ok().and_then(|status| status.number("Tgid"));
        self.follower.born(parent, child);
        // A child that runs beside the threads of a process in the same memory is a thread of it for a debugger.
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
                // Its stop was already reported: no later wait reports it.
                self.threads.make_ready_once(child);
            }
        } else if self.children == Children::Followed {
            self.keep_copy(child);
        } else if self.debugger.reports().forks && self.is_debugged(parent) {
            self.keep_copy(child);
            if let Some(parent) = self.threads.get_mut(parent) {
                parent.news = Some(News::Forked(child));
            }
        } else {
            if self.breakpoints.has_tracepoints() || self.fast.has_jumps() {
                self.children.note_released();
            }
            self.release_copy(child);
        }
    }

    /// Detaches from a child that has a copy of the memory, after breakpoints are removed from the copy.
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
        let signal = match status {
            Status::Signal(signal) if signal != libc::SIGTRAP => signal,
            _ => 0,
        };
        wait_queue::release(stopped, signal);
    }

    /// Whether a child shares the memory of its parent.
    fn shares_memory(&self, parent: Tid, child: Tid, event: i32) -> bool {
        match share_memory(parent, child) {
            Some(shared) => shared,
            // The kernel is built without it: the arguments of the call decide.
            None => match event {
                libc::PTRACE_EVENT_FORK => false,
                libc::PTRACE_EVENT_VFORK => true,
                _ => self.asked_to_share_memory(parent),
            },
        }
    }

    /// Whether the clone that a thread is in has `CLONE_VM` among its flags.
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

    /// A child with a copy of the memory becomes a separate process, which is stopped. It has the debugger's
    /// breakpoints and no others.
    fn keep_copy(&mut self, child: Tid) {
        let Some(status) = first_stop(child) else {
            return;
        };
        let stopped = Running::born(child).stopped();
        fail_point!("fork/born");
        let _ = self.memory.uncover_copy(child);
        self.program.semaphores.lower_in_copy(child);
        let place = stopped.registers().ok().map(|registers| registers.rip);
        let moved = place.and_then(|place| self.true_address(place));
        if let Some(address) = moved {
            let _ = stopped.set_instruction_pointer(address);
        }
        let Ok(memory) = Memory::open(child) else {
            wait_queue::release(stopped, 0);
            return;
        };
        let mut thread = Thread::new(child, child, Running::born(child));
        thread.state = State::Stopped(stopped);
        thread.stopped_since = Some(Instant::now());
        thread.held = self.debugger.is_there();
        if let Status::Signal(signal) = status
            && signal != libc::SIGTRAP
        {
            thread.phase = Phase::TakesSignal;
            thread.pending = thread
                .stopped()
                .and_then(|stopped| stopped.signal_info().ok())
                .map(Pending::Signal);
        }
        let mut process = self.offspring(child, thread, memory);
        process.choose_width();
        process.look_at_running();
        process.debug_registers = self.debug_registers.clone();
        process.fast = Fast::copy_of(&self.fast, moved.or(place));
        process.remote = RemoteCalls::of_copy(&self.remote);
        process.program.sequences = self.program.sequences.clone();
        fail_point!("fork/followed");
        self.born.push(Born {
            tracee: process,
            birth: Birth::Forked,
            breakpoints: self.breakpoints.of_debugger().collect(),
        });
    }

    /// A child that shares the memory is to be debugged. It is stopped.
    pub(crate) fn take_in(&mut self, parent: Tid, child: Tid) {
        let Some(status) = first_stop(child) else {
            self.forget_threads(|thread| thread.id == child);
            return;
        };
        self.debugger.add_child(child);
        self.note(child, status);
        if let Some(thread) = self.threads.get_mut(child) {
            thread.held = true;
        }
        if let Some(parent) = self.threads.get_mut(parent) {
            parent.news = Some(News::Vforked(child));
        }
    }

    /// A child that shared the memory and is followed has become another program, and so a separate process.
    pub(crate) fn separate(&mut self, id: Tid) {
        let mut thread = Thread::new(id, id, Running::born(id));
        thread.has_stopped();
        let memory = match Memory::open(id) {
            Ok(memory) => memory,
            Err(_) => {
                if let State::Stopped(stopped) = thread.state {
                    wait_queue::release(stopped, 0);
                }
                return;
            }
        };
        let mut process = self.offspring(id, thread, memory);
        process.finish_exec(id);
        if self.children == Children::Followed {
            // It has not been reported to the debugger yet.
            if let Some(thread) = process.threads.get_mut(id) {
                thread.news = None;
            }
        }
        process.threads.make_ready(id);
        fail_point!("exec/followed");
        self.born.push(Born {
            tracee: process,
            birth: Birth::Executed,
            breakpoints: Vec::new(),
        });
    }

    fn offspring(&self, id: Tid, thread: Thread, memory: Memory) -> Self {
        let settings = self.collecting.settings();
        let mut process = Self::new(id, BTreeMap::from([(id, thread)]), memory, settings);
        process.debugger = self.debugger.of_child();
        process.children = self.children.of_child();
        process
    }

    /// Traces and stops all threads that share the memory and are not traced yet. Those that are traced are stopped. `strangers` are
    /// processes that are known not to share it.
    pub(crate) fn seize_sharing(&mut self, strangers: &BTreeSet<Tid>) -> Result<(), Error> {
        // A debugger's child is traced by its parent until it calls exec, which it does at once.
        let mut wait_limit = WaitLimit::of_vfork();
        loop {
            let (seized, refused) = self.seize_unknown(strangers);
            if seized {
                // Children that it made before it was traced are found in the next round.
                self.wait_until_all_stopped()?;
                continue;
            }
            match refused {
                None => break,
                Some(_) if wait_limit.lasts() => {}
                Some((process, thread, error)) => {
                    return Err(Error::SharesMemory {
                        process: thread_id(self.threads.process()),
                        other: thread_id(process),
                        reason: Box::new(refusal(process, thread, error)),
                    });
                }
            }
        }
        self.find_vforks();
        Ok(())
    }

    /// Starts tracing what is not traced yet. Returns whether there was anything, and what the kernel has refused.
    fn seize_unknown(&mut self, strangers: &BTreeSet<Tid>) -> (bool, Option<(Tid, Tid, Errno)>) {
        let mut seized = false;
        let mut refused = None;
        for process in self.sharing(strangers) {
            for thread in threads(process).unwrap_or_default() {
                if self.threads.has(thread) {
                    continue;
                }
                match Running::seize(thread) {
                    Ok(running) => {
                        let thread = Thread::new(process, thread, running);
                        thread.interrupt();
                        self.threads.add(thread);
                        seized = true;
                    }
                    Err(_) if is_gone(thread) || is_ours(thread) => {}
                    Err(error) => refused = refused.or(Some((process, thread, error))),
                }
            }
        }
        (seized, refused)
    }

    /// The processes that have this memory, the traced one among them.
    fn sharing(&self, strangers: &BTreeSet<Tid>) -> Vec<Tid> {
        let own = self.threads.any();
        let image = Image::of(own);
        let mut processes = all_processes();
        processes.retain(|process| {
            let may_share = || match (image, Image::of(*process)) {
                (Some(own), Some(other)) => own == other,
                _ => true,
            };
            *process == self.threads.process()
                || !strangers.contains(process)
                    && may_share()
                    && share_memory(own, *process) == Some(true)
                    && has_memory(*process)
        });
        processes
    }

    /// Finds the threads that wait in vfork, and their children.
    fn find_vforks(&mut self) {
        let processes: BTreeSet<Tid> = self.threads.iter().map(|thread| thread.process).collect();
        for child in processes {
            let Some(parent) = ThreadStatus::read(child)
                .ok()
                .and_then(|status| status.number("PPid"))
            else {
                continue;
            };
            let waiting = self.threads.iter_mut().find(|thread| {
                thread.process == parent
                    && thread.asleep
                    && thread.in_vfork.is_none()
                    && is_in_vfork(thread.id)
            });
            if let Some(waiting) = waiting {
                waiting.in_vfork = Some(child);
                waiting.asleep = false;
            }
        }
    }
}

/// The process of a thread that is not its first one.
pub(crate) fn group_of(id: Tid) -> Option<Tid> {
    let status = ThreadStatus::read(id).ok();
    let group = status.and_then(|status| status.number("Tgid"));
    group.filter(|group| *group != id)
}

impl Children {
    /// Notes a child that has tracepoints in its copy of the memory and was detached.
    const fn note_released(&mut self) {
        if let Self::Released { with_tracepoints } = self {
            *with_tracepoints += 1;
        }
    }

    /// The treatment of a child's own children.
    const fn of_child(self) -> Self {
        match self {
            Self::Released { .. } => Self::Released {
                with_tracepoints: 0,
            },
            Self::Followed => Self::Followed,
        }
    }
}

/// Whether an error of a thread's file means that there is no such thread: it has been reaped.
fn says_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The first stop of a new process: the kernel stops it before its first instruction. `None` when it has ended.
pub(crate) fn first_stop(child: Tid) -> Option<Status> {
    let status = match wait_queue::take(|id| id == child) {
        Some((_, status)) => status,
        None => wait_within(child).ok()??,
    };
    // Its end was reported too.
    let ended = wait_queue::take(|id| id == child).is_some();
    (!ended && !matches!(status, Status::Exited(_) | Status::Killed(..))).then_some(status)
}

/// Whether a thread sleeps in a system call that may be a vfork: only there does the maker of a process wait for it.
fn is_in_vfork(thread: Tid) -> bool {
    /// `vfork`, `clone` and `clone3` of i386.
    const CALLS_32: [libc::c_long; 3] = [190, 120, 435];
    const CALLS: [libc::c_long; 3] = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    let calls = match Abi::of_program(thread).flatten() {
        Some(Abi::Bits32) => CALLS_32,
        _ => CALLS,
    };
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall"));
    line.ok()
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .is_some_and(|call| calls.contains(&call))
}

/// The processes of the machine that do not share the memory of one, which runs.
///
/// The kernel answers the question about a process that becomes another program when that is done, which takes as long as that one
/// waits for a processor. So the question is put before the program is stopped.
pub(crate) fn strangers(process: Tid) -> BTreeSet<Tid> {
    let image = Image::of(process);
    let mut all = all_processes();
    all.retain(|other| *other != process && share_memory(process, *other) == Some(false));
    // A first thread that has ended shares its memory with nobody, and says nothing about the others.
    if image.is_none() || Image::of(process) != image {
        return BTreeSet::new();
    }
    all.into_iter().collect()
}

/// Whether two threads share their memory; `None` if the kernel does not support the question.
pub(crate) fn share_memory(one: Tid, other: Tid) -> Option<bool> {
    /// `KCMP_VM`.
    const ADDRESS_SPACE: libc::c_int = 1;
    // SAFETY: kcmp takes plain numbers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, ADDRESS_SPACE, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// Whether a process has memory. One that has ended and a kernel thread have none.
fn has_memory(process: Tid) -> bool {
    std::fs::read_link(format!("/proc/{process}/exe")).is_ok()
}
