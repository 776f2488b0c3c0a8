//! What a debugger needs beside tracing: threads let go and held one by one, breakpoints that stop, registers and
//! memory that are read and written.

use std::io;

use tracewire_arch::X86Registers;
use tracewire_experiment::TargetError;
use tracewire_model::{Address, RegisterNumber, ThreadId};

use crate::breakpoints::Purpose;
use crate::debugger::CaughtCalls;
use crate::error::thread_id;
use crate::event::Watch;
use crate::process::Process;
use crate::watch::Wanted;

impl Process {
    /// Names the signals that the program gets without the debugger's being told, by their numbers here.
    pub fn pass_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        self.tracee.debugger.pass_signals(signals);
    }

    /// Names the signals that a debugger wants the program to have at all, by their numbers here. It matters when the
    /// process is let go: a thread that stands with another signal goes on without it. Where nothing is said, these are all
    /// but `SIGTRAP` and `SIGINT`.
    pub fn program_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        self.tracee.debugger.set_program_signals(signals);
    }

    /// Whether the process has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.tracee.threads.ended.is_some()
    }

    /// The threads of the process itself, without those that share its memory after a vfork.
    pub fn own_threads(&self) -> impl Iterator<Item = ThreadId> + '_ {
        self.tracee
            .threads
            .iter()
            .filter(|thread| thread.process == self.tracee.threads.process() && !thread.exiting)
            .map(|thread| thread_id(thread.id))
    }

    /// Puts a breakpoint in that stops the thread that comes by.
    ///
    /// # Errors
    /// When there is no code that can be written to.
    pub fn insert_stop(&mut self, address: Address) -> Result<(), TargetError> {
        self.patcher()
            .insert_breakpoint(address.0, Purpose::Debugger)
    }

    /// Takes it out. One that is not there is no error.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub fn remove_stop(&mut self, address: Address) -> Result<(), TargetError> {
        self.patcher()
            .remove_breakpoint(address.0, Purpose::Debugger)
    }

    /// Writes memory, even where the program itself may not. Breakpoints stay.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn write_memory(&mut self, address: Address, bytes: &[u8]) -> io::Result<()> {
        let range = address.0..address.0.saturating_add(bytes.len() as u64);
        if self.tracee.fast.is_read(&range) {
            return self
                .at_rest(|process| process.patcher().write_under_jumps(range, bytes))
                .map_err(io::Error::other)?;
        }
        self.tracee.memory.write_through(address.0, bytes)
    }

    /// Has the machine stop every thread, those that are yet to be made too, that executes the instruction at an address
    /// (whatever the length), or does with this memory what is looked out for. One that is there already is no error.
    ///
    /// # Errors
    /// When there are not enough debug registers, or the kernel refuses the address.
    pub fn insert_watch(
        &mut self,
        watch: Watch,
        address: Address,
        length: u64,
    ) -> Result<(), TargetError> {
        self.look_out(Wanted {
            purpose: Purpose::Debugger,
            watch,
            address: address.0,
            length,
        })
    }

    /// Has the debug registers of every thread look out for something more.
    pub(crate) fn look_out(&mut self, wanted: Wanted) -> Result<(), TargetError> {
        let address = Address(wanted.address);
        let refuse = |reason: String| TargetError::CannotInsert { address, reason };
        self.tracee.debug_registers.insert(wanted).map_err(refuse)?;
        let armed = self
            .tracee
            .threads
            .ids()
            .into_iter()
            .try_for_each(|id| self.tracee.arm(id));
        if let Err(error) = armed {
            self.tracee.debug_registers.remove(wanted);
            return Err(refuse(format!("the kernel refuses: {error}")));
        }
        // Threads that run get their registers when they go on.
        self.tracee.threads.interrupt();
        Ok(())
    }

    /// What the debug registers are for, one after the other: what is looked out for, where, and how many bytes.
    #[must_use]
    pub fn watches(&self) -> Vec<Option<(Watch, Address, u64)>> {
        self.tracee.debug_registers.all()
    }

    /// Takes it back. One that is not there is no error.
    pub fn remove_watch(&mut self, watch: Watch, address: Address, length: u64) {
        self.look_out_no_more(Wanted {
            purpose: Purpose::Debugger,
            watch,
            address: address.0,
            length,
        });
    }

    /// Has them look out for it no longer.
    pub(crate) fn look_out_no_more(&mut self, wanted: Wanted) {
        if self.tracee.debug_registers.remove(wanted) {
            // Threads that run get their registers when they go on.
            self.tracee.threads.interrupt();
        }
    }

    /// The largest register set that the machine has.
    #[must_use]
    pub fn machine_registers() -> X86Registers {
        if std::arch::is_x86_feature_detected!("avx512f") {
            X86Registers::Avx512
        } else if std::arch::is_x86_feature_detected!("avx") {
            X86Registers::Avx
        } else {
            X86Registers::Sse
        }
    }

    /// The register block of a thread; `None` if there is no such thread, or it does not stand.
    pub fn register_block(&mut self, thread: ThreadId) -> Option<Vec<u8>> {
        let stopped = self.tracee.threads.stopped(thread.0.cast_signed())?;
        let registers = stopped.registers().ok()?;
        let mut state = Vec::new();
        stopped.extended_state(&mut state).ok()?;
        let mut block = Vec::new();
        self.tracee
            .collecting
            .block()
            .block(&registers, &state, &mut block);
        Some(block)
    }

    /// Where a register stands in the block: offset and size, in bytes.
    #[must_use]
    pub fn register_place(&self, register: RegisterNumber) -> Option<(usize, usize)> {
        self.tracee.collecting.block().place(register)
    }

    /// Sets the registers that differ from those of the thread. Those behind the end of the block stay.
    /// `None` if there is no such thread, or the kernel refuses the values.
    pub fn set_register_block(&mut self, thread: ThreadId, block: &[u8]) -> Option<()> {
        let before = self.register_block(thread)?;
        let id = thread.0.cast_signed();
        let plan = self.tracee.collecting.block();
        let stopped = self.tracee.threads.stopped(id)?;
        let mut registers = stopped.registers().ok()?;
        let place = registers.rip;
        let mut state = Vec::new();
        stopped.extended_state(&mut state).ok()?;
        if plan.apply(&before, block, &mut registers, &mut state) {
            stopped.set_extended_state(&state).ok()?;
        }
        stopped.set_registers(&registers).ok()?;
        if registers.rip != place {
            let thread = self.tracee.threads.get_mut(id)?;
            thread.at = None;
            thread.repeated = None;
        }
        Some(())
    }

    /// What the kernel tells of the signal that a thread has stopped for, in the program's own form, 128 bytes.
    #[must_use]
    pub fn signal_info(&self, thread: ThreadId) -> Option<Vec<u8>> {
        let thread = self.tracee.threads.get(thread.0.cast_signed())?;
        Some(thread.signal_info(self.tracee.program.abi())?.to_vec())
    }

    /// Changes it, from an offset on: the program gets the signal so, if it gets it. `None` where there is no signal, or the
    /// bytes do not fit.
    pub fn set_signal_info(&mut self, thread: ThreadId, offset: usize, bytes: &[u8]) -> Option<()> {
        let abi = self.tracee.program.abi();
        self.tracee
            .threads
            .get_mut(thread.0.cast_signed())?
            .set_signal_info(abi, offset, bytes)
    }

    /// The cpu that a thread ran on last.
    pub fn cpu_of(&mut self, thread: ThreadId) -> u32 {
        let id = thread.0.cast_signed();
        self.tracee
            .threads
            .get_mut(id)
            .map_or(0, |thread| thread.cpu.recorded(id))
    }

    /// Says which system calls stop a thread of the process from now on.
    pub fn catch_system_calls(&mut self, caught: CaughtCalls) {
        self.tracee.debugger.catch(caught);
    }
}
