//! Keeping the tracer and the thread it wakes on one cpu.

use nix::errno::Errno;

use crate::ptrace::{Status, Tid, wait_any};

/// Decides on which cpu a thread wakes after a hit.
#[derive(Debug)]
pub(crate) struct Follower {
    wanted: bool,
}

impl Follower {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted }
    }

    /// Waits for the next thing that a thread tells.
    pub(crate) fn wait(&mut self) -> Result<(Tid, Status), Errno> {
        wait_any()
    }

    /// The run is over for now.
    pub(crate) fn rest(&mut self) {}

    /// Gives a thread its own affinity back.
    pub(crate) fn restore(&mut self, _: Tid) {}
}
