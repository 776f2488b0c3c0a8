//! What an execution trace tells.
#![deny(missing_docs)]
