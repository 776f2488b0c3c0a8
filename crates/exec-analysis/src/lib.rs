//! What an execution trace tells.
#![deny(missing_docs)]

pub mod check;
