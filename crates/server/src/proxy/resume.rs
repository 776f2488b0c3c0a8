//! Letting the program run for a client, past the tracepoints that it does not know of.

use std::ops::Range;
use std::time::{Duration, Instant};

use tracewire_model::Address;
use tracewire_packets::family::resume::{ResumeAction, ResumeActions, ResumeKind, ResumeRequest};
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::{Reply, ReplyKind, Request, Signal, ThreadSelector, Which};
use tracewire_target_remote::{Passed, RemoteError, Stop, StopEvent};

use super::client::Client;
use super::{Proxy, is_end};

/// A thread, as the stub names it.
type Thread = Option<ThreadSelector>;

/// How long an interrupt of the client's may take before it is sent again: a stub that has stopped just then for a tracepoint has not
/// seen it.
const AGAIN: Duration = Duration::from_millis(500);

/// What a client wants to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The request that has not been sent yet.
    first: Vec<u8>,
    /// The same for what is left of it: signals have been delivered, and threads have gone where they were sent.
    again: Vec<u8>,
    /// The actions, where it says which threads run.
    actions: Option<ResumeActions>,
    /// The thread that is to step.
    step: Option<Step>,
    /// Whether it runs backwards: nothing is collected, and tracepoints stop nothing.
    is_reverse: bool,
}

#[derive(Clone, Debug)]
struct Step {
    thread: Thread,
    range: Option<Range<u64>>,
    has_signal: bool,
}

/// The program runs for a client.
#[derive(Clone, Debug)]
pub(super) struct Running {
    plan: Plan,
    /// Whether the stub has the request as it was: no tracepoint is in the program.
    is_passed: bool,
    /// When the stub was last asked to stop for the client.
    interrupted: Option<Instant>,
}

/// What a client gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ClientReport {
    /// Nothing yet: the program runs.
    Nothing,
    /// These packets, of which the last one says that the program has stopped.
    Stopped(Vec<Vec<u8>>),
    /// This, and the program runs on.
    Aside(Vec<u8>),
}

impl Plan {
    /// The plan of a request; none for one that lets nothing run. `current` is the thread that `c` and `s` are about.
    pub(super) fn of(payload: &[u8], request: &ResumeRequest, current: Thread) -> Option<Self> {
        let mut plan = Self {
            first: payload.to_vec(),
            again: payload.to_vec(),
            actions: None,
            step: None,
            is_reverse: false,
        };
        let step = |range, has_signal| {
            Some(Step {
                thread: current,
                range,
                has_signal,
            })
        };
        match request {
            ResumeRequest::Supported | ResumeRequest::Interrupt => return None,
            ResumeRequest::Continue { actions } => {
                plan.step = actions.0.iter().find_map(|action| step_of(action, current));
                plan.again = without_signals(actions);
                plan.actions = Some(actions.clone());
            }
            ResumeRequest::ContinueFrom { .. } | ResumeRequest::ContinueWithSignal { .. } => {
                plan.again = b"c".to_vec();
            }
            ResumeRequest::StepFrom { .. } => {
                plan.step = step(None, false);
                plan.again = b"s".to_vec();
            }
            ResumeRequest::StepWithSignal { .. } => {
                plan.step = step(None, true);
                plan.again = b"s".to_vec();
            }
            ResumeRequest::ReverseContinue | ResumeRequest::ReverseStep => plan.is_reverse = true,
        }
        Some(plan)
    }

    /// Whether a thread runs.
    fn runs(&self, thread: Thread) -> bool {
        let Some(actions) = &self.actions else {
            return true;
        };
        let number = |which: Option<Which>| match which {
            Some(Which::One(number)) => number,
            _ => 0,
        };
        let process = number(thread.and_then(|thread| thread.process));
        let thread = number(thread.map(|thread| thread.thread));
        !matches!(actions.of(process, thread), None | Some(ResumeKind::Stop))
    }
}

fn step_of(action: &ResumeAction, current: Thread) -> Option<Step> {
    let (range, has_signal) = match action.kind {
        ResumeKind::Step => (None, false),
        ResumeKind::StepWithSignal(_) => (None, true),
        ResumeKind::StepRange { start, end } => (Some(start.0..end.0), false),
        ResumeKind::Continue | ResumeKind::ContinueWithSignal(_) | ResumeKind::Stop => return None,
    };
    let named = action
        .threads
        .filter(|thread| matches!(thread.thread, Which::One(_)));
    Some(Step {
        thread: named.or(current),
        range,
        has_signal,
    })
}

fn without_signals(actions: &ResumeActions) -> Vec<u8> {
    let actions = actions.0.iter().map(|action| ResumeAction {
        kind: match action.kind {
            ResumeKind::ContinueWithSignal(_) => ResumeKind::Continue,
            ResumeKind::StepWithSignal(_) => ResumeKind::Step,
            kind => kind,
        },
        threads: action.threads,
    });
    let actions = ResumeActions(actions.collect());
    Request::from(ResumeRequest::Continue { actions }).to_bytes()
}

impl Proxy {
    /// Lets the program run as a client wants it.
    pub(super) fn resume(
        &mut self,
        plan: Plan,
        client: &mut Client,
    ) -> Result<ClientReport, RemoteError> {
        if plan.is_reverse {
            // QEMU executes instructions again to go back.
            self.take_back("the program runs backwards");
        }
        let Some(trace) = &mut self.trace else {
            return self.pass_on(plan);
        };
        if plan.is_reverse || !self.target.is_traced() && !trace.experiment.is_running() {
            return self.pass_on(plan);
        }
        let first = plan.first.clone();
        self.go(plan, &first, &mut || client.wants_stop())
    }

    /// Lets a request pass as it is.
    fn pass_on(&mut self, plan: Plan) -> Result<ClientReport, RemoteError> {
        self.target.restore()?;
        self.target.stub_mut().send(&plan.first)?;
        self.running = Some(Running {
            plan,
            is_passed: true,
            interrupted: None,
        });
        Ok(ClientReport::Nothing)
    }

    /// Brings threads past tracepoints, and lets the program run.
    fn go(
        &mut self,
        plan: Plan,
        request: &[u8],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<ClientReport, RemoteError> {
        self.on_the_way = Some(plan.clone());
        let report = self.go_past(plan, request, interrupted)?;
        self.on_the_way = None;
        Ok(report)
    }

    /// After an error that has ended the trace run: lets what ran run on, without tracepoints. `None` where the client is to get the stop: for
    /// a step, an interrupt, and a stop that may be the client's.
    pub(super) fn run_on(&mut self) -> Result<Option<ClientReport>, RemoteError> {
        let running = self.running.take();
        let is_interrupted = running.is_some_and(|running| running.interrupted.is_some());
        let plan = self.on_the_way.take();
        let plan = plan.filter(|plan| plan.step.is_none() && !plan.is_reverse && !is_interrupted);
        match plan {
            Some(plan) if self.lost.is_none() => {
                let again = plan.again.clone();
                let report = self.go(plan, &again, &mut || false);
                self.on_the_way = None;
                report.map(Some)
            }
            _ => Ok(None),
        }
    }

    fn go_past(
        &mut self,
        plan: Plan,
        request: &[u8],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<ClientReport, RemoteError> {
        if self.is_inside() {
            self.runs_inside();
            return self.pass_on(plan);
        }
        let since = self
            .running
            .as_ref()
            .and_then(|running| running.interrupted);
        let Some(trace) = &mut self.trace else {
            return self.pass_on(plan);
        };
        let handler = &mut trace.experiment;
        let stepping = plan.step.as_ref().filter(|step| !step.has_signal);
        let passed = match stepping {
            Some(step) if self.target.is_at_tracepoint(step.thread)? => {
                // The breakpoint must be out, and no other thread may run meanwhile: it is one step of the client's.
                match self.target.step_once(step.thread, handler)? {
                    Passed::On => Passed::Report(self.last_stop()),
                    passed => passed,
                }
            }
            Some(step) => {
                let others = |thread| plan.runs(thread) && thread != step.thread;
                self.target.pass(&others, handler, interrupted)?
            }
            None => self
                .target
                .pass(&|thread| plan.runs(thread), handler, interrupted)?,
        };
        self.take_out();
        match passed {
            Passed::On => {}
            Passed::Report(payload) => {
                // Within its range a thread steps on.
                if self.steps_on(&plan) && !interrupted() {
                    let again = plan.again.clone();
                    return self.go(plan, &again, interrupted);
                }
                self.running = None;
                return Ok(self.stopped(payload));
            }
            Passed::Gone(payload) => return Ok(self.program_gone(payload)),
            Passed::Interrupted => {
                self.running = None;
                let stop = self.target.last_stop();
                let payload = stop.map(|stop| stop.with_signal(Signal::INTERRUPT));
                return Ok(self.stopped(payload.unwrap_or_default()));
            }
        }
        self.target.restore()?;
        self.target.stub_mut().send(request)?;
        self.running = Some(Running {
            plan,
            is_passed: false,
            interrupted: since,
        });
        Ok(ClientReport::Nothing)
    }

    /// Whether a thread that has made a step is still in the range that it is to leave.
    fn steps_on(&mut self, plan: &Plan) -> bool {
        let Some(range) = plan.step.as_ref().and_then(|step| step.range.clone()) else {
            return false;
        };
        let is_step = self.target.last_stop().is_some_and(Stop::is_trap);
        let Ok(here) = self.target.program_counter() else {
            return false;
        };
        is_step && range.contains(&here.0) && !self.target.breakpoints().is_debuggers(here)
    }

    fn last_stop(&self) -> Vec<u8> {
        let stop = self.target.last_stop();
        stop.map(|stop| stop.payload.clone()).unwrap_or_default()
    }

    /// The packets that report a stop to a client. What the stub sent before the stop comes first.
    fn stopped(&mut self, payload: Vec<u8>) -> ClientReport {
        let stop = self.target.last_stop();
        self.selected = stop.and_then(|stop| stop.thread);
        if let Some(child) = stop.and_then(|stop| stop.child) {
            self.processes.made(child);
        }
        let mut all = self.target.take_asides();
        all.push(payload);
        ClientReport::Stopped(all)
    }

    fn program_gone(&mut self, payload: Vec<u8>) -> ClientReport {
        self.running = None;
        if let Ok(Reply::Stop(
            StopReply::Exited {
                process: Some(process),
                ..
            }
            | StopReply::Killed {
                process: Some(process),
                ..
            },
        )) = Reply::parse(ReplyKind::Stop, &payload)
        {
            self.processes.leaves_others(process);
        }
        self.target.program_gone();
        self.look_inside();
        if let Some(trace) = &mut self.trace {
            trace.program_gone(&mut self.target, "the program has ended");
        }
        self.end_inside();
        self.stopped(payload)
    }

    /// Takes a packet that has come while the program runs.
    pub(super) fn while_running(
        &mut self,
        payload: Vec<u8>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<ClientReport, RemoteError> {
        let Some(running) = self.running.clone() else {
            return Ok(ClientReport::Aside(payload));
        };
        let stop = match StopEvent::parse(payload) {
            StopEvent::Aside(payload) => return Ok(ClientReport::Aside(payload)),
            StopEvent::Gone(payload) => return Ok(self.program_gone(payload)),
            StopEvent::Other(payload) => {
                self.running = None;
                return Ok(ClientReport::Stopped(vec![payload]));
            }
            StopEvent::Stopped(stop) => stop,
        };
        if self.is_owed(&stop, &running) {
            self.target.stub_mut().send(&running.plan.again)?;
            return Ok(ClientReport::Nothing);
        }
        let Some(trace) = &mut self.trace else {
            self.running = None;
            self.target.note_stop(stop);
            let payload = self.last_stop();
            return Ok(self.stopped(payload));
        };
        if running.is_passed && !running.plan.is_reverse
            || !stop.is_trap() && !self.target.is_traced()
        {
            self.running = None;
            self.target.note_stop(stop);
            let payload = self.last_stop();
            return Ok(self.stopped(payload));
        }
        if running.plan.is_reverse {
            return self.while_reversing(stop, running);
        }
        self.on_the_way = None;
        let payload = stop.payload.clone();
        let steps = running.plan.step.as_ref();
        // The only one that runs, where one of them is not named.
        let stepped = steps.is_some_and(|step| {
            step.thread.is_none() || stop.thread.is_none() || step.thread == stop.thread
        });
        let is_trap = stop.is_trap();
        let with_interrupt = stop.with_signal(Signal::INTERRUPT);
        let taken = self.target.take_stop(stop, stepped, &mut trace.experiment);
        let arrival = match taken {
            Ok(arrival) => arrival,
            Err(error) => {
                if is_trap && !stepped && !is_end(&error) && self.is_at_site() {
                    self.on_the_way = Some(running.plan);
                }
                return Err(error);
            }
        };
        self.take_out();
        let is_clients = self.target.breakpoints().is_debuggers(arrival.address);
        let is_ours = is_trap && arrival.is_hit && !is_clients && !stepped
            || stepped && self.steps_on(&running.plan);
        if !is_ours {
            self.running = None;
            return Ok(self.stopped(payload));
        }
        if running.interrupted.is_some() {
            // The stub may have seen the interrupt, and report it when the program runs again.
            self.owes_interrupt = true;
            self.running = None;
            return Ok(self.stopped(with_interrupt));
        }
        let again = running.plan.again.clone();
        self.go(running.plan, &again, interrupted)
    }

    /// Whether the program has stopped at a tracepoint, and at no breakpoint of the client's.
    fn is_at_site(&mut self) -> bool {
        let Ok(here) = self.target.program_counter() else {
            return false;
        };
        let breakpoints = self.target.breakpoints();
        breakpoints.is_site(here) && !breakpoints.is_debuggers(here)
    }

    /// Whether a stop is for an interrupt that was reported to the client already.
    fn is_owed(&mut self, stop: &Stop, running: &Running) -> bool {
        let owed = std::mem::take(&mut self.owes_interrupt);
        owed && stop.signal == Signal::INTERRUPT && running.interrupted.is_none()
    }

    /// A program that runs backwards is not stopped by tracepoints.
    fn while_reversing(
        &mut self,
        stop: Box<Stop>,
        running: Running,
    ) -> Result<ClientReport, RemoteError> {
        let payload = stop.payload.clone();
        let is_trap = stop.is_trap();
        self.target.note_stop(stop);
        let is_ours = is_trap && self.is_at_site();
        if is_ours && running.plan.first == b"bc" && running.interrupted.is_none() {
            self.target.stub_mut().send(b"bc")?;
            return Ok(ClientReport::Nothing);
        }
        self.running = None;
        Ok(self.stopped(payload))
    }

    /// The client wants what runs to be stopped.
    pub(super) fn interrupt(&mut self) -> Result<(), RemoteError> {
        if let Some(running) = &mut self.running {
            running.interrupted = Some(Instant::now());
            self.target.stub_mut().interrupt()?;
        }
        Ok(())
    }

    /// Asks again for what the client has asked for and the stub has not done.
    pub(super) fn interrupt_again(&mut self) -> Result<(), RemoteError> {
        let late = |running: &Running| {
            (running.interrupted).is_some_and(|since| !running.is_passed && since.elapsed() > AGAIN)
        };
        if self.running.as_ref().is_some_and(late) {
            self.interrupt()?;
        }
        Ok(())
    }

    /// Lets all threads run, without a client.
    pub(super) fn resume_all(&mut self) -> Result<(), RemoteError> {
        let request = self.target.stub().request_to_resume_all();
        let parsed = match Request::parse(&request) {
            Ok(Request::Resume(parsed)) => parsed,
            _ => ResumeRequest::ContinueFrom { address: None },
        };
        if let Some(plan) = Plan::of(&request, &parsed, None) {
            let report = self.go(plan, &request, &mut || false);
            self.on_the_way = None;
            report?;
        }
        Ok(())
    }

    /// Stops the program that runs, without a client.
    pub(super) fn stop_program(&mut self) -> Result<(), RemoteError> {
        self.interrupt()?;
        let limit = self.target.stub().limit();
        let deadline = Instant::now() + limit;
        while self.running.is_some() {
            let Some(payload) = self.target.stub_mut().receive(deadline)? else {
                self.running = None;
                return Err(RemoteError::Silent {
                    request: "an interrupt".to_owned(),
                    seconds: limit.as_secs(),
                });
            };
            self.while_running(payload, &mut || true)?;
        }
        Ok(())
    }

    /// The stub has refused what went along with a resumption, and its program runs. It is stopped, so that the tracepoints can come out. The
    /// packet where it is gone instead.
    pub(super) fn halt(&mut self, running: Running) -> Result<Option<Vec<u8>>, RemoteError> {
        self.target.stub_mut().interrupt()?;
        let limit = self.target.stub().limit();
        let deadline = Instant::now() + limit;
        loop {
            let Some(payload) = self.target.stub_mut().receive(deadline)? else {
                return Err(RemoteError::Silent {
                    request: "an interrupt".to_owned(),
                    seconds: limit.as_secs(),
                });
            };
            match StopEvent::parse(payload) {
                StopEvent::Stopped(stop) => {
                    let (is_trap, is_interrupt) =
                        (stop.is_trap(), stop.signal == Signal::INTERRUPT);
                    self.target.note_stop(stop);
                    // It may report the interrupt when it runs again.
                    self.owes_interrupt = !is_interrupt;
                    if is_interrupt || is_trap && self.is_at_site() {
                        self.on_the_way = Some(running.plan);
                    }
                    return Ok(None);
                }
                StopEvent::Gone(payload) => return Ok(Some(payload)),
                // What the program prints meanwhile.
                StopEvent::Aside(_) | StopEvent::Other(_) => {}
            }
        }
    }

    /// Where a client sees an address, as the program counter has it.
    pub(super) fn canonical(&self, address: Address) -> Address {
        self.target.stub().machine().canonical(address)
    }
}
