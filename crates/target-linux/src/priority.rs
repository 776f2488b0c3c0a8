//! The tracer's share of the processors while it comes to a busy program, leaves it, and reads frames for whose room pads wait.

use tracewire_experiment::Budget;

/// While it lives, the calling thread, and those that it makes, come before the program's threads where this user may have that
/// (root, and where `RLIMIT_RTPRIO` or `RLIMIT_NICE` allows it): beside 100 busy threads, work of 0.1 s takes 5 s otherwise. While the
/// program runs, it is the program that is to have the processors, unless its pads wait for the tracer.
///
/// A niceness is not enough at a stop: the threads that are let go on have waited, and the scheduler lets them make up for that first. So
/// it is a real-time priority, for work that is short. What reads symbols gives it [up](Self::share_thread) when it takes long.
#[derive(Debug)]
pub struct Priority {
    before: UsualPriority,
}

/// The priority of the tracer's threads while the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsualPriority {
    niceness: libc::c_int,
    policy: libc::c_int,
}

impl UsualPriority {
    /// That of the calling thread, where it is not raised.
    pub fn of_thread() -> Self {
        // SAFETY: both take plain numbers; 0 is the calling thread.
        unsafe {
            Self {
                niceness: libc::getpriority(libc::PRIO_PROCESS, 0),
                policy: libc::sched_getscheduler(0),
            }
        }
    }
}

/// The niceness meanwhile.
const NICENESS: libc::c_int = -20;

impl Priority {
    /// Raises it for a thread that a raised one may have made: afterwards it has the `usual` priority and not the one that it was made
    /// with.
    pub fn raise_over(usual: UsualPriority) -> Self {
        raise_thread(0);
        Self { before: usual }
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

    /// Whether another thread of the tracer comes before all threads that are not the tracer's.
    pub fn is_real_time(thread: libc::pid_t) -> bool {
        // SAFETY: it takes a plain number.
        let policy = unsafe { libc::sched_getscheduler(thread) };
        policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_RR
    }

    /// Raises it for the calling thread alone. The threads and programs that it makes meanwhile have the usual one.
    pub fn raise_alone() -> Self {
        let before = UsualPriority::of_thread();
        let alone = |policy, priority| set_policy(0, policy | libc::SCHED_RESET_ON_FORK, priority);
        if before.policy == libc::SCHED_OTHER
            && !alone(libc::SCHED_RR, 1)
            && alone(libc::SCHED_OTHER, 0)
        {
            set_niceness(0, NICENESS);
        }
        Self { before }
    }

    /// Has the threads that the calling one makes from now on have it from their first instruction, where it is
    /// [raised alone](Self::raise_alone).
    #[must_use]
    pub fn inherited(self) -> Self {
        if self.before.policy == libc::SCHED_OTHER && Self::is_real_time(0) {
            set_policy(0, libc::SCHED_RR, 1);
        }
        self
    }

    /// The calling thread has it for as long as it lives.
    pub const fn keep(self) {
        std::mem::forget(self);
    }

    /// The priority that the calling thread has afterwards.
    #[must_use]
    pub const fn usual(&self) -> UsualPriority {
        self.before
    }

    /// Raises it for as long as a recording keeps a budget, whose looks are short and must not be late.
    pub fn raise_for_budget(budget: Option<Budget>) -> Option<Self> {
        budget.map(|_| Self::raise_niceness())
    }

    /// Raises it among equals, for work that may be long.
    pub fn raise_niceness() -> Self {
        let before = UsualPriority::of_thread();
        set_niceness(0, NICENESS);
        Self { before }
    }
}

/// A calling thread that comes first among equals, until this is dropped. A policy that the thread is given meanwhile stays.
#[derive(Debug)]
pub(crate) struct FirstAmongEquals {
    before: libc::c_int,
}

impl FirstAmongEquals {
    pub(crate) fn begin() -> Self {
        let before = UsualPriority::of_thread().niceness;
        set_niceness(0, NICENESS);
        Self { before }
    }
}

impl Drop for FirstAmongEquals {
    fn drop(&mut self) {
        set_niceness(0, self.before);
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if self.before.policy == libc::SCHED_OTHER {
            set_policy(0, libc::SCHED_OTHER, 0);
        }
        set_niceness(0, self.before.niceness);
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

    #[test]
    fn it_is_as_before_afterwards() {
        let before = UsualPriority::of_thread();
        let raise_over = || Priority::raise_over(UsualPriority::of_thread());
        for raise in [raise_over, Priority::raise_alone, Priority::raise_niceness] {
            let raised = raise();
            let meanwhile = UsualPriority::of_thread();
            assert!(meanwhile.niceness <= before.niceness);
            drop(raised);
            // The flag that is not inherited can only be taken back by who may raise a priority.
            let after = UsualPriority::of_thread();
            let policy = after.policy & !libc::SCHED_RESET_ON_FORK;
            assert_eq!((after.niceness, policy), (before.niceness, before.policy));
        }
    }

    #[test]
    fn who_comes_first_among_equals_keeps_a_policy_that_it_is_given_meanwhile() {
        let before = UsualPriority::of_thread();
        let first = FirstAmongEquals::begin();
        assert!(UsualPriority::of_thread().niceness <= before.niceness);
        Priority::raise_thread(0);
        let raised = UsualPriority::of_thread().policy;
        drop(first);
        let after = UsualPriority::of_thread();
        assert_eq!((after.niceness, after.policy), (before.niceness, raised));
        set_policy(0, before.policy, 0);
    }

    #[test]
    fn a_thread_that_a_raised_one_has_made_ends_with_the_usual_one() {
        let usual = UsualPriority::of_thread();
        let _raised = Priority::raise_niceness();
        let thread = std::thread::spawn(move || {
            drop(Priority::raise_over(usual));
            UsualPriority::of_thread()
        });
        assert_eq!(thread.join().expect("no panic"), usual);
    }

    #[test]
    fn a_thread_of_one_that_is_raised_alone_has_the_usual_one() {
        let usual = UsualPriority::of_thread();
        let _raised = Priority::raise_alone();
        let of_thread = std::thread::spawn(UsualPriority::of_thread);
        assert_eq!(of_thread.join().expect("no panic"), usual);
    }

    #[test]
    fn a_thread_of_one_whose_priority_is_inherited_begins_with_it() {
        let raised = Priority::raise_alone();
        let is_raised = Priority::is_real_time(0);
        let raised = raised.inherited();
        let of_thread = std::thread::spawn(|| Priority::is_real_time(0));
        assert_eq!(of_thread.join().expect("no panic"), is_raised);
        let usual = raised.usual();
        drop(raised);
        assert_eq!(UsualPriority::of_thread(), usual);
    }
}
