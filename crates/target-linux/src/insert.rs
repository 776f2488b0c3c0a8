//! Putting breakpoints and tracepoints in, and taking them out.

use tracewire_experiment::{PadCode, PadNeeds, PadTarget, Pads, Target, TargetError};
use tracewire_jump_pad::JumpPads;
use tracewire_jump_pad::relocate::{Displaced, Kind, MAX_INSTRUCTION, Way};
use tracewire_model::Address;

use crate::address_space::PAGE_SIZE;
use crate::breakpoints::{Breakpoint, INT3, Means, Purpose};
use crate::fast::Mechanism;
use crate::maps;
use crate::process::Process;
use crate::rseq;
use crate::semaphore;
use crate::slots;

const NOT_EXECUTABLE: &str = "the memory there is not executable";
pub(crate) const NOT_MAPPED: &str = "no memory is mapped there";

impl Target for Process {
    fn insert(&mut self, address: Address) -> Result<(), TargetError> {
        if self.is_restartable(address.0, 1) {
            return Err(TargetError::CannotInsert {
                address,
                reason: rseq::WITHIN.to_owned(),
            });
        }
        self.insert_breakpoint(address.0, Purpose::Tracepoint)?;
        self.raise_semaphore(address.0);
        Ok(())
    }

    fn remove(&mut self, address: Address) -> Result<(), TargetError> {
        self.lower_semaphore(address.0);
        self.leave_bare(address.0);
        let written = self.take_jump_out(address.0);
        if let Err(error) = written
            && self.is_mapped(address.0)
        {
            return Err(TargetError::System {
                call: "write(/proc/PID/mem)",
                thread: self.id(),
                reason: error.to_string(),
            });
        }
        self.forget_jump(address.0);
        self.remove_breakpoint(address.0, Purpose::Tracepoint)
    }

    fn pads(&mut self) -> Option<&mut dyn PadTarget> {
        Some(self)
    }
}

impl PadTarget for Process {
    fn set_up_pads(&mut self, needs: &PadNeeds) -> Result<Box<dyn Pads>, String> {
        let pads = JumpPads::set_up(needs, |layout| self.attend(layout))?;
        Ok(Box::new(pads))
    }

    fn leave_note(&mut self, description: &[u8]) {
        self.fast.write_note(description);
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
        self.empty_pads();
    }

    fn remove_pads(&mut self) {
        self.unmap_pads();
        self.fast.attended = None;
    }

    fn take_demoted(&mut self) -> Vec<(Address, String)> {
        std::mem::take(&mut self.fast.demoted)
            .into_iter()
            .map(|(site, why)| (Address(site), why))
            .collect()
    }
}

impl Process {
    pub(crate) fn insert_breakpoint(
        &mut self,
        site: u64,
        purpose: Purpose,
    ) -> Result<(), TargetError> {
        let before = self.take_overwritten(site);
        if let Some(breakpoint) = self.breakpoints.get_mut(site) {
            breakpoint.serve(purpose, true);
            return Ok(());
        }
        let refuse = |reason: String| TargetError::CannotInsert {
            address: Address(site),
            reason,
        };
        if self.threads.ended.is_some() {
            return Err(refuse("the process has ended".to_owned()));
        }
        let executable = match self.check_code(site) {
            Ok(()) => true,
            // A debugger lets functions that it calls return to the stack, and takes the fault there for a breakpoint.
            Err(NOT_EXECUTABLE) if purpose == Purpose::Debugger => false,
            Err(NOT_MAPPED) => return Err(TargetError::NotMapped(Address(site))),
            Err(reason) => return Err(refuse(reason.to_owned())),
        };
        let mut bytes = [0; MAX_INSTRUCTION];
        let length = self.memory.read(site, &mut bytes);
        let displaced = Displaced::decode_for(
            self.program.width().bytes() as u32 * 8,
            bytes.get(..length).unwrap_or_default(),
            site,
        );
        let means = match displaced.kind {
            Kind::OwnTrap => Means::OwnTrap,
            Kind::Fixed => Means::InPlace,
            // The copies are 64-bit code.
            Kind::Relocatable if executable && self.program.is_wide() => {
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
        if let Err(error) = self.memory.cover(site, INT3) {
            self.put_back(lifted);
            if let Means::Slot(slot, _) = means {
                self.give_slot_back(slot);
            }
            return Err(refuse(format!(
                "the memory there cannot be written: {error}"
            )));
        }
        self.remote.forget_gate();
        let mut breakpoint = Breakpoint {
            tracepoint: false,
            debugger: false,
            loader: false,
            resolver: false,
            displaced,
            means,
        };
        for purpose in before.into_iter().chain([purpose]) {
            breakpoint.serve(purpose, true);
        }
        self.breakpoints.add(site, breakpoint);
        self.put_back(lifted);
        Ok(())
    }

    /// Forgets a breakpoint whose byte is not there any more, as when another library was mapped where one has been: whom
    /// it served.
    fn take_overwritten(&mut self, site: u64) -> Vec<Purpose> {
        if !self.breakpoints.has(site) {
            return Vec::new();
        }
        let lifted = self.lift(site..site + 1);
        let mut present = [INT3];
        self.memory.read_present(site, &mut present);
        self.put_back(lifted);
        if present == [INT3] {
            return Vec::new();
        }
        self.settle_all();
        self.memory.forget(site);
        let Some(breakpoint) = self.breakpoints.take(site) else {
            return Vec::new();
        };
        if let Means::Slot(slot, _) = breakpoint.means {
            self.give_slot_back(slot);
        }
        [
            (breakpoint.tracepoint, Purpose::Tracepoint),
            (breakpoint.debugger, Purpose::Debugger),
            (breakpoint.loader, Purpose::Loader),
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
        let Some(breakpoint) = self.breakpoints.get_mut(site) else {
            return Ok(());
        };
        breakpoint.serve(purpose, false);
        if breakpoint.is_wanted() {
            return Ok(());
        }
        self.settle_all();
        let lifted = self.lift(site..site + 1);
        let uncovered = self.memory.uncover(site);
        if let Err(error) = uncovered
            && self.is_mapped(site)
        {
            self.put_back(lifted);
            return Err(TargetError::System {
                call: "write(/proc/PID/mem)",
                thread: self.id(),
                reason: error.to_string(),
            });
        }
        self.memory.forget(site);
        self.breakpoints.note_removed([site]);
        if let Some(Breakpoint {
            means: Means::Slot(slot, _),
            ..
        }) = self.breakpoints.take(site)
        {
            self.give_slot_back(slot);
        }
        self.put_back(lifted);
        Ok(())
    }

    /// Whether there is code that this machine executes at an address, and if not, why.
    pub(crate) fn check_code(&mut self, address: u64) -> Result<(), &'static str> {
        let known = self
            .while_stopped()
            .map_err(|_| "the process's mappings cannot be read")?;
        match known.space.mapping_at(address) {
            None => Err(NOT_MAPPED),
            Some(mapping) if !mapping.executable => Err(NOT_EXECUTABLE),
            Some(_) if known.is_foreign => Err("the process runs a program for another machine"),
            Some(_) => Ok(()),
        }
    }

    /// Whether there is memory at an address, of a process that has not ended.
    fn is_mapped(&self, address: u64) -> bool {
        self.threads.ended.is_none()
            && maps::mappings(self.threads.any()).is_ok_and(|mappings| {
                mappings
                    .iter()
                    .any(|mapping| (mapping.start..mapping.end).contains(&address))
            })
    }

    /// Whether bytes of code are part of a restartable sequence.
    pub(crate) fn is_restartable(&mut self, address: u64, length: u64) -> bool {
        let thread = self.threads.any();
        if self.while_stopped().is_err() {
            return false;
        }
        let known = self.program.while_stopped.as_ref();
        known
            .and_then(|known| known.space.mapping_at(address))
            .is_some_and(|mapping| {
                self.program
                    .sequences
                    .overlap(mapping, thread, address, length)
            })
    }

    /// A tracepoint has been put in: the counter of its marker is raised.
    pub(crate) fn raise_semaphore(&mut self, marker: u64) {
        let raised = self.program.semaphores.raise(marker, &mut self.memory);
        if let Some(counter) = raised {
            let process = self.threads.process();
            self.fast.note_raised(marker, counter, process);
        }
    }

    /// A tracepoint has been taken out.
    pub(crate) fn lower_semaphore(&mut self, marker: u64) {
        if let Some(counter) = self.program.semaphores.take_raised(marker) {
            self.fast.note_lowered(marker);
            // Memory that is gone, with its library, needs no counting.
            semaphore::add(&mut self.memory, counter, -1);
        }
    }

    /// Makes a copy of the instruction in the process, if there is a place for it.
    fn slot(&mut self, site: u64, displaced: &Displaced) -> Means {
        if displaced.is_call()
            && self
                .while_stopped()
                .is_ok_and(|known| known.has_shadow_stack)
        {
            return Means::InPlace;
        }
        self.slot_within_reach(site)
            .and_then(|slot| {
                let copy = displaced.copy(slot)?;
                self.memory.write(slot, &copy.code).ok()?;
                self.breakpoints.slots.take(slot, site);
                Some(Means::Slot(slot, copy))
            })
            .unwrap_or(Means::InPlace)
    }

    /// A slot may be used again, unless a thread may be on its way back there.
    fn give_slot_back(&mut self, slot: u64) {
        if !self.threads.has_sleepers() {
            self.breakpoints.slots.give_back(slot);
        }
    }

    fn slot_within_reach(&mut self, site: u64) -> Option<u64> {
        if let Some(slot) = self.breakpoints.slots.free_slot(site) {
            return Some(slot);
        }
        let page = self
            .map_code(|space| space.room_near(site, slots::REACH, PAGE_SIZE))
            .ok()?;
        let keep_from_children = libc::MADV_DONTFORK as u64;
        self.system_call(
            libc::SYS_madvise,
            [page.start, PAGE_SIZE, keep_from_children, 0, 0, 0],
        );
        self.breakpoints.slots.add_page(page.start);
        self.breakpoints.slots.free_slot(site)
    }
}
