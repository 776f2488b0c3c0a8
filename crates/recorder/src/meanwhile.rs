//! Work beside a program that runs, which may leave it no processor.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracewire_target_linux::{Event, Interrupter, Priority, Process};

use crate::error::RecordError;
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::stop::{Stop, StopHandle};

/// How long the work keeps the priority of the thread that begins it, where it leaves the program a processor.
const FIRST: Duration = Duration::from_millis(250);
/// How often it is looked whether the work gets a processor.
const TURN: Duration = Duration::from_millis(20);
/// How long the program is stopped at once where the work does not.
const PAUSE: Duration = Duration::from_millis(20);

/// How many processors the tracer may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

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
        move || over.set_and_interrupt(&interrupter),
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
                // One with a real-time priority waits for others of the tracer only.
                if now.saturating_sub(before) > TURN / 2 && !Priority::is_real_time(thread) {
                    starvation.note();
                }
                if starvation.is_now() {
                    starved.store(true, Ordering::Release);
                    own.interrupt_unless_set(&interrupter);
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
        go_on(stop)?;
        if starves.swap(false, Ordering::AcqRel) {
            done.wait(PAUSE);
        }
    }
    // One that came while the program was stopped would stop all of its threads again, soon after they go on. One of the end of the
    // run is seen by its reason.
    process.forget_interruption();
    go_on(stop)?;
    Ok(Some(worker.result()?))
}

/// An error when the run is to end.
fn go_on(stop: &StopHandle) -> Result<(), RecordError> {
    match stop.stopped() {
        None => Ok(()),
        Some(Stop::OutOfMemory) => Err(OutOfMemory.into()),
        Some(_) => Err(RecordError::Stopped),
    }
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

/// Whether the work is done. The program is interrupted for it while this is locked, so that who has seen that it is done has seen all
/// interruptions.
#[derive(Debug, Default)]
struct Done {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Done {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Sets it and ends the program's run, where nobody has set it before.
    fn set_and_interrupt(&self, interrupter: &Interrupter) {
        let mut is_set = self.lock();
        if !std::mem::replace(&mut *is_set, true) {
            self.changed.notify_all();
            interrupter.interrupt();
        }
    }

    fn interrupt_unless_set(&self, interrupter: &Interrupter) {
        let is_set = self.lock();
        if !*is_set {
            interrupter.interrupt();
        }
    }

    fn is_set(&self) -> bool {
        *self.lock()
    }

    /// Waits until it is, for so long at most.
    fn wait(&self, time: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), time, |is_set| !*is_set);
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
