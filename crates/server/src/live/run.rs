//! Letting programs run, and saying why they stopped.

use tracewire_model::{Address, ThreadId};
use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::resume::{ResumeKind, ResumeRequest};
use tracewire_packets::family::stop::{StopField, StopReply, WatchKind};
use tracewire_packets::{Failure, HexBytes, Reply, Signal, Which};
use tracewire_target_linux::{Error, Event, Resumption, Stop, StopCause, TraceesEvent, Watch};

use super::program::{LiveProgram, expedited, program_file};
use super::signals;
use super::stops::ThreadStop;
use crate::session::Answer;

/// The letters after `vCont?`: all supported actions.
const ACTIONS: &[u8] = b"cCsStr";

/// An event, in the client's terms.
#[derive(Debug)]
pub(super) enum News {
    /// A thread of a process has stopped; its report is in [`LiveProgram::stops`].
    Thread(u32, ThreadId),
    /// A process or a thread has ended, or nothing runs.
    Other(StopReply),
}

impl LiveProgram {
    pub(super) fn resume_request(&mut self, request: &ResumeRequest) -> Answer {
        let resumed = self.inferiors.resumed();
        let one = |kind| {
            move |process, thread: ThreadId| {
                // `Hc` selects them; the others run.
                let chosen = resumed.matches(process, thread.0);
                Some(if chosen { kind } else { ResumeKind::Continue })
            }
        };
        match request {
            ResumeRequest::Supported => Reply::ResumeActions(ACTIONS.to_vec()).into(),
            ResumeRequest::Continue { actions } if self.non_stop.on => self.act(actions).into(),
            ResumeRequest::Continue { actions } => self.run(|process, thread| {
                actions
                    .of(process, thread.0)
                    .filter(|kind| *kind != ResumeKind::Stop)
            }),
            ResumeRequest::ContinueFrom { address } => {
                self.run_from(*address, one(ResumeKind::Continue))
            }
            ResumeRequest::ContinueWithSignal { signal, address } => {
                self.run_from(*address, one(ResumeKind::ContinueWithSignal(*signal)))
            }
            ResumeRequest::StepFrom { address } => self.run_from(*address, one(ResumeKind::Step)),
            ResumeRequest::StepWithSignal { signal, address } => {
                self.run_from(*address, one(ResumeKind::StepWithSignal(*signal)))
            }
            ResumeRequest::Interrupt => {
                self.interrupt_current();
                Reply::Ok.into()
            }
            ResumeRequest::ReverseContinue | ResumeRequest::ReverseStep => {
                Reply::Unsupported.into()
            }
        }
    }

    /// Runs the programs. The selected thread continues at an address, if there is one.
    fn run_from(
        &mut self,
        address: Option<Address>,
        what: impl Fn(u32, ThreadId) -> Option<ResumeKind>,
    ) -> Answer {
        let moved = address.is_none_or(|address| self.move_to(address).is_some());
        if moved {
            self.run(what)
        } else {
            Reply::Error(Failure::Number(1)).into()
        }
    }

    /// Moves the thread that `Hc` names, or the selected one, to an address.
    fn move_to(&mut self, Address(address): Address) -> Option<()> {
        let (process, thread) = match self.inferiors.resumed().thread {
            Which::One(_) => self.inferiors.find(&self.inferiors.resumed())?,
            Which::Any | Which::All => (self.inferiors.current()?, self.inferiors.thread()?),
        };
        let process = self.inferiors.of_mut(process)?;
        let [.., counter] = expedited(process.architecture());
        let (start, size) = process.register_place(counter)?;
        let mut block = process.register_block(thread)?;
        let bytes = address.to_le_bytes();
        block
            .get_mut(start..start + size)?
            .copy_from_slice(bytes.get(..size)?);
        process.set_register_block(thread, &block).map(drop)
    }

    /// Runs the programs until there is something to report, and then stops all of them. When the connection is lost
    /// meanwhile, they run on, and nothing is reported.
    fn run(&mut self, what: impl Fn(u32, ThreadId) -> Option<ResumeKind>) -> Answer {
        if self.inferiors.is_empty() {
            return Reply::Error(Failure::Number(1)).into();
        }
        self.launcher.take_untouched();
        let brief = self.is_step_of_another(&what) && self.attention.puts_off_stop();
        let running = self.attention.while_running(&self.interrupter());
        let news = self.resume(&what).and_then(|()| {
            loop {
                match self.await_event()? {
                    TraceesEvent::Interrupted if !self.shutdown.is_over() => {
                        if self.attention.is_lost() {
                            break Ok(None);
                        }
                        // The client's other input can wait.
                        if !brief && self.attention.stop_is_wanted() {
                            self.stop_all();
                            break Ok(Some(self.interruption(&what)));
                        }
                    }
                    TraceesEvent::Interrupted => {
                        self.stop_all();
                        break Ok(Some(self.interruption(&what)));
                    }
                    happened => {
                        self.stop_all();
                        break Ok(Some(self.news(happened)));
                    }
                }
            }
        });
        drop(running);
        let reply = match news {
            // The session ends when it reads on.
            Ok(None) => return Answer::Silence,
            Ok(Some(News::Thread(process, thread))) => {
                self.inferiors.select(process, thread);
                self.stops.set_last(thread);
                Reply::Stop(self.stopped(process, thread))
            }
            Ok(Some(News::Other(StopReply::NoneResumed)))
                if !self.dialect.reports_none_resumed() =>
            {
                Reply::Error(Failure::text("No unwaited-for children left."))
            }
            Ok(Some(News::Other(reply))) => Reply::Stop(reply),
            Err(error) => Reply::Error(Failure::text(&error.to_string())),
        };
        reply.into()
    }

    /// Runs the programs without a client, until `over` returns true after an interruption or nothing runs any more.
    /// They are not stopped: signals are delivered, breakpoints are ignored, children are detached.
    pub(super) fn run_unattended(&mut self, over: impl Fn() -> bool) {
        loop {
            let (process, event) = match self.await_event() {
                // The interruption may be a late one of the previous client.
                Ok(TraceesEvent::Interrupted) if !over() => continue,
                Ok(TraceesEvent::In(process, event)) => (process, event),
                // An error shows at the next client's first request.
                Ok(TraceesEvent::Interrupted | TraceesEvent::NothingRuns) | Err(_) => return,
            };
            self.hold(process, event);
            let passed = match event {
                Event::Stopped(stop) => {
                    if let StopCause::Forked(child) | StopCause::Vforked(child) = stop.cause {
                        let _ = self.let_process_go(child.0);
                    }
                    let kind = match stop.cause {
                        StopCause::Signal(signal) => {
                            ResumeKind::ContinueWithSignal(signals::from_linux(signal))
                        }
                        _ => ResumeKind::Continue,
                    };
                    Some((stop.thread, kind))
                }
                Event::Exec => Some((process, ResumeKind::Continue)),
                _ => None,
            };
            self.news(TraceesEvent::In(process, event));
            if let Some((stopped, kind)) = passed {
                let _ = self.resume(|_, thread| (thread == stopped).then_some(kind));
            }
            if self.inferiors.is_empty() {
                return;
            }
        }
    }

    /// Resumes everything that is stopped.
    pub(super) fn resume_all(&mut self) {
        // An error shows at the next client's first request.
        let _ = self.resume(|_, _| Some(ResumeKind::Continue));
    }

    /// Resumes stopped threads.
    pub(super) fn resume(
        &mut self,
        what: impl Fn(u32, ThreadId) -> Option<ResumeKind>,
    ) -> Result<(), Error> {
        let stops = &mut self.stops;
        // A child that has not been reported to the client stays stopped.
        let known = self.inferiors.ids();
        for process in self.inferiors.tracees.iter_mut() {
            process.resume(|process, thread| {
                let kind = what(process.0, thread).filter(|_| known.contains(&process.0))?;
                stops.forget(thread);
                Some(resumption(kind))
            })?;
        }
        Ok(())
    }

    /// Waits until there is something to report to a client, or it sends something.
    pub(super) fn await_event(&mut self) -> Result<TraceesEvent, Error> {
        loop {
            let mut handler = self.tracing.handler(&self.breakpoints);
            let happened = self.inferiors.tracees.wait(&mut handler)?;
            let TraceesEvent::In(process, event) = happened else {
                return Ok(happened);
            };
            match event {
                // The end of a trace run is not reported to GDB before it asks.
                Event::RunEnded => self.take_out()?,
                Event::LibrariesChanged => {}
                Event::Stopped(Stop {
                    cause: StopCause::Forked(child) | StopCause::Vforked(child),
                    ..
                }) => {
                    self.inferiors.adopt(child, process.0);
                    return Ok(happened);
                }
                _ => return Ok(happened),
            }
            if let Some(process) = self.inferiors.of_mut(process.0) {
                process.resume(|_, _| None)?;
            }
        }
    }

    /// Removes the tracepoints of a run that has ended from the program.
    fn take_out(&mut self) -> Result<(), Error> {
        let trace = &mut self.tracing.trace;
        match self.inferiors.traced_mut() {
            Some(process) if !trace.experiment.is_running() => {
                process.at_rest(|process| trace.take_out(process))
            }
            _ => Ok(()),
        }
    }

    /// Stops everything.
    pub(super) fn stop_all(&mut self) {
        // A process that has ended is reported when it is run again.
        let _ = self
            .inferiors
            .tracees
            .stop_all(&mut self.tracing.trace.experiment);
        let _ = self.take_out();
    }

    /// Keeps the thread stopped that something has happened to, while others run.
    pub(super) fn hold(&mut self, process: ThreadId, event: Event) {
        let thread = match event {
            Event::Stopped(Stop { thread, .. }) => thread,
            // Only its first thread has lived through it.
            Event::Exec => process,
            _ => return,
        };
        if let Some(process) = self.inferiors.of_mut(process.0) {
            process.hold(thread);
        }
    }

    /// An event, as it is reported to the client.
    pub(super) fn news(&mut self, happened: TraceesEvent) -> News {
        self.diagnostics.happens(|| format!("{happened:?}"));
        let (process, event) = match happened {
            TraceesEvent::In(process, event) => (process.0, event),
            TraceesEvent::Interrupted | TraceesEvent::NothingRuns => {
                return News::Other(StopReply::NoneResumed);
            }
        };
        let shown = self.dialect.process(process);
        match event {
            Event::Exited(status) => {
                self.notify(&format!("\nChild exited with status {status}"));
                self.gone(process);
                News::Other(StopReply::Exited {
                    status: status.cast_unsigned(),
                    process: shown,
                })
            }
            Event::Killed { signal, .. } => {
                self.notify(&format!("\nChild terminated with signal = {signal:#x}"));
                self.gone(process);
                News::Other(StopReply::Killed {
                    signal: signals::from_linux(signal),
                    process: shown,
                })
            }
            Event::ThreadExited(thread, status) => {
                self.stops.forget(thread);
                News::Other(StopReply::ThreadExited {
                    status: u64::from(status.cast_unsigned()),
                    thread: self.dialect.selector(process, thread),
                })
            }
            Event::Exec => {
                self.breakpoints.forget(process);
                if self.inferiors.traced() == Some(process)
                    && let Some(traced) = self.inferiors.traced_mut()
                {
                    self.tracing
                        .trace
                        .program_gone(traced, "the program has become another one");
                }
                let file = HexBytes(program_file(process).unwrap_or_default());
                let field = Some(StopField::Exec(file));
                self.thread_stopped(process, ThreadId(process), Signal::TRAP, field)
            }
            Event::Stopped(Stop { thread, cause }) => {
                let signal = match cause {
                    StopCause::Signal(signal) => signals::from_linux(signal),
                    StopCause::Asked => Signal(0),
                    _ => Signal::TRAP,
                };
                let field = match cause {
                    StopCause::Breakpoint => Some(StopField::SoftwareBreakpoint),
                    StopCause::HardwareBreakpoint => Some(StopField::HardwareBreakpoint),
                    StopCause::Watchpoint(watch, address) => {
                        self.diagnostics
                            .hardware(|| format!("thread {thread}: {watch:?} at {address}"));
                        let kind = match watch {
                            Watch::Access => WatchKind::Access,
                            Watch::Write | Watch::Execution => WatchKind::Write,
                        };
                        Some(StopField::Watch(kind, address))
                    }
                    StopCause::CallEntry(number) => Some(StopField::SyscallEntry(number)),
                    StopCause::CallReturn(number) => Some(StopField::SyscallReturn(number)),
                    StopCause::Forked(child) => {
                        Some(StopField::Fork(self.dialect.selector(child.0, child)))
                    }
                    StopCause::Vforked(child) => {
                        Some(StopField::Vfork(self.dialect.selector(child.0, child)))
                    }
                    StopCause::VforkDone => Some(StopField::VforkDone),
                    StopCause::Created => Some(StopField::Create),
                    StopCause::Step | StopCause::Signal(_) | StopCause::Asked => None,
                };
                self.thread_stopped(process, thread, signal, field)
            }
            // A wait reports nothing else.
            _ => News::Other(StopReply::NoneResumed),
        }
    }

    fn thread_stopped(
        &mut self,
        process: u32,
        thread: ThreadId,
        signal: Signal,
        field: Option<StopField>,
    ) -> News {
        let field = field.filter(|field| self.dialect.takes(field));
        let fields = field.into_iter().collect();
        self.stops.insert(thread, ThreadStop { signal, fields });
        News::Thread(process, thread)
    }

    /// A process has ended.
    fn gone(&mut self, process: u32) {
        let traced = self.inferiors.traced() == Some(process);
        if let Some(mut process) = self.inferiors.remove(process)
            && traced
        {
            self.tracing
                .trace
                .program_gone(&mut process, "the program has ended");
        }
        let alive = self.inferiors.threads();
        self.stops.keep(&alive);
        self.stops.forget_process(process, &alive);
    }

    /// A process is detached or killed: nothing more is reported of it.
    pub(super) fn forget_stops(&mut self, process: u32) {
        self.non_stop.forget(process);
        self.stops
            .forget_process(process, &self.inferiors.threads());
    }

    /// Why the program is stopped; in non-stop mode, the first of the stopped threads.
    pub(super) fn why_stopped(&mut self) -> Reply {
        if self.non_stop.on {
            return self.all_stops();
        }
        let threads = self.inferiors.threads();
        let last = threads
            .iter()
            .find(|(_, thread)| self.stops.is_last(*thread))
            .or_else(|| threads.first());
        match last {
            Some((process, thread)) => {
                self.inferiors.select(*process, *thread);
                Reply::Stop(self.stopped(*process, *thread))
            }
            None => Reply::Stop(StopReply::Exited {
                status: 0,
                process: None,
            }),
        }
    }

    /// A stopped thread, with its reported cause, and its registers that are most used.
    pub(super) fn stopped(&mut self, process: u32, thread: ThreadId) -> StopReply {
        let ThreadStop { signal, mut fields } = self.stops.of(thread);
        let selector = self.dialect.selector(process, thread);
        let mut core = 0;
        if let Some(process) = self.inferiors.of_mut(process) {
            let block = process.register_block(thread).unwrap_or_default();
            for register in expedited(process.architecture()) {
                if let Some((start, size)) = process.register_place(register)
                    && let Some(bytes) = block.get(start..start + size)
                {
                    fields.push(StopField::Register {
                        register,
                        bytes: RegisterBytes::known(bytes),
                    });
                }
            }
            core = process.cpu_of(thread);
        }
        self.dialect.stop(signal, fields, selector, core)
    }
}

pub(super) fn resumption(kind: ResumeKind) -> Resumption {
    let linux = |signal| signals::to_linux(signal).unwrap_or(0);
    match kind {
        ResumeKind::Continue | ResumeKind::Stop => Resumption::Continue(0),
        ResumeKind::ContinueWithSignal(signal) => Resumption::Continue(linux(signal)),
        ResumeKind::Step => Resumption::Step(0, 0..0),
        ResumeKind::StepWithSignal(signal) => Resumption::Step(linux(signal), 0..0),
        ResumeKind::StepRange {
            start: Address(start),
            end: Address(end),
        } => Resumption::Step(0, start..end),
    }
}
