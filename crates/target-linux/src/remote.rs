//! System calls that the process makes for the tracer: the thread that makes them, and the instruction that it uses.

use std::ops::Range;

use libc::user_regs_struct;

use crate::maps::{self, ThreadStatus};
use crate::memory::Memory;
use crate::ptrace::{Stopped, Tid};
use crate::thread::{Phase, State, Thread};
use crate::threads::Threads;

/// The instruction `syscall`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The space for it, in bytes.
pub(crate) const REFUGE_SIZE: u64 = 192;

/// The first bytes of every refuge.
const REFUGE_BEGIN: [u8; 15] = [
    0x0f, 0x05, 0xb8, 14, 0, 0, 0, 0xbf, 2, 0, 0, 0, 0x48, 0x8d, 0x35,
];

/// A system call instruction, followed by code that restores a thread's signal mask, registers and address. None of
/// these instructions changes flags.
fn way_back(saved: &user_regs_struct, mask: u64) -> Vec<u8> {
    /// The kernel's results that request a restart, and the one that requests it by another call.
    const RESTARTS: std::ops::RangeInclusive<i64> = -514..=-512;
    const RESTART_BLOCK: i64 = -516;
    let (mut rip, mut rax) = (saved.rip, saved.rax);
    // The same as the kernel does before it resumes the thread.
    if saved.orig_rax as i64 >= 0 && RESTARTS.contains(&(rax as i64)) {
        (rip, rax) = (rip.wrapping_sub(2), saved.orig_rax);
    } else if saved.orig_rax as i64 >= 0 && rax as i64 == RESTART_BLOCK {
        (rip, rax) = (rip.wrapping_sub(2), libc::SYS_restart_syscall as u64);
    }
    // syscall; mov eax, SYS_rt_sigprocmask; mov edi, SIG_SETMASK; lea rsi, [rip + mask]; mov edx, 0; mov r10d, 8; syscall
    let mut code = REFUGE_BEGIN.to_vec();
    let mask_place = code.len();
    code.extend([0; 4]);
    code.extend([0xba, 0, 0, 0, 0, 0x41, 0xba, 8, 0, 0, 0]);
    code.extend(SYSCALL);
    // mov REGISTER, value
    for (opcode, value) in [
        ([0x48, 0xbf], saved.rdi),
        ([0x48, 0xbe], saved.rsi),
        ([0x48, 0xba], saved.rdx),
        ([0x49, 0xba], saved.r10),
        ([0x49, 0xb8], saved.r8),
        ([0x49, 0xb9], saved.r9),
        ([0x48, 0xb9], saved.rcx),
        ([0x49, 0xbb], saved.r11),
        ([0x48, 0xb8], rax),
    ] {
        code.extend(opcode);
        code.extend(value.to_le_bytes());
    }
    // jmp [rip]
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(rip.to_le_bytes());
    let distance = (code.len() - mask_place - 4) as u8;
    if let Some(place) = code.get_mut(mask_place) {
        *place = distance;
    }
    code.extend(mask.to_le_bytes());
    code
}

/// The places from which system calls are made.
#[derive(Debug, Default)]
pub(crate) struct RemoteCalls {
    /// How many were made.
    count: u64,
    /// A free space after some code, once it has been looked for.
    refuge: Option<u64>,
    /// A system call instruction of the program, once it is found.
    gate: Option<u64>,
}

impl RemoteCalls {
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    pub(crate) const fn note_call(&mut self) {
        self.count += 1;
    }

    /// Bytes of the program's code are about to change. A gate among them is looked for again.
    pub(crate) fn note_change(&mut self, bytes: &Range<u64>) {
        let gate = self.gate;
        if gate.is_some_and(|gate| gate < bytes.end && bytes.start < gate + SYSCALL.len() as u64) {
            self.gate = None;
        }
    }

    /// The process has become another program.
    pub(crate) const fn forget_places(&mut self) {
        self.gate = None;
        self.refuge = None;
    }

    /// A system call instruction in the process: the vdso has some.
    pub(crate) fn gate(&mut self, threads: &Threads, memory: &Memory) -> Option<u64> {
        if self.gate.is_none() {
            let mappings = maps::mappings(threads.any()).ok()?;
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
                // With the bytes of breakpoints and jumps: none may be among those of the instruction.
                let filled = memory.read_present(mapping.start, &mut code);
                code.get(..filled)?
                    .windows(SYSCALL.len())
                    .zip(mapping.start..)
                    .find(|(bytes, _)| *bytes == SYSCALL)
                    .map(|(_, at)| at)
            });
        }
        self.gate
    }

    /// Writes a system call instruction, followed by code with which the thread restores itself. If the tracer is
    /// killed now, the thread goes on as before. `None` where there is no space.
    ///
    /// The space is after the end of some code, where a page is filled with zeros. The refuge of a killed tracer can be
    /// used too, once no thread is in it.
    pub(crate) fn make_refuge(
        &mut self,
        threads: &Threads,
        memory: &Memory,
        saved: &user_regs_struct,
        mask: u64,
    ) -> Option<u64> {
        let code = way_back(saved, mask);
        let start = match self.refuge.filter(|start| is_room(threads, memory, *start)) {
            Some(start) => start,
            None => {
                let mappings = maps::mappings(threads.any()).ok()?;
                let start = mappings
                    .iter()
                    .filter(|mapping| mapping.executable && mapping.readable)
                    .filter(|mapping| mapping.path.is_absolute())
                    .filter_map(|mapping| mapping.end.checked_sub(REFUGE_SIZE))
                    .find(|start| is_room(threads, memory, *start))?;
                self.refuge = Some(start);
                start
            }
        };
        memory.write(start, &code).ok()?;
        Some(start)
    }
}

/// Whether there is space for a refuge at an address.
fn is_room(threads: &Threads, memory: &Memory, start: u64) -> bool {
    let Some(bytes) = memory.read_array::<{ REFUGE_SIZE as usize }>(start) else {
        return false;
    };
    let nobody_there = || {
        threads.iter().all(|thread| {
            let registers = thread.registers();
            registers
                .is_some_and(|registers| !(start..start + REFUGE_SIZE).contains(&registers.rip))
        })
    };
    bytes == [0; REFUGE_SIZE as usize] || bytes.starts_with(&REFUGE_BEGIN) && nobody_there()
}

/// A thread that may make system calls for the tracer without an effect on it: one of the process, or, while the
/// process waits for a child by vfork, one of that child, which shares its memory.
pub(crate) fn volunteer(threads: &mut Threads, memory: &Memory) -> Option<Tid> {
    let process = threads.process();
    let mut idle: Vec<&Thread> = threads
        .iter()
        .filter(|thread| !thread.exiting)
        .filter(|thread| !matches!(thread.phase, Phase::EntersCall | Phase::InCall))
        .filter(|thread| matches!(thread.state, State::Stopped(_)))
        .collect();
    // A thread that is not about to get a signal is preferred.
    idle.sort_by_key(|thread| (thread.process != process, thread.pending.is_some()));
    let thread = idle
        .into_iter()
        .find(|thread| {
            ThreadStatus::read(thread.id).is_ok_and(|status| !status.filters_system_calls())
                && !dispatches_system_calls(memory, thread)
        })?
        .id;
    let entry = threads.get_mut(thread)?;
    if entry.phase == Phase::GroupStop {
        entry.phase = Phase::Plain;
        entry.rejoin_group_stop = true;
    }
    Some(thread)
}

/// Whether the kernel would send the thread a signal instead of executing a system call that it makes for the tracer
/// (Syscall User Dispatch, as in Wine).
fn dispatches_system_calls(memory: &Memory, thread: &Thread) -> bool {
    const ALLOWED: [u8; 1] = [0];
    let dispatch = thread.stopped().and_then(Stopped::system_call_dispatch);
    dispatch.is_some_and(|dispatch| memory.read_array(dispatch.selector) != Some(ALLOWED))
}
