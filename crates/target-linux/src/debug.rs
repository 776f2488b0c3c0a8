//! Operations for a debugger: resume and hold single threads, breakpoints that stop, access to registers and memory.

use std::io;

use tracewire_arch::X86Registers;
use tracewire_experiment::TargetError;
use tracewire_model::{Address, RegisterNumber, ThreadId};

use crate::breakpoints::Purpose;
use crate::debugger::CaughtCalls;
use crate::event::Watch;
use crate::process::Process;
use crate::watch::Wanted;

impl Process {
    /// Sets the signals that the program gets without a report to the debugger, by their numbers here.
    pub fn pass_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        self.tracee.debugger.pass_signals(signals);
    }

    /// Sets the signals that a debugger allows the program to get, by their numbers here. It takes effect at detach: a
    /// thread that is stopped with another signal goes on without it. The default is all but `SIGTRAP` and `SIGINT`.
    pub fn program_signals(&mut self, signals: impl IntoIterator<Item = i32>) {
        self.tracee.debugger.set_program_signals(signals);
    }

    /// Whether the process has ended.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.tracee.threads.ended.is_some()
    }

    /// Inserts a breakpoint that stops each thread that reaches it.
    ///
    /// # Errors
    /// When there is no code that can be written to.
    pub fn insert_stop(&mut self, address: Address) -> Result<(), TargetError> {
        self.patcher()
            .insert_breakpoint(address.0, Purpose::Debugger)
    }

    /// Removes such a breakpoint at an address. One that does not exist is no error.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub fn remove_stop(&mut self, address: Address) -> Result<(), TargetError> {
        self.patcher()
            .remove_breakpoint(address.0, Purpose::Debugger)
    }

    /// Writes memory, even where the program itself may not. Breakpoints stay inserted.
    ///
    /// # Errors
    /// When the memory is not mapped.
    pub fn write_memory(&mut self, address: Address, bytes: &[u8]) -> io::Result<()> {
        let range = address.0..address.0.saturating_add(bytes.len() as u64);
        if self.tracee.fast.is_read(&range) {
            return self
                .at_rest(|process| process.patcher().write_under_jumps(range, bytes))
                .map_err(io::Error::other)?;
        }
        self.tracee.memory.write_through(address.0, bytes)
    }

    /// Sets a hardware breakpoint or watchpoint in every thread, also in threads that are created later. An execution
    /// breakpoint ignores the length. Inserting one that exists is no error.
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

    /// Adds a watch to the debug registers of every thread.
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
        // Running threads get their registers when they are resumed.
        self.tracee.threads.interrupt();
        Ok(())
    }

    /// The use of each debug register: the kind of watch, its address and its length in bytes.
    #[must_use]
    pub fn watches(&self) -> Vec<Option<(Watch, Address, u64)>> {
        self.tracee.debug_registers.all()
    }

    /// Removes a watch. One that does not exist is no error.
    pub fn remove_watch(&mut self, watch: Watch, address: Address, length: u64) {
        self.look_out_no_more(Wanted {
            purpose: Purpose::Debugger,
            watch,
            address: address.0,
            length,
        });
    }

    /// Removes a watch from the debug registers.
    pub(crate) fn look_out_no_more(&mut self, wanted: Wanted) {
        if self.tracee.debug_registers.remove(wanted) {
            // Running threads get their registers when they are resumed.
            self.tracee.threads.interrupt();
        }
    }

    /// The largest register set of the machine.
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

    /// The register block of a thread; `None` if there is no such thread, or it is not stopped.
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

    /// The offset and size in bytes of a register in the block.
    #[must_use]
    pub fn register_place(&self, register: RegisterNumber) -> Option<(usize, usize)> {
        self.tracee.collecting.block().place(register)
    }

    /// Sets the registers that differ from those of the thread. Registers beyond the end of the block keep their
    /// values. `None` if there is no such thread, or the kernel refuses the values.
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

    /// The kernel's description of the signal that a thread has stopped for, in the program's own form, 128 bytes.
    #[must_use]
    pub fn signal_info(&self, thread: ThreadId) -> Option<Vec<u8>> {
        let thread = self.tracee.threads.get(thread.0.cast_signed())?;
        Some(thread.signal_info(self.tracee.program.abi())?.to_vec())
    }

    /// Changes the description of the signal, from an offset on; the program sees the change if it gets the signal.
    /// `None` where there is no signal, or the bytes do not fit.
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

    /// Chooses the system calls that stop a thread of the process from now on.
    pub fn catch_system_calls(&mut self, caught: CaughtCalls) {
        self.tracee.debugger.catch(caught);
    }
}
