//! Ending a run from outside.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracewire_experiment::StoreError;
use tracewire_model::TracepointNumber;
use tracewire_target_linux::{Interrupter, Priority};

use crate::out_of_memory::OutOfMemory;

/// How long a thread comes first once the programs are left.
const MOMENT: Duration = Duration::from_millis(250);

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
    leavers: Arc<Mutex<Vec<Leaver>>>,
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
    /// lives: among busy threads it would take long to notice that end. Work that may be long is to [share](Self::share_soon) the
    /// processors.
    pub fn hasten_at_end(&self) -> Hastened<'_> {
        let thread = own_thread();
        lock(&self.leavers).push(Leaver {
            thread,
            shares_at: None,
        });
        if self.stopped().is_some() {
            Priority::raise_thread(thread);
        }
        Hastened {
            handle: self,
            thread,
        }
    }

    /// Ends a raised priority of the calling thread, which is [hastened](Self::hasten_at_end): not where the run is to end already.
    pub(crate) fn end_priority(&self, priority: Option<Priority>) {
        let Some(priority) = priority else {
            return;
        };
        // Without it, the thread would get a processor late, and then raise it again.
        if self.stopped().is_some() {
            return priority.keep();
        }
        drop(priority);
        if self.stopped().is_some() {
            Priority::raise_thread(0);
        }
    }

    /// Has the run end. The first reason counts.
    pub fn stop(&self, stop: Stop) {
        lock(&self.stop).get_or_insert(stop);
        for leaver in lock(&self.leavers).iter() {
            Priority::raise_thread(leaver.thread);
        }
        self.ended.notify_all();
        let interrupters = lock(&self.interrupters).clone();
        Interrupter::interrupt_all(&interrupters);
    }

    /// The programs are left, and what the calling thread still does may be long: it comes first for a moment more, and
    /// [shares](Priority::share) the processors then.
    pub fn share_soon(&self) {
        let thread = own_thread();
        if !Priority::is_real_time(thread) {
            return;
        }
        let mut leavers = lock(&self.leavers);
        let are_timed = leavers.iter().any(|leaver| leaver.shares_at.is_some());
        let Some(own) = leavers.iter_mut().find(|leaver| leaver.thread == thread) else {
            return Priority::share();
        };
        own.shares_at = Some(Instant::now() + MOMENT);
        drop(leavers);
        if !are_timed {
            let handle = self.clone();
            let shares = std::thread::Builder::new().name("share".to_owned());
            if shares.spawn(move || handle.share_in_time()).is_err() {
                Priority::share();
            }
        }
    }

    /// Has leavers share the processors when their time is over.
    fn share_in_time(&self) {
        loop {
            let mut leavers = lock(&self.leavers);
            let now = Instant::now();
            for leaver in leavers.iter_mut() {
                if leaver.shares_at.is_some_and(|time| time <= now) {
                    leaver.shares_at = None;
                    Priority::share_thread(leaver.thread);
                }
            }
            let next = leavers.iter().filter_map(|leaver| leaver.shares_at).min();
            drop(leavers);
            match next {
                None => return,
                Some(next) => std::thread::sleep(next.saturating_duration_since(now)),
            }
        }
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

/// A thread of the tracer that leaves programs.
#[derive(Debug)]
struct Leaver {
    thread: libc::pid_t,
    /// When it shares the processors, where that time has come near.
    shares_at: Option<Instant>,
}

fn own_thread() -> libc::pid_t {
    // SAFETY: gettid cannot fail and touches nothing.
    unsafe { libc::gettid() }
}

/// A thread that comes first from the end of the run on.
#[derive(Debug)]
pub struct Hastened<'h> {
    handle: &'h StopHandle,
    thread: libc::pid_t,
}

impl Drop for Hastened<'_> {
    fn drop(&mut self) {
        lock(&self.handle.leavers).retain(|leaver| leaver.thread != self.thread);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hastened_thread_comes_first_for_a_moment() {
        let stop = StopHandle::default();
        let hastened = stop.hasten_at_end();
        stop.stop(Stop::Duration);
        stop.share_soon();
        // Where a user may not have a real-time priority, there is none to end.
        let begun = Instant::now();
        while Priority::is_real_time(own_thread()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
            std::thread::yield_now();
        }
        drop(hastened);
    }

    #[test]
    fn the_end_of_a_run_keeps_the_priority_that_a_thread_has() {
        for is_over in [false, true] {
            let of_thread = std::thread::spawn(move || {
                let stop = StopHandle::default();
                let _hastened = stop.hasten_at_end();
                let priority = Priority::raise_alone();
                let may_be_raised = Priority::is_real_time(own_thread());
                if is_over {
                    stop.stop(Stop::Duration);
                }
                stop.end_priority(Some(priority));
                assert_eq!(
                    Priority::is_real_time(own_thread()),
                    may_be_raised && is_over
                );
            });
            of_thread.join().expect("no panic");
        }
    }
}
