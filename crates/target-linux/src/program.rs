//! What holds for the program that a process executes, until it becomes another one.

use tracewire_arch::Architecture;

use crate::abi::Abi;
use crate::address_space::WhileStopped;
use crate::dynamic_linker::DynamicLinker;
use crate::indirect::IndirectFunctions;
use crate::memory::Memory;
use crate::ptrace::Tid;
use crate::rseq::RestartableSequences;
use crate::semaphore::Semaphores;
use crate::thread_local::KnownLayout;

/// The program of a process: how wide it is, its dynamic linker, and what was found out about it.
#[derive(Debug, Default)]
pub(crate) struct Program {
    abi: Abi,
    pub(crate) dynamic_linker: DynamicLinker,
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
    pub(crate) const fn abi(&self) -> Abi {
        self.abi
    }

    /// Whether pads and copies of instructions, which are 64-bit code, can be executed.
    pub(crate) fn is_64_bit(&self) -> bool {
        self.abi == Abi::Bits64
    }

    pub(crate) const fn architecture(&self) -> Architecture {
        self.abi.architecture()
    }

    /// Finds out how wide the program is that a thread executes.
    pub(crate) fn find_abi(&mut self, thread: Tid) {
        self.abi = Abi::of_program(thread).flatten().unwrap_or_default();
    }

    /// The process has become another program: nothing of what was known holds, until it is looked at.
    pub(crate) fn become_another(&mut self) {
        *self = Self {
            abi: self.abi,
            taken_over: self.taken_over,
            ..Self::default()
        };
    }

    /// It has not executed anything yet.
    pub(crate) fn look_at_start(&mut self, memory: &Memory, thread: Tid) {
        self.dynamic_linker = DynamicLinker::at_start(self.abi, memory, thread);
    }

    /// It runs already.
    pub(crate) fn look_at_running(&mut self, memory: &Memory, thread: Tid) {
        self.dynamic_linker = DynamicLinker::of_running(self.abi, memory, thread);
    }
}
