//! The time of day, never going back.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns times that never decrease.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last: Cell<u64>,
}

impl Clock {
    /// Nanoseconds since 1970-01-01 00:00 UTC, or the last returned time if the clock was set back.
    pub(crate) fn now(&self) -> u64 {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64);
        let now = now.max(self.last.get());
        self.last.set(now);
        now
    }
}
