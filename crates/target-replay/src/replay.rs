//! An instant of a recording, and the debugger's settings there.

use std::collections::BTreeSet;

use tracewire_arch::{Machine, Register};
use tracewire_experiment::{Target, TargetError};
use tracewire_model::{Address, ThreadId};

use crate::execution::{Direction, Execution, RegisterBlock, Watch, canonical};

/// The thread that a cpu is to a debugger. Threads are numbered from 1.
#[must_use]
pub const fn thread_of(cpu: u32) -> ThreadId {
    ThreadId(cpu.saturating_add(1))
}

const fn cpu_of(thread: ThreadId) -> u32 {
    thread.0.saturating_sub(1)
}

/// Memory that is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Watchpoint {
    pub(crate) watch: Watch,
    pub(crate) address: Address,
    pub(crate) length: u64,
}

/// A recording, a place in it, and the breakpoints, watchpoints and tracepoints that are set.
#[derive(Debug)]
pub struct Replay<E> {
    pub(crate) execution: E,
    pub(crate) position: u64,
    pub(crate) breakpoints: BTreeSet<Address>,
    pub(crate) watchpoints: Vec<Watchpoint>,
    pub(crate) tracepoints: BTreeSet<Address>,
    /// The cpus that an experiment steps.
    pub(crate) stepping: BTreeSet<u32>,
    /// The cpu whose stop was reported last: it does not stop again at the same place.
    pub(crate) stopped: Option<u32>,
    /// The access that was reported last before it was made, or undone.
    pub(crate) reported: Option<(u64, Direction)>,
}

impl<E: Execution> Replay<E> {
    /// Begins at the first instant.
    #[must_use]
    pub fn new(execution: E) -> Self {
        let mut replay = Self {
            execution,
            position: 0,
            breakpoints: BTreeSet::new(),
            watchpoints: Vec::new(),
            tracepoints: BTreeSet::new(),
            stepping: BTreeSet::new(),
            stopped: None,
            reported: None,
        };
        replay.go_to(0);
        replay
    }

    /// Begins at the instant before an instruction.
    #[must_use]
    pub fn at(execution: E, number: u64) -> Self {
        let mut replay = Self::new(execution);
        replay.go_to(number);
        replay
    }

    /// The recording.
    #[must_use]
    pub const fn execution(&self) -> &E {
        &self.execution
    }

    /// The instruction that comes next; the number of instructions at the end.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Moves to the instant before an instruction, or to the end if there are fewer.
    pub fn go_to(&mut self, number: u64) {
        self.position = number.min(self.execution.instructions());
        self.reported = None;
        self.stepping.clear();
        let next = self.execution.instruction(self.position);
        self.stopped = next.map(|executed| executed.cpu);
    }

    /// The cpus as threads.
    pub fn threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.execution.cpus().iter().copied().map(thread_of)
    }

    /// Whether there is such a thread.
    #[must_use]
    pub fn has_thread(&self, thread: ThreadId) -> bool {
        thread.0 > 0 && self.execution.cpus().contains(&cpu_of(thread))
    }

    /// The thread whose instruction comes next; at the end, the one whose instruction was last.
    #[must_use]
    pub fn current_thread(&self) -> ThreadId {
        let next = self.execution.instruction(self.position);
        let last = || {
            let last = self.position.checked_sub(1)?;
            self.execution.instruction(last)
        };
        let first = || self.execution.cpus().first().copied().unwrap_or(0);
        thread_of(
            next.or_else(last)
                .map_or_else(first, |executed| executed.cpu),
        )
    }

    /// The address of the instruction that a thread executes next. After its last one it is the address of that one: a debugger
    /// needs an address, and the real one is unknown.
    #[must_use]
    pub fn program_counter(&self, thread: ThreadId) -> Option<Address> {
        program_counter_at(&self.execution, cpu_of(thread), self.position)
    }

    /// All registers of a thread.
    #[must_use]
    pub fn registers(&self, thread: ThreadId) -> RegisterBlock {
        let pc = self.program_counter(thread);
        registers_at(&self.execution, cpu_of(thread), self.position, pc)
    }

    /// Fills in the known memory as a thread sees it.
    pub fn memory(&self, thread: ThreadId, address: Address, bytes: &mut [Option<u8>]) {
        let address = canonical(self.execution.machine(), address);
        self.execution
            .memory(cpu_of(thread), self.position, address, bytes);
    }

    /// Makes the recording stop where an instruction of this address comes next.
    pub fn insert_breakpoint(&mut self, address: Address) {
        let address = canonical(self.execution.machine(), address);
        self.breakpoints.insert(address);
    }

    /// Removes a breakpoint.
    pub fn remove_breakpoint(&mut self, address: Address) {
        let address = canonical(self.execution.machine(), address);
        self.breakpoints.remove(&address);
    }

    /// Makes the recording stop where memory is accessed.
    pub fn insert_watchpoint(&mut self, watch: Watch, address: Address, length: u64) {
        self.remove_watchpoint(watch, address, length);
        self.watchpoints.push(Watchpoint {
            watch,
            address: canonical(self.execution.machine(), address),
            length,
        });
    }

    /// Removes a watchpoint.
    pub fn remove_watchpoint(&mut self, watch: Watch, address: Address, length: u64) {
        let watchpoint = Watchpoint {
            watch,
            address: canonical(self.execution.machine(), address),
            length,
        };
        self.watchpoints.retain(|known| *known != watchpoint);
    }

    pub(crate) fn cpu(&self, thread: ThreadId) -> u32 {
        cpu_of(thread)
    }
}

/// Tracepoints cost nothing where they are not hit: the experiment is run over the visits to their addresses.
impl<E: Execution> Target for Replay<E> {
    fn insert(&mut self, address: Address) -> Result<(), TargetError> {
        self.tracepoints.insert(address);
        Ok(())
    }

    fn remove(&mut self, address: Address) -> Result<(), TargetError> {
        self.tracepoints.remove(&address);
        Ok(())
    }

    /// The time of the instruction that comes next; at the end that of the last one.
    fn now(&self) -> u64 {
        let last = self.execution.instructions().saturating_sub(1);
        let here = self.execution.instruction(self.position.min(last));
        here.map_or(0, |here| here.time)
    }
}

fn program_counter_at(execution: &impl Execution, cpu: u32, instant: u64) -> Option<Address> {
    let address = |number| execution.instruction(number);
    if let Some(next) = execution.next_of(cpu, instant).and_then(address) {
        return Some(next.address);
    }
    let last = execution.last_of(cpu, instant).and_then(address)?;
    Some(last.address)
}

/// The registers of a cpu, with its program counter in them.
pub(crate) fn registers_at(
    execution: &impl Execution,
    cpu: u32,
    instant: u64,
    pc: Option<Address>,
) -> RegisterBlock {
    let machine = execution.machine();
    let mut block = execution.registers(cpu, instant);
    set_constant_registers(machine, &mut block, pc);
    block
}

/// Sets the registers that the recording does not report: the one that is always zero, and the program counter.
pub(crate) fn set_constant_registers(
    machine: &Machine,
    block: &mut RegisterBlock,
    pc: Option<Address>,
) {
    let order = machine.byte_order();
    let mut set = |register: &Register, value| {
        block.set_number(
            register.offset as usize,
            register.size() as usize,
            value,
            order,
        );
    };
    if let Some(zero) = machine.zero() {
        set(zero, 0);
    }
    if let (Some(Address(pc)), Some(register)) = (pc, machine.layout().program_counter()) {
        set(register, pc);
    }
}
