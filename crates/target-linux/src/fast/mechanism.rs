//! What a tracepoint is served by, and by what not.

use std::rc::Rc;

use tracewire_experiment::{PadCode, TargetError};
use tracewire_jump_pad::relocate::{JUMP_LENGTH, Way};
use tracewire_model::Address;

use crate::insert::NOT_MAPPED;
use crate::process::Process;
use crate::rseq;
use crate::width::Width;

/// How a tracepoint works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// A jump into a pad, which the program runs by itself.
    Jump(Way),
    /// A breakpoint, and one stop a hit.
    Trap,
}

impl Process {
    /// Puts a jump in that leads to code of ours. Then the displaced instructions are executed.
    ///
    /// A tracepoint that is there is replaced. [`Target::remove`](tracewire_experiment::Target::remove) takes it out.
    ///
    /// # Errors
    /// When there can be no jump, with the reason; then a [`Target::insert`](tracewire_experiment::Target::insert) may
    /// still do.
    pub fn insert_code(
        &mut self,
        address: Address,
        code: PadCode,
    ) -> Result<Mechanism, TargetError> {
        let refuse = |reason: String| TargetError::CannotInsert { address, reason };
        if self.has_ended() {
            return Err(refuse("the process has ended".to_owned()));
        }
        if self.program.width() != Width::Bits64 {
            return Err(refuse(
                "pads are 64-bit code, and the program is not".to_owned(),
            ));
        }
        self.check_code(address.0).map_err(|reason| match reason {
            NOT_MAPPED => TargetError::NotMapped(address),
            reason => refuse(reason.to_owned()),
        })?;
        if self.is_restartable(address.0, JUMP_LENGTH as u64) {
            return Err(refuse(rseq::WITHIN.to_owned()));
        }
        if self.is_hook_jump(address.0) {
            self.hook_by_trap();
        }
        self.insert_jump(address.0, &Rc::new(code))
            .map_err(|error| refuse(error.to_string()))?;
        self.raise_semaphore(address.0);
        self.mechanism(address)
            .ok_or_else(|| refuse("it was not put in".to_owned()))
    }

    /// What the tracepoint at an address is served by; `None` where there is none.
    #[must_use]
    pub fn mechanism(&self, address: Address) -> Option<Mechanism> {
        if let Some(patch) = self.fast.jumps.get(&address.0)
            && !self.is_hook_jump(address.0)
        {
            return Some(Mechanism::Jump(patch.jump.way()));
        }
        self.breakpoints
            .get(address.0)
            .filter(|breakpoint| breakpoint.tracepoint)
            .map(|_| Mechanism::Trap)
    }
}
