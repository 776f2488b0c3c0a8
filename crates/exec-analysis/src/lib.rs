//! What an execution trace tells.
#![deny(missing_docs)]

pub mod check;
pub mod state;
pub mod view;
