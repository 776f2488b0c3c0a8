//! Facts about the program that a process executes, until it becomes another one.

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

/// The program of a process: its word size, its dynamic linker, and other facts.
#[derive(Debug, Default)]
pub(crate) struct Program {
    abi: Abi,
    pub(crate) dynamic_linker: DynamicLinker,
    /// Facts that hold as long as the process is stopped.
    pub(crate) while_stopped: Option<WhileStopped>,
    pub(crate) sequences: RestartableSequences,
    pub(crate) indirect: IndirectFunctions,
    pub(crate) thread_local: KnownLayout,
    pub(crate) semaphores: Semaphores,
    /// Jumps of a killed tracer that were removed.
    pub(crate) taken_over: usize,
}

impl Program {
    /// Its word size.
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

    /// Finds the word size of the program that a thread executes.
    pub(crate) fn find_abi(&mut self, thread: Tid) {
        self.abi = Abi::of_program(thread).flatten().unwrap_or_default();
    }

    /// The process has become another program: forgets all facts, until they are read again.
    pub(crate) fn become_another(&mut self) {
        *self = Self {
            abi: self.abi,
            taken_over: self.taken_over,
            ..Self::default()
        };
    }

    /// Looks up the dynamic linker of a program that has not executed anything yet.
    pub(crate) fn look_at_start(&mut self, memory: &Memory, thread: Tid) {
        self.dynamic_linker = DynamicLinker::at_start(self.abi, memory, thread);
    }

    /// Looks up the facts of a program that is already running.
    pub(crate) fn look_at_running(&mut self, memory: &Memory, thread: Tid) {
        self.dynamic_linker = DynamicLinker::of_running(self.abi, memory, thread);
    }
}
