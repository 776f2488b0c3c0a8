//! The traced process, standing still between runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use tracewire_arch::{Architecture, X86Registers};
use tracewire_experiment::MemoryRead;
use tracewire_fail_point::fail_point;
use tracewire_model::{Address, ThreadId};

use crate::address_space::WhileStopped;
use crate::affinity::Follower;
use crate::attach;
use crate::breakpoint::Breakpoint;
use crate::calls::CaughtCalls;
use crate::clock::Clock;
use crate::error::{Error, thread_id};
use crate::event::Event;
use crate::fast::Fast;
use crate::indirect::IndirectFunctions;
use crate::interrupt::{Interrupter, Request};
use crate::launch::Launch;
use crate::loader::Loader;
use crate::maps;
use crate::memory::Memory;
use crate::ptrace::{Running, Status, Stopped, Tid, wait_any, wait_for};
use crate::registers::RegisterPlan;
use crate::reports::Reports;
use crate::rseq::Sequences;
use crate::semaphore::Semaphores;
use crate::slots::Slots;
use crate::spawn;
use crate::standing::Collecting;
use crate::thread::{State, Thread};
use crate::thread_local;
use crate::trace_me::BareMemory;
use crate::unclaimed;
use crate::watch::DebugRegisters;
use crate::width::Width;

/// How a process is to be traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The registers of a register block.
    pub registers: X86Registers,
    /// Whether a thread is woken after a hit on the cpu that the tracer runs on. A hit then costs a fraction.
    /// The thread's cpu affinity is narrowed for that while it stands still, and is as before when it runs on.
    pub follow_cpu: bool,
}

impl Default for Settings {
    /// The smallest register set, and threads followed.
    fn default() -> Self {
        Self {
            registers: X86Registers::Core,
            follow_cpu: true,
        }
    }
}

/// A live process under trace. Between runs all its threads stand still, so that whatever is done to it is
/// done to a process at rest; while it runs, [`run`](Self::run) holds it.
///
/// The kernel lets only the thread that has attached do anything, so a `Process` stays on its thread. That
/// thread should have no other children: their ends would be taken for the process's.
///
/// Dropping it lets the process go, as [`detach`](Self::detach) does.
#[derive(Debug)]
pub struct Process {
    pub(crate) id: Tid,
    pub(crate) settings: Settings,
    /// How wide the program's words are.
    pub(crate) width: Width,
    pub(crate) follower: Follower,
    pub(crate) memory: Memory,
    pub(crate) threads: BTreeMap<Tid, Thread>,
    /// What a debugger is told of children and threads.
    pub(crate) reports: Reports,
    /// The processes that share the memory and that a debugger has been told of.
    pub(crate) debugged_children: BTreeSet<Tid>,
    /// Processes that this one has made and a debugger is told of, to be taken over.
    pub(crate) born: Vec<Process>,
    /// What has ended that a debugger is told of, other than the process itself.
    pub(crate) endings: VecDeque<(Tid, Event)>,
    /// Threads that are no more, and nobody has been told.
    pub(crate) gone: Vec<Tid>,
    /// Threads with something pending, to be looked at by the run.
    pub(crate) ready: VecDeque<Tid>,
    pub(crate) breakpoints: BTreeMap<u64, Breakpoint>,
    /// Where breakpoints have been: a trap may still be told of them.
    pub(crate) removed: BTreeSet<u64>,
    pub(crate) slots: Slots,
    pub(crate) fast: Fast,
    /// What is known of it as long as it is stopped.
    pub(crate) while_stopped: Option<WhileStopped>,
    /// What is out of its memory for a child that shares it and is not traced.
    pub(crate) bare_memory: Option<BareMemory>,
    /// The restartable sequences of its files.
    pub(crate) sequences: BTreeMap<PathBuf, Sequences>,
    /// The system calls that it has made for us.
    pub(crate) remote_calls: u64,
    /// Jumps of a killed tracer that are out.
    pub(crate) taken_over: usize,
    /// Where there is room behind some code, once it has been looked for.
    pub(crate) refuge: Option<u64>,
    /// A system call instruction of the program's, once it has been looked for.
    pub(crate) gate: Option<u64>,
    pub(crate) loader: Loader,
    /// The dynamic linker has been at its hook, and nobody has looked yet.
    pub(crate) loader_reported: bool,
    /// Whether a jump has been tried at the hook of this program.
    pub(crate) hook_tried: bool,
    pub(crate) indirect: IndirectFunctions,
    pub(crate) collecting: Collecting,
    /// How the C library keeps thread-local variables, once that is known.
    pub(crate) thread_local: Option<thread_local::Layout>,
    /// The counters of markers.
    pub(crate) semaphores: Semaphores,
    /// What the debug registers of its threads are for.
    pub(crate) debug_registers: DebugRegisters,
    /// The system calls that a debugger wants to know of.
    pub(crate) caught_calls: CaughtCalls,
    /// The signals that a debugger wants the program to have; none where it has not said.
    pub(crate) program_signals: Option<u64>,
    /// The signals that a debugger does not want to know of; none where there is no debugger.
    pub(crate) passed_signals: Option<u64>,
    pub(crate) clock: Clock,
    pub(crate) request: Arc<Request>,
    /// How its first thread has ended.
    pub(crate) first_end: Option<Status>,
    /// How the process has ended.
    pub(crate) ended: Option<Event>,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Process {
    /// Starts a program, which stands still before its first instruction (that of the dynamic linker, if it
    /// has one). A name without a slash is looked up in `PATH`. Environment, working directory and open files
    /// are handed on.
    ///
    /// # Errors
    /// When the program cannot be found or executed, with the kernel's reason; when it is no program for x86.
    pub fn spawn(
        program: impl AsRef<OsStr>,
        arguments: &[OsString],
        settings: Settings,
    ) -> Result<Self, Error> {
        Self::launch(&Launch::new(program.as_ref(), arguments.to_vec()), settings)
    }

    /// Starts a program as [`spawn`](Self::spawn) does, with all that can be said about it.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn); also when what comes before the program ends before that.
    pub fn launch(launch: &Launch, settings: Settings) -> Result<Self, Error> {
        let stopped = spawn::spawn(launch)?;
        let id = stopped.id();
        if launch.ends_with_tracer {
            stopped.end_with_tracer();
        }
        let memory = Memory::open(id).map_err(|error| Error::proc("mem", id, error));
        let memory = memory.and_then(|memory| match Width::of_program(id) {
            Some(None) => Err(Error::NotX86(thread_id(id))),
            _ => Ok(memory),
        });
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                // It has not run, and would not be traced.
                send_kill(id);
                let _ = wait_for(id);
                return Err(error);
            }
        };
        let mut thread = Thread::new(id, id, Running::born(id));
        thread.state = State::Stopped(stopped);
        let mut process = Self::new(id, BTreeMap::from([(id, thread)]), memory, settings);
        process.new_image();
        Ok(process)
    }

    /// Attaches to a running process, every thread of it, and stops it. Any of its threads' numbers will do.
    ///
    /// # Errors
    /// When there is no such process, it may not be traced, is traced by another, is a part of the kernel, has
    /// ended, is ourselves, or is no program for x86. The process is then as it was.
    pub fn attach(process: ThreadId, settings: Settings) -> Result<Self, Error> {
        let id = Tid::try_from(process.0)
            .ok()
            .filter(|id| *id > 0)
            .ok_or(Error::NoSuchProcess(process))?;
        let id = maps::ThreadStatus::read(id)
            .ok()
            .and_then(|status| status.number("Tgid"))
            .ok_or(Error::NoSuchProcess(process))?;
        if Width::of_program(id) == Some(None) {
            return Err(Error::NotX86(process));
        }
        let seized = attach::seize(id)?;
        fail_point!("attach/all-seized");
        // A thread that ends has let go of the memory already: the first one perhaps, or any other.
        let mut opened = Memory::open(id);
        for (thread, _) in &seized {
            if opened.is_ok() {
                break;
            }
            opened = Memory::open(*thread);
        }
        let memory = match opened {
            Ok(memory) => memory,
            Err(error) => {
                attach::abandon(seized);
                return Err(Error::proc("mem", id, error));
            }
        };
        let threads = seized
            .into_iter()
            .map(|(id_of_thread, running)| {
                let thread = Thread::new(id, id_of_thread, running);
                thread.interrupt_due.set(true);
                (id_of_thread, thread)
            })
            .collect();
        let mut process = Self::new(id, threads, memory, settings);
        process.await_halt()?;
        process.seize_sharing()?;
        process.choose_width();
        fail_point!("attach/halted");
        process.loader = Loader::of_running(process.width, &process.memory, process.any_thread());
        process.take_over();
        fail_point!("attach/taken-over");
        Ok(process)
    }

    pub(crate) fn new(
        id: Tid,
        threads: BTreeMap<Tid, Thread>,
        memory: Memory,
        settings: Settings,
    ) -> Self {
        Self {
            settings,
            id,
            width: Width::default(),
            follower: Follower::new(settings.follow_cpu),
            memory,
            threads,
            reports: Reports::default(),
            debugged_children: BTreeSet::new(),
            born: Vec::new(),
            endings: VecDeque::new(),
            gone: Vec::new(),
            ready: VecDeque::new(),
            breakpoints: BTreeMap::new(),
            removed: BTreeSet::new(),
            slots: Slots::default(),
            fast: Fast::default(),
            while_stopped: None,
            bare_memory: None,
            sequences: BTreeMap::new(),
            remote_calls: 0,
            taken_over: 0,
            gate: None,
            refuge: None,
            loader: Loader::default(),
            loader_reported: false,
            hook_tried: false,
            indirect: IndirectFunctions::default(),
            collecting: Collecting {
                block: RegisterPlan::new(Width::default(), settings.registers),
                all: RegisterPlan::new(Width::default(), X86Registers::Avx512),
                state: Vec::new(),
                bytes: Vec::new(),
                cpu_asked: false,
            },
            thread_local: None,
            semaphores: Semaphores::default(),
            debug_registers: DebugRegisters::default(),
            caught_calls: CaughtCalls::None,
            program_signals: None,
            passed_signals: None,
            clock: Clock::default(),
            request: Arc::default(),
            first_end: None,
            ended: None,
            stays_on_its_thread: PhantomData,
        }
    }

    /// The process's number.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        thread_id(self.id)
    }

    /// Where the main thread's stack ends; none where the kernel does not show it.
    #[must_use]
    pub fn stack_top(&self) -> Option<Address> {
        let mappings = maps::mappings(self.any_thread()).ok()?;
        let mut stacks = mappings.iter();
        let stack = stacks.find(|mapping| mapping.path.as_os_str() == "[stack]")?;
        Some(Address(stack.end))
    }

    /// The threads that are alive, a vfork child's among them.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.threads.keys().map(|id| thread_id(*id))
    }

    /// Chooses the registers of a register block.
    pub fn set_registers(&mut self, set: X86Registers) {
        self.settings.registers = set;
        self.collecting.block = RegisterPlan::new(self.width, set);
    }

    /// The machine that the program is for: x86-64, or i386. It may be another one after [`Event::Exec`].
    #[must_use]
    pub const fn architecture(&self) -> Architecture {
        self.width.architecture()
    }

    /// Finds out how wide the program is, and how its registers are to be read.
    pub(crate) fn choose_width(&mut self) {
        self.width = Width::of_program(self.any_thread())
            .flatten()
            .unwrap_or_default();
        self.collecting.block = RegisterPlan::new(self.width, self.settings.registers);
        self.collecting.all = RegisterPlan::new(self.width, X86Registers::Avx512);
    }

    /// A handle that ends a run from another thread.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(Arc::clone(&self.request))
    }

    /// How many system calls the process has made for us.
    #[must_use]
    pub const fn remote_calls(&self) -> u64 {
        self.remote_calls
    }

    /// Reads memory of the process at rest, as [`StoppedThread::read_memory`] does at a hit.
    ///
    /// [`StoppedThread::read_memory`]: tracewire_experiment::StoppedThread::read_memory
    pub fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        let thread = self.any_thread();
        self.memory.read_pieces(thread, pieces, None);
    }

    /// Kills the process, and waits for its end.
    pub fn kill(mut self) {
        if self.ended.is_some() {
            return;
        }
        send_kill(self.id);
        while self.ended.is_none() {
            match self.wait() {
                Ok((thread, status)) if self.claims(thread) => {
                    self.note(thread, status);
                }
                Ok((thread, status)) => unclaimed::keep(thread, status),
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }

    /// What holds for one program only is forgotten, and the memory of the new one opened.
    pub(crate) fn forget_image(&mut self) {
        self.breakpoints.clear();
        self.removed.clear();
        self.slots = Slots::default();
        self.fast = Fast::default();
        self.while_stopped = None;
        self.bare_memory = None;
        self.sequences.clear();
        self.gate = None;
        self.refuge = None;
        self.loader = Loader::default();
        self.loader_reported = false;
        self.hook_tried = false;
        self.indirect = IndirectFunctions::default();
        self.ready.clear();
        self.thread_local = None;
        self.semaphores = Semaphores::default();
        // The kernel has emptied those of the thread.
        self.debug_registers = DebugRegisters::default();
        if let Ok(memory) = Memory::open(self.id) {
            self.memory = memory;
        }
    }

    /// A new program stands before its first instruction.
    pub(crate) fn new_image(&mut self) {
        self.choose_width();
        self.loader = Loader::at_start(self.width, &self.memory, self.id);
    }

    /// Forgets threads that are no more.
    pub(crate) fn forget_threads(&mut self, are_gone: impl Fn(&Thread) -> bool) {
        let gone = self.threads.extract_if(.., |_, thread| are_gone(thread));
        let gone: Vec<Tid> = gone.map(|(id, _)| id).collect();
        for id in &gone {
            self.fast.forget_thread(*id);
        }
        self.gone.extend(gone);
    }

    /// A thread that has not ended: the leader if it can be. What is known by its number is read later, and the others may be
    /// gone by then, a process that shares the memory before all.
    pub(crate) fn any_thread(&self) -> Tid {
        let rank = |thread: &&Thread| (thread.id != self.id, thread.process != self.id);
        self.threads
            .values()
            .filter(|thread| !thread.exiting)
            .min_by_key(rank)
            .map_or(self.id, |thread| thread.id)
    }

    /// Waits for what a thread tells, of this process or another one.
    pub(crate) fn wait(&self) -> Result<(Tid, Status), nix::errno::Errno> {
        match unclaimed::take(|id| self.threads.contains_key(&id)) {
            Some(told) => Ok(told),
            None => wait_any(),
        }
    }

    /// What the kernel needs to touch a thread, if it stands.
    pub(crate) fn stopped(&self, thread: Tid) -> Option<&Stopped> {
        self.threads.get(&thread)?.stopped()
    }
}

/// Waits for the end of a process that was started here and then let go.
pub fn await_end(process: ThreadId) {
    let id = process.0.cast_signed();
    loop {
        match wait_any() {
            Ok((ended, Status::Exited(_) | Status::Killed(..))) if ended == id => return,
            // A thread of it that was about to end when it was let go; the process ends only once that is heard.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

pub(crate) fn send_kill(process: Tid) {
    use nix::sys::signal::{Signal, kill};
    let _ = kill(nix::unistd::Pid::from_raw(process), Signal::SIGKILL);
}
