//! Ending a run from outside.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tracewire_target_linux::Interrupter;

/// Why a run was asked to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Somebody asked for it, in these words.
    Asked(String),
    /// The time is over.
    Duration,
    /// There is no more memory.
    OutOfMemory,
}

/// For how long the program has been held stopped by us.
#[derive(Debug, Default)]
struct Held {
    before: Duration,
    /// Since when it is now.
    since: Option<Instant>,
}

/// Ends a run, from any thread, before it begins or while it goes on.
#[derive(Clone, Debug, Default)]
pub struct StopHandle {
    stop: Arc<Mutex<Option<Stop>>>,
    held: Arc<Mutex<Held>>,
    /// Set once there is a process to interrupt.
    interrupter: Arc<OnceLock<Interrupter>>,
}

impl StopHandle {
    /// Interrupts this process from now on.
    pub(crate) fn watch(&self, interrupter: Interrupter) {
        let interrupter = self.interrupter.get_or_init(|| interrupter);
        if self.stopped().is_some() {
            interrupter.interrupt();
        }
    }

    /// Has the run end. The first reason counts.
    pub fn stop(&self, stop: Stop) {
        lock(&self.stop).get_or_insert(stop);
        if let Some(interrupter) = self.interrupter.get() {
            interrupter.interrupt();
        }
    }

    /// The first reason for which the run was asked to end.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        lock(&self.stop).clone()
    }

    /// Has the run end when the program has run for so long from now on.
    pub(crate) fn stop_after(&self, duration: Duration) -> std::io::Result<()> {
        let own = self.clone();
        let begun = Instant::now();
        std::thread::Builder::new()
            .name("duration".to_owned())
            .spawn(move || {
                loop {
                    let held = own.held();
                    let left = duration
                        .saturating_add(held)
                        .saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        return own.stop(Stop::Duration);
                    }
                    std::thread::sleep(left);
                }
            })?;
        Ok(())
    }

    /// Does something while the program is stopped for it; that time does not count.
    pub(crate) fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        lock(&self.held).since = Some(Instant::now());
        let result = work();
        let mut held = lock(&self.held);
        let now = held.since.take().map(|since| since.elapsed());
        held.before += now.unwrap_or_default();
        result
    }

    fn held(&self) -> Duration {
        let held = lock(&self.held);
        held.before + held.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
