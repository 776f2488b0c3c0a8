//! What a wait has told of threads that the process which waited does not have.
//!
//! The kernel tells a tracing thread of everything that it traces, in any order: a child before its parent has told of it,
//! a thread of one process while another is being stopped. What is not the waiting process's is kept here until its owner
//! asks. The queue belongs to the tracing thread, as the kernel's own does.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::ptrace::{Status, Tid};

thread_local! {
    static TOLD: RefCell<VecDeque<(Tid, Status)>> = const { RefCell::new(VecDeque::new()) };
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
