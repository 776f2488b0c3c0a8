//! The function that the dynamic linker calls when it has loaded or unloaded something.
//!
//! A breakpoint there would end the program should we be killed. A pad does it instead, whatever serves tracepoints: it sends
//! its thread a signal ([`report`]), for which the thread stops as long as we are there. Where there can be no jump, and
//! under a debugger, which puts a breakpoint there itself, it is a breakpoint.

use libc::siginfo_t;
use tracewire_experiment::PadCode;
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::{REPORT_SIGNAL, report};
use tracewire_model::Address;

use super::journal::{self, Journal};
use super::{Body, Fast, Inside, NoJump, Ownership};
use crate::address_space::PAGE_SIZE;
use crate::breakpoints::Purpose;
use crate::process::Process;
use crate::ptrace::Tid;

/// Memory that the pad at the hook shares with us: the futex that says whether we are there, and the journal of its jump.
#[derive(Debug)]
pub(crate) struct HookMemory {
    hook: u64,
    /// Where the program has it, and its size.
    place: (u64, u64),
    journal: Journal,
    /// Held as long as we are there.
    _ownership: Ownership,
}

impl HookMemory {
    /// Where the futex is.
    const OWNER: u64 = 64;

    /// The address of the hook.
    pub(super) const fn hook(&self) -> u64 {
        self.hook
    }

    /// Where the program has it, and its size.
    pub(super) const fn place(&self) -> (u64, u64) {
        self.place
    }

    pub(super) const fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

impl Fast {
    /// The jump at the hook is out: its memory goes with that of the other pads.
    pub(crate) fn give_hook_up(&mut self) {
        if let Some(memory) = self.hook.take() {
            self.shared.push(memory.place());
        }
    }

    /// The pad that the jump at the hook leads to.
    pub(super) fn hook_pad(&self) -> Option<u64> {
        Some(self.jumps.get(&self.hook.as_ref()?.hook())?.pad)
    }
}

impl Process {
    /// Sees to it that changes of the libraries are noticed, where nothing does it yet.
    pub(crate) fn place_loader_hook(&mut self) {
        let Some(hook) = self.program.loader.hook() else {
            return;
        };
        let is_there = self
            .breakpoints
            .get(hook)
            .is_some_and(|breakpoint| breakpoint.loader);
        if is_there
            || self.fast.has_jump(hook)
            || self.threads.ended.is_some()
            || self.is_memory_bare()
        {
            return;
        }
        let debugged = self.debugger.is_there();
        let stands = !self.threads.any_can_be_stopped();
        if !debugged && stands && !std::mem::replace(&mut self.program.loader.hook_tried, true) {
            match self.hook_by_jump(hook) {
                Ok(()) => return,
                Err(_) => self.fast.give_hook_up(),
            }
        }
        // Without it, libraries are loaded unnoticed; the program is none the worse for it.
        let _ = self.insert_breakpoint(hook, Purpose::Loader);
    }

    /// Puts a jump at the hook. All threads stand.
    fn hook_by_jump(&mut self, hook: u64) -> Result<(), NoJump> {
        let write = |error: std::io::Error| NoJump::Write(error.to_string());
        self.check_code(hook)
            .map_err(|reason| NoJump::Write(reason.to_owned()))?;
        let memory = self.make_shared(PAGE_SIZE + journal::SIZE, PAGE_SIZE)?;
        let ownership = memory.own(HookMemory::OWNER as usize).map_err(write)?;
        let place = (memory.address().0, memory.size() as u64);
        self.fast.shared.retain(|shared| *shared != place);
        self.fast.hook = Some(HookMemory {
            hook,
            place,
            journal: Journal::create(&memory, PAGE_SIZE),
            _ownership: ownership,
        });
        let code = report(Address(memory.address().0 + HookMemory::OWNER))
            .map_err(|error| NoJump::Code(error.to_string()))?;
        let body = Body::new(PadCode {
            code,
            faults: Vec::new(),
        });
        fail_point!("hook/shared");
        self.insert_jump(hook, &body)?;
        fail_point!("hook/placed");
        Ok(())
    }

    /// Puts a breakpoint in place of the jump at the hook, if that is there. All threads stand.
    pub(crate) fn hook_by_trap(&mut self) {
        if let Some(hook) = self.program.loader.hook()
            && self.is_hook_jump(hook)
            && self.take_jump_out(hook).is_ok()
        {
            self.fast.give_hook_up();
            let _ = self.insert_breakpoint(hook, Purpose::Loader);
        }
    }

    /// Whether the jump for changes of the libraries is at an address.
    pub(crate) fn is_hook_jump(&self, address: u64) -> bool {
        self.program.loader.hook() == Some(address) && self.fast.has_jump(address)
    }

    /// Whether a signal that a thread is about to get is the one that the pad has sent it.
    pub(crate) fn is_report_to(&self, id: Tid, info: &siginfo_t) -> bool {
        self.threads
            .registers(id)
            .is_some_and(|registers| self.is_report(info, registers.rip))
    }

    /// Whether a signal that a thread is about to get at an address is the one that the pad has sent it.
    pub(crate) fn is_report(&self, info: &siginfo_t, address: u64) -> bool {
        info.si_signo == REPORT_SIGNAL
            && info.si_code == libc::SI_TKILL
            && match self.fast.inside(address) {
                Some(Inside::Body { pad, .. }) => {
                    self.fast.site_of(pad) == self.program.loader.hook()
                }
                _ => false,
            }
    }
}
