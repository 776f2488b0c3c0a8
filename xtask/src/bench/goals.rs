//! The goals that the project sets itself. A benchmark prints for each whether it is met, and fails at its end where one is not.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};

static NOT_MET: AtomicUsize = AtomicUsize::new(0);

/// What is printed of a goal.
pub(super) fn verdict(met: bool) -> &'static str {
    if met {
        return "met";
    }
    NOT_MET.fetch_add(1, Ordering::Relaxed);
    "NOT MET"
}

/// An error where a goal was not met.
pub(super) fn check() -> Result<()> {
    let count = NOT_MET.load(Ordering::Relaxed);
    ensure!(count == 0, "goals that are not met: {count}");
    Ok(())
}
