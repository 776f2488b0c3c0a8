#![doc = include_str!("../README.md")]
//!
//! [`Follower`] takes the events of each thread in their order. A call is known by its place on the stack: the stack pointer at
//! the first instruction of its function. An event that is higher on the stack than an open call says that the call was left.
//! That is how exceptions and `longjmp` are seen, and exits whose events were lost. [`CallTree`] has who called whom, how often, and how long
//! that took; [`Call`] is one call.
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
