//! An experiment that goes from thread to thread.

use tracewire_experiment::Experiment;

/// An experiment whose hits come on the threads of several cpus.
#[derive(Debug)]
pub struct Moving<S>(pub Experiment<S>);

// SAFETY: an experiment shares only the variables that pads have, and this one has no pads, since its target has none. It is used
// behind a lock.
unsafe impl<S: Send> Send for Moving<S> {}
