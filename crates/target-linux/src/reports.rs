//! Children and threads that a debugger is told of.

use std::collections::BTreeMap;

use tracewire_model::ThreadId;

use crate::breakpoints::Purpose;
use crate::debugger::Reports;
use crate::error::thread_id;
use crate::halt::first_stop;
use crate::memory::Memory;
use crate::process::Process;
use crate::ptrace::{Running, Status, Tid};
use crate::thread::{News, Pending, State, Thread};

impl Process {
    /// Chooses what is reported from now on.
    pub const fn set_reports(&mut self, reports: Reports) {
        self.debugger.set_reports(reports);
    }

    /// Whether this is the number of the process, or of a child by vfork that was reported and shares its memory.
    #[must_use]
    pub fn holds(&self, process: ThreadId) -> bool {
        self.process_ids().any(|id| id == process)
    }

    /// The number of the process, and those of the children that share its memory and were reported.
    pub fn process_ids(&self) -> impl Iterator<Item = ThreadId> + '_ {
        std::iter::once(self.threads.process())
            .chain(self.debugger.children())
            .map(thread_id)
    }

    /// The threads that a debugger knows of, each with its process before it.
    pub fn debugged_threads(&self) -> impl Iterator<Item = (ThreadId, ThreadId)> + '_ {
        self.threads
            .iter()
            .filter(|thread| {
                !thread.exiting
                    && (thread.process == self.threads.process()
                        || self.debugger.knows_child(thread.process))
            })
            .map(|thread| (thread_id(thread.process), thread_id(thread.id)))
    }

    /// The children by fork that are yet to be told of.
    pub fn new_children(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.threads.iter().filter_map(|thread| match thread.news {
            Some(News::Forked(child)) => Some(thread_id(child)),
            _ => None,
        })
    }

    /// Whether a thread runs, or is about to, that a debugger could be told of.
    pub(crate) fn is_going(&self) -> bool {
        let alone = |process| {
            self.threads
                .iter()
                .all(|thread| thread.process != process || thread.exiting)
        };
        self.threads.ended.is_some()
            || self.threads.has_ending()
            || self.threads.iter().any(|thread| {
                self.is_known(thread.process)
                    && if thread.exiting {
                        // A first thread that ends before others tells of it only after them.
                        alone(thread.process)
                    } else {
                        !thread.held
                    }
            })
    }

    /// Whether a debugger knows of a process.
    pub(crate) fn is_known(&self, process: Tid) -> bool {
        process == self.threads.process() || self.debugger.knows_child(process)
    }

    pub(crate) fn take_born(&mut self) -> Vec<Self> {
        std::mem::take(&mut self.born)
    }

    /// A child with a copy of the memory becomes a process of its own, which stands. It has the debugger's breakpoints.
    pub(crate) fn keep_copy(&mut self, parent: Tid, child: Tid) {
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
        let Ok(memory) = Memory::open(child) else {
            stopped.detach(0);
            return;
        };
        let mut thread = Thread::new(child, child, Running::born(child));
        thread.state = State::Stopped(stopped);
        thread.held = true;
        if let Status::Signal(signal) = status
            && signal != libc::SIGTRAP
        {
            thread.takes_signal = true;
            thread.pending = thread
                .stopped()
                .and_then(|stopped| stopped.signal_info().ok())
                .map(Pending::Signal);
        }
        let mut process = self.offspring(child, thread, memory);
        process.choose_width();
        process.look_at_running();
        for site in self.breakpoints.of_debugger() {
            // The debugger, which has put them into the parent, finds out when it takes them out.
            let _ = process.insert_breakpoint(site, Purpose::Debugger);
        }
        process.debug_registers = self.debug_registers.clone();
        self.born.push(process);
        if let Some(parent) = self.threads.get_mut(parent) {
            parent.news = Some(News::Forked(child));
        }
    }

    /// A child that shares the memory is to be debugged. It stands.
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

    /// A debugged child that shared the memory has become another program, and so a process of its own.
    pub(crate) fn separate(&mut self, id: Tid) {
        let mut thread = Thread::new(id, id, Running::born(id));
        thread.has_stopped();
        let memory = match Memory::open(id) {
            Ok(memory) => memory,
            Err(_) => {
                if let State::Stopped(stopped) = thread.state {
                    stopped.detach(0);
                }
                return;
            }
        };
        let mut process = self.offspring(id, thread, memory);
        process.finish_exec(id);
        process.threads.make_ready(id);
        self.born.push(process);
    }

    fn offspring(&self, id: Tid, thread: Thread, memory: Memory) -> Self {
        let settings = self.collecting.settings();
        let mut process = Self::new(id, BTreeMap::from([(id, thread)]), memory, settings);
        process.debugger = self.debugger.of_child();
        process
    }

    /// Leaves a child that shares the memory to itself. It is still followed, for the breakpoints in that memory, until
    /// it has left it.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn let_child_go(&mut self, child: ThreadId) -> Result<(), crate::Error> {
        let child = child.0.cast_signed();
        if !self.debugger.forget_child(child) {
            return Ok(());
        }
        let threads: Vec<Tid> = self
            .threads
            .iter_mut()
            .filter(|thread| thread.process == child)
            .map(|thread| {
                thread.held = false;
                thread.debug_step = None;
                thread.id
            })
            .collect();
        for id in threads {
            self.go_on(id, 0)?;
        }
        Ok(())
    }

    /// Kills a child that shares the memory, and waits for its end.
    pub fn kill_child(&mut self, child: ThreadId) {
        let child = child.0.cast_signed();
        if !self.debugger.forget_child(child) {
            return;
        }
        crate::process::send_kill(child);
        while self.threads.iter().any(|thread| thread.process == child) {
            match self.wait() {
                Ok((id, status)) if self.claims(id) => self.note(id, status),
                Ok((id, status)) => crate::wait_queue::keep(id, status),
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }
}
