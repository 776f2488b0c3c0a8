//! Stop signals and SIGCONT (signal(7)): each removes the other from what is pending when it is sent, so the last one counts.
//!
//! While the tracer holds a stop signal that a thread was about to get, the kernel cannot remove it. Without these checks a process
//! that was stopped and continued meanwhile would stay stopped.

use crate::maps::ThreadStatus;
use crate::ptrace::{Tid, bit};

/// The signals that stop a process by default.
const STOP_SIGNALS: u64 =
    bit(libc::SIGSTOP) | bit(libc::SIGTSTP) | bit(libc::SIGTTIN) | bit(libc::SIGTTOU);

/// Whether a signal is one that stops a process by default.
pub(crate) const fn is_stop_signal(signal: i32) -> bool {
    STOP_SIGNALS & bit(signal) != 0
}

/// Whether a thread is about to get SIGCONT, or its process is.
pub(crate) fn continue_pending(thread: Tid) -> bool {
    ThreadStatus::read(thread)
        .is_ok_and(|status| (status.set("SigPnd") | status.set("ShdPnd")) & bit(libc::SIGCONT) != 0)
}

/// Whether a signal that the tracer holds for a thread is a stop signal and SIGCONT was sent after it.
pub(crate) fn is_continued(thread: Tid, signal: i32) -> bool {
    // An older SIGCONT is not pending: the stop signal has removed it.
    is_stop_signal(signal) && continue_pending(thread)
}
