//! A thread at a tracepoint, as the experiment sees it. Nothing is read before it is requested.

use std::cell::OnceCell;

use libc::user_regs_struct;
use tracewire_arch::X86Registers;
use tracewire_experiment::{MemoryRead, StoppedThread, TargetError};
use tracewire_model::{RegisterNumber, ThreadId};

use crate::abi::Abi;
use crate::clock::Clock;
use crate::error::{target_error, thread_id};
use crate::memory::Memory;
use crate::ptrace::Stopped;
use crate::registers::RegisterPlan;
use crate::thread::CpuSource;

/// How a process is to be traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The registers of a register block.
    pub registers: X86Registers,
    /// Whether a thread is woken after a hit on the cpu that the tracer runs on. A hit then costs a fraction. The
    /// thread's cpu affinity is narrowed for that while it is stopped, and is as before when it runs.
    pub follow_cpu: bool,
}

impl Default for Settings {
    /// The smallest register set, and threads followed.
    fn default() -> Self {
        Self {
            registers: X86Registers::General,
            follow_cpu: true,
        }
    }
}

/// The registers that are collected, the layout of all others, and a buffer for what is read.
#[derive(Debug)]
pub(crate) struct Collecting {
    settings: Settings,
    /// The set of the register block.
    block: RegisterPlan,
    /// Every register of the machine.
    all: RegisterPlan,
    /// The last thread's extended state.
    state: Vec<u8>,
    /// The last register block.
    bytes: Vec<u8>,
    /// Whether the cpu of the last thread was requested: then the next one's is read along with its memory.
    cpu_asked: bool,
    clock: Clock,
}

impl Collecting {
    /// For a program of 64 bits.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            block: RegisterPlan::new(Abi::default(), settings.registers),
            all: RegisterPlan::new(Abi::default(), X86Registers::Avx512),
            state: Vec::new(),
            bytes: Vec::new(),
            cpu_asked: false,
            clock: Clock::default(),
        }
    }

    pub(crate) const fn settings(&self) -> Settings {
        self.settings
    }

    /// Chooses the registers of a register block.
    pub(crate) fn choose(&mut self, abi: Abi, set: X86Registers) {
        self.settings.registers = set;
        self.block = RegisterPlan::new(abi, set);
    }

    /// Adapts to the program's word size.
    pub(crate) fn fit(&mut self, abi: Abi) {
        self.block = RegisterPlan::new(abi, self.settings.registers);
        self.all = RegisterPlan::new(abi, X86Registers::Avx512);
    }

    /// The plan of a register block.
    pub(crate) const fn block(&self) -> &RegisterPlan {
        &self.block
    }
}

pub(crate) struct HitThread<'a> {
    thread: &'a Stopped,
    /// With `rip` as the program sees it.
    registers: user_regs_struct,
    memory: &'a mut Memory,
    collecting: &'a mut Collecting,
    cpu_source: &'a mut CpuSource,
    /// Whether the program has no other thread.
    alone: bool,
    time: OnceCell<u64>,
    cpu: Option<u32>,
    cpu_asked: bool,
    state_read: bool,
}

/// The value that the kernel writes for the cpu of a thread that has not run yet.
const NO_CPU: u32 = u32::MAX;

impl<'a> HitThread<'a> {
    pub(crate) fn new(
        thread: &'a Stopped,
        registers: user_regs_struct,
        memory: &'a mut Memory,
        collecting: &'a mut Collecting,
        cpu_source: &'a mut CpuSource,
        alone: bool,
    ) -> Self {
        let cpu_asked = std::mem::take(&mut collecting.cpu_asked);
        Self {
            thread,
            registers,
            memory,
            collecting,
            cpu_source,
            alone,
            time: OnceCell::new(),
            cpu: None,
            cpu_asked,
            state_read: false,
        }
    }

    /// The time when it stopped, in nanoseconds.
    fn nanoseconds(&self) -> u64 {
        *self.time.get_or_init(|| self.collecting.clock.now())
    }

    fn read_state(&mut self) -> Result<(), TargetError> {
        if !self.state_read {
            self.thread
                .extended_state(&mut self.collecting.state)
                .map_err(|error| {
                    target_error("ptrace(PTRACE_GETREGSET)", self.thread.id(), error)
                })?;
            self.state_read = true;
        }
        Ok(())
    }
}

impl Drop for HitThread<'_> {
    /// Registers may have a copy of a redacted variable, and the buffers stay until the next hit.
    fn drop(&mut self) {
        if self.state_read {
            self.collecting.state.fill(0);
        }
        self.collecting.bytes.fill(0);
    }
}

impl StoppedThread for HitThread<'_> {
    fn id(&self) -> ThreadId {
        thread_id(self.thread.id())
    }

    fn is_alone(&self) -> bool {
        self.alone
    }

    fn cpu(&mut self) -> u32 {
        self.collecting.cpu_asked = true;
        if self.cpu.is_none() {
            self.cpu_asked = true;
            self.read_memory(&mut []);
        }
        match self.cpu {
            Some(cpu) => cpu,
            None => {
                let cpu = self.cpu_source.recorded(self.thread.id());
                self.cpu = Some(cpu);
                cpu
            }
        }
    }

    fn timestamp(&self) -> u64 {
        self.nanoseconds() / 1000
    }

    fn timestamp_ns(&self) -> Option<u64> {
        Some(self.nanoseconds())
    }

    fn register(&mut self, register: RegisterNumber) -> Option<u64> {
        let general = self.collecting.all.general(register, &self.registers);
        if general.is_some() {
            return general;
        }
        self.read_state().ok()?;
        self.collecting
            .all
            .extended(register, &self.collecting.state)
    }

    fn register_block(&mut self) -> Result<&[u8], TargetError> {
        if !self.collecting.block.is_general() {
            self.read_state()?;
        }
        let Collecting {
            block,
            state,
            bytes,
            ..
        } = &mut *self.collecting;
        block.block(&self.registers, state, bytes);
        Ok(bytes)
    }

    fn read_memory(&mut self, pieces: &mut [MemoryRead]) {
        let mut number = NO_CPU;
        let wanted = (self.cpu_asked && self.cpu.is_none())
            .then(|| self.cpu_source.address(self.thread))
            .flatten();
        let word = wanted.map(|address| (address, &mut number));
        self.memory.read_pieces(self.thread.id(), pieces, word);
        if number < NO_CPU - 1 {
            self.cpu = Some(number);
        }
    }
}
