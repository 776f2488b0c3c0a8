//! What holds for the program that a process executes, until it becomes another one.

use tracewire_arch::Architecture;

use crate::address_space::WhileStopped;
use crate::indirect::IndirectFunctions;
use crate::loader::Loader;
use crate::memory::Memory;
use crate::ptrace::Tid;
use crate::rseq::RestartableSequences;
use crate::semaphore::Semaphores;
use crate::thread_local::KnownLayout;
use crate::width::Width;

/// The program of a process: how wide it is, its dynamic linker, and what was found out about it.
#[derive(Debug, Default)]
pub(crate) struct Program {
    width: Width,
    pub(crate) loader: Loader,
    /// What is known as long as the process is stopped.
    pub(crate) while_stopped: Option<WhileStopped>,
    pub(crate) sequences: RestartableSequences,
    pub(crate) indirect: IndirectFunctions,
    pub(crate) thread_local: KnownLayout,
    pub(crate) semaphores: Semaphores,
    /// Jumps of a killed tracer that are out.
    pub(crate) taken_over: usize,
}

impl Program {
    /// How wide its words are.
    pub(crate) const fn width(&self) -> Width {
        self.width
    }

    /// Whether pads and copies of instructions, which are 64-bit code, can be executed.
    pub(crate) fn is_wide(&self) -> bool {
        self.width == Width::Bits64
    }

    pub(crate) const fn architecture(&self) -> Architecture {
        self.width.architecture()
    }

    /// Finds out how wide the program is that a thread executes.
    pub(crate) fn find_width(&mut self, thread: Tid) {
        self.width = Width::of_program(thread).flatten().unwrap_or_default();
    }

    /// The process has become another program: nothing of what was known holds, until it is looked at.
    pub(crate) fn become_another(&mut self) {
        *self = Self {
            width: self.width,
            taken_over: self.taken_over,
            ..Self::default()
        };
    }

    /// It has not executed anything yet.
    pub(crate) fn look_at_start(&mut self, memory: &Memory, thread: Tid) {
        self.loader = Loader::at_start(self.width, memory, thread);
    }

    /// It runs already.
    pub(crate) fn look_at_running(&mut self, memory: &Memory, thread: Tid) {
        self.loader = Loader::of_running(self.width, memory, thread);
    }
}
