//! Letting threads go and holding them, one by one.

use std::mem::MaybeUninit;

use libc::siginfo_t;
use tracewire_experiment::HitHandler;
use tracewire_model::ThreadId;

use crate::error::{Error, thread_id};
use crate::event::Resumption;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::thread::Pending;

impl Process {
    /// Lets threads go on that a debugger holds, each as it is said of it, by its process and its own number; those of
    /// which nothing is said stand. Threads that are made meanwhile run.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn resume(
        &mut self,
        mut what: impl FnMut(ThreadId, ThreadId) -> Option<Resumption>,
    ) -> Result<(), Error> {
        self.debugger.come();
        let held: Vec<(Tid, Tid)> = self
            .threads
            .iter()
            .filter(|thread| thread.held && self.is_known(thread.process))
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
        self.note_left_call(id, matches!(what, Resumption::Step(..)));
        let Some(thread) = self.threads.get_mut(id) else {
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
            // It has come by a breakpoint that is no longer there: the next time counts.
            if !self.breakpoints.has(registers.rip) {
                thread.repeated.take_if(|(site, _)| *site == registers.rip);
            }
        }
        match &mut thread.pending {
            Some(Pending::Signal(info)) if thread.approved && !thread.granted => match signal {
                0 => {
                    thread.pending = None;
                    thread.approved = false;
                }
                signal => {
                    if signal != info.si_signo {
                        *info = plain_signal(signal);
                    }
                    thread.granted = true;
                }
            },
            // One that it was given before, and has not gone far enough to get, it gets now.
            _ if signal == 0 => {}
            None if thread.takes_signal => {
                thread.pending = Some(Pending::Signal(plain_signal(signal)));
                thread.approved = true;
                thread.granted = true;
            }
            _ => {
                // It was stopped in a way in which the kernel takes no signal along: it is sent one.
                thread.sent.push(signal);
                // SAFETY: tkill takes plain numbers.
                unsafe { libc::syscall(libc::SYS_tkill, id, signal) };
            }
        }
    }

    /// Asks a thread to stop while others run: it tells of it ([`StopCause::Asked`](crate::StopCause::Asked)), unless
    /// something else happens to it before.
    pub fn stop_thread(&mut self, thread: ThreadId) {
        let id = thread.0.cast_signed();
        let Some(thread) = self.threads.get_mut(id) else {
            return;
        };
        if thread.held || thread.exiting {
            return;
        }
        thread.stop_wanted = true;
        if thread.stopped().is_some() {
            self.threads.make_ready(id);
        } else {
            thread.interrupt();
        }
    }

    /// Holds a thread that has told of something, where the program has it and not in code of ours. Others run on.
    pub fn hold(&mut self, thread: ThreadId) {
        let id = thread.0.cast_signed();
        if let Some(thread) = self.threads.get_mut(id) {
            thread.held = true;
            thread.stop_wanted = false;
            thread.debug_step = None;
            self.settle_one(id);
        }
    }

    /// Sends the process what the terminal's interrupt key sends.
    pub fn interrupt(&self) {
        use nix::sys::signal::{Signal, kill};
        // One that has ended needs none.
        let _ = kill(
            nix::unistd::Pid::from_raw(self.threads.process()),
            Signal::SIGINT,
        );
    }

    /// Whether a debugger holds the thread.
    #[must_use]
    pub fn is_held(&self, thread: ThreadId) -> bool {
        self.threads
            .get(thread.0.cast_signed())
            .is_some_and(|thread| thread.held)
    }

    /// Brings every thread to a stand and holds it, where the program has it and not in code of ours.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn stand(&mut self, handler: &mut dyn HitHandler) -> Result<(), Error> {
        self.tell_gone(handler);
        self.follower.rest();
        self.halt()?;
        self.settle_all();
        self.hold_all();
        Ok(())
    }

    /// Holds every thread. All of them stand.
    pub fn hold_all(&mut self) {
        let known: Vec<Tid> = self
            .threads
            .iter()
            .filter(|thread| self.is_known(thread.process))
            .map(|thread| thread.id)
            .collect();
        for id in known {
            if let Some(thread) = self.threads.get_mut(id) {
                thread.held = true;
                thread.stop_wanted = false;
            }
        }
    }

    /// Does something that needs every thread to stand still, and lets those run on that ran.
    ///
    /// # Errors
    /// When the kernel refuses to go on tracing.
    pub fn at_rest<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Result<T, Error> {
        let running: Vec<Tid> = self
            .threads
            .iter()
            .filter(|thread| thread.stopped().is_none())
            .map(|thread| thread.id)
            .collect();
        if running.is_empty() {
            return Ok(work(self));
        }
        self.halt()?;
        let result = work(self);
        for id in running {
            let Some(thread) = self.threads.get_mut(id) else {
                continue;
            };
            let place = thread.registers().map(|registers| registers.rip);
            if let Some(place) = place
                && !self.breakpoints.has(place)
            {
                thread.repeated.take_if(|(site, _)| *site == place);
            }
        }
        self.go_on_halted(0)?;
        Ok(result)
    }
}

/// A signal that nobody but the debugger has sent.
fn plain_signal(signal: i32) -> siginfo_t {
    // SAFETY: all-zero bytes are a valid siginfo_t.
    let mut info: siginfo_t = unsafe { MaybeUninit::zeroed().assume_init() };
    info.si_signo = signal;
    info
}
