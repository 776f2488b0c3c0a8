#![doc = include_str!("../README.md")]
//!
//! [`Follower`] takes the events of each thread in their order. A call is identified by its stack position: the stack pointer at
//! the first instruction of its function. An event at a higher position than an open call means that the call was left. That is how
//! exceptions and `longjmp` are noticed, and exits whose events were lost. [`CallTree`] has the callers and callees, the number of
//! calls, and their time; [`Call`] is one call.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod folded;
mod follower;
mod heat;
#[cfg(test)]
mod model;
mod threads;
mod tree;

pub use folded::FoldedStacks;
pub use follower::{Call, End, Event, Follower, Function, ListedCalls, Site, SiteRole};
pub use heat::{Heat, HotFunction};
pub use tree::{CallTree, Node};
