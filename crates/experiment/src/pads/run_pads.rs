//! The pads of a run, if there are any.

use tracewire_fail_point::fail_point;
use tracewire_model::Address;

use super::{Losses, PadNeeds, PadTarget, Pads};
use crate::tracepoints::Tracepoints;

/// The pads of a run, if there are any.
#[derive(Debug, Default)]
pub(crate) struct RunPads {
    pads: Option<Box<dyn Pads>>,
    /// Why there are none in this run.
    refusal: Option<String>,
    /// The losses of removed pads.
    past_losses: Losses,
    /// The frames that were given up there for newer ones.
    past_dropped: u64,
    /// Whether the memory of the pads that were given up last is still in the program.
    is_memory_left: bool,
}

impl RunPads {
    pub(crate) fn get(&self) -> Option<&dyn Pads> {
        self.pads.as_deref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut (dyn Pads + 'static)> {
        self.pads.as_deref_mut()
    }

    pub(crate) fn losses(&self) -> Losses {
        self.get().map_or(self.past_losses, |pads| {
            self.past_losses.and(&pads.losses())
        })
    }

    /// How many frames pads gave up for newer ones.
    pub(crate) fn dropped(&self) -> u64 {
        self.past_dropped + self.get().map_or(0, Pads::dropped)
    }

    /// Resets the losses at the beginning of a run.
    pub(crate) fn forget_losses(&mut self) {
        self.past_losses = Losses::default();
        self.past_dropped = 0;
    }

    /// Whether there are pads, or why there are none; nothing before they are set up.
    pub(super) fn state(&self) -> Option<Result<(), String>> {
        match (&self.pads, &self.refusal) {
            (Some(_), _) => Some(Ok(())),
            (None, Some(refusal)) => Some(Err(refusal.clone())),
            (None, None) => None,
        }
    }

    pub(super) fn set_up(
        &mut self,
        target: &mut dyn PadTarget,
        needs: &PadNeeds,
    ) -> Result<(), String> {
        debug_assert!(self.pads.is_none(), "they are set up once");
        let made = target.set_up_pads(needs);
        fail_point!("pads/shared");
        let pads = made.inspect_err(|refusal| self.refusal = Some(refusal.clone()))?;
        self.pads = Some(pads);
        Ok(())
    }

    /// Has them do nothing from now on, or since the stop that has ended the run.
    pub(crate) fn end(&mut self) {
        if let Some(pads) = self.get_mut() {
            pads.end();
        }
    }

    /// Adds the counts of a pad to the tracepoints at an address. The pad then begins at 0 again.
    pub(crate) fn fold_counts(&mut self, address: Address, tracepoints: &mut Tracepoints) {
        let Some(pads) = self.get_mut() else { return };
        for place in 0..tracepoints.indices(address).len() {
            let index = tracepoints.indices(address).get(place).copied();
            if let Some(tracepoint) = index.and_then(|index| tracepoints.get_mut(index))
                && let Some(counts) = pads.take_counts(tracepoint.definition().key())
            {
                tracepoint.fold_counts(counts);
            }
        }
    }

    pub(super) fn fold_all_counts(&mut self, tracepoints: &mut Tracepoints) {
        let addresses: Vec<Address> = tracepoints.addresses().collect();
        for address in addresses {
            self.fold_counts(address, tracepoints);
        }
    }

    /// Sets the enabled tracepoints for the pads.
    pub(crate) fn tell_enabled(&mut self, tracepoints: &Tracepoints) {
        if let Some(pads) = self.get_mut() {
            pads.set_enabled(&|key| {
                let tracepoint = tracepoints.by_key(key);
                tracepoint.is_some_and(|tracepoint| tracepoint.definition().enabled)
            });
        }
    }

    /// They may be set up again after they were refused.
    pub(super) fn forget_refusal(&mut self) {
        self.refusal = None;
    }

    /// Their memory stays in the program after they were given up.
    pub(super) const fn leave_memory(&mut self) {
        self.is_memory_left = true;
    }

    /// Whether their memory was left in the program, which is now removed.
    pub(super) const fn take_memory_left(&mut self) -> bool {
        std::mem::replace(&mut self.is_memory_left, false)
    }

    /// Forgets the pads, which do not exist any more.
    pub(super) fn give_up(&mut self) {
        self.past_losses = self.losses();
        self.past_dropped = self.dropped();
        self.pads = None;
    }
}
