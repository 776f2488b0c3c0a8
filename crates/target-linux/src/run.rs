//! Runs the program from stop to stop.

use tracewire_experiment::{Hit, HitHandler, LookAround, Outcome, StoppedThread};
use tracewire_model::Address;

use crate::breakpoints::Means;
use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::event::{StopCause, stopped};
use crate::process::Process;
use crate::ptrace::{Status, Tid};
use crate::stopped_thread::HitThread;
use crate::thread::{AtCall, News, Pending, Phase, State};
use crate::tracees::{Member, run_all};
use crate::wait_queue;

impl Process {
    /// Runs the program until something other than a hit happens. The handler is called for every hit, on this thread,
    /// while the thread that was hit is stopped and the others run on.
    ///
    /// # Errors
    /// When the process has already ended, or the kernel refuses to go on tracing.
    pub fn run(&mut self, handler: &mut dyn HitHandler) -> Result<Event, Error> {
        let mut members = [Member {
            process: self,
            handler,
        }];
        run_all(&mut members).1
    }

    /// The periodic work while pads run.
    pub(crate) fn look_around(&mut self, handler: &mut dyn HitHandler) -> LookAround {
        self.tracee.fast.look_for_strangers(&self.tracee.threads);
        handler.look_around()
    }

    /// Follows the loading of libraries, and [resumes](Self::resume_idle) the threads.
    pub(crate) fn start_idle(&mut self) -> Result<(), Error> {
        self.patcher().take_memory_back()?;
        if !self.tracee.is_cleared_out {
            self.patcher().place_loader_hook();
        }
        self.resume_threads()
    }

    /// Resumes every thread that is stopped and not held. One with a pending report makes it first.
    pub(crate) fn resume_idle(&mut self) -> Result<(), Error> {
        self.patcher().take_memory_back()?;
        self.resume_threads()
    }

    fn resume_threads(&mut self) -> Result<(), Error> {
        let idle: Vec<Tid> = self.tracee.threads.ids();
        for id in idle {
            if self.tracee.threads.has_something_to_tell(id) {
                self.tracee.threads.make_ready(id);
            } else {
                self.tracee.go_on(id, 0)?;
            }
        }
        Ok(())
    }

    /// Acts on pending reports, up to an event. Returns the event and its process.
    pub(crate) fn next_event(
        &mut self,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<(Tid, Event)>, Error> {
        loop {
            self.patcher().take_memory_back()?;
            self.tell_gone(handler);
            if let Some(ending) = self.tracee.threads.next_ending() {
                return Ok(Some(ending));
            }
            if let Some(ended) = self.tracee.threads.ended {
                return Ok(Some((self.tracee.threads.process(), ended)));
            }
            if self
                .tracee
                .program
                .dynamic_linker
                .has_reported_change(&self.tracee.memory)
            {
                return Ok(Some((
                    self.tracee.threads.process(),
                    Event::LibrariesChanged,
                )));
            }
            let (id, event) = if let Some(id) = self.tracee.threads.next_ready() {
                (id, self.act(id, handler)?)
            } else if let Some((id, status)) = wait_queue::take(|id| self.tracee.threads.has(id)) {
                (id, self.handle_wait_status(id, status, handler)?)
            } else {
                return Ok(None);
            };
            if let Some(event) = event {
                return Ok(Some((self.tracee.threads.process_of(id), event)));
            }
        }
    }

    pub(crate) fn tell_gone(&mut self, handler: &mut dyn HitHandler) {
        for thread in self.tracee.threads.take_gone() {
            handler.thread_ended(thread_id(thread));
        }
    }

    /// Acts on what a wait has reported.
    pub(crate) fn handle_wait_status(
        &mut self,
        id: Tid,
        status: Status,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        if !self.tracee.claims(id) {
            wait_queue::keep(id, status);
            return Ok(None);
        }
        let in_place = self
            .tracee
            .threads
            .get(id)
            .is_some_and(|thread| thread.in_place.is_some());
        if status == Status::Signal(libc::SIGTRAP)
            && !in_place
            && let Some((site, registers)) = self.plain_hit(id)
        {
            let event = self.arrive(id, site, registers, handler);
            if event.is_none() {
                self.tracee.go_on(id, 0)?;
            }
            return Ok(event);
        }
        self.tracee.note(id, status);
        self.act(id, handler)
    }

    /// The site and the registers of a thread that has stopped for a trap, if that was a breakpoint of the tracer and
    /// nothing else. One byte into a longer instruction only the breakpoint can trap, so the kind of the trap need not
    /// be read.
    fn plain_hit(&mut self, id: Tid) -> Option<(u64, libc::user_regs_struct)> {
        let thread = self.tracee.threads.get_mut(id)?;
        thread.has_stopped();
        thread.phase = Phase::TakesSignal;
        if thread.steps() {
            return None;
        }
        let stopped = thread.stopped()?;
        let registers = stopped.registers().ok()?;
        let site = registers.rip.wrapping_sub(1);
        let breakpoint = self.tracee.breakpoints.get(site)?;
        let ours = breakpoint.displaced.length() > 1
            || !matches!(breakpoint.means, Means::OwnTrap)
                && stopped.signal_info().ok()?.si_code == libc::SI_KERNEL;
        ours.then_some((site, registers))
    }

    /// Acts on what is pending for a thread, and resumes it.
    fn act(&mut self, id: Tid, handler: &mut dyn HitHandler) -> Result<Option<Event>, Error> {
        let way_out = self.tracee.way_out_of_call(id);
        let Some(thread) = self.tracee.threads.get_mut(id) else {
            return Ok(None);
        };
        if thread.held || !matches!(thread.state, State::Stopped(_)) {
            return Ok(None);
        }
        if !thread.written.is_empty() {
            let event = self.tell_writes(id, handler);
            if event.is_some() {
                if self.tracee.threads.has_something_to_tell(id) {
                    self.tracee.threads.make_ready_once(id);
                }
                return Ok(event);
            }
        }
        let Some(thread) = self.tracee.threads.get_mut(id) else {
            return Ok(None);
        };
        let asked = thread.news.is_some() || thread.stop_wanted;
        if asked
            && thread.phase == Phase::InCall
            && !thread.waits_for_vfork()
            && thread.pending.is_none()
        {
            // Runs it to the end of the system call, where it has its own registers.
            thread.interrupt_next();
            thread.go_on(way_out, 0);
            return Ok(None);
        }
        if let Some(news) = thread.news.take() {
            return Ok(Some(news_event(id, news)));
        }
        match thread.pending.take() {
            None if std::mem::take(&mut thread.stop_wanted) => {
                Ok(Some(stopped(id, StopCause::Asked)))
            }
            None => {
                self.tracee.go_on(id, 0)?;
                Ok(None)
            }
            Some(Pending::Signal(info)) => self.signal(id, info, handler),
            Some(Pending::Stepped) => self.step_done(id, handler),
            Some(Pending::TraceMe) => self.patcher().let_be_traced(id).map(|()| None),
            Some(Pending::Call(call)) => match self.call_reached(id, call, handler) {
                None => self.tracee.go_on(id, 0).map(|()| None),
                event => Ok(event),
            },
        }
    }

    /// Calls the handler for a hit; `None` if the thread has ended.
    pub(crate) fn tell(
        &mut self,
        id: Tid,
        hit: Hit,
        registers: libc::user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Option<Outcome> {
        self.show(id, registers, |thread| handler.hit(hit, thread))
    }

    /// Calls the handler for the watched memory that a thread has written to.
    fn tell_writes(&mut self, id: Tid, handler: &mut dyn HitHandler) -> Option<Event> {
        let mut registers = self.tracee.threads.registers(id)?;
        if let Some(address) = self.tracee.true_address(registers.rip) {
            registers.rip = address;
        }
        let thread = self.tracee.threads.get_mut(id)?;
        thread.has_reported_writes = true;
        let mut run_ended = false;
        for (address, length) in std::mem::take(&mut thread.written) {
            let outcome = self.tell(id, Hit::Write { address, length }, registers, handler)?;
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.stepping = outcome.step && !outcome.run_ended;
            }
            run_ended |= outcome.run_ended;
        }
        run_ended.then_some(Event::RunEnded)
    }

    /// Whether a thread at a debugger's breakpoint is reported to the debugger.
    pub(crate) fn stops_at(
        &mut self,
        id: Tid,
        registers: libc::user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> bool {
        let address = Address(registers.rip);
        self.tracee.is_debugged(id)
            && self
                .show(id, registers, |thread| handler.stops_at(address, thread))
                .unwrap_or(false)
    }

    /// Shows a stopped thread as the experiment sees it; `None` if it has ended.
    fn show<T>(
        &mut self,
        id: Tid,
        registers: libc::user_regs_struct,
        what: impl FnOnce(&mut dyn StoppedThread) -> T,
    ) -> Option<T> {
        // A process without jumps may share a debugger's run with a program that has some.
        let alone = self.tracee.threads.only().is_some() && self.tracee.fast.has_jumps();
        let thread = self.tracee.threads.get_mut(id)?;
        let State::Stopped(stopped) = &thread.state else {
            return None;
        };
        let mut stopped_thread = HitThread::new(
            stopped,
            registers,
            &mut self.tracee.memory,
            &mut self.tracee.collecting,
            &mut thread.cpu,
            alone,
        );
        Some(what(&mut stopped_thread))
    }

    /// A thread has hit a breakpoint: reports it to the experiment, the debugger and the dynamic linker's state. The
    /// thread stays stopped there.
    pub(crate) fn arrive(
        &mut self,
        id: Tid,
        site: u64,
        mut registers: libc::user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Option<Event> {
        registers.rip = site;
        let (tracepoint, debugger, dynamic_linker, resolver) =
            match self.tracee.breakpoints.get(site) {
                Some(breakpoint) => (
                    breakpoint.tracepoint,
                    breakpoint.debugger,
                    breakpoint.dynamic_linker,
                    breakpoint.resolver,
                ),
                None if self.tracee.is_hook_jump(site) => (false, false, true, false),
                None if self.tracee.fast.has_jump(site) => (true, false, false, false),
                None => return None,
            };
        let thread = self.tracee.threads.get_mut(id)?;
        thread.at = Some(site);
        thread.stepped_from = site;
        if thread
            .repeated
            .take_if(|(_, stack)| registers.rsp >= *stack)
            == Some((site, registers.rsp))
        {
            return None;
        }
        let mut event = None;
        self.tracee.follower.hit(id);
        if tracepoint {
            let outcome = self.tell(id, Hit::Tracepoint(Address(site)), registers, handler)?;
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.stepping = outcome.step && !outcome.run_ended;
            }
            if outcome.run_ended {
                event = Some(Event::RunEnded);
            }
        }
        if dynamic_linker
            && self
                .tracee
                .program
                .dynamic_linker
                .has_changed(&self.tracee.memory)
            && event.is_none()
        {
            event = Some(Event::LibrariesChanged);
        }
        if resolver && event.is_none() {
            event = Some(Event::Resolver(thread_id(id)));
        }
        if debugger && self.stops_at(id, registers, handler) {
            event = Some(stopped(id, StopCause::Breakpoint));
        }
        event
    }

    /// Reports a thread at a system call.
    fn call_reached(
        &mut self,
        id: Tid,
        call: AtCall,
        handler: &mut dyn HitHandler,
    ) -> Option<Event> {
        if call.stepped
            && self
                .tracee
                .threads
                .get(id)
                .is_some_and(|thread| thread.stepping)
            && let Some(registers) = self.tracee.threads.registers(id)
        {
            let outcome = self.tell(id, Hit::Step(Address(registers.rip)), registers, handler)?;
            if let Some(thread) = self.tracee.threads.get_mut(id) {
                thread.stepping = outcome.step && !outcome.run_ended;
            }
        }
        let cause = if call.leaves {
            StopCause::CallReturn(call.number)
        } else {
            StopCause::CallEntry(call.number)
        };
        self.tracee.is_debugged(id).then(|| stopped(id, cause))
    }
}

fn news_event(id: Tid, news: News) -> Event {
    let cause = match news {
        News::Exec => return Event::Exec,
        News::Forked(child) => StopCause::Forked(thread_id(child)),
        News::Vforked(child) => StopCause::Vforked(thread_id(child)),
        News::VforkDone => StopCause::VforkDone,
        News::Created => StopCause::Created,
    };
    stopped(id, cause)
}
