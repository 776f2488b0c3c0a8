//! The tracer's share of the processors while it comes to a busy program and leaves it.

use std::num::NonZero;

/// While it lives, the calling thread, and those that it makes, come before the program's threads where this user may have that
/// (root, and where `RLIMIT_RTPRIO` or `RLIMIT_NICE` allows it): beside 100 busy threads, work of 0.1 s takes 5 s otherwise. While the
/// program runs, it is the program that is to have the processors.
///
/// A niceness is not enough at a stop: the threads that are let go on have waited, and the scheduler lets them make up for that first. So
/// it is a real-time priority, for work that is short. What reads symbols gives it [up](Self::share_thread) when it takes long.
#[derive(Debug)]
pub struct Priority {
    niceness: libc::c_int,
    policy: libc::c_int,
}

/// How many processors the tracer may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The niceness meanwhile.
const NICENESS: libc::c_int = -20;

impl Priority {
    /// Raises it.
    pub fn raise() -> Self {
        let before = Self::current();
        raise_thread(0);
        before
    }

    /// Raises it for another thread of the tracer, for as long as that thread lives: one that waits for its turn cannot do it itself.
    pub fn raise_thread(thread: libc::pid_t) {
        raise_thread(thread);
    }

    /// Has the calling thread share the processors with the program from now on, as one that comes first among equals: its work may be
    /// long.
    pub fn share() {
        Self::share_thread(0);
    }

    /// Has another thread of the tracer share them; 0 is the calling one.
    pub fn share_thread(thread: libc::pid_t) {
        // SAFETY: it takes a plain number.
        let policy = unsafe { libc::sched_getscheduler(thread) };
        if policy != libc::SCHED_OTHER && set_policy(thread, libc::SCHED_OTHER, 0) {
            set_niceness(thread, NICENESS);
        }
    }

    /// Raises it for as long as a recording keeps a budget, whose looks are short and must not be late. Nothing where another
    /// recording of the thread has raised it.
    pub fn raise_for_budget() -> Option<Self> {
        let before = Self::current();
        (before.niceness > NICENESS).then(Self::raise_niceness)
    }

    /// Raises it among equals, for work that may be long.
    pub fn raise_niceness() -> Self {
        let before = Self::current();
        set_niceness(0, NICENESS);
        before
    }

    fn current() -> Self {
        // SAFETY: both take plain numbers; 0 is the calling thread.
        unsafe {
            Self {
                niceness: libc::getpriority(libc::PRIO_PROCESS, 0),
                policy: libc::sched_getscheduler(0),
            }
        }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if self.policy == libc::SCHED_OTHER {
            set_policy(0, libc::SCHED_OTHER, 0);
        }
        set_niceness(0, self.niceness);
    }
}

/// Raises the priority of a thread; 0 is the calling one.
fn raise_thread(thread: libc::pid_t) {
    if !set_policy(thread, libc::SCHED_RR, 1) {
        set_niceness(thread, NICENESS);
    }
}

/// Sets the policy of a thread. Whether that is allowed.
fn set_policy(thread: libc::pid_t, policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: it takes plain numbers and a live structure.
    unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) == 0 }
}

fn set_niceness(thread: libc::pid_t, niceness: libc::c_int) {
    // Where it is not allowed, everything takes longer and is right.
    // SAFETY: setpriority takes plain numbers.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, thread.cast_unsigned(), niceness) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn niceness() -> libc::c_int {
        // SAFETY: as above.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn it_is_as_before_afterwards() {
        let policy = || Priority::current().policy;
        let before = (niceness(), policy());
        let raised = Priority::raise();
        assert!(niceness() <= before.0);
        drop(raised);
        assert_eq!((niceness(), policy()), before);
    }
}
