//! Waiting for a thread with a limit.
//!
//! A thread may not answer for as long as it sleeps in the kernel: for another thread of the program, which we hold
//! (userfaultfd), for a file system or for a network. So nothing waits for a single thread without a limit.

use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::maps;
use crate::ptrace::{Status, Tid};
use crate::wait_queue;

/// How long a sleeping thread may take to answer when it runs alone. One that runs, or waits for a processor, may take
/// longer.
const ALONE: Duration = Duration::from_millis(200);
/// How long all threads that sleep may take to stop: one may wait for a child by vfork to become another program.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Looks again and again for an answer, less and less often.
#[derive(Debug)]
pub(crate) struct WaitLimit {
    begun: Instant,
    limit: Duration,
    nap: Duration,
}

impl WaitLimit {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            begun: Instant::now(),
            limit,
            nap: Duration::ZERO,
        }
    }

    /// For as long as a child by vfork may need to become another program.
    pub(crate) fn of_vfork() -> Self {
        Self::new(STOP_LIMIT)
    }

    /// Waits a little; whether the limit is not reached yet.
    pub(crate) fn lasts(&mut self) -> bool {
        /// Most threads answer within this time.
        const SOON: Duration = Duration::from_micros(50);
        const LONGEST: Duration = Duration::from_millis(1);
        let waited = self.begun.elapsed();
        if waited < SOON {
            std::thread::yield_now();
            return true;
        }
        self.nap = (self.nap * 2).clamp(SOON, LONGEST);
        std::thread::sleep(self.nap);
        waited < self.limit
    }
}

/// The result of running a thread alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ran {
    /// It has stopped where it should.
    Through,
    /// It has come to its end, or something else is pending for it now.
    Otherwise,
    /// It has not got there within the limit. It is stopped, unless it [sleeps](crate::thread::Thread::asleep).
    Late,
}

/// Waits for a report of a thread, as long as it runs and for some time while it sleeps. `None` after that time, and
/// where the thread has ended as the first of several.
pub(crate) fn wait_within(thread: Tid) -> Result<Option<Status>, Errno> {
    wait_for_at_most(thread, ALONE)
}

/// The same for a thread that waits in vfork, and so for as long as its child needs to become another program.
pub(crate) fn wait_for_vfork(thread: Tid) -> Result<Option<Status>, Errno> {
    wait_for_at_most(thread, STOP_LIMIT)
}

fn wait_for_at_most(thread: Tid, limit: Duration) -> Result<Option<Status>, Errno> {
    let mut wait_limit = WaitLimit::new(limit);
    loop {
        if let Some(status) = wait_queue::poll_for(thread)? {
            return Ok(Some(status));
        }
        if !wait_limit.lasts() {
            if maps::is_zombie(thread) {
                // The end of the first thread is reported when the other threads are reaped, and not before.
                return wait_queue::poll_for(thread);
            }
            if maps::sleeps(thread) {
                return Ok(None);
            }
            wait_limit = WaitLimit::new(limit);
        }
    }
}
