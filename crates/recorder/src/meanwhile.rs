//! Work beside a program that runs, which may leave it no processor.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracewire_target_linux::{Event, Process};

use crate::error::RecordError;
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::priority::{Priority, processors};
use crate::stop::{Stop, StopHandle};

/// How long the work keeps the priority of the thread that begins it, where it leaves the program a processor.
const FIRST: Duration = Duration::from_millis(250);
/// How often it is looked whether the work gets a processor.
const TURN: Duration = Duration::from_millis(20);
/// How long the program is stopped at once where the work does not.
const PAUSE: Duration = Duration::from_millis(20);

/// Lets the program run while another thread works, one that can be given up; it may take seconds to read a large program's
/// symbols.
///
/// The work begins with the priority of the calling thread. Where it takes longer, it shares the processors with the program. Where
/// the program's threads leave it waiting for a processor then, the program is stopped for a moment now and then: beside 100
/// busy threads, work of 0.1 s would take 5 s. So are the others with the same `starvation`.
///
/// `None` if the program has become another one: it has run nothing yet, and the work was about the one before.
pub fn run_meanwhile<R: Send + 'static>(
    process: &mut Process,
    stop: &StopHandle,
    starvation: &Starvation,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<Option<R>, RecordError> {
    let (done, starves) = (Arc::new(Done::default()), Arc::new(AtomicBool::new(false)));
    // However this ends, no thread waits any more.
    let ending = SetAtEnd(Arc::clone(&done));
    let (over, interrupter) = (Arc::clone(&done), process.interrupter());
    let thread = Arc::new(AtomicI32::new(0));
    let own_thread = Arc::clone(&thread);
    let worker = Expendable::start(
        move || {
            // Set first: the interruption must not be taken for another one.
            over.set();
            interrupter.interrupt();
        },
        move || {
            if processors() == 1 {
                Priority::share();
            }
            // SAFETY: gettid cannot fail and touches nothing.
            own_thread.store(unsafe { libc::gettid() }, Ordering::Release);
            work()
        },
    )
    .map_err(RecordError::Thread)?;
    let (own, starved, interrupter) = (done, Arc::clone(&starves), process.interrupter());
    let starvation = starvation.clone();
    std::thread::Builder::new()
        .name("processor".to_owned())
        .spawn(move || {
            let begun = Instant::now();
            let mut before = Duration::ZERO;
            while !own.wait(TURN) {
                let thread = thread.load(Ordering::Acquire);
                if thread != 0 && begun.elapsed() >= FIRST {
                    Priority::share_thread(thread);
                }
                let now = waited_for_processor(thread);
                if now.saturating_sub(before) > TURN / 2 {
                    starvation.note();
                }
                if starvation.is_now() {
                    starved.store(true, Ordering::Release);
                    interrupter.interrupt();
                }
                before = now;
            }
        })
        .map_err(RecordError::Thread)?;
    let done = &ending.0;
    while !done.is_set() {
        match process.run(&mut crate::prepare::NoHits)? {
            event @ (Event::Exited(_) | Event::Killed { .. }) => {
                return Err(RecordError::Ended(event));
            }
            Event::Exec => return Ok(None),
            _ => {}
        }
        match stop.stopped() {
            None => {}
            Some(Stop::OutOfMemory) => return Err(OutOfMemory.into()),
            Some(_) => return Err(RecordError::Stopped),
        }
        if starves.swap(false, Ordering::AcqRel) {
            done.wait(PAUSE);
        }
    }
    Ok(Some(worker.result()?))
}

/// When work beside programs last waited for a processor. The programs of a run have it together: a thread of one of them may
/// wait for what that of another one reads, and the threads of all of them leave it no processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starvation(Arc<Mutex<Option<Instant>>>);

impl Starvation {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_now(&self) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < TURN)
    }
}

/// Whether the work is done.
#[derive(Debug, Default)]
struct Done {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Done {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn is_set(&self) -> bool {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is, for so long at most.
    fn wait(&self, time: Duration) -> bool {
        let guard = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(guard, time, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct SetAtEnd(Arc<Done>);

impl Drop for SetAtEnd {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// For how long a thread of this process has been able to run and had no processor; zero before it has begun, and where the
/// kernel does not say. A run of many processes has many such threads, so each is looked at by itself.
fn waited_for_processor(thread: libc::pid_t) -> Duration {
    let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let waited = line.ok().and_then(|line| {
        let waited = line.split_whitespace().nth(1)?;
        waited.parse::<u64>().ok()
    });
    waited.map_or(Duration::ZERO, Duration::from_nanos)
}
