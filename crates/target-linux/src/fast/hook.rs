//! The function that the dynamic linker calls when it has loaded or unloaded something.
//!
//! If the tracer were killed, a breakpoint there would end the program. So a pad is used, whatever serves the
//! tracepoints: it sends its thread a signal ([`report`]), for which the thread stops while the tracer lives. Where no
//! jump is possible, and under a debugger, which inserts a breakpoint there itself, it is a breakpoint.

use tracewire_experiment::PadCode;
use tracewire_fail_point::fail_point;
use tracewire_jump_pad::report;
use tracewire_model::Address;

use super::journal;
use super::shared_state::HookMemory;
use super::{Body, NoJump};
use crate::breakpoints::Purpose;
use crate::patcher::Patcher;
use crate::ptrace::PAGE_SIZE;

impl Patcher<'_> {
    /// Places the hook for changes of the libraries, if there is none yet.
    pub(crate) fn place_loader_hook(&mut self) {
        let Some(hook) = self.tracee.program.dynamic_linker.hook() else {
            return;
        };
        let is_there = self
            .tracee
            .breakpoints
            .get(hook)
            .is_some_and(|breakpoint| breakpoint.dynamic_linker);
        if is_there
            || self.tracee.fast.has_jump(hook)
            || self.tracee.threads.ended.is_some()
            || self.is_memory_bare()
        {
            return;
        }
        let debugged = self.tracee.debugger.is_there();
        let is_stopped = !self.tracee.threads.any_can_be_stopped();
        if !debugged
            && is_stopped
            && !std::mem::replace(&mut self.tracee.program.dynamic_linker.hook_tried, true)
        {
            match self.hook_by_jump(hook) {
                Ok(()) => return,
                Err(_) => self.tracee.fast.give_hook_up(),
            }
        }
        // Without it, libraries are loaded unnoticed, and the program is not affected.
        let _ = self.insert_breakpoint(hook, Purpose::DynamicLinker);
    }

    /// Puts a jump at the hook. All threads are stopped.
    fn hook_by_jump(&mut self, hook: u64) -> Result<(), NoJump> {
        let write = |error: std::io::Error| NoJump::Write(error.to_string());
        self.check_code(hook)
            .map_err(|reason| NoJump::Write(reason.to_owned()))?;
        let memory = match self.tracee.fast.take_hook_of_child() {
            Some(memory) => memory,
            None => {
                let busy = 0..PAGE_SIZE;
                self.make_shared(PAGE_SIZE + journal::SIZE, std::slice::from_ref(&busy))?
            }
        };
        let process = self.tracee.threads.process();
        let hook_memory = HookMemory::create(hook, &memory, process).map_err(write)?;
        let (address, size) = hook_memory.place();
        self.tracee.fast.mappings.forget(address, size);
        self.tracee.fast.hook = Some(hook_memory);
        let body = hook_body(memory.address().0)?;
        fail_point!("hook/shared");
        self.insert_jump(hook, body)?;
        fail_point!("hook/placed");
        Ok(())
    }

    /// Has room for the pads at the hooks of the children that it makes, which have a copy of the memory. All threads are stopped.
    pub(crate) fn prepare_child_hooks(&mut self) {
        let Some(hook) = self.tracee.program.dynamic_linker.hook() else {
            return;
        };
        // Where there is no room, each child looks for it, too.
        if !self.tracee.fast.has_jump(hook)
            && let Ok(body) = hook_body(0)
            && let Ok(placement) = self.place_jump(hook, body.length())
        {
            self.tracee.fast.areas.forget_use(placement.pad.start);
            if let Some(springboard) = placement.springboard {
                self.tracee.fast.springboard_areas.forget_use(springboard);
            }
        }
    }

    /// Replaces the jump at the hook, if there is one, by a breakpoint. All threads are stopped.
    pub(crate) fn hook_by_trap(&mut self) {
        if let Some(hook) = self.tracee.program.dynamic_linker.hook()
            && self.tracee.is_hook_jump(hook)
            && self.take_jump_out(hook).is_ok()
        {
            self.tracee.fast.give_hook_up();
            let _ = self.insert_breakpoint(hook, Purpose::DynamicLinker);
        }
    }
}

/// The pad at the hook, with its memory at this address.
fn hook_body(memory: u64) -> Result<Body, NoJump> {
    let code = report(Address(memory + HookMemory::OWNER))
        .map_err(|error| NoJump::Code(error.to_string()))?;
    Ok(Body::new(PadCode {
        code,
        faults: Vec::new(),
    }))
}
