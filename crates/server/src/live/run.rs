//! Letting the program run, and saying why it stopped.

use tracewire_packets::family::register::RegisterBytes;
use tracewire_packets::family::resume::{ResumeKind, ResumeRequest};
use tracewire_packets::family::stop::{StopField, StopReply, WatchKind};
use tracewire_packets::{Failure, HexBytes, Reply, Signal};
use tracewire_target_linux::{Error, Event, Resumption, Stop, StopCause, Watch};
use tracewire_tracefile::{Address, ThreadId};

use super::breakpoints::Handler;
use super::program::{EXPEDITED, LiveProgram};
use super::signals;

/// What the letters after `vCont?` say: all that is here.
const ACTIONS: &[u8] = b"cCsStr";

impl LiveProgram {
    pub(super) fn resume_request(&mut self, request: &ResumeRequest) -> Reply {
        let (resumed, id) = (self.resumed, self.id);
        let one = |kind| {
            move |thread: ThreadId| {
                // `Hc` says who; the others run.
                let chosen = resumed.matches(id, thread.0);
                Some(if chosen { kind } else { ResumeKind::Continue })
            }
        };
        match request {
            ResumeRequest::Supported => Reply::ResumeActions(ACTIONS.to_vec()),
            ResumeRequest::Continue { actions } => self.run(|thread| {
                actions
                    .of(id, thread.0)
                    .filter(|kind| *kind != ResumeKind::Stop)
            }),
            ResumeRequest::ContinueFrom { address: None } => self.run(one(ResumeKind::Continue)),
            ResumeRequest::ContinueWithSignal {
                signal,
                address: None,
            } => self.run(one(ResumeKind::ContinueWithSignal(*signal))),
            ResumeRequest::StepFrom { address: None } => self.run(one(ResumeKind::Step)),
            ResumeRequest::StepWithSignal {
                signal,
                address: None,
            } => self.run(one(ResumeKind::StepWithSignal(*signal))),
            // All threads stop as soon as one does, so nothing runs that could be interrupted.
            ResumeRequest::Interrupt => Reply::Ok,
            _ => Reply::Unsupported,
        }
    }

    fn run(&mut self, what: impl Fn(ThreadId) -> Option<ResumeKind>) -> Reply {
        match self.run_to_event(what) {
            Some(Ok(event)) => {
                self.stop = self.told(event);
                Reply::Stop(self.stop.clone())
            }
            Some(Err(error)) => Reply::Error(Failure::text(&error.to_string())),
            None => Reply::Error(Failure::Number(1)),
        }
    }

    /// Lets the program run without a client, tracing, until there is one or the program has ended.
    pub(super) fn run_unattended(&mut self) {
        let mut passed: Option<(ThreadId, Signal)> = None;
        while let Some(Ok(event)) = self.run_to_event(|thread| match passed {
            Some((to, signal)) if to == thread => Some(ResumeKind::ContinueWithSignal(signal)),
            _ => Some(ResumeKind::Continue),
        }) {
            self.stop = self.told(event);
            passed = match event {
                Event::Stopped(Stop {
                    thread,
                    cause: StopCause::Signal(signal),
                }) => Some((thread, signals::from_linux(signal))),
                Event::Stopped(_) | Event::Exec => None,
                _ => return,
            };
        }
    }

    /// None when there is no program.
    fn run_to_event(
        &mut self,
        what: impl Fn(ThreadId) -> Option<ResumeKind>,
    ) -> Option<Result<Event, Error>> {
        let mut process = self.process.take()?;
        let mut handler = Handler {
            experiment: &mut self.trace.experiment,
            programs: &self.programs,
            words: self.words,
        };
        let mut event = process.resume(&mut handler, |thread| what(thread).map(resumption));
        // A trace run that has ended by itself is none of GDB's business until it asks.
        while let Ok(Event::RunEnded) = event {
            self.trace.take_out(&mut process);
            let mut handler = Handler {
                experiment: &mut self.trace.experiment,
                programs: &self.programs,
                words: self.words,
            };
            event = process.resume_again(&mut handler);
        }
        match event {
            Ok(Event::Exited(_) | Event::Killed { .. }) => self
                .trace
                .program_gone(&mut process, "the program has ended"),
            Ok(Event::Exec) => {
                self.programs.clear();
                self.trace
                    .program_gone(&mut process, "the program has become another one");
            }
            _ => self.trace.take_out(&mut process),
        }
        self.process = Some(process);
        Some(event)
    }

    fn told(&mut self, event: Event) -> StopReply {
        match event {
            Event::Exited(status) => StopReply::Exited {
                status: status.cast_unsigned(),
                process: self.client.multiprocess.then_some(self.id),
            },
            Event::Killed { signal, .. } => StopReply::Killed {
                signal: signals::from_linux(signal),
                process: self.client.multiprocess.then_some(self.id),
            },
            Event::Stopped(Stop { thread, cause }) => {
                let (signal, field) = match cause {
                    StopCause::Breakpoint => (
                        Signal::TRAP,
                        self.client
                            .software_breakpoints
                            .then_some(StopField::SoftwareBreakpoint),
                    ),
                    StopCause::HardwareBreakpoint => (
                        Signal::TRAP,
                        self.client
                            .hardware_breakpoints
                            .then_some(StopField::HardwareBreakpoint),
                    ),
                    StopCause::Watchpoint(watch, address) => {
                        let kind = match watch {
                            Watch::Access => WatchKind::Access,
                            Watch::Write | Watch::Execution => WatchKind::Write,
                        };
                        (Signal::TRAP, Some(StopField::Watch(kind, address)))
                    }
                    StopCause::CallEntry(number) => {
                        (Signal::TRAP, Some(StopField::SyscallEntry(number)))
                    }
                    StopCause::CallReturn(number) => {
                        (Signal::TRAP, Some(StopField::SyscallReturn(number)))
                    }
                    StopCause::Step => (Signal::TRAP, None),
                    StopCause::Signal(signal) => (signals::from_linux(signal), None),
                };
                self.stopped(thread, signal, field.into_iter().collect())
            }
            Event::Exec => {
                let file = std::fs::read_link(format!("/proc/{}/exe", self.id))
                    .map(|path| path.into_os_string().into_encoded_bytes())
                    .unwrap_or_default();
                let fields = self
                    .client
                    .exec_events
                    .then_some(StopField::Exec(HexBytes(file)));
                self.stopped(
                    ThreadId(self.id),
                    Signal::TRAP,
                    fields.into_iter().collect(),
                )
            }
            // Only an interrupt is left, of which GDB's user thinks as the first thread's.
            _ => {
                let thread = self.any_thread();
                self.stopped(thread, Signal::INTERRUPT, Vec::new())
            }
        }
    }

    /// A thread has stopped; its registers that are most wanted are told with it. It is selected from now on.
    pub(super) fn stopped(
        &mut self,
        thread: ThreadId,
        signal: Signal,
        mut fields: Vec<StopField>,
    ) -> StopReply {
        self.selected = Some(thread);
        if let Some(process) = &mut self.process {
            let block = process.register_block(thread).unwrap_or_default();
            for register in EXPEDITED {
                if let Some((start, size)) = process.register_place(register)
                    && let Some(bytes) = block.get(start..start + size)
                {
                    fields.push(StopField::Register {
                        register,
                        bytes: RegisterBytes::known(bytes),
                    });
                }
            }
            fields.push(StopField::Thread(self.selector(thread)));
            let core = self
                .process
                .as_mut()
                .map_or(0, |process| process.cpu_of(thread));
            fields.push(StopField::Core(core));
        }
        StopReply::Stopped { signal, fields }
    }
}

fn resumption(kind: ResumeKind) -> Resumption {
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
