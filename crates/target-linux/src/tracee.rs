//! A traced process: its threads, its memory, and the tracer's changes in it.
//!
//! This module is about threads that run, stop and are detached. Changes of the memory are made by
//! [`Patcher`](crate::patcher::Patcher), and events are handled by [`Process`](crate::Process).

use std::collections::BTreeMap;

use libc::siginfo_t;

use crate::abi::Abi;
use crate::affinity::Follower;
use crate::breakpoints::Breakpoints;
use crate::debugger::Debugger;
use crate::event::{Event, StopCause, stopped};
use crate::fast::Fast;
use crate::memory::Memory;
use crate::program::Program;
use crate::ptrace::{Status, Tid};
use crate::remote::RemoteCalls;
use crate::stopped_thread::{Collecting, Settings};
use crate::thread::{AtCall, Pending, SignalReport, Thread};
use crate::threads::Threads;
use crate::wait_queue;
use crate::watch::DebugRegisters;

/// A process that is traced by the calling thread. Dropping it detaches.
#[derive(Debug)]
pub(crate) struct Tracee {
    pub(crate) threads: Threads,
    pub(crate) debugger: Debugger,
    /// Processes that this one has made and that are reported to a debugger, until they are taken.
    pub(crate) born: Vec<Born>,
    /// The treatment of children that are not reported to a debugger.
    pub(crate) children: Children,
    pub(crate) memory: Memory,
    pub(crate) program: Program,
    pub(crate) breakpoints: Breakpoints,
    pub(crate) fast: Fast,
    pub(crate) remote: RemoteCalls,
    pub(crate) debug_registers: DebugRegisters,
    pub(crate) collecting: Collecting,
    pub(crate) follower: Follower,
    /// Nothing of the tracer is in the process, nor comes into it any more.
    pub(crate) is_cleared_out: bool,
}

/// The treatment of the processes that a process makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Children {
    /// They are detached.
    Released {
        /// How many had a copy of memory with tracepoints in it.
        with_tracepoints: u64,
    },
    /// They are traced, too.
    Followed,
}

/// How a process came to be that a traced one has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Birth {
    /// By fork, with a copy of the memory. It is stopped before its first instruction.
    Forked,
    /// It shared the memory until it became another program, stopped before its first instruction.
    Executed,
}

/// A new process that is reported to a debugger.
#[derive(Debug)]
pub(crate) struct Born {
    pub(crate) tracee: Tracee,
    pub(crate) birth: Birth,
    /// Where the debugger has breakpoints in it, as in the one that has made it.
    pub(crate) breakpoints: Vec<u64>,
}

impl Tracee {
    pub(crate) fn new(
        id: Tid,
        threads: BTreeMap<Tid, Thread>,
        memory: Memory,
        settings: Settings,
    ) -> Self {
        wait_queue::own(id);
        Self {
            threads: Threads::new(id, threads),
            debugger: Debugger::default(),
            born: Vec::new(),
            children: Children::Released {
                with_tracepoints: 0,
            },
            memory,
            program: Program::default(),
            breakpoints: Breakpoints::default(),
            fast: Fast::default(),
            remote: RemoteCalls::default(),
            debug_registers: DebugRegisters::default(),
            collecting: Collecting::new(settings),
            follower: Follower::new(settings.follow_cpu),
            is_cleared_out: false,
        }
    }

    /// Finds the program's word size, and the layout of its registers.
    pub(crate) fn choose_width(&mut self) {
        self.program.find_abi(self.threads.any());
        self.collecting.fit(self.program.abi());
    }

    /// Forgets the facts about the old program, and opens the memory of the new one.
    pub(crate) fn forget_image(&mut self) {
        self.threads.forget_ready();
        self.program.become_another();
        self.breakpoints = Breakpoints::default();
        self.fast = Fast::default();
        self.remote.forget_places();
        // The kernel has emptied those of the thread.
        self.debug_registers = DebugRegisters::default();
        if let Ok(memory) = Memory::open(self.threads.process()) {
            self.memory = memory;
        }
    }

    /// A new program is stopped before its first instruction.
    pub(crate) fn new_image(&mut self) {
        self.choose_width();
        self.program
            .look_at_start(&self.memory, self.threads.process());
    }

    /// Its libraries may have been loaded already.
    pub(crate) fn look_at_running(&mut self) {
        self.program
            .look_at_running(&self.memory, self.threads.any());
    }

    /// Forgets threads that are no more.
    pub(crate) fn forget_threads(&mut self, are_gone: impl Fn(&Thread) -> bool) {
        for id in self.threads.forget(are_gone) {
            self.fast.forget_thread(id);
        }
    }

    /// Waits for a report of a thread, of this process or another one.
    pub(crate) fn wait(&self) -> Result<(Tid, Status), nix::errno::Errno> {
        match wait_queue::take(|id| self.threads.has(id)) {
            Some(report) => Ok(report),
            None => wait_queue::wait_any(),
        }
    }

    /// Whether a debugger knows of a process.
    pub(crate) fn is_known(&self, process: Tid) -> bool {
        process == self.threads.process() || self.debugger.knows_child(process)
    }

    /// Whether a thread runs, or is about to, whose events a debugger could get.
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
                        // A first thread that ends before the others is reported only after them.
                        alone(thread.process)
                    } else {
                        !thread.held
                    }
            })
    }

    /// Whether the thread's events are reported to a debugger.
    pub(crate) fn is_debugged(&self, id: Tid) -> bool {
        self.debugger.is_there()
            && self
                .threads
                .get(id)
                .is_some_and(|thread| self.is_known(thread.process))
    }

    /// Whether a signal is reported to a debugger before the program gets it.
    pub(crate) fn is_reported(&self, id: Tid, info: &siginfo_t) -> bool {
        self.is_debugged(id)
            && (!self.debugger.passes(info.si_signo)
                // It may have to run a handler to its end before the step goes on.
                || self
                    .threads
                    .get(id)
                    .is_some_and(|thread| thread.debug_step.is_some())
                || self.is_fault_at_breakpoint(id, info))
            && self
                .threads
                .get(id)
                .is_some_and(|thread| thread.signal == SignalReport::New)
    }

    /// Whether a fault is a thread's arrival at a debugger's breakpoint in memory that is not executable. A debugger
    /// makes the functions that it calls return to such a place on the stack.
    fn is_fault_at_breakpoint(&self, id: Tid, info: &siginfo_t) -> bool {
        [libc::SIGSEGV, libc::SIGILL].contains(&info.si_signo)
            && self
                .threads
                .registers(id)
                .and_then(|registers| self.breakpoints.get(registers.rip))
                .is_some_and(|breakpoint| breakpoint.debugger)
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
        let (abi, own) = (self.program.abi(), self.threads.process());
        if let Some(thread) = self.threads.get_mut(id) {
            let caught = (thread.process == own).then_some(self.debugger.caught_calls());
            thread.note_call(abi, may_ask, caught);
        }
    }

    /// The return of the exec call by which a thread has become another program, if a debugger catches it.
    pub(crate) fn caught_exec(&self, id: Tid) -> Option<Pending> {
        let number = match self.program.abi() {
            Abi::Bits64 => 59,
            Abi::Bits32 => 11,
        };
        (self.catches_calls(id) && self.debugger.caught_calls().holds(number)).then_some(
            Pending::Call(AtCall {
                number,
                leaves: true,
                stepped: false,
            }),
        )
    }

    /// A debugger resumes a thread: the system call that the thread has left may be reported first. The kernel reports
    /// an event in the middle of a call before the call's end, so a step takes the thread to that end and no further.
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

    /// Whether a thread is a child by vfork that no debugger knows: it may request to be traced by its parent.
    pub(crate) fn may_ask_to_be_traced(&self, id: Tid) -> bool {
        self.threads.process_of(id) != self.threads.process()
            && !self.debugger.knows_child(id)
            && self.threads.parent_in_vfork(id).is_some()
    }

    /// Gives a stopped thread the debug registers that it should have.
    pub(crate) fn arm(&mut self, id: Tid) -> Result<(), nix::errno::Errno> {
        let own = self.threads.process();
        match self.threads.get_mut(id) {
            Some(thread) if thread.process == own => self.debug_registers.arm(thread),
            _ => Ok(()),
        }
    }

    /// Clears the debug registers of all threads, which are stopped and about to be detached.
    pub(crate) fn disarm_all(&mut self) {
        self.debug_registers.empty();
        for id in self.threads.ids() {
            if self.threads.get(id).is_some_and(|thread| thread.armed != 0) {
                // An error could not be reported to anyone.
                let _ = self.arm(id);
            }
        }
    }

    /// Why a debug register has stopped a thread, if that has not been reported and the watch still exists.
    pub(crate) fn take_trigger(&mut self, id: Tid) -> Option<StopCause> {
        let cause = self
            .debug_registers
            .take_trigger(self.threads.get_mut(id)?)?;
        self.is_debugged(id).then_some(cause)
    }

    /// Returns the event for the debugger after a thread has made a step to this address.
    pub(crate) fn debug_stepped(&mut self, id: Tid, at: u64) -> Option<Event> {
        let trigger = self.take_trigger(id);
        let thread = self.threads.get_mut(id)?;
        thread.stepped_from = at;
        if let Some(cause) = trigger {
            return Some(stopped(id, cause));
        }
        let range = thread.debug_step.as_ref()?;
        thread.repeated = None;
        (!range.contains(&at)).then(|| stopped(id, StopCause::Step))
    }
}
