//! Work beside a program that runs, which may leave it no processor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tracewire_target_linux::{Event, Process};

use crate::error::RecordError;
use crate::out_of_memory::{Expendable, OutOfMemory};
use crate::stop::{Stop, StopHandle};

/// How often it is looked whether the work gets a processor.
const TURN: Duration = Duration::from_millis(20);
/// How long the program is stopped at once where the work does not.
const PAUSE: Duration = Duration::from_millis(20);

/// Lets the program run while another thread works, one that can be given up; it may take seconds to read a large program's
/// symbols.
///
/// Where the program's threads leave that thread waiting for a processor, the program is stopped for a moment now and then:
/// beside 100 busy threads, work of 0.1 s would take 5 s.
///
/// `None` if the program has become another one: it has run nothing yet, and the work was about the one before.
pub fn run_meanwhile<R: Send + 'static>(
    process: &mut Process,
    stop: &StopHandle,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<Option<R>, RecordError> {
    let (done, starves) = (Arc::new(Done::default()), Arc::new(AtomicBool::new(false)));
    // However this ends, no thread waits any more.
    let ending = SetAtEnd(Arc::clone(&done));
    let (over, interrupter) = (Arc::clone(&done), process.interrupter());
    let worker = Expendable::start(
        move || {
            // Set first: the interruption must not be taken for another one.
            over.set();
            interrupter.interrupt();
        },
        work,
    )
    .map_err(RecordError::Thread)?;
    let (own, starved, interrupter) = (done, Arc::clone(&starves), process.interrupter());
    std::thread::Builder::new()
        .name("processor".to_owned())
        .spawn(move || {
            let mut before = waited_for_processor();
            while !own.wait(TURN) {
                let now = waited_for_processor();
                if now.saturating_sub(before) > TURN / 2 {
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

/// For how long the threads of this process have been able to run and had no processor, all together; zero where the kernel
/// does not say.
fn waited_for_processor() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let waited = tasks.filter_map(|task| {
        let line = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(waited.sum())
}
