//! The emulator as `gdbstub` has it: what every emulator that uses that crate has already. Nothing here is about tracepoints.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixStream;

use gdbstub::common::Signal;
use gdbstub::conn::ConnectionExt;
use gdbstub::stub::SingleThreadStopReason;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::singlethread::{
    SingleThreadBase, SingleThreadResume, SingleThreadResumeOps, SingleThreadSingleStep,
    SingleThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::riscv::Riscv32;
use gdbstub_arch::riscv::reg::RiscvCoreRegs;

use crate::machine::Machine;

/// How many instructions are executed before the emulator checks for input of the debugger.
const SLICE: usize = 1024;

pub struct Emulator {
    pub machine: Machine,
    breakpoints: BTreeSet<u32>,
    steps: bool,
}

impl Emulator {
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            breakpoints: BTreeSet::new(),
            steps: false,
        }
    }
}

impl Target for Emulator {
    type Arch = Riscv32;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::SingleThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadBase for Emulator {
    fn read_registers(&mut self, registers: &mut RiscvCoreRegs<u32>) -> TargetResult<(), Self> {
        registers.x = self.machine.x;
        registers.pc = self.machine.pc;
        Ok(())
    }

    fn write_registers(&mut self, registers: &RiscvCoreRegs<u32>) -> TargetResult<(), Self> {
        self.machine.x = registers.x;
        self.machine.pc = registers.pc;
        Ok(())
    }

    fn support_resume(&mut self) -> Option<SingleThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u32, data: &mut [u8]) -> TargetResult<usize, Self> {
        let bytes = self.machine.at(start, data.len());
        data.copy_from_slice(bytes.ok_or(TargetError::NonFatal)?);
        Ok(data.len())
    }

    fn write_addrs(&mut self, start: u32, data: &[u8]) -> TargetResult<(), Self> {
        let bytes = self.machine.at(start, data.len());
        bytes.ok_or(TargetError::NonFatal)?.copy_from_slice(data);
        Ok(())
    }
}

impl SingleThreadResume for Emulator {
    fn resume(&mut self, _: Option<Signal>) -> Result<(), Self::Error> {
        self.steps = false;
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<SingleThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
}

impl SingleThreadSingleStep for Emulator {
    fn step(&mut self, _: Option<Signal>) -> Result<(), Self::Error> {
        self.steps = true;
        Ok(())
    }
}

impl Breakpoints for Emulator {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Emulator {
    fn add_sw_breakpoint(&mut self, address: u32, _: usize) -> TargetResult<bool, Self> {
        self.breakpoints.insert(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u32, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&address))
    }
}

/// Executes until something is to be reported.
pub struct EventLoop;

impl BlockingEventLoop for EventLoop {
    type Target = Emulator;
    type Connection = UnixStream;
    type StopReason = SingleThreadStopReason<u32>;

    fn wait_for_stop_reason(
        emulator: &mut Emulator,
        connection: &mut UnixStream,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<&'static str, io::Error>> {
        let stopped = |reason| Ok(Event::TargetStopped(reason));
        loop {
            for _ in 0..SLICE {
                if emulator.machine.step().is_err() {
                    return stopped(SingleThreadStopReason::Signal(Signal::SIGILL));
                } else if emulator.steps {
                    return stopped(SingleThreadStopReason::DoneStep);
                } else if emulator.breakpoints.contains(&emulator.machine.pc) {
                    return stopped(SingleThreadStopReason::SwBreak(()));
                }
            }
            let failed = WaitForStopReasonError::Connection;
            if connection.peek().map_err(failed)?.is_some() {
                return Ok(Event::IncomingData(connection.read().map_err(failed)?));
            }
        }
    }

    fn on_interrupt(_: &mut Emulator) -> Result<Option<Self::StopReason>, &'static str> {
        Ok(Some(SingleThreadStopReason::Signal(Signal::SIGINT)))
    }
}
