//! Breakpoints at the stub: those of tracepoints, and those of a debugger in front.

use std::collections::BTreeMap;

use tracewire_model::Address;
use tracewire_packets::family::breakpoint::BreakpointKind;
use tracewire_packets::{Failure, Reply};

use crate::error::RemoteError;
use crate::stub::Stub;

/// The kinds that a thread stops for at an instruction, in the order in which they are tried.
const KINDS: [BreakpointKind; 2] = [BreakpointKind::Software, BreakpointKind::Hardware];
/// The longest breakpoint instruction, in bytes.
const LONGEST: usize = 4;

/// A breakpoint as the stub has it.
type Key = (Address, u8);

/// The breakpoint of tracepoints at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Site {
    way: Way,
    /// What memory is shown to have there, where the stub shows the breakpoint.
    shown: Option<Vec<u8>>,
    /// Whether a step from there leads elsewhere.
    moves_on: bool,
    /// Whether the stub steps a thread over it, as QEMU does; none before the first step.
    stepped_over: Option<bool>,
}

/// How a thread steps from an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepWay {
    /// With the breakpoints there taken out.
    Lift,
    /// As they are: the stub steps over them.
    Over,
    /// So, and it is to be seen whether it does.
    Try,
}

/// How a site is inserted.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Way {
    /// By a packet, with this length.
    Packet(BreakpointKind, u64),
    /// By this instruction in memory.
    Instruction(Vec<u8>),
}

/// The breakpoints that are at a stub.
#[derive(Debug, Default)]
pub struct Breakpoints {
    sites: BTreeMap<Address, Site>,
    /// The debugger's, with their lengths.
    debugger: BTreeMap<Key, u64>,
    /// Where all of them are taken out, for a thread that steps over.
    lifted: Option<Address>,
}

impl Breakpoints {
    /// Whether tracepoints have a breakpoint at an address.
    #[must_use]
    pub fn is_site(&self, address: Address) -> bool {
        self.sites.contains_key(&address)
    }

    /// Whether there is any such address.
    #[must_use]
    pub fn has_sites(&self) -> bool {
        !self.sites.is_empty()
    }

    /// Whether a debugger in front has a breakpoint at an address.
    #[must_use]
    pub fn is_debuggers(&self, address: Address) -> bool {
        self.debuggers_at(address).next().is_some()
    }

    fn debuggers_at(&self, address: Address) -> impl Iterator<Item = (BreakpointKind, u64)> + '_ {
        KINDS.into_iter().filter_map(move |kind| {
            let length = self.debugger.get(&(address, kind as u8))?;
            Some((kind, *length))
        })
    }

    /// The kind of packet that has the site at an address inserted.
    fn site_kind(&self, address: Address) -> Option<BreakpointKind> {
        match self.sites.get(&address)?.way {
            Way::Packet(kind, _) => Some(kind),
            Way::Instruction(_) => None,
        }
    }

    /// Whether a software breakpoint is at an address.
    pub(crate) fn is_software(&self, address: Address) -> bool {
        let is_site = self
            .sites
            .get(&address)
            .is_some_and(|site| !matches!(site.way, Way::Packet(BreakpointKind::Hardware, _)));
        is_site || (self.debugger).contains_key(&(address, BreakpointKind::Software as u8))
    }

    /// Puts in the breakpoint of tracepoints. The reason comes back where the stub refuses.
    pub(crate) fn insert(
        &mut self,
        stub: &mut Stub,
        address: Address,
    ) -> Result<Result<(), String>, RemoteError> {
        if self.sites.contains_key(&address) {
            return Ok(Ok(()));
        }
        if !stub.steps() {
            return Ok(Err(RemoteError::NoStep.to_string()));
        }
        let code = stub.read_memory(&[(address, LONGEST)])?.pop();
        let mut code = code.unwrap_or_default();
        if code.is_empty() {
            // The last instruction before memory ends.
            code = stub.read_memory(&[(address, 2)])?.pop().unwrap_or_default();
        }
        let shared = KINDS
            .into_iter()
            .find(|kind| self.debugger.contains_key(&(address, *kind as u8)));
        let way = match shared {
            // A debugger's is there, whose length is known to be good.
            Some(kind) => {
                let length = self.debugger.get(&(address, kind as u8));
                Ok(Way::Packet(kind, length.copied().unwrap_or(1)))
            }
            None => self.choose_way(stub, address, &code)?,
        };
        let way = match way {
            Ok(way) => way,
            Err(reason) => return Ok(Err(reason)),
        };
        let moves_on = stub.machine().moves_on(&code);
        let now = stub.read_memory(&[(address, code.len())])?.pop();
        let shown = (now.as_deref() != Some(&code)).then_some(code);
        let site = Site {
            way,
            shown,
            moves_on,
            stepped_over: None,
        };
        self.sites.insert(address, site);
        Ok(Ok(()))
    }

    fn choose_way(
        &self,
        stub: &mut Stub,
        address: Address,
        code: &[u8],
    ) -> Result<Result<Way, String>, RemoteError> {
        let length = stub.machine().breakpoint_kind(code);
        let mut refusal = None;
        for kind in KINDS {
            match stub.insert(kind, address, length)? {
                Reply::Ok => return Ok(Ok(Way::Packet(kind, length))),
                Reply::Unsupported => {}
                reply => refusal = Some(words(kind, &reply)),
            }
        }
        let instruction = stub.machine().breakpoint_instruction(code);
        let Some(instruction) = instruction else {
            let none =
                || "the stub inserts no breakpoints, and the machine is not known".to_owned();
            return Ok(Err(refusal.unwrap_or_else(none)));
        };
        if code.len() < instruction.len() {
            let unreadable = || "its memory cannot be read".to_owned();
            return Ok(Err(refusal.unwrap_or_else(unreadable)));
        }
        stub.write_memory(address, &instruction)?;
        let there = stub.read_memory(&[(address, instruction.len())])?.pop();
        if there.as_deref() == Some(&instruction) {
            return Ok(Ok(Way::Instruction(instruction)));
        }
        let unwritable =
            || "the stub inserts no breakpoints, and its memory cannot be written".to_owned();
        Ok(Err(refusal.unwrap_or_else(unwritable)))
    }

    /// Takes out the breakpoint of tracepoints.
    pub(crate) fn remove(&mut self, stub: &mut Stub, address: Address) -> Result<(), RemoteError> {
        if self.lifted == Some(address) {
            // All is out already; what is the debugger's goes back in.
            self.sites.remove(&address);
            return self.restore(stub);
        }
        let Some(site) = self.sites.remove(&address) else {
            return Ok(());
        };
        match &site.way {
            Way::Packet(kind, _) if self.debugger.contains_key(&(address, *kind as u8)) => Ok(()),
            Way::Packet(kind, length) => {
                stub.remove(*kind, address, *length)?;
                Ok(())
            }
            Way::Instruction(instruction) => {
                let code = site.shown.as_deref().unwrap_or_default();
                let code = code.get(..instruction.len()).unwrap_or(code);
                stub.write_memory(address, code)?;
                Ok(())
            }
        }
    }

    /// Inserts those of tracepoints once more, where the stub may have dropped them. The first removal keeps a stub that has them still
    /// from having them twice.
    pub(crate) fn insert_again(&mut self, stub: &mut Stub) -> Result<(), RemoteError> {
        let sites = self.sites.iter();
        for (address, site) in sites.filter(|(address, _)| self.lifted != Some(**address)) {
            if let Way::Packet(kind, length) = site.way {
                stub.remove(kind, *address, length)?;
                match stub.insert(kind, *address, length)? {
                    Reply::Ok => {}
                    reply => return Err(RemoteError::NotAgain(*address, words(kind, &reply))),
                }
            }
        }
        Ok(())
    }

    /// Forgets all of them: the program is gone.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// How a thread steps from an address.
    pub(crate) fn step_way(&self, stub: &Stub, address: Address) -> StepWay {
        // Where the program counter may be left after the breakpoint, it does not say whether the instruction was executed.
        let is_reported = stub.machine().bytes_after_breakpoint() == 0;
        match self.sites.get(&address) {
            Some(Site {
                way: Way::Packet(..),
                stepped_over,
                ..
            }) if is_reported && self.lifted != Some(address) => match stepped_over {
                Some(true) => StepWay::Over,
                Some(false) => StepWay::Lift,
                None => StepWay::Try,
            },
            _ => StepWay::Lift,
        }
    }

    /// Whether the instruction of a site cannot end where it began.
    pub(crate) fn moves_on(&self, address: Address) -> bool {
        self.sites.get(&address).is_some_and(|site| site.moves_on)
    }

    /// It has been seen whether the stub steps over the breakpoint at an address.
    pub(crate) fn note_step(&mut self, address: Address, over: bool) {
        if let Some(site) = self.sites.get_mut(&address) {
            site.stepped_over = Some(over);
        }
    }

    /// Takes out all that is at an address, for a thread that steps over.
    pub(crate) fn lift(&mut self, stub: &mut Stub, address: Address) -> Result<(), RemoteError> {
        if self.lifted == Some(address) {
            return Ok(());
        }
        self.restore(stub)?;
        if !self.is_site(address) && !self.is_debuggers(address) {
            return Ok(());
        }
        self.lifted = Some(address);
        for (kind, length) in self.packets_at(address) {
            stub.remove_along(kind, address, length)?;
        }
        if let Some(site) = self.sites.get(&address)
            && let Way::Instruction(instruction) = &site.way
        {
            let code = site.shown.as_deref().unwrap_or_default();
            let code = code.get(..instruction.len()).unwrap_or(code);
            stub.write_memory(address, code)?;
        }
        Ok(())
    }

    /// Puts back what was taken out.
    pub(crate) fn restore(&mut self, stub: &mut Stub) -> Result<(), RemoteError> {
        let Some(address) = self.lifted.take() else {
            return Ok(());
        };
        for (kind, length) in self.packets_at(address) {
            stub.insert_along(kind, address, length)?;
        }
        if let Some(site) = self.sites.get(&address)
            && let Way::Instruction(instruction) = &site.way
        {
            stub.write_memory(address, instruction)?;
        }
        Ok(())
    }

    /// What is inserted at an address by packets, each kind once.
    fn packets_at(&self, address: Address) -> Vec<(BreakpointKind, u64)> {
        let mut all: Vec<_> = self.debuggers_at(address).collect();
        if let Some(Site {
            way: Way::Packet(kind, length),
            ..
        }) = self.sites.get(&address)
            && !all.iter().any(|(known, _)| known == kind)
        {
            all.push((*kind, *length));
        }
        all
    }

    /// A debugger wants a breakpoint: whether the stub must be asked.
    pub fn debugger_inserts(&self, kind: BreakpointKind, address: Address) -> bool {
        self.site_kind(address) != Some(kind) && self.lifted != Some(address)
    }

    /// A debugger's breakpoint is in.
    pub fn debugger_has(&mut self, kind: BreakpointKind, address: Address, length: u64) {
        if KINDS.contains(&kind) {
            self.debugger.insert((address, kind as u8), length);
        }
    }

    /// A debugger wants its breakpoint out, which is no longer its own: whether the stub must be asked.
    pub fn debugger_removes(&mut self, kind: BreakpointKind, address: Address) -> bool {
        self.debugger.remove(&(address, kind as u8));
        self.site_kind(address) != Some(kind) && self.lifted != Some(address)
    }

    /// The debugger has gone, and leaves its breakpoints to be removed.
    pub(crate) fn remove_debuggers(&mut self, stub: &mut Stub) -> Result<(), RemoteError> {
        for ((address, kind), length) in std::mem::take(&mut self.debugger) {
            let kind = KINDS.into_iter().find(|known| *known as u8 == kind);
            if let Some(kind) = kind
                && self.debugger_removes(kind, address)
            {
                stub.remove(kind, address, length)?;
            }
        }
        Ok(())
    }

    /// Whether memory of a range shows a breakpoint of tracepoints.
    #[must_use]
    pub fn shows_in(&self, address: Address, length: u64) -> bool {
        self.shown_in(address, length).next().is_some()
    }

    fn shown_in(&self, address: Address, length: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let first = Address(address.0.saturating_sub(LONGEST as u64));
        let end = Address(address.0.saturating_add(length));
        self.sites
            .range(first..end)
            .filter(|(at, _)| self.lifted != Some(**at))
            .filter_map(|(at, site)| Some((at.0, site.shown.as_deref()?)))
    }

    /// Shows memory as it is without breakpoints of tracepoints.
    pub fn hide(&self, address: Address, bytes: &mut [u8]) {
        for (at, shown) in self.shown_in(address, bytes.len() as u64) {
            for (place, byte) in (at..).zip(shown) {
                let offset = place.checked_sub(address.0);
                let target = offset
                    .and_then(|offset| usize::try_from(offset).ok())
                    .and_then(|offset| bytes.get_mut(offset));
                if let Some(target) = target {
                    *target = *byte;
                }
            }
        }
    }
}

/// Why a stub refuses a breakpoint.
fn words(kind: BreakpointKind, reply: &Reply) -> String {
    match reply {
        Reply::Error(Failure::Text(text)) => {
            format!(
                "the stub refuses a {kind}: {}",
                String::from_utf8_lossy(text)
            )
        }
        Reply::Error(Failure::Number(number)) => {
            format!("the stub refuses a {kind} (error {number})")
        }
        _ => format!("the stub does not insert a {kind}"),
    }
}
