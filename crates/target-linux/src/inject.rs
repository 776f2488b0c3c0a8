//! Having the process make a system call for us, so that it cannot tell afterwards.

use libc::user_regs_struct;

use crate::maps::{self, ThreadStatus};
use crate::process::Process;
use crate::ptrace::{Resume, Status, Tid, wait_for};
use crate::thread::State;
use crate::width::Width;

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// Every signal but those that an instruction causes by itself: these, blocked, would kill.
pub(crate) const ALL_BUT_FAULTS: u64 = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS));

/// A signal's bit in a set of them.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

impl Process {
    /// Maps memory at exactly this address for code of ours; `None` if it cannot be had.
    pub(crate) fn map_page(&mut self, address: u64, size: u64) -> Option<()> {
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let got = self.system_call(
            libc::SYS_mmap,
            [address, size, protection as u64, flags as u64, u64::MAX, 0],
        )?;
        if got != address {
            // A kernel before 4.17 takes the address for a hint; an error is no address at all.
            if got < u64::MAX - 4095 {
                self.unmap_page(got, size);
            }
            return None;
        }
        // A child by fork does not run our code.
        self.system_call(
            libc::SYS_madvise,
            [address, size, libc::MADV_DONTFORK as u64, 0, 0, 0],
        );
        Some(())
    }

    pub(crate) fn unmap_page(&mut self, address: u64, size: u64) {
        self.system_call(libc::SYS_munmap, [address, size, 0, 0, 0, 0]);
    }

    /// Makes a system call through a thread at rest; `None` if no thread may.
    pub(crate) fn system_call(&mut self, number: libc::c_long, arguments: [u64; 6]) -> Option<u64> {
        // The gate is a 64-bit instruction.
        if self.width != Width::Bits64 {
            return None;
        }
        let thread = self.volunteer()?;
        let gate = self.gate()?;
        let held = self.threads.get_mut(&thread)?.pending.take();
        let result = self.system_call_by(thread, gate, number, arguments);
        if let (Some(entry), Some(held)) = (self.threads.get_mut(&thread), held) {
            entry.pending = Some(held);
        }
        result
    }

    fn system_call_by(
        &mut self,
        thread: Tid,
        gate: u64,
        number: libc::c_long,
        arguments: [u64; 6],
    ) -> Option<u64> {
        let stopped = self.stopped(thread)?;
        let saved = stopped.registers().ok()?;
        let mask = stopped.signal_mask().ok()?;
        stopped.set_signal_mask(ALL_BUT_FAULTS).ok()?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let changed = user_regs_struct {
            rip: gate,
            rax: number as u64,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            // Not in a system call: nothing is to be restarted.
            orig_rax: u64::MAX,
            ..saved
        };
        stopped.set_registers(&changed).ok()?;
        let result = self.step_to_trap(thread);
        let stopped = self.stopped(thread)?;
        let after = result.and_then(|()| stopped.registers().ok());
        let _ = stopped.set_registers(&saved);
        let _ = stopped.set_signal_mask(mask);
        after.map(|after| after.rax)
    }

    /// Executes one instruction with signals blocked; `None` if the thread came to its end or ran into a fault.
    pub(crate) fn step_to_trap(&mut self, thread: Tid) -> Option<()> {
        loop {
            let entry = self.threads.get_mut(&thread)?;
            entry.go_on(Resume::Step, 0);
            let Ok(status) = wait_for(thread) else {
                self.forget_threads(|other| other.id == thread);
                return None;
            };
            match status {
                Status::Signal(libc::SIGTRAP) => {
                    entry.has_stopped();
                    self.note_trigger(thread);
                    return Some(());
                }
                Status::GroupStop(_) => {
                    entry.has_stopped();
                    entry.rejoin_group_stop = true;
                }
                Status::Interrupted => entry.has_stopped(),
                status => {
                    self.note(thread, status);
                    self.stopped(thread)?;
                    if self.threads.get(&thread)?.pending.is_some() {
                        return None;
                    }
                }
            }
        }
    }

    /// A thread that may make system calls for us and has nothing to lose by it.
    pub(crate) fn volunteer(&mut self) -> Option<Tid> {
        let thread = self
            .threads
            .values()
            .filter(|thread| thread.process == self.id && !thread.exiting)
            .filter(|thread| !thread.enters_call && !thread.mid_call)
            .filter(|thread| matches!(thread.state, State::Stopped(_)))
            .find(|thread| {
                ThreadStatus::read(thread.id).is_ok_and(|status| !status.filters_system_calls())
            })?
            .id;
        let entry = self.threads.get_mut(&thread)?;
        if std::mem::take(&mut entry.group_stopped) {
            entry.rejoin_group_stop = true;
        }
        Some(thread)
    }

    /// A system call instruction in the process: the vdso has some.
    fn gate(&mut self) -> Option<u64> {
        if self.gate.is_none() {
            let mappings = maps::mappings(self.any_thread()).ok()?;
            let vdso = mappings
                .iter()
                .find(|mapping| mapping.path.as_os_str() == "[vdso]");
            // Without a vdso, the program's own code will have one: the dynamic linker's, or a static
            // program's.
            let others = mappings
                .iter()
                .filter(|mapping| mapping.executable && mapping.readable);
            self.gate = vdso.into_iter().chain(others).find_map(|mapping| {
                /// More code than any dynamic linker or C library has.
                const LIMIT: u64 = 16 << 20;
                let mut code = vec![0; (mapping.end - mapping.start).min(LIMIT) as usize];
                let filled = self.memory.read(mapping.start, &mut code);
                code.get(..filled)?
                    .windows(SYSCALL.len())
                    .zip(mapping.start..)
                    .find(|(bytes, at)| {
                        *bytes == SYSCALL && self.breakpoints.range(at..=&(at + 1)).next().is_none()
                    })
                    .map(|(_, at)| at)
            });
        }
        self.gate
    }
}
