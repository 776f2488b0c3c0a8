//! A run that another program carries out: the definitions for it, and its results.

use tracewire_arch::Architecture;
use tracewire_experiment::handover::{AdoptError, Adopted, Progress};
use tracewire_experiment::{Definitions, FrameStore as _, Target};
use tracewire_model::{Address, Status, StatusFields, Tracepoint};
use tracewire_tracefile::DescriptionParts;

use super::Trace;

impl Trace {
    /// The experiment, for another program on this machine.
    pub(crate) fn definitions_for(&self, architecture: Architecture) -> Definitions {
        let tracepoints = self
            .experiment
            .tracepoints()
            .map(|one| Tracepoint::new(one.definition().clone()));
        // The others are made by the expressions that use them.
        let variables = self.experiment.variables();
        let variables = variables.filter(|variable| !variable.name.is_empty());
        let status = StatusFields {
            buffer_size: Some(self.size),
            circular: Some(self.circular),
            ..StatusFields::default()
        };
        Definitions {
            architecture,
            parts: DescriptionParts {
                register_block_size: self.machine.layout.size(),
                target_xml: Some(self.machine.xml.clone()),
                status: Some(Status::from(status)),
                variables: variables.cloned().collect(),
                tracepoints: tracepoints.collect(),
                ..DescriptionParts::default()
            },
        }
    }

    /// The addresses of the tracepoints that can be hit.
    pub(crate) fn enabled_addresses(&self) -> Vec<Address> {
        let definitions = self.experiment.tracepoints().map(|one| one.definition());
        let enabled = definitions.filter(|definition| definition.enabled);
        let mut addresses: Vec<_> = enabled.map(|definition| definition.address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Whether a tracepoint steps.
    pub(crate) fn has_steps(&self) -> bool {
        let mut tracepoints = self.experiment.tracepoints();
        tracepoints.any(|one| one.definition().step_count > 0)
    }

    /// Takes over what the run has come to.
    pub(crate) fn adopt(&mut self, progress: &Progress, frames: &[u8]) -> Result<(), AdoptError> {
        let adopted = self.experiment.adopt(progress, frames)?;
        if adopted == Adopted::Restarted {
            self.forget_frames();
        }
        Ok(())
    }

    /// How many frames the run has made, as far as is known here.
    pub(crate) fn frames_made(&self) -> u64 {
        let status = self.experiment.status();
        status
            .frames_created
            .unwrap_or_else(|| self.experiment.buffer().frames())
    }

    /// The run goes on in this target: its tracepoints are inserted there. Returns why one cannot be.
    pub(crate) fn go_on_in(&mut self, target: &mut impl Target) -> Result<(), String> {
        self.experiment.forget_installed(|_| true);
        let installed = self.experiment.install(target);
        installed.map_err(|errors| super::words(&errors))
    }
}
