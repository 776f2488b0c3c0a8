//! The program of a stub as a target of tracepoints.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tracewire_experiment::{Hit, HitHandler, MemoryRead, StoppedThread, Target, TargetError};
use tracewire_model::Address;
use tracewire_packets::family::stop::StopReply;
use tracewire_packets::{Reply, ReplyKind, Signal, ThreadSelector};

use crate::breakpoints::{Breakpoints, StepWay};
use crate::error::RemoteError;
use crate::forecast::Forecast;
use crate::registers::{RegisterCache, RegisterView};
use crate::stop::{Stop, StopEvent};
use crate::stub::Stub;
use crate::thread::{RemoteThread, ThreadStop};

/// How often a thread is stepped again that has stopped for something else.
const MOST_STEPS_AGAIN: usize = 16;
/// How often a step is made again that has executed nothing. An instruction that leads to itself is taken to have been executed then.
const MOST_IDLE_STEPS: usize = 3;
/// How many packets are kept that are not about stops.
const MOST_ASIDES: usize = 256;
/// How many pieces of memory are written at once.
const MOST_WRITES: usize = 64;
/// How often it is looked whether a run is to end.
const TICK: Duration = Duration::from_millis(100);

/// A thread, as the stub names it; none for a stub that has one and does not say so.
type Thread = Option<ThreadSelector>;

/// The program of a stub, with tracepoints in it.
#[derive(Debug)]
pub struct RemoteTarget {
    stub: Stub,
    breakpoints: Breakpoints,
    view: RegisterView,
    /// The stop that was reported last.
    stop: Option<Box<Stop>>,
    thread_stop: ThreadStop,
    /// Threads that are at a site whose hit is collected: they are stepped over it before they run.
    collected: BTreeMap<Thread, Address>,
    /// What hits are likely to read.
    forecast: Forecast,
    /// Threads whose steps an experiment wants.
    stepping: BTreeSet<Thread>,
    /// Stops of other threads than the one that was stepped.
    pending: VecDeque<Box<Stop>>,
    /// Signals that came while their thread was stepped.
    deferred: VecDeque<(Thread, Signal)>,
    asides: Vec<Vec<u8>>,
    run_ended: bool,
    /// Whether a plugin carries out the tracepoints, so that none is inserted at the stub.
    inserts_elsewhere: bool,
    block: Vec<u8>,
    known: Vec<bool>,
    unknown: Vec<u64>,
    failure: Option<RemoteError>,
    last_time: u64,
}

/// What came of bringing threads past the breakpoints that they are at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Passed {
    /// All threads can run.
    On,
    /// A thread has stopped for a debugger on the way: the stop reply.
    Report(Vec<u8>),
    /// The program is gone: the packet.
    Gone(Vec<u8>),
    /// It was to be stopped.
    Interrupted,
}

/// Where a thread has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its program counter.
    pub address: Address,
    /// Whether it came to a tracepoint there, whose hit is collected.
    pub is_hit: bool,
}

/// Why a run of the program is over.
#[derive(Clone, Debug)]
pub enum RunEvent {
    /// The trace run has ended.
    RunEnded,
    /// It was to be stopped.
    Interrupted,
    /// The program has exited, or was killed: the packet.
    Gone(Vec<u8>),
    /// The stub has closed the connection.
    Closed,
    /// The program has stopped by itself, as at a breakpoint instruction of its own.
    Stopped(Box<Stop>),
}

impl RemoteTarget {
    /// The program of a stub.
    #[must_use]
    pub fn new(mut stub: Stub) -> Self {
        let stop = stub.take_first_stop();
        let mut target = Self {
            view: RegisterView::of_stub(stub.machine()),
            stub,
            breakpoints: Breakpoints::default(),
            stop: None,
            thread_stop: ThreadStop::default(),
            collected: BTreeMap::new(),
            forecast: Forecast::default(),
            stepping: BTreeSet::new(),
            pending: VecDeque::new(),
            deferred: VecDeque::new(),
            asides: Vec::new(),
            run_ended: false,
            inserts_elsewhere: false,
            block: Vec::new(),
            known: Vec::new(),
            unknown: Vec::new(),
            failure: None,
            last_time: 0,
        };
        if let Some(stop) = stop {
            target.begin_stop(stop);
        }
        target
    }

    /// Has an experiment see these registers, and not those of the stub's register block.
    pub fn set_registers(&mut self, view: RegisterView) {
        self.view = view;
    }

    /// The stub.
    #[must_use]
    pub const fn stub(&self) -> &Stub {
        &self.stub
    }

    /// The stub, to talk to.
    pub const fn stub_mut(&mut self) -> &mut Stub {
        &mut self.stub
    }

    /// The breakpoints at the stub.
    #[must_use]
    pub const fn breakpoints(&self) -> &Breakpoints {
        &self.breakpoints
    }

    /// The breakpoints, to change those of a debugger in front.
    pub const fn breakpoints_mut(&mut self) -> &mut Breakpoints {
        &mut self.breakpoints
    }

    /// Whether a stop has to be looked at before anybody else may see it.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.breakpoints.has_sites() || !self.stepping.is_empty() || !self.pending.is_empty()
    }

    /// The stop that was reported last.
    #[must_use]
    pub fn last_stop(&self) -> Option<&Stop> {
        self.stop.as_deref()
    }

    /// What has come meanwhile that is for a debugger, such as output.
    pub fn take_asides(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.asides)
    }

    /// A debugger has changed registers: what was read of them is not good any more.
    pub fn registers_changed(&mut self) {
        let thread = self.stub.selected();
        self.collected.remove(&thread);
        self.forget_registers();
    }

    /// What was read of registers is not good any more.
    pub fn forget_registers(&mut self) {
        self.thread_stop.registers = RegisterCache::with(&[], self.stub.machine());
    }

    /// The program is gone, with all that is in it.
    pub fn program_gone(&mut self) {
        self.breakpoints.forget();
        self.collected.clear();
        self.stepping.clear();
        self.pending.clear();
        self.deferred.clear();
    }

    /// The thread that has stopped is past the tracepoint at its place: a run begins with the next instruction.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn pass_here(&mut self) -> Result<(), RemoteError> {
        if self.stop.is_some() {
            let here = self.program_counter()?;
            self.collected.insert(self.thread_stop.thread, here);
        }
        Ok(())
    }

    /// Whether tracepoints are inserted elsewhere from now on, as by a plugin in the emulator: nothing is inserted at the stub. None is
    /// inserted there when this is called.
    pub fn insert_elsewhere(&mut self, elsewhere: bool) {
        debug_assert!(
            !self.breakpoints.has_sites(),
            "tracepoints are in one place"
        );
        self.inserts_elsewhere = elsewhere;
    }

    /// Takes the threads that are stopped past a tracepoint: the next instruction of each is no hit, if it is at this address.
    pub fn take_passed(&mut self) -> Vec<(Option<ThreadSelector>, Address)> {
        std::mem::take(&mut self.collected).into_iter().collect()
    }

    /// Writes the first byte of instructions as it is. An emulator translates them again then. Returns the first address at which that
    /// cannot be done.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn write_again(&mut self, addresses: &[Address]) -> Result<Option<Address>, RemoteError> {
        self.stub.select(self.thread_stop.thread)?;
        let machine = self.stub.machine();
        let places: Vec<Address> = (addresses.iter().map(|at| machine.canonical(*at))).collect();
        for places in places.chunks(MOST_WRITES) {
            let pieces: Vec<_> = places.iter().map(|at| (*at, 1)).collect();
            let bytes = self.stub.read_memory(&pieces)?;
            if let Some((at, _)) = places.iter().zip(&bytes).find(|(_, one)| one.is_empty()) {
                return Ok(Some(*at));
            }
            let written = self.stub.write_pieces(places.iter().copied().zip(bytes))?;
            if let Some((at, _)) = places.iter().zip(written).find(|(_, done)| !done) {
                return Ok(Some(*at));
            }
        }
        Ok(None)
    }

    fn begin_stop(&mut self, stop: Box<Stop>) {
        let now = now().max(self.last_time);
        self.last_time = now;
        self.stub.is_stopped(stop.thread);
        self.thread_stop = ThreadStop {
            thread: stop.thread,
            core: stop.core,
            time: now,
            registers: RegisterCache::with(&stop.registers, self.stub.machine()),
            ..ThreadStop::default()
        };
        self.stop = Some(stop);
    }

    fn thread(&mut self) -> RemoteThread<'_> {
        RemoteThread {
            stub: &mut self.stub,
            breakpoints: &self.breakpoints,
            view: &self.view,
            thread_stop: &mut self.thread_stop,
            block: &mut self.block,
            known: &mut self.known,
            unknown: &mut self.unknown,
            failure: &mut self.failure,
        }
    }

    /// A stop has been reported, where nothing is to be collected.
    pub fn note_stop(&mut self, mut stop: Box<Stop>) {
        stop.thread = stop.thread.or(self.thread_stop.thread);
        self.collected.remove(&stop.thread);
        self.begin_stop(stop);
    }

    /// A stop has been reported to who asked for it (`?`): no thread has moved, and a hit that is collected stays so. QEMU's stub takes
    /// the question to come from a new debugger, and removes all breakpoints; those of tracepoints are inserted again.
    ///
    /// # Errors
    /// When the stub fails, or does not take one of them again.
    pub fn answered_why(&mut self, stop: Option<Box<Stop>>) -> Result<(), RemoteError> {
        if let Some(mut stop) = stop {
            stop.thread = stop.thread.or(self.thread_stop.thread);
            self.begin_stop(stop);
        }
        self.breakpoints.insert_again(&mut self.stub)
    }

    /// Memory of the program without breakpoints of tracepoints, up to the first byte that cannot be read.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn read_memory(&mut self, address: Address, length: usize) -> Result<Vec<u8>, RemoteError> {
        let mut pieces = [MemoryRead {
            address,
            bytes: vec![0; length],
            filled: 0,
        }];
        self.thread().read_memory(&mut pieces);
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let [
            MemoryRead {
                mut bytes, filled, ..
            },
        ] = pieces;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Whether a thread cannot run before it is brought past a tracepoint, or has steps to make.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn is_at_tracepoint(
        &mut self,
        thread: Option<ThreadSelector>,
    ) -> Result<bool, RemoteError> {
        if self.stepping.contains(&thread) || self.collected_at(thread).is_some() {
            return Ok(true);
        }
        if thread != self.thread_stop.thread || self.stop.is_none() {
            return Ok(false);
        }
        let here = self.program_counter()?;
        Ok(self.breakpoints.is_site(here))
    }

    /// Has one thread make one step, from a tracepoint or not, and collects what is to be collected on the way. The report is that of a
    /// signal that came meanwhile.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn step_once(
        &mut self,
        thread: Option<ThreadSelector>,
        handler: &mut dyn HitHandler,
    ) -> Result<Passed, RemoteError> {
        self.collect_here(&|one| one == thread, handler)?;
        let passed = self.step(thread, true, handler)?;
        match self.deferred.pop_front() {
            Some((_, signal)) if passed == Passed::On => {
                let stop = self.stop.as_ref();
                let report = stop.map(|stop| stop.with_signal(signal));
                Ok(Passed::Report(report.unwrap_or_default()))
            }
            _ => Ok(passed),
        }
    }

    /// Where the thread is that stopped last.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn program_counter(&mut self) -> Result<Address, RemoteError> {
        let counter = self.stub.machine().program_counter().clone();
        let bytes = self.thread().bytes(counter.number);
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let order = self.stub.machine().byte_order();
        let value = bytes.and_then(|bytes| order.unsigned(&bytes));
        value.map(Address).ok_or(RemoteError::NoProgramCounter)
    }

    /// Has an experiment see the thread that stopped last.
    fn hit(&mut self, hit: Hit, handler: &mut dyn HitHandler) -> Result<(), RemoteError> {
        let outcome = handler.hit(hit, &mut self.thread());
        let asked = std::mem::take(&mut self.thread_stop.asked);
        if let Hit::Tracepoint(address) = hit {
            self.forecast.note(address, asked);
        }
        // A debugger may write to memory before it reads it.
        self.thread_stop.ahead.clear();
        let thread = self.thread_stop.thread;
        if outcome.step {
            self.stepping.insert(thread);
        } else {
            self.stepping.remove(&thread);
        }
        self.run_ended |= outcome.run_ended;
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Looks at a stop, and collects what is to be collected there; `stepped` says that its thread was to make a step.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn take_stop(
        &mut self,
        mut stop: Box<Stop>,
        stepped: bool,
        handler: &mut dyn HitHandler,
    ) -> Result<Arrival, RemoteError> {
        // A stub may name the thread of some stops only.
        stop.thread = stop.thread.or(self.thread_stop.thread);
        let (thread, is_trap) = (stop.thread, stop.is_trap());
        let is_exact = stop.is_exact;
        self.begin_stop(stop);
        if is_trap && self.breakpoints.has_sites() {
            self.thread_stop.expected = self.forecast.pieces();
        }
        let address = self.program_counter();
        self.thread_stop.expected.clear();
        let mut address = address?;
        if !is_trap {
            if self.collected.get(&thread) != Some(&address) {
                self.collected.remove(&thread);
            }
            return Ok(Arrival {
                address,
                is_hit: false,
            });
        }
        let is_step = stepped && self.stepping.contains(&thread);
        if !is_exact && !stepped {
            address = self.back_to_breakpoint(address)?;
        }
        if is_step {
            self.hit(Hit::Step(address), handler)?;
        }
        let is_hit = self.breakpoints.is_site(address);
        if is_hit {
            self.collected.insert(thread, address);
            self.hit(Hit::Tracepoint(address), handler)?;
        } else {
            self.collected.remove(&thread);
        }
        self.thread_stop.ahead.clear();
        Ok(Arrival { address, is_hit })
    }

    /// A stub that does not say that a breakpoint was hit may leave the program counter behind it.
    fn back_to_breakpoint(&mut self, address: Address) -> Result<Address, RemoteError> {
        let after = self.stub.machine().bytes_after_breakpoint();
        let before = Address(address.0.wrapping_sub(after));
        if after == 0 || self.breakpoints.is_site(address) || !self.breakpoints.is_software(before)
        {
            return Ok(address);
        }
        // A debugger does it by itself, where it alone has a breakpoint there.
        if !self.breakpoints.is_site(before) {
            return Ok(address);
        }
        let machine = self.stub.machine();
        let counter = machine.program_counter().clone();
        let size = counter.size() as usize;
        let bytes = machine.byte_order().u64_bytes(before.0);
        // Machines of which this is so are little-endian.
        let bytes = bytes.get(..size).unwrap_or(&bytes).to_vec();
        self.stub.select(self.thread_stop.thread)?;
        if self.stub.write_register(counter.number, bytes.clone())? {
            let known = bytes.into_iter().map(Some).collect();
            let machine = self.stub.machine();
            self.thread_stop
                .registers
                .add(counter.number, known, machine);
            return Ok(before);
        }
        Ok(address)
    }

    /// Brings the threads that are to run past the breakpoints that they are at, and makes the steps that an experiment wants.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn pass(
        &mut self,
        runs: &dyn Fn(Thread) -> bool,
        handler: &mut dyn HitHandler,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Passed, RemoteError> {
        self.collect_here(runs, handler)?;
        loop {
            if let Some(stop) = self.pending.pop_front() {
                let payload = stop.payload.clone();
                let arrival = self.take_stop(stop, false, handler)?;
                if !arrival.is_hit || self.breakpoints.is_debuggers(arrival.address) {
                    return Ok(Passed::Report(payload));
                }
            }
            let at_site = (self.collected.iter())
                .filter(|(_, address)| self.breakpoints.is_site(**address))
                .map(|(thread, _)| *thread);
            let next = at_site
                .chain(self.stepping.iter().copied())
                .find(|thread| runs(*thread));
            let Some(thread) = next else {
                return Ok(Passed::On);
            };
            if interrupted() {
                return Ok(Passed::Interrupted);
            }
            let is_followed = self.stepping.contains(&thread);
            let passed = self.step(thread, is_followed, handler)?;
            if passed != Passed::On {
                return Ok(passed);
            }
            if let Some((thread, signal)) = self.deferred.pop_front() {
                debug_assert_eq!(
                    thread, self.thread_stop.thread,
                    "the signal is of who was stepped"
                );
                let stop = self.stop.as_ref();
                let report = stop.map(|stop| stop.with_signal(signal));
                return Ok(Passed::Report(report.unwrap_or_default()));
            }
            // Otherwise a breakpoint there stops the thread as soon as it runs, and its place is not asked for.
            if !is_followed {
                continue;
            }
            let here = self.program_counter()?;
            if self.breakpoints.is_debuggers(here) {
                let report = self.stop.as_ref().map(|stop| stop.payload.clone());
                return Ok(Passed::Report(report.unwrap_or_default()));
            }
        }
    }

    /// A thread that has stopped at a site for another reason has not executed the breakpoint: it hits now that it goes on.
    fn collect_here(
        &mut self,
        runs: &dyn Fn(Thread) -> bool,
        handler: &mut dyn HitHandler,
    ) -> Result<(), RemoteError> {
        let thread = self.thread_stop.thread;
        if self.stop.is_none()
            || !runs(thread)
            || !self.breakpoints.has_sites()
            || self.collected.contains_key(&thread)
        {
            return Ok(());
        }
        let here = self.program_counter()?;
        if self.breakpoints.is_site(here) {
            self.collected.insert(thread, here);
            self.hit(Hit::Tracepoint(here), handler)?;
        }
        Ok(())
    }

    /// Has one thread execute one instruction, with no breakpoint at its place; `looks` at where that leads.
    fn step(
        &mut self,
        thread: Thread,
        looks: bool,
        handler: &mut dyn HitHandler,
    ) -> Result<Passed, RemoteError> {
        let here = match self.collected.get(&thread) {
            Some(address) => *address,
            None if thread == self.thread_stop.thread => self.program_counter()?,
            // It has moved only by steps, the last of which ended elsewhere.
            None => Address(u64::MAX),
        };
        let way = match self.breakpoints.step_way(&self.stub, here) {
            // A step that was none must not be seen.
            StepWay::Try if looks => StepWay::Lift,
            way => way,
        };
        match way {
            StepWay::Lift => self.breakpoints.lift(&mut self.stub, here)?,
            StepWay::Over | StepWay::Try => self.breakpoints.restore(&mut self.stub)?,
        }
        self.stub.step(thread)?;
        let (mut again, mut idle) = (0, 0);
        let mut is_interrupted = false;
        loop {
            let Some(payload) = self.stub.wait_for_step()? else {
                if std::mem::replace(&mut is_interrupted, true) {
                    return Err(RemoteError::Stuck(here));
                }
                self.stub.interrupt()?;
                continue;
            };
            let mut stop = match StopEvent::parse(payload) {
                StopEvent::Stopped(stop) => stop,
                StopEvent::Gone(payload) => {
                    self.program_gone();
                    return Ok(Passed::Gone(payload));
                }
                StopEvent::Aside(payload) => {
                    if self.asides.len() < MOST_ASIDES {
                        self.asides.push(payload);
                    }
                    continue;
                }
                StopEvent::Other(payload) => {
                    return Err(RemoteError::Refused {
                        request: "vCont;s".to_owned(),
                        reply: crate::talk::shown(&payload),
                    });
                }
            };
            if is_interrupted {
                return Err(RemoteError::Stuck(here));
            }
            stop.thread = stop.thread.or(thread);
            let is_others = thread.is_some() && stop.thread != thread;
            if !is_others && stop.is_trap() {
                let may_stay = idle == MOST_IDLE_STEPS || !self.breakpoints.moves_on(here);
                if way != StepWay::Try && !may_stay && self.is_at(&mut stop, here)? {
                    idle += 1;
                    self.stub.step(thread)?;
                    continue;
                }
                if looks {
                    self.take_stop(stop, true, handler)?;
                } else {
                    self.note_stop(stop);
                }
                if way == StepWay::Try {
                    let is_over = self.program_counter()? != here;
                    self.breakpoints.note_step(here, is_over);
                    if !is_over {
                        return self.step(thread, looks, handler);
                    }
                }
                return Ok(Passed::On);
            }
            if !is_others && stop.is_event {
                let payload = stop.payload.clone();
                self.take_stop(stop, true, handler)?;
                return Ok(Passed::Report(payload));
            }
            again += 1;
            if again > MOST_STEPS_AGAIN {
                return Err(RemoteError::Stuck(here));
            }
            if is_others {
                self.pending.push_back(stop);
            } else {
                // A signal: its handler would come back to the breakpoint. It is delivered once the thread is past it.
                self.deferred.push_back((thread, stop.signal));
            }
            self.stub.step(thread)?;
        }
    }

    /// Whether a thread has stopped at an address. Its program counter goes with the stop from then on.
    fn is_at(&mut self, stop: &mut Stop, address: Address) -> Result<bool, RemoteError> {
        self.begin_stop(Box::new(stop.clone()));
        let here = self.program_counter()?;
        let counter = self.stub.machine().program_counter().number;
        if let Some(bytes) = self.thread().bytes(counter) {
            stop.registers.push((counter, bytes));
        }
        Ok(here == address)
    }

    /// Puts back what was taken out for a step, with the request that follows: all threads are to run.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn restore(&mut self) -> Result<(), RemoteError> {
        self.breakpoints.restore(&mut self.stub)
    }

    /// Takes out what is at an address, with the request that follows: a thread is to step from there.
    ///
    /// # Errors
    /// When the connection has failed.
    pub fn lift(&mut self, address: Address) -> Result<(), RemoteError> {
        self.breakpoints.lift(&mut self.stub, address)
    }

    /// Where a thread is whose hit is collected.
    #[must_use]
    pub fn collected_at(&self, thread: Thread) -> Option<Address> {
        let address = self.collected.get(&thread)?;
        self.breakpoints.is_site(*address).then_some(*address)
    }

    /// Removes the breakpoints of a debugger that has gone.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn remove_debuggers_breakpoints(&mut self) -> Result<(), RemoteError> {
        self.breakpoints.remove_debuggers(&mut self.stub)
    }

    /// Whether an experiment has said that its run is over since this was asked last.
    pub fn take_run_ended(&mut self) -> bool {
        std::mem::take(&mut self.run_ended)
    }

    /// Lets the program run, without a debugger in front, until the trace run is over, or the program stops for something else.
    /// Signals are delivered.
    ///
    /// # Errors
    /// When the stub fails.
    pub fn run(
        &mut self,
        handler: &mut dyn HitHandler,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<RunEvent, RemoteError> {
        let mut signal = None;
        loop {
            match self.pass(&|_| true, handler, interrupted)? {
                Passed::On => {}
                Passed::Gone(payload) => return Ok(RunEvent::Gone(payload)),
                Passed::Interrupted => return Ok(RunEvent::Interrupted),
                Passed::Report(payload) => match StopEvent::parse(payload) {
                    StopEvent::Stopped(stop) if stop.is_trap() => {
                        return Ok(RunEvent::Stopped(stop));
                    }
                    StopEvent::Stopped(stop) => signal = delivered(&stop),
                    _ => {}
                },
            }
            self.asides.clear();
            if self.take_run_ended() {
                return Ok(RunEvent::RunEnded);
            }
            self.restore()?;
            self.stub.resume(signal.take())?;
            let stop = match self.wait_for_stop(interrupted)? {
                Ok(stop) => stop,
                Err(event) => return Ok(event),
            };
            let (is_trap, next) = (stop.is_trap(), delivered(&stop));
            let is_interrupt = stop.signal == Signal::INTERRUPT || stop.signal == Signal(0);
            let arrival = self.take_stop(stop.clone(), false, handler)?;
            if is_trap && !arrival.is_hit {
                return Ok(RunEvent::Stopped(stop));
            }
            if self.take_run_ended() {
                return Ok(RunEvent::RunEnded);
            }
            if is_interrupt && interrupted() {
                return Ok(RunEvent::Interrupted);
            }
            signal = next;
        }
    }

    /// Waits until the program stops, or is gone.
    fn wait_for_stop(
        &mut self,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Result<Box<Stop>, RunEvent>, RemoteError> {
        let mut asked: Option<Instant> = None;
        loop {
            let received = match self.stub.receive(Instant::now() + TICK) {
                Err(RemoteError::Closed) => return Ok(Err(RunEvent::Closed)),
                received => received?,
            };
            if let Some(payload) = received {
                match StopEvent::parse(payload) {
                    StopEvent::Stopped(stop) => return Ok(Ok(stop)),
                    StopEvent::Gone(payload) => {
                        self.program_gone();
                        return Ok(Err(RunEvent::Gone(payload)));
                    }
                    StopEvent::Aside(_) => {}
                    StopEvent::Other(payload) => {
                        return Err(RemoteError::Refused {
                            request: "vCont;c".to_owned(),
                            reply: crate::talk::shown(&payload),
                        });
                    }
                }
            }
            if !interrupted() {
                continue;
            }
            match asked {
                None => {
                    self.stub.interrupt()?;
                    asked = Some(Instant::now());
                }
                Some(since) if since.elapsed() > self.stub.limit() => {
                    return Err(RemoteError::Silent {
                        request: "an interrupt".to_owned(),
                        seconds: self.stub.limit().as_secs(),
                    });
                }
                Some(_) => {}
            }
        }
    }

    fn cannot_insert(address: Address, reason: String) -> TargetError {
        TargetError::CannotInsert { address, reason }
    }
}

/// The signal that a thread is to get that has stopped for it.
fn delivered(stop: &Stop) -> Option<(Signal, Thread)> {
    let is_none = matches!(stop.signal, Signal(0) | Signal::TRAP | Signal::INTERRUPT);
    (!is_none && !stop.is_event).then_some((stop.signal, stop.thread))
}

impl Target for RemoteTarget {
    fn insert(&mut self, address: Address) -> Result<(), TargetError> {
        if self.inserts_elsewhere {
            return Ok(());
        }
        let at = self.stub.machine().canonical(address);
        match self.breakpoints.insert(&mut self.stub, at) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(Self::cannot_insert(address, reason)),
            Err(error) => Err(Self::cannot_insert(address, error.to_string())),
        }
    }

    fn remove(&mut self, address: Address) -> Result<(), TargetError> {
        let at = self.stub.machine().canonical(address);
        // A stub that is gone has no breakpoints, nor one that does not answer any more for us.
        match self.breakpoints.remove(&mut self.stub, at) {
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    })
}

/// The end of a run, in words.
#[derive(Clone, Copy, Debug)]
pub struct StubWords<'e>(pub &'e RunEvent);

impl fmt::Display for StubWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RunEvent::RunEnded => f.write_str("the run is over"),
            RunEvent::Interrupted => f.write_str("the run was interrupted"),
            RunEvent::Closed => f.write_str("the stub closed the connection"),
            RunEvent::Stopped(stop) => write!(f, "the program stopped with {}", stop.signal),
            RunEvent::Gone(payload) => match Reply::parse(ReplyKind::Stop, payload) {
                Ok(Reply::Stop(StopReply::Exited { status, .. })) => {
                    write!(f, "the program exited with code {status}")
                }
                Ok(Reply::Stop(StopReply::Killed { signal, .. })) => {
                    write!(f, "the program was killed by {signal}")
                }
                _ => f.write_str("the program has ended"),
            },
        }
    }
}
