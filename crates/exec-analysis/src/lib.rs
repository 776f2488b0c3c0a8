//! What an execution trace tells.
#![deny(missing_docs)]

pub mod calls;
pub mod check;
pub mod convert;
pub mod coverage;
pub mod diff;
pub mod follow;
pub mod functions;
pub mod state;
pub mod view;
