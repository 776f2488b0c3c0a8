//! Machine code for tracepoints.
#![deny(missing_docs)]

pub mod relocate;
