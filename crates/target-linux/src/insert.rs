//! Inserting and removing breakpoints and tracepoints.

use tracewire_experiment::TargetError;
use tracewire_jump_pad::relocate::{Displaced, Kind, MAX_INSTRUCTION};
use tracewire_model::Address;

use crate::breakpoints::{Breakpoint, INT3, Means, Purpose};
use crate::error::thread_id;
use crate::maps;
use crate::patcher::Patcher;
use crate::ptrace::PAGE_SIZE;
use crate::slots;

const NOT_EXECUTABLE: &str = "the memory there is not executable";
pub(crate) const NOT_MAPPED: &str = "no memory is mapped there";

impl Patcher<'_> {
    pub(crate) fn insert_breakpoint(
        &mut self,
        site: u64,
        purpose: Purpose,
    ) -> Result<(), TargetError> {
        let before = self.take_overwritten(site);
        if let Some(breakpoint) = self.tracee.breakpoints.get_mut(site) {
            breakpoint.serve(purpose, true);
            return Ok(());
        }
        let refuse = |reason: String| TargetError::CannotInsert {
            address: Address(site),
            reason,
        };
        if self.tracee.threads.ended.is_some() {
            return Err(refuse("the process has ended".to_owned()));
        }
        let executable = match self.check_code(site) {
            Ok(()) => true,
            // A debugger makes functions that it calls return to the stack, and treats the fault there as a breakpoint.
            Err(NOT_EXECUTABLE) if purpose == Purpose::Debugger => false,
            Err(NOT_MAPPED) => return Err(TargetError::NotMapped(Address(site))),
            Err(reason) => return Err(refuse(reason.to_owned())),
        };
        let mut bytes = [0; MAX_INSTRUCTION];
        let length = self.tracee.memory.read(site, &mut bytes);
        let displaced = Displaced::decode_for(
            self.tracee.program.abi().bytes() as u32 * 8,
            bytes.get(..length).unwrap_or_default(),
            site,
        );
        let means = match displaced.kind {
            Kind::OwnTrap => Means::OwnTrap,
            Kind::Fixed => Means::InPlace,
            // The copies are 64-bit code.
            Kind::Relocatable if executable && self.tracee.program.is_64_bit() => {
                self.slot(site, &displaced)
            }
            Kind::Relocatable => Means::InPlace,
        };
        if matches!(means, Means::InPlace) && displaced.is_system_call() {
            return Err(refuse(
                "it is a system call, which may wait, and the process lets no memory be had to run it from"
                    .to_owned(),
            ));
        }
        let lifted = self.lift(site..site + 1);
        if let Err(error) = self.tracee.memory.cover(site, INT3) {
            self.put_back(lifted);
            if let Means::Slot(slot, _) = means {
                self.give_slot_back(slot);
            }
            return Err(refuse(format!(
                "the memory there cannot be written: {error}"
            )));
        }
        self.tracee.remote.note_change(&(site..site + 1));
        let mut breakpoint = Breakpoint {
            tracepoint: false,
            debugger: false,
            dynamic_linker: false,
            resolver: false,
            displaced,
            means,
        };
        for purpose in before.into_iter().chain([purpose]) {
            breakpoint.serve(purpose, true);
        }
        self.tracee.breakpoints.add(site, breakpoint);
        self.put_back(lifted);
        Ok(())
    }

    /// Forgets a breakpoint whose byte is overwritten, as when another library was mapped at its address. Returns its
    /// purposes.
    fn take_overwritten(&mut self, site: u64) -> Vec<Purpose> {
        if !self.tracee.breakpoints.has(site) {
            return Vec::new();
        }
        let lifted = self.lift(site..site + 1);
        let mut present = [INT3];
        self.tracee.memory.read_present(site, &mut present);
        self.put_back(lifted);
        if present == [INT3] {
            return Vec::new();
        }
        self.tracee.settle_all();
        self.tracee.memory.forget(site);
        let Some(breakpoint) = self.tracee.breakpoints.take(site) else {
            return Vec::new();
        };
        if let Means::Slot(slot, _) = breakpoint.means {
            self.give_slot_back(slot);
        }
        [
            (breakpoint.tracepoint, Purpose::Tracepoint),
            (breakpoint.debugger, Purpose::Debugger),
            (breakpoint.dynamic_linker, Purpose::DynamicLinker),
            (breakpoint.resolver, Purpose::Resolver),
        ]
        .into_iter()
        .filter_map(|(serves, purpose)| serves.then_some(purpose))
        .collect()
    }

    pub(crate) fn remove_breakpoint(
        &mut self,
        site: u64,
        purpose: Purpose,
    ) -> Result<(), TargetError> {
        let Some(breakpoint) = self.tracee.breakpoints.get_mut(site) else {
            return Ok(());
        };
        breakpoint.serve(purpose, false);
        if breakpoint.is_wanted() {
            return Ok(());
        }
        self.tracee.settle_all();
        let lifted = self.lift(site..site + 1);
        let uncovered = self.tracee.memory.uncover(site);
        if let Err(error) = uncovered
            && self.is_mapped(site)
        {
            self.put_back(lifted);
            return Err(TargetError::System {
                call: "write(/proc/PID/mem)",
                thread: thread_id(self.tracee.threads.process()),
                reason: error.to_string(),
            });
        }
        self.tracee.memory.forget(site);
        self.tracee.breakpoints.note_removed([site]);
        if let Some(Breakpoint {
            means: Means::Slot(slot, _),
            ..
        }) = self.tracee.breakpoints.take(site)
        {
            self.give_slot_back(slot);
        }
        self.put_back(lifted);
        Ok(())
    }

    /// Checks that there is code for this machine at an address. Fails with the reason.
    pub(crate) fn check_code(&mut self, address: u64) -> Result<(), &'static str> {
        let known = self
            .tracee
            .while_stopped()
            .map_err(|_| "the process's mappings cannot be read")?;
        match known.space.mapping_at(address) {
            None => Err(NOT_MAPPED),
            Some(mapping) if !mapping.executable => Err(NOT_EXECUTABLE),
            Some(_) if known.is_foreign => Err("the process runs a program for another machine"),
            Some(_) => Ok(()),
        }
    }

    /// Whether memory is mapped at an address, in a process that has not ended.
    pub(crate) fn is_mapped(&self, address: u64) -> bool {
        self.tracee.threads.ended.is_none()
            && maps::mappings(self.tracee.threads.any()).is_ok_and(|mappings| {
                mappings
                    .iter()
                    .any(|mapping| (mapping.start..mapping.end).contains(&address))
            })
    }

    /// Whether bytes of code are part of a restartable sequence.
    pub(crate) fn is_restartable(&mut self, address: u64, length: u64) -> bool {
        let thread = self.tracee.threads.any();
        if self.tracee.while_stopped().is_err() {
            return false;
        }
        let known = self.tracee.program.while_stopped.as_ref();
        known
            .and_then(|known| known.space.mapping_at(address))
            .is_some_and(|mapping| {
                self.tracee
                    .program
                    .sequences
                    .overlap(mapping, thread, address, length)
            })
    }

    /// A tracepoint was inserted: increments the counter of its probe.
    pub(crate) fn raise_semaphore(&mut self, marker: u64) {
        let raised = self
            .tracee
            .program
            .semaphores
            .raise(marker, &mut self.tracee.memory);
        if let Some(counter) = raised {
            let process = self.tracee.threads.process();
            self.tracee.fast.note_raised(marker, counter, process);
        }
    }

    /// Makes a copy of the instruction in the process, if there is space for it.
    fn slot(&mut self, site: u64, displaced: &Displaced) -> Means {
        if displaced.is_call()
            && self
                .tracee
                .while_stopped()
                .is_ok_and(|known| known.has_shadow_stack)
        {
            return Means::InPlace;
        }
        self.slot_within_reach(site)
            .and_then(|slot| {
                let copy = displaced.copy(slot)?;
                self.tracee.memory.write(slot, &copy.code).ok()?;
                self.tracee.breakpoints.slots.take(slot, site);
                Some(Means::Slot(slot, copy))
            })
            .unwrap_or(Means::InPlace)
    }

    /// Frees a slot, unless a thread may be about to return there.
    fn give_slot_back(&mut self, slot: u64) {
        if !self.tracee.threads.has_sleepers() {
            self.tracee.breakpoints.slots.give_back(slot);
        }
    }

    fn slot_within_reach(&mut self, site: u64) -> Option<u64> {
        if let Some(slot) = self.tracee.breakpoints.slots.free_slot(site) {
            return Some(slot);
        }
        let page = self
            .tracee
            .map_code(|space| space.room_near(site, slots::REACH, PAGE_SIZE))
            .ok()?;
        let keep_from_children = libc::MADV_DONTFORK as u64;
        self.tracee.system_call(
            libc::SYS_madvise,
            [page.start, PAGE_SIZE, keep_from_children, 0, 0, 0],
        );
        self.tracee.breakpoints.slots.add_page(page.start);
        self.tracee.breakpoints.slots.free_slot(site)
    }
}
