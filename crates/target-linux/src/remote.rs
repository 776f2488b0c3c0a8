//! System calls that the process makes for the tracer: the thread that makes them, and the instruction that it uses.

use std::ops::Range;

use libc::user_regs_struct;

use crate::maps::{self, ThreadStatus};
use crate::memory::Memory;
use crate::ptrace::{Stopped, Tid};
use crate::refuge::{self, WayBack};
use crate::thread::{Phase, State, Thread};
use crate::threads::Threads;

/// The instruction `syscall`.
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

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
    /// For a process whose memory is a copy of that of another one.
    pub(crate) fn of_copy(parent: &Self) -> Self {
        Self {
            count: 0,
            refuge: parent.refuge,
            gate: parent.gate,
        }
    }

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

    /// Writes a [refuge](crate::refuge). If the tracer is killed now, the thread goes on as before. `None` where there is no space.
    pub(crate) fn make_refuge(
        &mut self,
        threads: &Threads,
        memory: &Memory,
        saved: &user_regs_struct,
        mask: u64,
    ) -> Option<u64> {
        let known = self.refuge.filter(|start| refuge::is_free(memory, *start));
        let start = known.or_else(|| refuge::room(threads, memory))?;
        self.refuge = Some(start);
        memory.write(start, &WayBack::of(saved, mask).code()).ok()?;
        Some(start)
    }
}

/// A thread that may make system calls for the tracer without an effect on it: one of the process, or, while the
/// process waits for a child by vfork, one of that child, which shares its memory. `proven` is one that has made a call in this stop of
/// the process: no filter can have come since.
pub(crate) fn volunteer(
    threads: &mut Threads,
    memory: &Memory,
    proven: Option<Tid>,
) -> Option<Tid> {
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
            proven == Some(thread.id)
                || ThreadStatus::read(thread.id).is_ok_and(|status| !status.filters_system_calls())
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
