//! What ends a run of itself: so many frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::stop::{Stop, StopHandle};

/// How many frames a run may still keep, of all its processes.
#[derive(Clone, Debug)]
pub struct FrameLimit {
    most: u64,
    left: Arc<AtomicU64>,
    stop: StopHandle,
}

impl FrameLimit {
    pub fn new(most: u64, stop: StopHandle) -> Self {
        Self {
            most,
            left: Arc::new(AtomicU64::new(most)),
            stop,
        }
    }

    /// Takes one of the frames that are left; false where there is none. The last one ends the run.
    pub fn claim(&self) -> bool {
        let taken = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                left.checked_sub(1)
            });
        if taken == Ok(1) {
            self.stop.stop(Stop::Frames(self.most));
        }
        taken.is_ok()
    }

    pub const fn most(&self) -> u64 {
        self.most
    }
}
