//! What a wait has told of threads that the process which waited does not have.
//!
//! The kernel tells a tracing thread of everything that it traces, in any order: a child before its parent has told of it,
//! a thread of one process while another is being stopped. What is not the waiting process's is kept here until its owner
//! asks. The queue belongs to the tracing thread, as the kernel's own does.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

use crate::ptrace::{Running, Status, Tid};

thread_local! {
    static TOLD: RefCell<VecDeque<(Tid, Status)>> = const { RefCell::new(VecDeque::new()) };
}

thread_local! {
    static LET_GO: RefCell<BTreeSet<Tid>> = const { RefCell::new(BTreeSet::new()) };
}

/// A thread that slept when its process was let go is let go once it has stopped. (If we end before, the kernel does so.)
pub(crate) fn let_go(id: Tid) {
    LET_GO.with_borrow_mut(|threads| threads.insert(id));
}

/// Lets a thread go that has stopped late; whether it was one.
pub(crate) fn is_let_go(id: Tid, status: Status) -> bool {
    if !LET_GO.with_borrow_mut(|threads| threads.remove(&id)) {
        return false;
    }
    match status {
        // Whoever waits for the process is to hear of its end.
        Status::Exited(_) | Status::Killed(..) => return false,
        Status::Signal(signal) => Running::born(id).stopped().detach(signal),
        _ => Running::born(id).stopped().detach(0),
    }
    true
}

/// Keeps what was told of a thread.
pub(crate) fn keep(id: Tid, status: Status) {
    TOLD.with_borrow_mut(|told| told.push_back((id, status)));
}

/// The first that was told of a thread that is wanted.
pub(crate) fn take(wanted: impl Fn(Tid) -> bool) -> Option<(Tid, Status)> {
    TOLD.with_borrow_mut(|told| {
        let place = told.iter().position(|(id, _)| wanted(*id))?;
        told.remove(place)
    })
}

/// The threads of which something is kept.
pub(crate) fn threads() -> Vec<Tid> {
    TOLD.with_borrow(|told| told.iter().map(|(id, _)| *id).collect())
}
