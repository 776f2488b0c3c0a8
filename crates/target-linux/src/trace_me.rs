//! Children by vfork that request to be traced by their parents, as those of a debugger do (`PTRACE_TRACEME`).
//!
//! A process has one tracer, so such a child is detached when it enters that system call. Until it calls exec or ends,
//! it shares the memory of the program, and its parent would take a trap of the tracer for one of its own. So for that
//! time the tracer's changes are out of the memory, and the other threads of the program are held.

use libc::user_regs_struct;

use crate::abi::Abi;
use crate::breakpoints::INT3;
use crate::error::Error;
use crate::fast::BareMemory;
use crate::patcher::Patcher;
use crate::ptrace::Tid;
use crate::wait_limit::wait_for_vfork;

/// Whether a thread that enters a system call asks to be traced by its parent.
pub(crate) fn is_trace_me(abi: Abi, registers: &user_regs_struct) -> bool {
    /// `ptrace` of i386.
    const PTRACE_32: u64 = 26;
    let (number, request) = match abi {
        Abi::Bits64 => (libc::SYS_ptrace as u64, registers.rdi),
        Abi::Bits32 => (PTRACE_32, registers.rbx),
    };
    registers.orig_rax == number && request as u32 == libc::PTRACE_TRACEME
}

impl Patcher<'_> {
    /// Detaches from a child that requests to be traced by its parent.
    pub(crate) fn let_be_traced(&mut self, child: Tid) -> Result<(), Error> {
        let Some(parent) = self.tracee.threads.parent_in_vfork(child) else {
            return self.tracee.go_on(child, 0);
        };
        self.tracee.stop_all()?;
        let jumps = self.lift_all();
        for site in self.tracee.breakpoints.sites() {
            // A failed write means that the memory is unmapped.
            let _ = self.tracee.memory.uncover(site);
        }
        self.tracee.fast.bare = Some(BareMemory { parent, jumps });
        self.tracee.release(child);
        while self.tracee.threads.is_in_vfork(parent)
            && let Ok(Some(status)) = wait_for_vfork(parent)
        {
            self.tracee.note_stop(parent, status);
        }
        self.tracee.wait_until_all_stopped()?;
        // Where the child takes its time, the others run: they come by no tracepoint meanwhile.
        self.dress_memory();
        self.tracee.go_on_stopped(0)
    }

    /// Whether the memory is shared with a child that is not traced.
    pub(crate) const fn is_memory_bare(&self) -> bool {
        self.tracee.fast.bare.is_some()
    }

    /// Puts back what was taken out of the memory, once the child has left it.
    pub(crate) fn take_memory_back(&mut self) -> Result<(), Error> {
        let Some(bare) = &self.tracee.fast.bare else {
            return Ok(());
        };
        if self.tracee.threads.is_in_vfork(bare.parent) {
            return Ok(());
        }
        self.tracee.stop_all()?;
        self.dress_memory();
        self.tracee.go_on_stopped(0)
    }

    /// The same, while all threads are stopped.
    fn dress_memory(&mut self) {
        if let Some(bare) = &self.tracee.fast.bare
            && !self.tracee.threads.is_in_vfork(bare.parent)
            && let Some(bare) = self.tracee.fast.bare.take()
        {
            for site in self.tracee.breakpoints.sites() {
                if !self.tracee.threads.any_in_place(site) {
                    let _ = self.tracee.memory.cover_once(site, INT3);
                }
            }
            self.put_back(bare.jumps);
        }
    }

    /// A tracepoint that is out of the memory just now is not put back.
    pub(crate) fn leave_bare(&mut self, site: u64) {
        if let Some(bare) = &mut self.tracee.fast.bare {
            bare.jumps.retain(|jump| jump.site() != site);
        }
    }
}
