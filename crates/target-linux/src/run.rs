//! Running the program, from stop to stop.

use nix::errno::Errno;
use tracewire_experiment::{Hit, HitHandler, LookAround, Outcome, StoppedThread};
use tracewire_model::Address;

use crate::breakpoints::Means;
use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::event::{StopCause, stopped};
use crate::process::Process;
use crate::ptrace::{Resume, Status, Tid};
use crate::pulse::Pulse;
use crate::standing::Standing;
use crate::thread::{News, Pending, State};
use crate::wait_queue;

impl Process {
    /// Runs the program until something happens that is more than a hit. The handler is told of every hit, by
    /// this thread, while the thread that was hit stands and the others run on.
    ///
    /// # Errors
    /// When the process has ended before, or the kernel refuses to go on tracing.
    pub fn run(&mut self, handler: &mut dyn HitHandler) -> Result<Event, Error> {
        if self.threads.ended.is_some() {
            return Err(Error::Ended(thread_id(self.threads.process())));
        }
        let mark = self.request.enter();
        let event = self.run_to_event(handler);
        self.tell_gone(handler);
        self.follower.rest();
        let halted = self.halt();
        drop(mark);
        let event = event?;
        halted?;
        // The end may have come while the threads were being stopped.
        Ok(self.threads.ended.unwrap_or(event))
    }

    pub(crate) fn run_to_event(&mut self, handler: &mut dyn HitHandler) -> Result<Event, Error> {
        self.start_idle()?;
        let mut pulse = self.fast.has_jumps().then(Pulse::start).flatten();
        loop {
            if let Some(pulse) = &mut pulse
                && pulse.is_due()
                && self.look_around(handler, pulse)
            {
                return Ok(Event::RunEnded);
            }
            if let Some((_, event)) = self.next_event(handler)? {
                return Ok(event);
            }
            if self.request.take() {
                return Ok(Event::Interrupted);
            }
            let (id, status) = match wait_queue::wait_any() {
                Ok(told) => told,
                Err(Errno::EINTR) => continue,
                Err(Errno::ECHILD) => return Err(Error::Ended(thread_id(self.threads.process()))),
                Err(error) => return Err(Error::system("waitpid", self.threads.process(), error)),
            };
            if let Some(event) = self.told(id, status, handler)? {
                return Ok(event);
            }
        }
    }

    /// What is to be done now and then while pads run; whether the run is over.
    pub(crate) fn look_around(&mut self, handler: &mut dyn HitHandler, pulse: &mut Pulse) -> bool {
        self.fast.look_for_strangers(&self.threads);
        match handler.look_around() {
            LookAround::Ended => true,
            LookAround::GoesOn { filled } => {
                pulse.follow(filled);
                false
            }
        }
    }

    /// Lets every thread go on that stands and is not held. One that has something to tell does so first.
    pub(crate) fn start_idle(&mut self) -> Result<(), Error> {
        self.take_memory_back()?;
        self.place_loader_hook();
        let idle: Vec<Tid> = self.threads.ids();
        for id in idle {
            if self.threads.has_something_to_tell(id) {
                self.threads.make_ready(id);
            } else {
                self.go_on(id, 0)?;
            }
        }
        Ok(())
    }

    /// Acts on what has been told already, up to an event, with the process that it is about.
    pub(crate) fn next_event(
        &mut self,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<(Tid, Event)>, Error> {
        loop {
            self.take_memory_back()?;
            self.tell_gone(handler);
            if let Some(told) = self.threads.next_ending() {
                return Ok(Some(told));
            }
            if let Some(ended) = self.threads.ended {
                return Ok(Some((self.threads.process(), ended)));
            }
            if self.program.loader.has_reported_change(&self.memory) {
                return Ok(Some((self.threads.process(), Event::LibrariesChanged)));
            }
            let (id, event) = if let Some(id) = self.threads.next_ready() {
                (id, self.act(id, handler)?)
            } else if let Some((id, status)) = wait_queue::take(|id| self.threads.has(id)) {
                (id, self.told(id, status, handler)?)
            } else {
                return Ok(None);
            };
            if let Some(event) = event {
                return Ok(Some((self.threads.process_of(id), event)));
            }
        }
    }

    pub(crate) fn tell_gone(&mut self, handler: &mut dyn HitHandler) {
        for thread in self.threads.take_gone() {
            handler.thread_ended(thread_id(thread));
        }
    }

    /// Acts on what a wait has told.
    pub(crate) fn told(
        &mut self,
        id: Tid,
        status: Status,
        handler: &mut dyn HitHandler,
    ) -> Result<Option<Event>, Error> {
        if !self.claims(id) {
            wait_queue::keep(id, status);
            return Ok(None);
        }
        let in_place = self
            .threads
            .get(id)
            .is_some_and(|thread| thread.in_place.is_some());
        if status == Status::Signal(libc::SIGTRAP)
            && !in_place
            && let Some((site, registers)) = self.plain_hit(id)
        {
            let event = self.arrive(id, site, registers, handler);
            if event.is_none() {
                self.go_on(id, 0)?;
            }
            return Ok(event);
        }
        self.note(id, status);
        self.act(id, handler)
    }

    /// The site and the registers of a thread that has stopped for a trap, if that was a breakpoint of ours and nothing
    /// else. One byte into a longer instruction nobody comes any other way, which saves asking what the trap is.
    fn plain_hit(&mut self, id: Tid) -> Option<(u64, libc::user_regs_struct)> {
        let thread = self.threads.get_mut(id)?;
        thread.has_stopped();
        thread.takes_signal = true;
        if thread.steps() {
            return None;
        }
        let stopped = thread.stopped()?;
        let registers = stopped.registers().ok()?;
        let site = registers.rip.wrapping_sub(1);
        let breakpoint = self.breakpoints.get(site)?;
        let ours = breakpoint.displaced.length() > 1
            || !matches!(breakpoint.means, Means::OwnTrap)
                && stopped.signal_info().ok()?.si_code == libc::SI_KERNEL;
        ours.then_some((site, registers))
    }

    /// Acts on what is pending for a thread, and lets it go on.
    fn act(&mut self, id: Tid, handler: &mut dyn HitHandler) -> Result<Option<Event>, Error> {
        let way_out = self.way_out_of_call(id);
        let Some(thread) = self.threads.get_mut(id) else {
            return Ok(None);
        };
        if thread.held || !matches!(thread.state, State::Stopped(_)) {
            return Ok(None);
        }
        let asked = thread.news.is_some() || thread.stop_wanted;
        if asked && thread.mid_call && !thread.waits_for_vfork() && thread.pending.is_none() {
            // On to the end of the system call, where its registers are its own.
            thread.interrupt_next();
            thread.go_on(way_out, 0);
            return Ok(None);
        }
        if let Some(news) = thread.news.take() {
            return Ok(Some(told_news(id, news)));
        }
        match thread.pending.take() {
            None if std::mem::take(&mut thread.stop_wanted) => {
                Ok(Some(stopped(id, StopCause::Asked)))
            }
            None => {
                self.go_on(id, 0)?;
                Ok(None)
            }
            Some(Pending::Signal(info)) => self.signal(id, info, handler),
            Some(Pending::Stepped) => self.step_done(id, handler),
            Some(Pending::TraceMe) => self.let_be_traced(id).map(|()| None),
            Some(Pending::Call(call)) => match self.call_reached(id, call, handler) {
                None => self.go_on(id, 0).map(|()| None),
                event => Ok(event),
            },
        }
    }

    /// Lets a stopped thread go on with a signal or 0, past the breakpoint at which it stands.
    pub(crate) fn go_on(&mut self, id: Tid, signal: i32) -> Result<(), Error> {
        if self.threads.get(id).is_none_or(|thread| thread.held) {
            return Ok(());
        }
        self.forget_while_stopped();
        self.fast.introduce(&self.threads, id);
        self.arm(id)
            .map_err(|error| Error::system("ptrace(PTRACE_POKEUSER)", id, error))?;
        let catches_calls = self.catches_calls(id) || self.may_ask_to_be_traced(id);
        let Some(thread) = self.threads.get_mut(id) else {
            return Ok(());
        };
        let State::Stopped(stopped) = &thread.state else {
            return Ok(());
        };
        if let Some(site) = thread.at.take() {
            let target = match self
                .breakpoints
                .get(site)
                .map(|breakpoint| &breakpoint.means)
            {
                Some(Means::Slot(slot, _)) => *slot,
                Some(Means::InPlace) => return self.step_in_place(id, site),
                Some(Means::OwnTrap) => {
                    thread.repeated = stopped
                        .registers()
                        .ok()
                        .map(|registers| (site, registers.rsp));
                    site
                }
                None => self.fast.past(site).unwrap_or(site),
            };
            // A thread that is gone tells of it by its exit.
            let _ = stopped.set_instruction_pointer(target);
        }
        if std::mem::take(&mut thread.rejoin_group_stop) {
            // It stops before it executes anything, and then says whether the group stop is still on.
            thread.interrupt_next();
            thread.go_on(Resume::Continue, signal);
            return Ok(());
        }
        let how = if thread.group_stopped && signal == 0 {
            Resume::Listen
        } else if thread.steps() {
            if signal == 0 {
                self.way_to_step(id)
            } else {
                Resume::Step
            }
        } else if catches_calls {
            Resume::ToSystemCall
        } else {
            Resume::Continue
        };
        if let Some(thread) = self.threads.get_mut(id) {
            if thread.stop_wanted {
                // Whatever it has stopped for has answered the request.
                thread.interrupt_next();
            }
            self.follower.wake(id, || thread.go_on(how, signal));
        }
        Ok(())
    }

    /// Tells the handler of a hit; `None` if the thread is gone.
    pub(crate) fn tell(
        &mut self,
        id: Tid,
        hit: Hit,
        registers: libc::user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Option<Outcome> {
        self.show(id, registers, |thread| handler.hit(hit, thread))
    }

    /// Asks whether the debugger is to be told of a thread at a breakpoint of its own.
    pub(crate) fn stops_at(
        &mut self,
        id: Tid,
        registers: libc::user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> bool {
        let address = Address(registers.rip);
        self.is_debugged(id)
            && self
                .show(id, registers, |thread| handler.stops_at(address, thread))
                .unwrap_or(false)
    }

    /// Shows a thread that stands as the experiment sees it; `None` if it is gone.
    fn show<T>(
        &mut self,
        id: Tid,
        registers: libc::user_regs_struct,
        what: impl FnOnce(&mut dyn StoppedThread) -> T,
    ) -> Option<T> {
        // Without jumps of its own it may share a debugger's run with a program that has some.
        let alone = self.threads.only().is_some() && self.fast.has_jumps();
        let thread = self.threads.get_mut(id)?;
        let State::Stopped(stopped) = &thread.state else {
            return None;
        };
        let mut standing = Standing::new(
            stopped,
            registers,
            &mut self.memory,
            &mut self.collecting,
            &mut thread.cpu,
            alone,
        );
        Some(what(&mut standing))
    }

    /// A thread has come to a breakpoint: tells whoever wants to know. The thread is left standing there.
    pub(crate) fn arrive(
        &mut self,
        id: Tid,
        site: u64,
        mut registers: libc::user_regs_struct,
        handler: &mut dyn HitHandler,
    ) -> Option<Event> {
        registers.rip = site;
        let (tracepoint, debugger, loader, resolver) = match self.breakpoints.get(site) {
            Some(breakpoint) => (
                breakpoint.tracepoint,
                breakpoint.debugger,
                breakpoint.loader,
                breakpoint.resolver,
            ),
            None if self.is_hook_jump(site) => (false, false, true, false),
            None if self.fast.has_jump(site) => (true, false, false, false),
            None => return None,
        };
        let thread = self.threads.get_mut(id)?;
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
        self.follower.hit(id);
        if tracepoint {
            let outcome = self.tell(id, Hit::Tracepoint(Address(site)), registers, handler)?;
            if let Some(thread) = self.threads.get_mut(id) {
                thread.stepping = outcome.step && !outcome.run_ended;
            }
            if outcome.run_ended {
                event = Some(Event::RunEnded);
            }
        }
        if loader && self.program.loader.has_changed(&self.memory) && event.is_none() {
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
}

fn told_news(id: Tid, news: News) -> Event {
    let cause = match news {
        News::Exec => return Event::Exec,
        News::Forked(child) => StopCause::Forked(thread_id(child)),
        News::Vforked(child) => StopCause::Vforked(thread_id(child)),
        News::VforkDone => StopCause::VforkDone,
        News::Created => StopCause::Created,
    };
    stopped(id, cause)
}
