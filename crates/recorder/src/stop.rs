//! Ending a run from outside.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracewire_experiment::StoreError;
use tracewire_model::TracepointNumber;
use tracewire_target_linux::{Interrupter, Priority};

use crate::out_of_memory::OutOfMemory;

/// Why a run was asked to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// A user or a program asked for it, in these words.
    Asked(String),
    /// The time is over for which the program was to run.
    Duration,
    /// The run has lasted as long as it may.
    Expired(Duration),
    /// So many frames were made, as many as were to be.
    Frames(u64),
    /// A tracepoint was hit whose hit was to end the run, and so many frames more were made.
    Triggered {
        /// Which tracepoint.
        tracepoint: TracepointNumber,
        /// How many frames were to come after its own.
        after: u64,
    },
    /// There is no more memory.
    OutOfMemory,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(words) => f.write_str(words),
            Self::Duration => f.write_str("the time is over"),
            Self::Expired(after) => write!(f, "the run has expired: it may last {after:?}"),
            Self::Frames(most) => StoreError::Enough(*most).fmt(f),
            Self::Triggered { tracepoint, after } => StoreError::Triggered {
                tracepoint: *tracepoint,
                after: *after,
            }
            .fmt(f),
            Self::OutOfMemory => OutOfMemory.fmt(f),
        }
    }
}

/// For how long a program has been held stopped by us.
#[derive(Debug, Default)]
struct Held {
    before: Duration,
    /// Since when one is now.
    since: Option<Instant>,
    /// How many are.
    programs: usize,
}

/// Ends a run, from any thread, before it begins or while it goes on.
#[derive(Clone, Debug, Default)]
pub struct StopHandle {
    stop: Arc<Mutex<Option<Stop>>>,
    /// Wakes who waits for the end.
    ended: Arc<Condvar>,
    held: Arc<Mutex<Held>>,
    /// Of the processes that are recorded.
    interrupters: Arc<Mutex<Vec<Interrupter>>>,
    /// The threads of the tracer that leave programs at the end.
    leavers: Arc<Mutex<Vec<libc::pid_t>>>,
    /// Whether the time of the run is being taken.
    is_timed: Arc<AtomicBool>,
}

impl StopHandle {
    /// Interrupts this process too from now on.
    pub(crate) fn watch(&self, interrupter: Interrupter) {
        let mut interrupters = lock(&self.interrupters);
        // Those of processes that have ended are of no use.
        interrupters.retain(Interrupter::is_used);
        interrupters.push(interrupter.clone());
        drop(interrupters);
        if self.stopped().is_some() {
            interrupter.interrupt();
        }
    }

    /// Raises the [priority](Priority) of the calling thread when the run is to end before this is dropped, for as long as the thread
    /// lives: among busy threads it would take long to notice that end. Where the thread has long work then, it is to
    /// [share](Priority::share) the processors.
    pub fn hasten_at_end(&self) -> Hastened<'_> {
        // SAFETY: gettid cannot fail and touches nothing.
        let thread = unsafe { libc::gettid() };
        lock(&self.leavers).push(thread);
        if self.stopped().is_some() {
            Priority::raise_thread(thread);
        }
        Hastened {
            handle: self,
            thread,
        }
    }

    /// Has the run end. The first reason counts.
    pub fn stop(&self, stop: Stop) {
        lock(&self.stop).get_or_insert(stop);
        for thread in lock(&self.leavers).iter() {
            Priority::raise_thread(*thread);
        }
        self.ended.notify_all();
        let interrupters = lock(&self.interrupters).clone();
        Interrupter::interrupt_all(&interrupters);
    }

    /// The first reason for which the run was asked to end.
    #[must_use]
    pub fn stopped(&self) -> Option<Stop> {
        lock(&self.stop).clone()
    }

    /// Waits until the run was asked to end, and no longer than this. Whether it was.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let stop = lock(&self.stop);
        let waited = self
            .ended
            .wait_timeout_while(stop, most, |stop| stop.is_none());
        let (stop, _) = waited.unwrap_or_else(PoisonError::into_inner);
        stop.is_some()
    }

    /// Has the run end when the program has run for so long from now on; of several programs, the first one that has begun.
    pub(crate) fn stop_after(&self, duration: Duration) -> std::io::Result<()> {
        if self.is_timed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
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

    /// Has the run end so long from now on, in any state of the run.
    pub(crate) fn expire_after(&self, duration: Duration) -> std::io::Result<()> {
        let own = self.clone();
        std::thread::Builder::new()
            .name("expiry".to_owned())
            .spawn(move || {
                std::thread::sleep(duration);
                own.stop(Stop::Expired(duration));
            })?;
        Ok(())
    }

    /// Does something while the program is stopped for it; that time does not count.
    pub(crate) fn hold<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut held = lock(&self.held);
        held.since.get_or_insert_with(Instant::now);
        held.programs += 1;
        drop(held);
        let result = work();
        let mut held = lock(&self.held);
        held.programs -= 1;
        if held.programs == 0 {
            let now = held.since.take().map(|since| since.elapsed());
            held.before += now.unwrap_or_default();
        }
        result
    }

    fn held(&self) -> Duration {
        let held = lock(&self.held);
        held.before + held.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

/// A thread that comes first from the end of the run on.
#[derive(Debug)]
pub struct Hastened<'h> {
    handle: &'h StopHandle,
    thread: libc::pid_t,
}

impl Drop for Hastened<'_> {
    fn drop(&mut self) {
        lock(&self.handle.leavers).retain(|thread| *thread != self.thread);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
