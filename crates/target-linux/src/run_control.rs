//! Resumes and holds single threads.

use std::mem::MaybeUninit;

use libc::siginfo_t;
use tracewire_experiment::HitHandler;
use tracewire_model::ThreadId;

use crate::breakpoints::Purpose;
use crate::debugger::Reports;
use crate::error::{Error, thread_id};
use crate::event::Resumption;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::thread::{News, Pending, Phase, SignalReport};

impl Process {
    /// Resumes threads that a debugger holds, each as requested, by process and thread number. Threads without a
    /// request stay stopped. Threads that are created meanwhile run.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn resume(
        &mut self,
        mut what: impl FnMut(ThreadId, ThreadId) -> Option<Resumption>,
    ) -> Result<(), Error> {
        self.tracee.debugger.come();
        let held: Vec<(Tid, Tid)> = self
            .tracee
            .threads
            .iter()
            .filter(|thread| thread.held && self.tracee.is_known(thread.process))
            .map(|thread| (thread.process, thread.id))
            .collect();
        for (process, id) in held {
            if let Some(what) = what(thread_id(process), thread_id(id)) {
                self.prepare(id, what);
            }
        }
        self.start_idle()
    }

    fn prepare(&mut self, id: Tid, what: Resumption) {
        self.tracee
            .note_left_call(id, matches!(what, Resumption::Step(..)));
        let Some(thread) = self.tracee.threads.get_mut(id) else {
            return;
        };
        thread.held = false;
        thread.debug_step = None;
        let signal = match what {
            Resumption::Continue(signal) => signal,
            Resumption::Step(signal, range) => {
                thread.debug_step = Some(range);
                signal
            }
        };
        let registers = thread.registers();
        if let Some(registers) = registers {
            thread.stepped_from = registers.rip;
            // The breakpoint that it has hit is removed: the next hit counts.
            if !self.tracee.breakpoints.has(registers.rip) {
                thread.repeated.take_if(|(site, _)| *site == registers.rip);
            }
        }
        match &mut thread.pending {
            Some(Pending::Signal(info)) if thread.signal == SignalReport::Reported => {
                match signal {
                    0 => {
                        thread.pending = None;
                        thread.signal = SignalReport::New;
                    }
                    signal => {
                        if signal != info.si_signo {
                            *info = plain_signal(signal);
                        }
                        thread.signal = SignalReport::Granted;
                    }
                }
            }
            // It was given a signal before and has not run far enough to get it: it gets that one now.
            _ if signal == 0 => {}
            None if thread.phase == Phase::TakesSignal => {
                thread.pending = Some(Pending::Signal(plain_signal(signal)));
                thread.signal = SignalReport::Granted;
            }
            _ => {
                // It was stopped in a state in which it cannot be resumed with a signal: the signal is sent.
                thread.sent.push(signal);
                // SAFETY: tkill takes plain numbers.
                unsafe { libc::syscall(libc::SYS_tkill, id, signal) };
            }
        }
    }

    /// Asks a thread to stop while others run. It is reported as [`StopCause::Asked`](crate::StopCause::Asked), unless
    /// something else happens to it first.
    pub fn stop_thread(&mut self, thread: ThreadId) {
        let id = thread.0.cast_signed();
        let Some(thread) = self.tracee.threads.get_mut(id) else {
            return;
        };
        if thread.held || thread.exiting {
            return;
        }
        thread.stop_wanted = true;
        if thread.stopped().is_some() {
            self.tracee.threads.make_ready(id);
        } else {
            thread.interrupt();
        }
    }

    /// Holds a thread that has reported something, moved to the program's own code. Others run on.
    pub fn hold(&mut self, thread: ThreadId) {
        let id = thread.0.cast_signed();
        if let Some(thread) = self.tracee.threads.get_mut(id) {
            thread.held = true;
            thread.stop_wanted = false;
            thread.debug_step = None;
            self.tracee.settle_one(id);
        }
    }

    /// Sends the process the signal of the terminal's interrupt key.
    pub fn interrupt(&self) {
        use nix::sys::signal::{Signal, kill};
        // A process that has ended needs none.
        let _ = kill(
            nix::unistd::Pid::from_raw(self.tracee.threads.process()),
            Signal::SIGINT,
        );
    }

    /// Whether a debugger holds the thread.
    #[must_use]
    pub fn is_held(&self, thread: ThreadId) -> bool {
        self.tracee
            .threads
            .get(thread.0.cast_signed())
            .is_some_and(|thread| thread.held)
    }

    /// Stops every thread and holds it, moved to the program's own code.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn stop_all(&mut self, handler: &mut dyn HitHandler) -> Result<(), Error> {
        self.tell_gone(handler);
        self.tracee.follower.rest();
        self.tracee.stop_all()?;
        self.tracee.settle_all();
        self.hold_all();
        Ok(())
    }

    /// Holds every thread. All of them are stopped.
    pub fn hold_all(&mut self) {
        let known: Vec<Tid> = self
            .tracee
            .threads
            .iter()
            .filter(|thread| self.tracee.is_known(thread.process))
            .map(|thread| thread.id)
            .collect();
        for id in known {
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.held = true;
                thread.stop_wanted = false;
            }
        }
    }

    /// Does something that needs every thread to be stopped, and resumes those that ran.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn at_rest<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Result<T, Error> {
        let running: Vec<Tid> = self
            .tracee
            .threads
            .iter()
            .filter(|thread| thread.stopped().is_none())
            .map(|thread| thread.id)
            .collect();
        if running.is_empty() {
            return Ok(work(self));
        }
        self.tracee.stop_all()?;
        let result = work(self);
        for id in running {
            let Some(thread) = self.tracee.threads.get_mut(id) else {
                continue;
            };
            let place = thread.registers().map(|registers| registers.rip);
            if let Some(place) = place
                && !self.tracee.breakpoints.has(place)
            {
                thread.repeated.take_if(|(site, _)| *site == place);
            }
        }
        self.tracee.go_on_stopped(0)?;
        Ok(result)
    }

    /// Stops every thread of several processes, all of them asked before one is waited for.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing one of them. The others are stopped.
    pub fn halt_all<'p>(processes: impl IntoIterator<Item = &'p mut Self>) -> Result<(), Error> {
        let processes: Vec<&mut Self> = processes.into_iter().collect();
        for process in &processes {
            process.tracee.threads.interrupt();
        }
        let mut halted = Ok(());
        for process in processes {
            process.tracee.follower.rest();
            halted = halted.and(process.tracee.wait_until_all_stopped());
            process.come_to_rest();
        }
        halted
    }

    /// Lets it run from now on. What happens to it is seen in the next run.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn go_on(&mut self) -> Result<(), Error> {
        match self.leave_rest() {
            // What is put in is put in where it is asked for: processes that are stopped together go on together.
            true => self.resume_idle(),
            false => Ok(()),
        }
    }

    /// Follows the loading of libraries from now on, as every run does.
    pub fn follow_libraries(&mut self) {
        self.patcher().place_loader_hook();
    }

    /// Chooses what is reported from now on.
    pub const fn set_reports(&mut self, reports: Reports) {
        self.tracee.debugger.set_reports(reports);
    }

    /// Whether this is the number of the process, or of a child by vfork that was reported and shares its memory.
    #[must_use]
    pub fn holds(&self, process: ThreadId) -> bool {
        self.process_ids().any(|id| id == process)
    }

    /// The number of the process, and those of the children that share its memory and were reported.
    pub fn process_ids(&self) -> impl Iterator<Item = ThreadId> + '_ {
        std::iter::once(self.tracee.threads.process())
            .chain(self.tracee.debugger.children())
            .map(thread_id)
    }

    /// The threads that a debugger knows, each after its process.
    pub fn debugged_threads(&self) -> impl Iterator<Item = (ThreadId, ThreadId)> + '_ {
        self.tracee
            .threads
            .iter()
            .filter(|thread| {
                !thread.exiting
                    && (thread.process == self.tracee.threads.process()
                        || self.tracee.debugger.knows_child(thread.process))
            })
            .map(|thread| (thread_id(thread.process), thread_id(thread.id)))
    }

    /// The children by fork that have not been reported yet.
    pub fn new_children(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.tracee
            .threads
            .iter()
            .filter_map(|thread| match thread.news {
                Some(News::Forked(child)) => Some(thread_id(child)),
                _ => None,
            })
    }

    /// Takes the processes that this one has made and that are reported to a debugger.
    pub(crate) fn take_born(&mut self) -> Vec<Self> {
        let born = std::mem::take(&mut self.tracee.born);
        born.into_iter()
            .map(|born| {
                let mut process = Self::of(born.tracee);
                for site in born.breakpoints {
                    // If it fails, the debugger, which inserted it in the parent, notices when it removes it.
                    let _ = process.patcher().insert_breakpoint(site, Purpose::Debugger);
                }
                process
            })
            .collect()
    }

    /// Detaches the debugger from a child that shares the memory. The child is still traced, because of the breakpoints
    /// in that memory, until it has left it.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn let_child_go(&mut self, child: ThreadId) -> Result<(), crate::Error> {
        let child = child.0.cast_signed();
        if !self.tracee.debugger.forget_child(child) {
            return Ok(());
        }
        let threads: Vec<Tid> = self
            .tracee
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
            self.tracee.go_on(id, 0)?;
        }
        Ok(())
    }

    /// Kills a child that shares the memory, and waits for its end.
    pub fn kill_child(&mut self, child: ThreadId) {
        let child = child.0.cast_signed();
        if !self.tracee.debugger.forget_child(child) {
            return;
        }
        crate::process::send_kill(child);
        while self
            .tracee
            .threads
            .iter()
            .any(|thread| thread.process == child)
        {
            match self.tracee.wait() {
                Ok((id, status)) if self.tracee.claims(id) => self.tracee.note(id, status),
                Ok((id, status)) => crate::wait_queue::keep(id, status),
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }
}

/// A signal that only the debugger has sent.
fn plain_signal(signal: i32) -> siginfo_t {
    // SAFETY: all-zero bytes are a valid siginfo_t.
    let mut info: siginfo_t = unsafe { MaybeUninit::zeroed().assume_init() };
    info.si_signo = signal;
    info
}
