//! Putting tracepoints in and taking them out.

use tracewire_experiment::{PadCode, PadNeeds, PadTarget, Pads, Target, TargetError};
use tracewire_jump_pad::JumpPads;
use tracewire_jump_pad::relocate::{Copy, Displaced, Kind, MAX_INSTRUCTION, Way};
use tracewire_model::Address;

use crate::address_space::PAGE_SIZE;
use crate::fast::Mechanism;
use crate::maps;
use crate::process::Process;
use crate::rseq;
use crate::slots;
use crate::width::Width;

/// The instruction of a breakpoint.
pub(crate) const INT3: u8 = 0xcc;

const NOT_EXECUTABLE: &str = "the memory there is not executable";
pub(crate) const NOT_MAPPED: &str = "no memory is mapped there";

/// A breakpoint of ours.
#[derive(Debug)]
pub(crate) struct Breakpoint {
    /// Whether the experiment wants to know of arrivals.
    pub(crate) tracepoint: bool,
    /// Whether a debugger wants to know of arrivals.
    pub(crate) debugger: bool,
    /// Whether the dynamic linker comes by here when it has changed something.
    pub(crate) loader: bool,
    /// Whether a resolver of an indirect function is here, or where one returns to.
    pub(crate) resolver: bool,
    pub(crate) displaced: Displaced,
    pub(crate) means: Means,
}

/// How a thread gets past a breakpoint.
#[derive(Debug)]
pub(crate) enum Means {
    /// Through a copy of the instruction.
    Slot(u64, Copy),
    /// With the instruction put back, while all other threads are held.
    InPlace,
    /// Not at all: the instruction is the program's own breakpoint, whose signal it gets.
    OwnTrap,
}

/// Who wants a breakpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Tracepoint,
    Debugger,
    Loader,
    Resolver,
}

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
        self.write_note(description);
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
        if let Some(breakpoint) = self.breakpoints.get_mut(&site) {
            breakpoint.serve(purpose, true);
            return Ok(());
        }
        let refuse = |reason: String| TargetError::CannotInsert {
            address: Address(site),
            reason,
        };
        if self.ended.is_some() {
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
            self.width.bytes() as u32 * 8,
            bytes.get(..length).unwrap_or_default(),
            site,
        );
        let means = match displaced.kind {
            Kind::OwnTrap => Means::OwnTrap,
            Kind::Fixed => Means::InPlace,
            // The copies are 64-bit code.
            Kind::Relocatable if executable && self.width == Width::Bits64 => {
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
        self.removed.remove(&site);
        self.gate = None;
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
        self.breakpoints.insert(site, breakpoint);
        self.put_back(lifted);
        Ok(())
    }

    /// Forgets a breakpoint whose byte is not there any more, as when another library was mapped where one has been: whom
    /// it served.
    fn take_overwritten(&mut self, site: u64) -> Vec<Purpose> {
        if !self.breakpoints.contains_key(&site) {
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
        let Some(breakpoint) = self.breakpoints.remove(&site) else {
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
        let Some(breakpoint) = self.breakpoints.get_mut(&site) else {
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
        self.removed.insert(site);
        if let Some(Breakpoint {
            means: Means::Slot(slot, _),
            ..
        }) = self.breakpoints.remove(&site)
        {
            self.give_slot_back(slot);
        }
        self.put_back(lifted);
        Ok(())
    }

    /// Whether a thread that has run into a breakpoint there has run into one of ours, which has been taken out since.
    /// What is there now may be the program's own.
    pub(crate) fn was_removed(&self, site: u64) -> bool {
        self.removed.contains(&site) && self.memory.read_array(site) != Some([INT3])
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
        self.ended.is_none()
            && maps::mappings(self.any_thread()).is_ok_and(|mappings| {
                mappings
                    .iter()
                    .any(|mapping| (mapping.start..mapping.end).contains(&address))
            })
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
                self.slots.take(slot, site);
                Some(Means::Slot(slot, copy))
            })
            .unwrap_or(Means::InPlace)
    }

    /// A slot may be used again, unless a thread may be on its way back there.
    fn give_slot_back(&mut self, slot: u64) {
        if !self.has_sleepers() {
            self.slots.give_back(slot);
        }
    }

    fn slot_within_reach(&mut self, site: u64) -> Option<u64> {
        if let Some(slot) = self.slots.free_slot(site) {
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
        self.slots.add_page(page.start);
        self.slots.free_slot(site)
    }
}

impl Breakpoint {
    fn serve(&mut self, purpose: Purpose, wanted: bool) {
        match purpose {
            Purpose::Tracepoint => self.tracepoint = wanted,
            Purpose::Debugger => self.debugger = wanted,
            Purpose::Loader => self.loader = wanted,
            Purpose::Resolver => self.resolver = wanted,
        }
    }

    fn is_wanted(&self) -> bool {
        self.tracepoint || self.debugger || self.loader || self.resolver
    }
}
