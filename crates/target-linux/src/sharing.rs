//! Processes that share the memory of the traced one.
//!
//! `vfork`, and `clone` with `CLONE_VM` alone, make such a process. A breakpoint in that memory would kill it by SIGTRAP if it were
//! not traced, and a jump could be written under its feet. Those that are born to traced threads are traced by the kernel's doing.
//! Those that are there at attaching are looked for here.

use std::collections::BTreeSet;

use nix::errno::Errno;

use crate::attach::{is_gone, is_ours, refusal};
use crate::error::{Error, thread_id};
use crate::maps::{ThreadStatus, all_processes, threads};
use crate::patience::Patience;
use crate::process::Process;
use crate::ptrace::{Running, Tid};
use crate::thread::Thread;
use crate::width::Width;

impl Process {
    /// Traces and stops all threads that share the memory and are not traced yet. Those that are traced have stopped.
    pub(crate) fn seize_sharing(&mut self) -> Result<(), Error> {
        // A debugger's child is traced by its parent until it becomes another program, which takes no time.
        let mut patience = Patience::of_vfork();
        loop {
            let (seized, refused) = self.seize_unknown();
            if seized {
                // What it has made before it was traced is found in the next round.
                self.await_halt()?;
                continue;
            }
            match refused {
                None => break,
                Some(_) if patience.lasts() => {}
                Some((process, thread, error)) => {
                    return Err(Error::SharesMemory {
                        process: thread_id(self.threads.process()),
                        other: thread_id(process),
                        reason: Box::new(refusal(process, thread, error)),
                    });
                }
            }
        }
        self.find_vforks();
        Ok(())
    }

    /// Starts tracing what is not traced yet: whether there was something, and what the kernel refuses.
    fn seize_unknown(&mut self) -> (bool, Option<(Tid, Tid, Errno)>) {
        let mut seized = false;
        let mut refused = None;
        for process in self.sharing() {
            for thread in threads(process).unwrap_or_default() {
                if self.threads.has(thread) {
                    continue;
                }
                match Running::seize(thread) {
                    Ok(running) => {
                        let thread = Thread::new(process, thread, running);
                        thread.interrupt();
                        self.threads.add(thread);
                        seized = true;
                    }
                    Err(_) if is_gone(thread) || is_ours(thread) => {}
                    Err(error) => refused = refused.or(Some((process, thread, error))),
                }
            }
        }
        (seized, refused)
    }

    /// The processes that have this memory, the traced one among them.
    fn sharing(&self) -> Vec<Tid> {
        let own = self.threads.any();
        let mut processes = all_processes();
        processes.retain(|process| {
            *process == self.threads.process()
                || share_memory(own, *process) == Some(true) && has_memory(*process)
        });
        processes
    }

    /// Finds out which threads wait in vfork, and for which children.
    fn find_vforks(&mut self) {
        let processes: BTreeSet<Tid> = self.threads.iter().map(|thread| thread.process).collect();
        for child in processes {
            let Some(parent) = ThreadStatus::read(child)
                .ok()
                .and_then(|status| status.number("PPid"))
            else {
                continue;
            };
            let waiting = self.threads.iter_mut().find(|thread| {
                thread.process == parent
                    && thread.asleep
                    && thread.in_vfork.is_none()
                    && is_in_vfork(thread.id)
            });
            if let Some(waiting) = waiting {
                waiting.in_vfork = Some(child);
                waiting.asleep = false;
            }
        }
    }
}

/// Whether a thread sleeps in a system call that may be a vfork: in none other does one that has made a process wait for it.
fn is_in_vfork(thread: Tid) -> bool {
    /// `vfork`, `clone` and `clone3` of i386.
    const CALLS_32: [libc::c_long; 3] = [190, 120, 435];
    const CALLS: [libc::c_long; 3] = [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3];
    let calls = match Width::of_program(thread).flatten() {
        Some(Width::Bits32) => CALLS_32,
        _ => CALLS,
    };
    let line = std::fs::read_to_string(format!("/proc/{thread}/syscall"));
    line.ok()
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .is_some_and(|call| calls.contains(&call))
}

/// Whether two threads have the same memory; `None` where the kernel does not say.
pub(crate) fn share_memory(one: Tid, other: Tid) -> Option<bool> {
    /// `KCMP_VM`.
    const ADDRESS_SPACE: libc::c_int = 1;
    // SAFETY: kcmp takes plain numbers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, ADDRESS_SPACE, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// Whether a process has memory at all: one that has ended and a part of the kernel have none, and are alike in that.
fn has_memory(process: Tid) -> bool {
    std::fs::read_link(format!("/proc/{process}/exe")).is_ok()
}
