//! Children by vfork that ask to be traced by their parents, as those of a debugger do (`PTRACE_TRACEME`).
//!
//! A process has one tracer, so such a child is let go as it enters that system call. Until it becomes another program or
//! ends, it shares the memory of the program, and nobody could tell a trap of ours from its own: for that time nothing of
//! ours is in the memory, and the other threads of the program are held.

use libc::user_regs_struct;

use crate::breakpoint::INT3;
use crate::error::Error;
use crate::fast::Lifted;
use crate::patience::wait_for_vfork;
use crate::process::Process;
use crate::ptrace::Tid;
use crate::width::Width;

/// What was taken out of the memory for a child that is not traced.
#[derive(Debug)]
pub(crate) struct BareMemory {
    /// The thread that waits in vfork for that child.
    parent: Tid,
    jumps: Vec<Lifted>,
}

/// Whether a thread that enters a system call asks to be traced by its parent.
pub(crate) fn is_trace_me(width: Width, registers: &user_regs_struct) -> bool {
    /// `ptrace` of i386.
    const PTRACE_32: u64 = 26;
    let (number, request) = match width {
        Width::Bits64 => (libc::SYS_ptrace as u64, registers.rdi),
        Width::Bits32 => (PTRACE_32, registers.rbx),
    };
    registers.orig_rax == number && request as u32 == libc::PTRACE_TRACEME
}

impl Process {
    /// Whether a thread is a child by vfork of which no debugger knows: it may ask to be traced by its parent.
    pub(crate) fn may_ask_to_be_traced(&self, id: Tid) -> bool {
        let is_child = self
            .threads
            .get(&id)
            .is_some_and(|thread| thread.process != self.id);
        is_child
            && !self.debugged_children.contains(&id)
            && self
                .threads
                .values()
                .any(|parent| parent.in_vfork == Some(id))
    }

    /// Lets a child go that asks to be traced by its parent.
    pub(crate) fn let_be_traced(&mut self, child: Tid) -> Result<(), Error> {
        let parent = self
            .threads
            .values()
            .find(|parent| parent.in_vfork == Some(child));
        let Some(parent) = parent.map(|parent| parent.id) else {
            return self.go_on(child, 0);
        };
        self.halt()?;
        let jumps = self.lift_all();
        let sites: Vec<u64> = self.breakpoints.keys().copied().collect();
        for site in sites {
            // What cannot be written is gone.
            let _ = self.memory.uncover(site);
        }
        self.bare_memory = Some(BareMemory { parent, jumps });
        self.release(child);
        while self.is_in_vfork(parent)
            && let Ok(Some(status)) = wait_for_vfork(parent)
        {
            self.halted(parent, status);
        }
        self.await_halt()?;
        // Where the child takes its time, the others run: they come by no tracepoint meanwhile.
        self.dress_memory();
        self.go_on_halted(0)
    }

    fn is_in_vfork(&self, parent: Tid) -> bool {
        self.threads
            .get(&parent)
            .is_some_and(|thread| thread.in_vfork.is_some())
    }

    /// Whether the memory is shared with a child that is not traced.
    pub(crate) const fn is_memory_bare(&self) -> bool {
        self.bare_memory.is_some()
    }

    /// Puts back what was taken out of the memory, once the child has left it.
    pub(crate) fn take_memory_back(&mut self) -> Result<(), Error> {
        let Some(bare) = &self.bare_memory else {
            return Ok(());
        };
        if self.is_in_vfork(bare.parent) {
            return Ok(());
        }
        self.halt()?;
        self.dress_memory();
        self.go_on_halted(0)
    }

    /// The same, while all threads stand.
    fn dress_memory(&mut self) {
        if let Some(bare) = &self.bare_memory
            && !self.is_in_vfork(bare.parent)
            && let Some(bare) = self.bare_memory.take()
        {
            let executed_in_place = |site: u64| {
                self.threads
                    .values()
                    .any(|thread| thread.in_place == Some(site))
            };
            let sites: Vec<u64> = self
                .breakpoints
                .keys()
                .copied()
                .filter(|site| !executed_in_place(*site))
                .collect();
            for site in sites {
                let _ = self.memory.cover_once(site, INT3);
            }
            self.put_back(bare.jumps);
        }
    }

    /// A tracepoint that is out of the memory just now is not put back.
    pub(crate) fn leave_bare(&mut self, site: u64) {
        if let Some(bare) = &mut self.bare_memory {
            bare.jumps.retain(|jump| jump.site() != site);
        }
    }
}
