//! The changes of an experiment and a debugger to a process.

use tracewire_experiment::{PadCode, PadNeeds, PadTarget, Pads, Target, TargetError};
use tracewire_jump_pad::relocate::{JUMP_LENGTH, Way};
use tracewire_jump_pad::{JumpPads, SharedLayout};
use tracewire_model::{Address, ThreadId};

use crate::breakpoints::Purpose;
use crate::event::Watch;
use crate::fast::{Body, Mechanism, PreparedPads, SharedMemory};
use crate::insert::NOT_MAPPED;
use crate::patcher::Patcher;
use crate::process::Process;
use crate::rseq;
use crate::watch::Wanted;

impl Target for Process {
    fn insert(&mut self, address: Address) -> Result<(), TargetError> {
        if self.patcher().is_restartable(address.0, 1) {
            return Err(TargetError::CannotInsert {
                address,
                reason: rseq::WITHIN.to_owned(),
            });
        }
        self.patcher()
            .insert_breakpoint(address.0, Purpose::Tracepoint)?;
        self.patcher().raise_semaphore(address.0);
        Ok(())
    }

    fn remove(&mut self, address: Address) -> Result<(), TargetError> {
        self.tracee.lower_semaphore(address.0);
        self.patcher().leave_bare(address.0);
        let written = self.patcher().take_jump_out(address.0);
        if let Err(error) = written
            && self.patcher().is_mapped(address.0)
        {
            return Err(TargetError::System {
                call: "write(/proc/PID/mem)",
                thread: self.id(),
                reason: error.to_string(),
            });
        }
        self.tracee
            .fast
            .forget_jump(&mut self.tracee.memory, address.0);
        self.patcher()
            .remove_breakpoint(address.0, Purpose::Tracepoint)
    }

    fn insert_watchpoint(&mut self, address: Address, length: u64) -> Result<Vec<u8>, TargetError> {
        let refuse = |reason: &str| TargetError::CannotInsert {
            address,
            reason: reason.to_owned(),
        };
        if self.has_ended() {
            return Err(refuse("the process has ended"));
        }
        self.look_out(written(address, length))?;
        // At most as much as the debug registers can watch.
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        if self.tracee.memory.read(address.0, &mut bytes) < bytes.len() {
            self.look_out_no_more(written(address, length));
            return Err(refuse("there is no memory"));
        }
        Ok(bytes)
    }

    fn remove_watchpoint(&mut self, address: Address, length: u64) {
        self.look_out_no_more(written(address, length));
    }

    fn pads(&mut self) -> Option<&mut dyn PadTarget> {
        Some(self)
    }
}

/// Memory that a tracepoint watches.
const fn written(address: Address, length: u64) -> Wanted {
    Wanted {
        purpose: Purpose::Tracepoint,
        watch: Watch::Write,
        address: address.0,
        length,
    }
}

impl PadTarget for Process {
    fn set_up_pads(&mut self, needs: &PadNeeds) -> Result<Box<dyn Pads>, String> {
        let pads = JumpPads::set_up(needs, |layout| self.patcher().attend(layout))?;
        Ok(Box::new(pads))
    }

    fn leave_note(&mut self, description: &[u8]) {
        self.tracee.fast.write_note(description);
    }

    fn insert_pad(&mut self, address: Address, pad: PadCode) -> Result<&'static str, TargetError> {
        match self.insert_code(address, pad)? {
            Mechanism::Jump(Way::Whole) => Ok("jump"),
            Mechanism::Jump(Way::Punned) => Ok("punned jump"),
            Mechanism::Jump(Way::Several) => Ok("jump over several instructions"),
            Mechanism::Trap => Ok("trap"),
        }
    }

    fn leave_pads(&mut self) {
        self.tracee.empty_pads();
    }

    fn remove_pads(&mut self) {
        self.tracee.unmap_pads();
        self.tracee.fast.leave_attended();
    }

    fn take_demoted(&mut self) -> Vec<(Address, String)> {
        self.tracee
            .fast
            .take_demoted()
            .into_iter()
            .map(|(site, why)| (Address(site), why))
            .collect()
    }
}

impl Process {
    /// The value that changes the memory.
    pub(crate) fn patcher(&mut self) -> Patcher<'_> {
        Patcher {
            tracee: &mut self.tracee,
        }
    }

    /// Inserts a jump to code of the tracer. After that code the displaced instructions are executed.
    ///
    /// A tracepoint that is there is replaced. [`Target::remove`](tracewire_experiment::Target::remove) takes it out.
    ///
    /// # Errors
    /// When no jump is possible, with the reason; a [`Target::insert`](tracewire_experiment::Target::insert) may still
    /// succeed then.
    pub fn insert_code(
        &mut self,
        address: Address,
        code: PadCode,
    ) -> Result<Mechanism, TargetError> {
        self.insert_body(address, Body::new(code))
    }

    pub(crate) fn insert_body(
        &mut self,
        address: Address,
        body: Body,
    ) -> Result<Mechanism, TargetError> {
        let refuse = |reason: String| TargetError::CannotInsert { address, reason };
        if self.has_ended() {
            return Err(refuse("the process has ended".to_owned()));
        }
        if !self.tracee.program.is_64_bit() {
            return Err(refuse(
                "pads are 64-bit code, and the program is not".to_owned(),
            ));
        }
        self.patcher()
            .check_code(address.0)
            .map_err(|reason| match reason {
                NOT_MAPPED => TargetError::NotMapped(address),
                reason => refuse(reason.to_owned()),
            })?;
        if self.patcher().is_restartable(address.0, JUMP_LENGTH as u64) {
            return Err(refuse(rseq::WITHIN.to_owned()));
        }
        if self.tracee.is_hook_jump(address.0) {
            self.patcher().hook_by_trap();
        }
        self.patcher()
            .insert_jump(address.0, body)
            .map_err(|error| refuse(error.to_string()))?;
        self.patcher().raise_semaphore(address.0);
        self.mechanism(address)
            .ok_or_else(|| refuse("it was not put in".to_owned()))
    }

    /// How the tracepoint at an address is served; `None` where there is none.
    #[must_use]
    pub fn mechanism(&self, address: Address) -> Option<Mechanism> {
        if let Some(way) = self.tracee.fast.way_of(address.0)
            && !self.tracee.is_hook_jump(address.0)
        {
            return Some(Mechanism::Jump(way));
        }
        self.tracee
            .breakpoints
            .get(address.0)
            .filter(|breakpoint| breakpoint.tracepoint)
            .map(|_| Mechanism::Trap)
    }

    /// Makes the process map zeroed memory of this size, rounded up to whole pages, which the tracer maps too. It stays
    /// in the program until [`detach`](Self::detach), or for good if some thread may still return to a pad then.
    ///
    /// # Errors
    /// Why the process cannot map it, as a message for the user.
    pub fn share_memory_of(&mut self, size: u64) -> Result<SharedMemory, String> {
        let all = 0..size;
        self.patcher()
            .share_memory_partly(size, std::slice::from_ref(&all))
    }

    /// Makes the process map memory for pads with a layout like this one, before the tracepoints are known. All threads are
    /// stopped.
    pub fn prepare_pads(&mut self, layout: SharedLayout) {
        self.patcher().prepare(layout);
    }

    /// The memory of the pads that are set up. While this value lives, the program does not free the pages when it unmaps them,
    /// which takes long.
    #[must_use]
    pub fn pad_memory(&self) -> Option<SharedMemory> {
        self.tracee.fast.memory().cloned()
    }

    /// The memory that was prepared for pads. It can be [filled](PreparedPads::fill) while the program runs, which takes longer than
    /// all else that is done to set pads up.
    #[must_use]
    pub fn prepared_pads(&self) -> Option<PreparedPads> {
        self.tracee.fast.mappings.prepared().cloned()
    }

    /// Finds space for a copy of the instruction at a site that a debugger is to make. `None` where our own copy is
    /// preferred, or there is no space. All threads are stopped.
    pub fn room_for_copy(&mut self, site: Address) -> Option<Address> {
        self.patcher().room_for_copy(site.0).map(Address)
    }

    /// The debugger has made a copy of this length; `None` if it could not.
    pub fn copy_is_made(&mut self, site: Address, length: Option<u64>) {
        self.tracee.fast.note_copy(site.0, length);
    }

    /// Follows the resolver of an indirect function: [`Event::Resolver`](crate::Event::Resolver) reports a thread there, and
    /// where it returns to.
    ///
    /// # Errors
    /// When there is no code that can be written to.
    pub fn follow_resolver(&mut self, resolver: Address) -> Result<(), TargetError> {
        if self.tracee.program.indirect.follows(resolver.0) {
            return Ok(());
        }
        self.patcher()
            .insert_breakpoint(resolver.0, Purpose::Resolver)?;
        self.tracee.program.indirect.follow(resolver.0);
        Ok(())
    }

    /// Stops following a resolver.
    pub fn leave_resolver(&mut self, resolver: Address) {
        if self.tracee.program.indirect.leave(resolver.0) {
            // Memory that is unmapped needs no byte restored.
            let _ = self
                .patcher()
                .remove_breakpoint(resolver.0, Purpose::Resolver);
        }
    }

    /// Forgets the resolvers, and the calls from there, in a range of addresses whose module is unmapped.
    pub fn forget_resolvers(&mut self, from: Address, to: Address) {
        for address in self.tracee.program.indirect.forget(from.0..to.0) {
            // Memory that is unmapped needs no byte restored.
            let _ = self.patcher().remove_breakpoint(address, Purpose::Resolver);
        }
    }

    /// Notes a thread that an event has reported at a resolver or after its call. Returns the addresses of the resolver
    /// and of the implementation, once that is known.
    pub fn resolver_reached(&mut self, thread: ThreadId) -> Option<(Address, Address)> {
        let id = thread.0.cast_signed();
        let registers = self.tracee.threads.registers(id)?;
        let at = self.tracee.threads.get(id)?.at?;
        let (abi, stack) = (self.tracee.program.abi(), registers.rsp);
        if self.tracee.program.indirect.follows(at)
            && let Some(returns_to) = abi.read_at(&self.tracee.memory, stack, 0)
            && self
                .patcher()
                .insert_breakpoint(returns_to, Purpose::Resolver)
                .is_ok()
        {
            let stack = stack.wrapping_add(abi.bytes() as u64);
            self.tracee.program.indirect.call(id, at, returns_to, stack);
        }
        let resolver = self.tracee.program.indirect.returned(id, at, stack)?;
        let selected = match abi.bytes() {
            4 => registers.rax & 0xffff_ffff,
            _ => registers.rax,
        };
        Some((Address(resolver), Address(selected)))
    }
}
