//! The traced process, stopped between runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tracewire_arch::{Architecture, X86Registers};
use tracewire_experiment::MemoryRead;
use tracewire_fail_point::fail_point;
use tracewire_model::{Address, ThreadId};

use crate::abi::Abi;
use crate::attach;
use crate::children;
use crate::error::{Error, thread_id};
use crate::fast::{FramesFileNote, ThreadsInPads};
use crate::interrupt::{Interrupter, Request};
use crate::launch::Launch;
use crate::link_map::LinkMap;
use crate::link_map::LinkMapEntry;
use crate::maps;
use crate::memory::Memory;
use crate::modules::{self, Module};
use crate::orphan::{self, Orphan};
use crate::ptrace::{Running, Status, Tid};
use crate::refuge;
use crate::spawn;
use crate::stopped_thread::Settings;
use crate::thread::{State, Thread};
use crate::thread_local::{ThreadLocal, ThreadLocalError};
use crate::tracee::{Birth, Children, Tracee};
use crate::wait_queue::{self, wait_for};

/// A live process under trace. Between runs all its threads are stopped, so that it can be changed safely;
/// [`run`](Self::run) borrows it while it runs.
///
/// The kernel lets only the thread that has attached trace, so a `Process` stays on its thread. That thread should have
/// no other children: their ends would be taken for the process's.
///
/// Dropping it detaches, as [`detach`](Self::detach) does.
#[derive(Debug)]
pub struct Process {
    pub(crate) tracee: Tracee,
    pub(crate) request: Arc<Request>,
    /// Whether all its threads are stopped, except those that a debugger has resumed.
    is_at_rest: bool,
}

impl Process {
    /// Starts a program, stopped before its first instruction (that of the dynamic linker, if it has one). A name
    /// without a slash is looked up in `PATH`. The program inherits environment, working directory and open files.
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

    /// Starts a program as [`spawn`](Self::spawn) does, with all options.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn); also when a shell or wrapper ends before it executes the program.
    pub fn launch(launch: &Launch, settings: Settings) -> Result<Self, Error> {
        let stopped = spawn::spawn(launch)?;
        let id = stopped.id();
        if launch.ends_with_tracer {
            stopped.end_with_tracer();
        }
        let memory = Memory::open(id).map_err(|error| Error::proc("mem", id, error));
        let memory = memory.and_then(|memory| match Abi::of_program(id) {
            Some(None) => Err(Error::NotX86(thread_id(id))),
            _ => Ok(memory),
        });
        let memory = match memory {
            Ok(memory) => memory,
            Err(error) => {
                // It has not run, and would run untraced.
                send_kill(id);
                let _ = wait_for(id);
                return Err(error);
            }
        };
        let mut thread = Thread::new(id, id, Running::born(id));
        thread.state = State::Stopped(stopped);
        let mut tracee = Tracee::new(id, BTreeMap::from([(id, thread)]), memory, settings);
        tracee.new_image();
        Ok(Self::of(tracee))
    }

    /// Attaches to a running process, every thread of it, and stops it. Any of its threads' numbers will do.
    ///
    /// # Errors
    /// When there is no such process, it may not be traced, is traced by another, is a part of the kernel, has
    /// ended, is ourselves, or is no program for x86. The process is then as it was.
    pub fn attach(process: ThreadId, settings: Settings) -> Result<Self, Error> {
        Approach::begin(process)?.attach(settings)
    }

    fn attach_after(
        Approach { id, strangers }: Approach,
        settings: Settings,
    ) -> Result<Self, Error> {
        let seized = attach::seize(id)?;
        fail_point!("attach/all-seized");
        // A thread that ends has no memory any more: perhaps the first one, or any other.
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
        let mut tracee = Tracee::new(id, threads, memory, settings);
        tracee.wait_until_all_stopped()?;
        tracee.seize_sharing(&strangers)?;
        tracee.choose_width();
        fail_point!("attach/halted");
        if tracee.program.is_64_bit() {
            refuge::leave_all(&tracee.threads, &tracee.memory);
        }
        fail_point!("attach/refuges-left");
        tracee.look_at_running();
        tracee.program.taken_over = orphan::take_over(
            &mut tracee.memory,
            tracee.threads.any(),
            tracee.threads.process(),
            tracee.program.dynamic_linker.hook(),
        );
        fail_point!("attach/taken-over");
        Ok(Self::of(tracee))
    }

    pub(crate) fn of(tracee: Tracee) -> Self {
        Self {
            tracee,
            request: Arc::default(),
            is_at_rest: true,
        }
    }

    /// All threads are stopped from now on, except those that a debugger resumes.
    pub(crate) const fn come_to_rest(&mut self) {
        self.is_at_rest = true;
    }

    /// Its threads are about to go on. Whether they were stopped.
    pub(crate) const fn leave_rest(&mut self) -> bool {
        std::mem::replace(&mut self.is_at_rest, false)
    }

    /// The process's number.
    #[must_use]
    pub fn id(&self) -> ThreadId {
        thread_id(self.tracee.threads.process())
    }

    /// The user whose rights the program should have by the set-user-ID bit of its file, if it does not have them. The
    /// kernel does not give them to a program that is traced without `CAP_SYS_PTRACE` (execve(2)), nor from a file
    /// system that is mounted `nosuid`.
    #[must_use]
    pub fn refused_user(&self) -> Option<String> {
        attach::refused_user(self.tracee.threads.process())
    }

    /// The end of the main thread's stack; `None` if the kernel does not show it.
    #[must_use]
    pub fn stack_top(&self) -> Option<Address> {
        let mappings = maps::mappings(self.tracee.threads.any()).ok()?;
        let mut stacks = mappings.iter();
        let stack = stacks.find(|mapping| mapping.path.as_os_str() == "[stack]")?;
        Some(Address(stack.end))
    }

    /// The threads that are alive, including those of a vfork child.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.tracee
            .threads
            .iter()
            .map(|thread| thread_id(thread.id))
    }

    /// Chooses the registers of a register block.
    pub fn set_registers(&mut self, set: X86Registers) {
        self.tracee
            .collecting
            .choose(self.tracee.program.abi(), set);
    }

    /// The machine of the program: x86-64, or i386. It may change at [`Event::Exec`](crate::Event::Exec).
    #[must_use]
    pub const fn architecture(&self) -> Architecture {
        self.tracee.program.architecture()
    }

    /// A handle that ends a run from another thread.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(Arc::clone(&self.request))
    }

    /// Forgets a request of an [`Interrupter`] that came too late for the last run.
    pub fn forget_interruption(&self) {
        self.request.take();
    }

    /// Traces the processes that it makes from now on, and those that they make. Children with a copy of its memory are
    /// traced from their first instruction on ([`Event::Children`](crate::Event::Children)), and those that share its
    /// memory once they have called exec. None of them contains breakpoints, and a request to interrupt one interrupts
    /// all.
    pub fn follow_children(&mut self) {
        self.tracee.children = Children::Followed;
        self.patcher().prepare_children();
    }

    /// The processes that it has made and that are followed, and how each was created. They are stopped.
    pub fn take_children(&mut self) -> Vec<(Self, Birth)> {
        let births: Vec<Birth> = self.tracee.born.iter().map(|born| born.birth).collect();
        let mut children = self.take_born();
        for child in &mut children {
            child.request = Arc::clone(&self.request);
        }
        children.into_iter().zip(births).collect()
    }

    /// How many processes it has made that had a copy of its memory with tracepoints in it and are not followed.
    #[must_use]
    pub const fn released_children(&self) -> u64 {
        match self.tracee.children {
            Children::Released { with_tracepoints } => with_tracepoints,
            Children::Followed => 0,
        }
    }

    /// How many system calls the process has made for the tracer.
    #[must_use]
    pub const fn remote_calls(&self) -> u64 {
        self.tracee.remote.count()
    }

    /// Reads memory of the process at rest, as [`StoppedThread::read_memory`] does at a hit.
    ///
    /// [`StoppedThread::read_memory`]: tracewire_experiment::StoppedThread::read_memory
    pub fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        let thread = self.tracee.threads.any();
        self.tracee.memory.read_pieces(thread, pieces, None);
    }

    /// Where word is left of the file that the frames of pads go to, for a tracer that comes after us; none without pads.
    #[must_use]
    pub fn frames_file_note(&self) -> Option<FramesFileNote> {
        self.tracee.fast.frames_file_note()
    }

    /// The pads that killed tracers have left in the process, the newest first. They are out of use: only threads that
    /// are inside at this moment change them.
    ///
    /// # Errors
    /// When the mappings cannot be read, or there is no memory for a copy of the rings.
    pub fn orphans(&mut self) -> io::Result<Vec<Orphan>> {
        let threads = &self.tracee.threads;
        orphan::all(&self.tracee.memory, threads.any(), threads.process())
    }

    /// Frees the memory of rings. One page and the pads stay, since a thread may be inside or return there from a
    /// signal handler. No jump leads to them.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub fn clear(&mut self, orphan: Orphan) -> io::Result<()> {
        let rings = orphan.close(&self.tracee.memory)?;
        let (length, removal) = (rings.end - rings.start, libc::MADV_REMOVE as u64);
        self.tracee
            .system_call(libc::SYS_madvise, [rings.start, length, removal, 0, 0, 0]);
        Ok(())
    }

    /// How many jumps of a tracer that was killed were found and taken out when this one came, without the one at the
    /// dynamic linker's hook.
    #[must_use]
    pub const fn jumps_taken_over(&self) -> usize {
        self.tracee.program.taken_over
    }

    /// Sets the address of a probe's counter (semaphore). The counter is incremented while a tracepoint is at the
    /// probe. Call this before the tracepoint is inserted.
    pub fn set_semaphore(&mut self, marker: Address, semaphore: Address) {
        self.tracee.program.semaphores.add(marker.0, semaphore.0);
    }

    /// The modules of the process now: the program first, then the dynamic linker and the vdso, then libraries in load
    /// order. Before the dynamic linker has run there are no libraries.
    ///
    /// # Errors
    /// When `/proc` cannot be read, which means that the process has ended.
    pub fn modules(&self) -> Result<Vec<Module>, Error> {
        modules::all(
            &self.tracee.program.dynamic_linker,
            &self.tracee.memory,
            self.tracee.threads.any(),
        )
        .map_err(|(file, error)| Error::proc(file, self.tracee.threads.process(), error))
    }

    /// The objects that the dynamic linker had loaded when it was looked at last, each by its load bias and the address of its dynamic
    /// section. That is when a program is attached to, when a child is created by fork, and at
    /// [`Event::LibrariesChanged`](crate::Event::LibrariesChanged). Two children of a process with the same objects have the same modules.
    #[must_use]
    pub fn known_objects(&self) -> &[(u64, u64)] {
        self.tracee.program.dynamic_linker.known()
    }

    /// The objects that the dynamic linker has loaded. The list is empty before the dynamic linker has filled it in.
    /// `None` for a program without a dynamic linker.
    #[must_use]
    pub fn linked_objects(&self) -> Option<LinkMap> {
        self.tracee
            .program
            .dynamic_linker
            .linked_objects(&self.tracee.memory)
    }

    /// The entries of the dynamic linker's list from this one on, which should follow the previous one; up to one that does not
    /// follow the one before.
    #[must_use]
    pub fn linked_from(
        &self,
        start: Address,
        previous: Address,
        list: Address,
    ) -> Vec<LinkMapEntry> {
        self.tracee
            .program
            .dynamic_linker
            .linked_from(&self.tracee.memory, start, previous, list)
    }

    /// The address of a thread's copy of a variable: of the module with this `struct link_map`, 0 for a program without a
    /// dynamic linker, at this offset of the module's thread-local storage.
    ///
    /// # Errors
    /// When there is none, or the C library does not describe it.
    pub fn thread_local_address(
        &mut self,
        thread: ThreadId,
        module: Address,
        offset: u64,
    ) -> Result<Address, ThreadLocalError> {
        let registers = Tid::try_from(thread.0)
            .ok()
            .and_then(|id| self.tracee.threads.registers(id))
            .ok_or(ThreadLocalError::NoThread(thread))?;
        ThreadLocal::new(
            &self.tracee.memory,
            &self.tracee.program.dynamic_linker,
            self.tracee.threads.any(),
        )
        .address(
            &mut self.tracee.program.thread_local,
            &registers,
            module,
            offset,
        )
    }

    /// Kills the process, and waits for its end.
    pub fn kill(mut self) {
        if self.tracee.threads.ended.is_some() {
            return;
        }
        send_kill(self.tracee.threads.process());
        while self.tracee.threads.ended.is_none() {
            match self.tracee.wait() {
                Ok((thread, status)) if self.tracee.claims(thread) => {
                    self.tracee.note(thread, status);
                }
                Ok((thread, status)) => wait_queue::keep(thread, status),
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => break,
            }
        }
    }

    /// Removes everything of the tracer from the process and moves threads out of it, as [`detach`](Self::detach) does. The
    /// process stays stopped, and detaching from it is quick.
    ///
    /// # Errors
    /// When the kernel refuses; what could be undone is undone.
    pub fn clear_out(&mut self) -> Result<(), Error> {
        self.come_to_rest();
        self.tracee.clear_out()
    }

    /// Detaches from it as [`detach`](Self::detach) does, and leaves what is known of it.
    ///
    /// # Errors
    /// As [`detach`](Self::detach).
    pub fn let_go(&mut self) -> Result<(), Error> {
        self.tracee.detach()
    }

    /// Runs threads out of pads whose tracepoint is removed, for so long at most, and gives those that are still inside. All threads
    /// are stopped.
    #[must_use]
    pub fn run_out_of_pads(&mut self, limit: Duration) -> ThreadsInPads {
        self.tracee.run_out_of_pads_within(limit);
        self.tracee.threads_in_pads()
    }

    /// Detaches: removes every breakpoint, moves threads out of code of the tracer, and unmaps that code. Each thread
    /// goes on with the signal it was to get. A process that has ended is no error.
    ///
    /// # Errors
    /// When the kernel refuses; what could be undone is undone.
    pub fn detach(mut self) -> Result<(), Error> {
        self.tracee.detach()
    }
}

/// A process that is about to be attached to, with what can be known before it is stopped.
#[derive(Debug)]
pub struct Approach {
    id: Tid,
    /// The processes that do not share its memory.
    strangers: BTreeSet<Tid>,
}

impl Approach {
    /// Looks at a process.
    ///
    /// # Errors
    /// When there is no such process, or it is no program for x86.
    pub fn begin(process: ThreadId) -> Result<Self, Error> {
        let id = Tid::try_from(process.0)
            .ok()
            .filter(|id| *id > 0)
            .ok_or(Error::NoSuchProcess(process))?;
        let id = maps::ThreadStatus::read(id)
            .ok()
            .and_then(|status| status.number("Tgid"))
            .ok_or(Error::NoSuchProcess(process))?;
        if Abi::of_program(id) == Some(None) {
            return Err(Error::NotX86(process));
        }
        Ok(Self {
            id,
            strangers: children::strangers(id),
        })
    }

    /// Attaches to it, as [`Process::attach`] does.
    ///
    /// # Errors
    /// As [`Process::attach`].
    pub fn attach(self, settings: Settings) -> Result<Process, Error> {
        Process::attach_after(self, settings)
    }
}

/// Waits for the end of a process that was started here and then detached.
pub fn await_end(process: ThreadId) {
    let id = process.0.cast_signed();
    loop {
        match wait_queue::wait_any() {
            Ok((ended, Status::Exited(_) | Status::Killed(..))) if ended == id => return,
            // A thread that was about to end at detach; the process ends only once it is reaped.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

pub(crate) fn send_kill(process: Tid) {
    use nix::sys::signal::{Signal, kill};
    let _ = kill(nix::unistd::Pid::from_raw(process), Signal::SIGKILL);
}
