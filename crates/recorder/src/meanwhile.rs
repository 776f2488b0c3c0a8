//! Work beside a program that runs, which may leave it no processor.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracewire_target_linux::{Event, Interrupter, Priority, Process};

use crate::error::RecordError;
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::stop::{Stop, StopHandle};

/// How much processor time the work has with the priority of the thread that begins it, where it leaves the program a processor.
const FIRST: Duration = Duration::from_millis(250);
/// How much all work of a run has with that.
const FIRST_OF_RUN: Duration = Duration::from_secs(1);
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
/// busy threads, work of 0.1 s would take 5 s. So are the others of the run.
///
/// `None` if the program has become another one: it has run nothing yet, and the work was about the one before.
pub fn run_meanwhile<R: Send + 'static>(
    process: &mut Process,
    stop: &StopHandle,
    of_run: &WorkOfRun,
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
    let of_run = of_run.clone();
    std::thread::Builder::new()
        .name("processor".to_owned())
        .spawn(move || {
            let begun = Instant::now();
            let mut before = ProcessorTime::default();
            while !own.wait(TURN) {
                let thread = thread.load(Ordering::Acquire);
                // Where the kernel does not say, all of the time counts.
                let now = ProcessorTime::of(thread).unwrap_or(ProcessorTime {
                    had: begun.elapsed(),
                    waited: Duration::ZERO,
                });
                // One with a real-time priority waits for others of the tracer only.
                if thread != 0 && Priority::is_real_time(thread) {
                    let of_run = of_run.come_first(now.had.saturating_sub(before.had));
                    if now.had >= FIRST || of_run >= FIRST_OF_RUN {
                        Priority::share_thread(thread);
                    }
                } else if now.waited.saturating_sub(before.waited) > TURN / 2 {
                    of_run.starve();
                }
                if of_run.starves_now() {
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

/// The work beside all programs of a run: a thread of one of them may wait for what that of another one reads, and the threads of
/// all of them leave it no processor.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkOfRun(Arc<Mutex<WorkState>>);

#[derive(Debug, Default)]
struct WorkState {
    /// When some of it last waited for a processor.
    starved: Option<Instant>,
    /// For how long it has come first.
    came_first: Duration,
}

impl WorkOfRun {
    fn lock(&self) -> MutexGuard<'_, WorkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn starve(&self) {
        self.lock().starved = Some(Instant::now());
    }

    fn starves_now(&self) -> bool {
        let starved = self.lock().starved;
        starved.is_some_and(|time| time.elapsed() < TURN)
    }

    /// Some of it came first for so long more. For how long all of it has.
    fn come_first(&self, more: Duration) -> Duration {
        let mut state = self.lock();
        state.came_first += more;
        state.came_first
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

/// What a thread had of the processors. A run of many processes has many such threads, so each is looked at by itself.
#[derive(Clone, Copy, Debug, Default)]
struct ProcessorTime {
    had: Duration,
    /// For how long it was able to run and had none.
    waited: Duration,
}

impl ProcessorTime {
    /// That of a thread of this process. `None` where the kernel does not say, and when the thread has ended.
    fn of(thread: libc::pid_t) -> Option<Self> {
        let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        let mut times = line.split_whitespace().map(str::parse);
        Some(Self {
            had: Duration::from_nanos(times.next()?.ok()?),
            waited: Duration::from_nanos(times.next()?.ok()?),
        })
    }
}
