//! Tracepoints that are served by pads.

use std::collections::BTreeSet;

use tracewire_fail_point::fail_point;
use tracewire_model::{Action, Address, TracepointDefinition, TracepointKind, VariableNumber};

use super::{FrameContents, LocationCost, PadCode, PadNeeds, PadTask, Pads};
use crate::budget::HitCost;
use crate::error::TargetError;
use crate::experiment::Experiment;
use crate::mechanism::{Mechanism, Served};
use crate::options::{Registers, Unreadable};
use crate::store::FrameStore;
use crate::target::Target;

/// The most bytes of memory that a tracepoint may collect at once in a pad, if its mechanism is not fixed by the user.
const MOST_BY_CHOICE: u64 = 4096;

const NO_CODE: &str =
    "no memory is shared with the program: the target runs no code but the program's";

impl<S: FrameStore> Experiment<S> {
    /// Inserts a tracepoint by the best means that are allowed.
    pub(crate) fn put_in(
        &mut self,
        address: Address,
        target: &mut dyn Target,
    ) -> Result<(), TargetError> {
        self.pads.fold_counts(address, &mut self.tracepoints);
        if self.tracepoints.is_watched(address) {
            let lengths = self.tracepoints.watched_lengths(address);
            self.watches.put_in(address, lengths, target)?;
            self.installed.serve(address, Served::Watchpoint);
            return Ok(());
        }
        if self.installed.mechanism() == Mechanism::Trap {
            target.insert(address)?;
            self.installed.serve(address, Served::Trap(None));
            return Ok(());
        }
        let refusal = match self.put_pad_in(address, target) {
            Ok(way) => {
                self.installed.serve(address, Served::Jump(way));
                return Ok(());
            }
            Err(TargetError::CannotInsert { reason, .. }) => reason,
            Err(error) => return Err(error),
        };
        let is_fast = self
            .tracepoints
            .at(address)
            .any(|tracepoint| matches!(tracepoint.definition().kind, TracepointKind::Fast { .. }));
        if !self.installed.may_trap(is_fast) {
            let reason = format!("it cannot be a jump: {refusal}");
            return Err(TargetError::CannotInsert { address, reason });
        }
        target.insert(address)?;
        self.installed.serve(address, Served::Trap(Some(refusal)));
        Ok(())
    }

    /// Inserts a tracepoint as a pad.
    fn put_pad_in(
        &mut self,
        address: Address,
        target: &mut dyn Target,
    ) -> Result<&'static str, TargetError> {
        let refuse = |reason| TargetError::CannotInsert { address, reason };
        if self.overfills_rings(address) {
            return Err(refuse(format!(
                "it collects more than {MOST_BY_CHOICE} bytes at once, of which rings are full sooner than they are read"
            )));
        }
        let pad = self.pad(address, target).map_err(refuse)?;
        let target = target.pads().ok_or_else(|| refuse(NO_CODE.to_owned()))?;
        target.insert_pad(address, pad)
    }

    /// Whether tracepoints that may be traps should be traps, so that no frame is lost: a reader that waits for the disk is too
    /// slow for the rings. A frame of that length outweighs the cost of a trap.
    fn overfills_rings(&self, address: Address) -> bool {
        let mut definitions = self
            .tracepoints
            .at(address)
            .map(|tracepoint| tracepoint.definition());
        let mut long = false;
        self.installed.mechanism() == Mechanism::Best
            && definitions.all(|definition| {
                long |= definition.actions.iter().any(
                    |action| matches!(action, Action::Memory { length, .. } if *length > MOST_BY_CHOICE),
                );
                !matches!(definition.kind, TracepointKind::Fast { .. })
            })
            && long
    }

    /// The pad of the tracepoints at an address.
    fn pad(&mut self, address: Address, target: &mut dyn Target) -> Result<PadCode, String> {
        if self.options.unreadable == Unreadable::Stop {
            return Err("unreadable memory is to end the run".to_owned());
        }
        self.set_up_pads(target)?;
        let Some(pads) = self.pads.get_mut() else {
            return Err(NO_CODE.to_owned());
        };
        let mentioned: BTreeSet<u16> = self
            .tracepoints
            .at(address)
            .flat_map(|tracepoint| tracepoint.plan.variables())
            .collect();
        for number in mentioned {
            let number = VariableNumber(i32::from(number));
            if self.variables.builtin(number).is_none()
                && let Some(shared) = pads.share_variable(number)
            {
                self.variables.share(number, shared);
            }
        }
        let tracepoints: Vec<PadTask<'_>> = self
            .tracepoints
            .at(address)
            .map(|tracepoint| {
                let definition = tracepoint.definition();
                let definition = TracepointDefinition {
                    // A pad's count begins at 0.
                    pass_count: match definition.pass_count {
                        0 => 0,
                        count => count.saturating_sub(tracepoint.passes).max(1),
                    },
                    actions: tracepoint.actions().to_vec(),
                    ..definition.clone()
                };
                PadTask {
                    rate: self.rates.of(definition.number),
                    definition,
                    kept: self.maker.kept_set(&tracepoint.plan.actions),
                }
            })
            .collect();
        let builtins: Vec<_> = self.variables.builtins().collect();
        let stamp = self.options.stamp.then(|| self.variables.stamp_numbers());
        let contents = FrameContents {
            always_registers: self.options.registers == Registers::Always,
            stamp: stamp.flatten(),
            builtins: &builtins,
        };
        let pad = pads.compile(address, &tracepoints, &contents)?;
        fail_point!("pads/compiled");
        Ok(pad)
    }

    /// The most that hits cost, for all tracepoints that are to be inserted. Pads are made for that, and are not inserted.
    pub fn costs(&mut self, target: &mut dyn Target) -> Vec<LocationCost> {
        let mut missing = self.tracepoints.enabled();
        missing.retain(|address| self.installed.served(*address).is_none());
        let mut costs = Vec::new();
        for address in missing {
            let may_have_pad = self.installed.mechanism() != Mechanism::Trap
                && !self.tracepoints.is_watched(address)
                && !self.overfills_rings(address);
            let made = may_have_pad && self.pad(address, target).is_ok();
            let of_pad = match self.pads.get() {
                Some(pads) if made => pads.costs(address),
                _ => &[],
            };
            let keys = self.tracepoints.at(address);
            let keys = keys.map(|tracepoint| tracepoint.definition().key());
            costs.extend(keys.enumerate().map(|(place, key)| LocationCost {
                key,
                cost: (of_pad.get(place).copied()).unwrap_or_else(HitCost::of_trap),
                by_pad: place < of_pad.len(),
            }));
        }
        costs
    }

    fn set_up_pads(&mut self, target: &mut dyn Target) -> Result<(), String> {
        if self.pads.get().is_some_and(Pads::is_gone) {
            self.give_pads_up();
        }
        // What they need is a question to all tracepoints, and this is done for each.
        if let Some(state) = self.pads.state() {
            return state;
        }
        let needs = PadNeeds {
            buffer: self.store.size(),
            circular: self.store.is_circular(),
            watched: self.store.is_watched(),
            tracepoints: self.tracepoints.len(),
            counts: (self.tracepoints.iter()).any(|tracepoint| tracepoint.plan.counting.is_some()),
            budget: self.budget.factor(),
        };
        let target = target.pads().ok_or(NO_CODE)?;
        self.pads.set_up(target, &needs)
    }

    /// Moves threads out of the pads of a run that has ended, if no tracepoint is left in the program, and takes the last frames and
    /// the final counts. The memory of the pads stays in the program until [`remove_pads`](Self::remove_pads): a later tracer finds there
    /// what this one has not written into a file yet.
    pub fn empty_pads(&mut self, target: &mut dyn Target) {
        if self.run.is_on() || !self.installed.is_empty() {
            return;
        }
        self.pads.forget_refusal();
        if self.pads.get().is_none() {
            return;
        }
        if let Some(target) = target.pads() {
            target.leave_pads();
        }
        fail_point!("pads/left");
        self.give_pads_up();
        self.pads.leave_memory();
    }

    /// Removes from the program the memory of pads that [`empty_pads`](Self::empty_pads) has left.
    pub fn remove_pads(&mut self, target: &mut dyn Target) {
        if !self.pads.take_memory_left() {
            return;
        }
        if let Some(target) = target.pads() {
            target.remove_pads();
        }
        fail_point!("pads/unshared");
    }
}
