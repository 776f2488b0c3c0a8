//! The tracer's share of the processors while it comes to a busy program and leaves it.

/// While it lives, the calling thread, and those that it makes, come before the program's threads where this user may have that
/// (root, and where `RLIMIT_NICE` allows it): beside 100 busy threads, work of 0.1 s takes 5 s otherwise. While the program
/// runs, it is the program that is to have the processors.
#[derive(Debug)]
pub struct Priority {
    before: libc::c_int,
}

/// The niceness meanwhile.
const NICENESS: libc::c_int = -15;

impl Priority {
    /// Raises it.
    pub fn raise() -> Self {
        // SAFETY: getpriority takes plain numbers; 0 is the calling thread.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        set(NICENESS.min(before));
        Self { before }
    }

    /// Raises it for as long as a recording keeps a budget, whose looks are short and must not be late. Nothing where another
    /// recording of the thread has raised it.
    pub fn raise_for_budget() -> Option<Self> {
        // SAFETY: as above.
        let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        (before > NICENESS).then(Self::raise)
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        set(self.before);
    }
}

fn set(niceness: libc::c_int) {
    // Where it is not allowed, everything takes longer and is right.
    // SAFETY: setpriority takes plain numbers; 0 is the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
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
        let before = niceness();
        let raised = Priority::raise();
        assert!(niceness() <= before);
        drop(raised);
        assert_eq!(niceness(), before);
    }
}
