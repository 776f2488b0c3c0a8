//! The terminal's foreground, which a started program has until the tracer is done.

use std::io::IsTerminal;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// Gives the terminal back, when dropped, to the process group that had it in the foreground.
#[derive(Debug)]
pub struct Foreground(Option<Pid>);

impl Foreground {
    /// Records which process group has the terminal.
    #[must_use]
    pub fn now() -> Self {
        let errors = std::io::stderr();
        Self(
            errors
                .is_terminal()
                .then(|| tcgetpgrp(&errors).ok())
                .flatten(),
        )
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            put(group);
        }
    }
}

/// Gives the terminal to a process group, if our group has it or has given it away before.
pub(crate) fn give(group: i32) {
    let errors = std::io::stderr();
    if errors.is_terminal() && tcgetpgrp(&errors).is_ok_and(|own| own == getpgrp() || !lives(own)) {
        put(Pid::from_raw(group));
    }
}

/// Whether the group has a process.
fn lives(group: Pid) -> bool {
    nix::sys::signal::killpg(group, None).is_ok()
}

/// Sets the foreground group. A background process that sets it is stopped by a signal, unless it blocks that.
fn put(group: Pid) {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let mut before = SigSet::empty();
    if sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), Some(&mut before)).is_ok() {
        // Without a terminal this fails, and there is nothing to do.
        let _ = tcsetpgrp(std::io::stderr(), group);
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    }
}
