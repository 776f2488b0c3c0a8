//! Waiting for traced threads, and a queue of reports about threads of other processes than the one that waited.
//!
//! The kernel reports everything that a thread traces to it, in any order. A child can come before its parent's report,
//! and a thread of one process while another is being stopped. A report for another process is kept here until that
//! process asks. The queue belongs to the tracing thread, as the kernel's own does.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use libc::c_int;
use nix::errno::Errno;

use crate::ptrace::{Running, Status, Stopped, Tid};

thread_local! {
    static REPORTS: RefCell<VecDeque<(Tid, Status)>> = const { RefCell::new(VecDeque::new()) };
}

thread_local! {
    /// The processes that the calling thread traces, without their threads and those that share their memory.
    static OWNED: RefCell<BTreeSet<Tid>> = const { RefCell::new(BTreeSet::new()) };
}

thread_local! {
    static LET_GO: RefCell<BTreeSet<Tid>> = const { RefCell::new(BTreeSet::new()) };
}

/// A process is traced by the calling thread from now on.
pub(crate) fn own(process: Tid) {
    OWNED.with_borrow_mut(|owned| owned.insert(process));
}

/// It is no longer.
pub(crate) fn disown(process: Tid) {
    OWNED.with_borrow_mut(|owned| owned.remove(&process));
}

/// Whether the calling thread traces a process.
pub(crate) fn is_owned(process: Tid) -> bool {
    OWNED.with_borrow(|owned| owned.contains(&process))
}

/// Detaches from a stopped thread, with a signal or 0. A thread that was killed meanwhile stops once more at its end,
/// and its parent cannot reap it before it is resumed. This resumes it from that stop, reported already or not.
pub(crate) fn release(thread: Stopped, signal: i32) {
    if let Err(id) = thread.detach(signal) {
        match take(|of| of == id) {
            Some((_, status)) => {
                if !matches!(status, Status::Exited(_) | Status::Killed(..)) {
                    release(Running::born(id).stopped(), 0);
                }
            }
            None => detach(id),
        }
    }
}

/// A thread that slept when its process was detached is detached once it has stopped. (If the tracer ends before, the
/// kernel does so.)
pub(crate) fn detach(id: Tid) {
    LET_GO.with_borrow_mut(|threads| threads.insert(id));
}

/// Detaches from a thread that has stopped late. Returns whether it was one.
fn is_let_go(id: Tid, status: Status) -> bool {
    if !LET_GO.with_borrow_mut(|threads| threads.remove(&id)) {
        return false;
    }
    match status {
        // The parent of the process must get its end.
        Status::Exited(_) | Status::Killed(..) => return false,
        Status::Signal(signal) => release(Running::born(id).stopped(), signal),
        _ => release(Running::born(id).stopped(), 0),
    }
    true
}

/// Keeps a report of a thread.
pub(crate) fn keep(id: Tid, status: Status) {
    REPORTS.with_borrow_mut(|reports| reports.push_back((id, status)));
}

/// Takes the first report of a wanted thread.
pub(crate) fn take(wanted: impl Fn(Tid) -> bool) -> Option<(Tid, Status)> {
    REPORTS.with_borrow_mut(|reports| {
        let place = reports.iter().position(|(id, _)| wanted(*id))?;
        reports.remove(place)
    })
}

/// The threads with reports in the queue.
pub(crate) fn threads() -> Vec<Tid> {
    REPORTS.with_borrow(|reports| reports.iter().map(|(id, _)| *id).collect())
}

/// Waits for any thread that the calling thread traces (or any child of it).
pub(crate) fn wait_any() -> Result<(Tid, Status), Errno> {
    loop {
        let (thread, status) = wait(-1, libc::__WALL | libc::__WNOTHREAD)?;
        let status = Status::decode(status);
        if !is_let_go(thread, status) {
            return Ok((thread, status));
        }
    }
}

/// Waits for one thread; a signal to the tracer does not end the wait.
pub(crate) fn wait_for(thread: Tid) -> Result<Status, Errno> {
    loop {
        match wait(thread, libc::__WALL) {
            Ok((_, status)) => return Ok(Status::decode(status)),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The next report of any thread that the calling thread traces; `None` where there is none.
pub(crate) fn poll_any() -> Result<Option<(Tid, Status)>, Errno> {
    loop {
        let (thread, status) = wait(-1, libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG)?;
        let status = Status::decode(status);
        if thread == 0 {
            return Ok(None);
        }
        if !is_let_go(thread, status) {
            return Ok(Some((thread, status)));
        }
    }
}

/// The next report of one thread; `None` where there is none.
pub(crate) fn poll_for(thread: Tid) -> Result<Option<Status>, Errno> {
    let (found, status) = wait(thread, libc::__WALL | libc::WNOHANG)?;
    Ok((found != 0).then(|| Status::decode(status)))
}

fn wait(thread: Tid, options: c_int) -> Result<(Tid, c_int), Errno> {
    let mut status = 0;
    // SAFETY: `status` is a live c_int.
    let thread = Errno::result(unsafe { libc::waitpid(thread, &raw mut status, options) })?;
    Ok((thread, status))
}
