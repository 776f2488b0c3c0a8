//! Bringing what is in the program to what should be there.

use std::collections::BTreeSet;

use tracewire_fail_point::fail_point;
use tracewire_model::Address;

use crate::error::InstallError;
use crate::experiment::Experiment;
use crate::mechanism::Served;
use crate::store::FrameStore;
use crate::target::Target;

impl<S: FrameStore> Experiment<S> {
    /// Puts into the program what should be there and takes out what should not. Every address is tried.
    ///
    /// # Errors
    /// The addresses that the target could not serve. They are tried again the next time, unless their tracepoints
    /// have been deleted.
    pub fn install(&mut self, target: &mut dyn Target) -> Result<(), Vec<InstallError>> {
        let wanted: BTreeSet<Address> = if self.running {
            self.tracepoints
                .iter()
                .filter(|tracepoint| tracepoint.definition.enabled)
                .map(|tracepoint| tracepoint.definition.address)
                .collect()
        } else {
            BTreeSet::new()
        };
        let mut failures = Vec::new();
        let unwanted: Vec<_> = self.installed.difference(&wanted).copied().collect();
        for address in unwanted {
            fail_point!("install/remove");
            match target.remove(address) {
                Ok(()) => {
                    self.installed.remove(&address);
                    self.served.remove(&address);
                }
                Err(error) => failures.push((address, error)),
            }
        }
        let stale = std::mem::take(&mut self.stale);
        // From the last to the first: what a jump over a short instruction leads to depends on what follows.
        for address in wanted.into_iter().rev() {
            let renewed = stale.contains(&address)
                && matches!(self.served.get(&address), Some(Served::Jump(_)));
            if self.installed.contains(&address) && !renewed {
                continue;
            }
            fail_point!("install/put-in");
            match self.put_in(address, target) {
                Ok(()) => _ = self.installed.insert(address),
                Err(error) => failures.push((address, error)),
            }
        }
        fail_point!("install/installed");
        for (address, reason) in target.take_demoted() {
            self.fold_counts(address);
            self.serve(address, Served::Trap(Some(reason)));
        }
        if self.installed.is_empty() && !self.running {
            self.take_pads_out(target);
        }
        failures.sort_by_key(|(address, _)| *address);
        let failed: Vec<InstallError> = failures
            .into_iter()
            .map(|(address, error)| InstallError {
                address,
                numbers: self
                    .places
                    .get(&address)
                    .into_iter()
                    .flatten()
                    .filter_map(|index| self.tracepoints.get(*index))
                    .map(|tracepoint| tracepoint.definition.number)
                    .collect(),
                error,
            })
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// The program has been replaced or has lost a piece of its memory, and with it what was installed at `gone`.
    pub fn forget_installed(&mut self, gone: impl Fn(Address) -> bool) {
        self.installed.retain(|address| !gone(*address));
        self.served.retain(|address, _| !gone(*address));
    }
}
